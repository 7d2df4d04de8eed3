import pytest

from plugins.stomp.destinations import parse_destination
from routing.errors import Refusal
from tests.support.remembered import bytes_kept


@pytest.mark.parametrize(
    ("text", "kind", "topics"),
    [
        ("/topic/weather.oslo", "topic", {"weather.oslo": "/topic/weather.oslo"}),
        ("/queue/orders", "queue", {"orders": "/queue/orders"}),
        ("orders", "plain", {"orders": "orders"}),
        ("/exchange/amq.topic/weather.oslo", "topic", {"weather.oslo": "/topic/weather.oslo"}),
        ("/amq/queue/orders", "queue", {"orders": "/queue/orders"}),
        ("/queue/orders/eu", "queue", {"orders.eu": "/queue/orders/eu"}),
        (
            "/queue/orders/eu,us",
            "queue",
            {"orders.eu": "/queue/orders/eu", "orders.us": "/queue/orders/us"},
        ),
        ("/reply-queue/ada:desk@a", "reply", {"ada:desk@a": "/reply-queue/ada:desk@a"}),
        ("/temp-queue/answers", "temporary", {}),
        ("ada:desk@a", "plain", {"ada:desk@a": "ada:desk@a"}),
    ],
)
def test_a_destination_names_a_topic_and_how_it_is_used(text: str, kind: str, topics: dict[str, str]) -> None:
    destination = parse_destination(text)
    assert (destination.kind, destination.targets) == (kind, topics)


def test_a_temporary_destination_has_a_name_of_its_own() -> None:
    names = {parse_destination(f"/temp-{kind}/answers").name for kind in ("queue", "topic")}
    assert len(names) == 2


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_slashes_are_levels_where_the_site_says_so(kind: str) -> None:
    destination = parse_destination(f"/{kind}/orders/eu/new", slashes=True)
    assert (destination.kind, destination.targets) == (kind, {"orders.eu.new": f"/{kind}/orders/eu/new"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "//",
        "/topic",
        "/topic/",
        "/queue/",
        "/queue//eu",
        "/queue/orders/",
        "/queue/orders/eu/",
        "/queue/orders/eu,,us",
        "/queue/orders/e u",
        "/queue/orders/" + ",".join(f"c{n}" for n in range(65)),
        "/temp-queue/",
        "/temp-queue/a\nb",
        "/exchange/amq.direct/key",
        "/exchange/amq.topic/",
        "/amq/queue/",
        "/amq/queue/orders/eu",
        "/queue/orders/*",
        "/queue/*/eu",
        "/reply-queue/*",
        "/topic/a b",
        "/topic/a/b",
        "/queue/" + "x" * 256,
        " /queue/orders",
    ],
)
def test_what_is_no_destination_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as raised:
        parse_destination(text)
    assert raised.value.code == Refusal.BAD_TOPIC


def test_several_channels_are_no_one_topic() -> None:
    with pytest.raises(Refusal, match="not one destination"):
        _ = parse_destination("/queue/orders/eu,us").topic


def test_what_names_much_is_not_remembered() -> None:
    def many_channels(number: int) -> None:
        channels = ",".join(f"{number:04d}{channel:03d}" + "c" * 57 for channel in range(64))
        parse_destination(f"/queue/{'q' * 180}/{channels}")

    def few_characters(number: int) -> None:
        parse_destination(f"/queue/q{number}/" + ",".join(f"{channel}" for channel in range(64)))

    def refused(number: int) -> None:
        with pytest.raises(Refusal):
            parse_destination(f"{number:04d}@" + "q" * 10_000, cloud=True)

    for call in (many_channels, few_characters, refused):
        assert bytes_kept(call, times=400) < 2_500_000  # what is kept of topics, of which each is short
