"""`smqpd routes`: what it shows is where messages go."""

from daemon.control.routes import routes
from tests.support.sites import Federation


def shown(federation: Federation, site: str, name: str) -> list[tuple[str, str, int | None, str]]:
    found = routes(federation.routers[site].federation.outlook, name)
    return [(route.kind, route.peer, route.distance, route.why) for route in found]


def test_a_topic_has_a_way_for_all_and_one_way_for_one() -> None:
    federation = Federation({("a", "b"), ("a", "c"), ("c", "d")})
    federation.subscribe("b")
    federation.subscribe("d")
    federation.settle()
    assert shown(federation, "a", "t") == [
        ("ALL", "b", 1, ""),
        ("ALL", "c", 2, ""),
        ("ONE", "b", 1, ""),
        ("ONE", "c", 2, "b is as near or nearer"),
    ]


def test_a_flooded_link_is_no_way_for_one() -> None:
    federation = Federation({("a", "b")}, flood=True)
    federation.settle()
    assert shown(federation, "a", "t") == [
        ("ALL", "b", None, ""),
        ("ONE", "b", None, "nobody there wants it"),
    ]


def test_a_server_and_an_account_there_have_the_same_way() -> None:
    federation = Federation({("a", "b"), ("b", "c")})
    federation.settle()
    way = ("SERVER", "b", 2, "")
    assert shown(federation, "a", "ada:desk@c") == [way]
    assert shown(federation, "a", "c")[-1] == way
    federation.cut("a", "b")
    assert shown(federation, "a", "ada:desk@c") == [("SERVER", "b", 2, "the link is down")]
