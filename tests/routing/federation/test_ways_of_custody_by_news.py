"""Where a message of mode ONE, or for an account, goes by news: it rests, and goes on when there is a way."""

import pytest

from routing.federation import custody
from routing.federation.custody import CROSSINGS_MAX
from routing.link import codec
from routing.peering.decisions import TellNews
from routing.peering.wants import Want
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import IN_NEWS, RestingFederation, RouterFederation
from tests.support.wants import after, distances, ticked, trust_all_but, unsubscribe

TO_T: Want = ("SERVER", "t")


def held(sites: RouterFederation, site: str) -> list[str]:
    """The topics of the copies that a site holds."""
    return [copy.entry.topic.name for copy in sites.routers[site].federation.outlook.copies.values()]


def minutes_pass(sites: RouterFederation, *names: str) -> None:
    """What each of these sites does every minute."""
    for name in names:
        sites.routers[name].maintain(sites.now)
        sites.take(name)


# -- while news is held back --------------------------------------------------------------------------


def takers_leave(links: set[tuple[str, str]], seed: int, *others: str) -> RouterFederation:
    """Those of a and b do, before these sites may say anything again; p publishes then, with a link to a."""
    sites = RestingFederation(links, seed)
    know_all(sites)
    for name in ("a", "b", *others):
        sites.subscribe(name, accepts="ONE")
    after(sites)
    for name in ("a", "b"):
        sites.subscribe(name, "another")
    sites.settle()
    for name in ("a", "b"):
        unsubscribe(sites, name)
    sites.publish("p", depth=-1, delivery="ONE")
    sites.settle()
    return sites


@pytest.mark.parametrize("seed", range(10))
def test_one_rests_where_takers_leave_at_two_sites_whose_news_says_otherwise_still(seed: int) -> None:
    sites = takers_leave({("a", "b"), ("a", "p")}, seed)
    assert sum(len(held(sites, name)) for name in sites.names) == 1
    after(sites)
    after(sites)
    assert sum(len(held(sites, name)) for name in sites.names) == 1
    sites.subscribe("b", accepts="ONE")
    after(sites)
    assert sites.delivered == {("b", "m"): 1}


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("seed", range(10))
def test_one_that_rests_goes_on_when_news_says_who_takes_it(first: str, seed: int) -> None:
    """Whoever may say first that nobody there takes it; the last who does is beyond the publisher."""
    sites = takers_leave({("a", "b"), ("a", "p"), ("p", "q")}, seed, "q")
    assert not sites.delivered
    sites.now += 3.0
    sites.routers[first].timing.tick(sites.now)
    sites.take(first)
    sites.settle()
    after(sites, 0.0)
    assert sites.delivered == {("q", "m"): 1}


@pytest.mark.parametrize("seed", range(10))
def test_one_rests_where_a_site_stops_and_its_peers_may_not_say_so_yet(seed: int) -> None:
    """Both have just said that another link is gone."""
    sites = RestingFederation({("a", "b"), ("a", "t"), ("b", "t"), ("a", "z"), ("b", "z")}, seed)
    know_all(sites)
    sites.subscribe("t", accepts="ONE")
    after(sites)
    sites.cut("a", "z")
    sites.cut("b", "z")
    after(sites, 0.0)
    sites.cut("a", "t")
    sites.cut("b", "t")
    sites.publish("a", depth=-1, delivery="ONE")
    after(sites)
    assert not sites.delivered
    sites.join("b", "t")
    after(sites)
    assert sites.delivered == {("t", "m"): 1}


SQUARE = {("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")}


@pytest.mark.parametrize("topic", ["jobs", "x:reader@c"])
@pytest.mark.parametrize("seed", range(5))
def test_one_that_finds_the_link_before_it_gone_goes_back_and_round(topic: str, seed: int) -> None:
    """Those who sent it on did not know so."""
    sites = RestingFederation(SQUARE, seed)
    know_all(sites)
    sites.subscribe("c", topic, accepts="ONE")
    after(sites)
    sites.publish("a", topic=topic, depth=-1, delivery="ONE")
    by = "b" if sites.bulk["a", "b"] else "d"
    sites.cut(by, "c")
    after(sites)
    assert sites.delivered == {("c", "m"): 1}
    assert [record[0] for record in sites.records_of("m", "received")] == [
        by,
        "a",
        {"b": "d", "d": "b"}[by],
        "c",
    ]


@pytest.mark.parametrize("gone", ["b", "d"])
def test_a_reply_goes_by_links_that_are_up(gone: str) -> None:
    sites = RestingFederation(SQUARE)
    know_all(sites)
    sites.subscribe("c", "x:reader@c")
    sites.cut(gone, "c")
    after(sites)
    sites.publish("a", topic="x:reader@c")
    sites.settle()
    assert sites.delivered == {("c", "m"): 1}
    assert gone not in [record[0] for record in sites.records_of("m", "received")]


def test_a_reply_that_has_no_way_waits_before_the_link_that_is_down() -> None:
    sites = RestingFederation({("a", "b"), ("b", "c")})
    know_all(sites)
    sites.subscribe("c", "x:reader@c")
    sites.cut("b", "c")
    after(sites)
    sites.publish("a", topic="x:reader@c")
    after(sites)
    assert held(sites, "b") == ["x:reader@c"]
    sites.join("b", "c")
    after(sites)
    assert sites.delivered == {("c", "m"): 1}


LONG_WAY_ROUND = {("x", "t"), ("t", "g"), ("g", "f"), ("f", "d"), ("d", "c"), ("c", "b")}
RING = LONG_WAY_ROUND | {("b", "e"), ("e", "a"), ("a", "x")}


def heard_from(sites: RouterFederation, peer: str, site: str, want: Want) -> int | None:
    """How far a want is, as a peer has told a site besides news."""
    return sites.routers[site].federation.interest.heard.get(want, {}).get(peer)


@pytest.mark.parametrize(("older", "distrusted"), [("e", ""), ("", "x"), ("", "b"), ("", "d")])
@pytest.mark.parametrize("seed", range(5))
def test_a_reply_goes_back_through_a_site_that_does_not_know_all_as_the_link_before_it_is_gone(
    older: str, distrusted: str, seed: int
) -> None:
    """Nobody tells e of t by the link that is down; if e itself knows no other way, it tries b after a."""
    sites = RestingFederation(RING, seed, older=older)
    know_all(sites)
    trust_all_but(sites, "e", *distrusted)
    after(sites)
    sites.subscribe("t", "x:reader@t")
    after(sites)
    sites.publish("b", topic="x:reader@t")
    while not held(sites, "a"):
        sites.settle(1)
    sites.cut("x", "t")
    after(sites)
    after(sites)
    assert sites.delivered == {("t", "m"): 1}


@pytest.mark.parametrize("distrusted", ["", "t", "x"])
def test_who_is_told_of_servers_hears_of_links_that_are_down_where_there_are_no_others(
    distrusted: str,
) -> None:
    sites = RouterFederation(RING, older="" if distrusted else "e")
    know_all(sites)
    trust_all_but(sites, "e", *distrusted)
    after(sites)
    assert distances(sites, "e", TO_T) == {"a": 2, "b": 5}
    sites.cut("x", "t")
    after(sites)
    assert distances(sites, "e", TO_T) == {"b": 5}
    assert heard_from(sites, "a", "e", TO_T) is None
    sites.cut("g", "t")
    after(sites)
    assert heard_from(sites, "a", "e", TO_T) == 2
    sites.join("g", "t")
    after(sites)
    assert distances(sites, "e", TO_T) == {"b": 5}


def test_who_does_not_know_the_site_on_the_way_that_is_up_is_told_of_it() -> None:
    sites = RouterFederation({("e", "a"), ("a", "x"), ("x", "t"), ("a", "y"), ("y", "t")})
    know_all(sites)
    trust_all_but(sites, "e", "x")
    after(sites)
    sites.cut("y", "t")
    after(sites)
    assert heard_from(sites, "a", "e", TO_T) == 2


TWO_WAYS = {("s", "c"), ("c", "t"), ("s", "d"), ("d", "f"), ("f", "t")}


@pytest.mark.parametrize("publisher", ["s", "c"])
@pytest.mark.parametrize(("older", "distrusted"), [("c", ""), ("", "t")])
def test_what_a_peer_told_before_its_link_went_down_is_told_to_nobody_where_there_is_another_way(
    older: str, distrusted: str, publisher: str
) -> None:
    sites = RouterFederation(TWO_WAYS, older=older)
    know_all(sites)
    trust_all_but(sites, "c", *distrusted)
    sites.subscribe("t", "x:reader@t")
    after(sites)
    sites.cut("c", "t")
    after(sites)
    assert heard_from(sites, "c", "s", TO_T) is None
    sites.publish(publisher, topic="x:reader@t")
    after(sites)
    assert sites.delivered == {("t", "m"): 1}


def test_what_a_peer_told_before_its_link_went_down_keeps_nothing_that_has_another_way() -> None:
    sites = RouterFederation(TWO_WAYS, older="c")
    know_all(sites)
    sites.subscribe("t", "x:reader@t")
    after(sites)
    sites.publish("s", topic="x:reader@t")  # and it is under way to c
    sites.cut("c", "t")
    after(sites)
    assert sites.delivered == {("t", "m"): 1}


def to_and_fro(sites: RouterFederation) -> None:
    """Neither a nor b hears from the other that its link with who takes the message is gone."""
    for _ in range(10 * CROSSINGS_MAX):
        for pair in (("a", "b"), ("b", "a")):
            heard = [unit for unit in sites.control[pair] if not isinstance(unit, TellNews)]
            sites.control[pair].clear()
            sites.control[pair].extend(heard)
        sites.settle(1)


def gone_to_and_fro(*messages: str) -> RouterFederation:
    """Sites a and b, which have passed messages for t to and fro that neither has a link to any more."""
    sites = RouterFederation({("a", "b"), ("a", "t"), ("b", "t")})
    know_all(sites)
    sites.subscribe("t", accepts="ONE")
    after(sites)
    sites.cut("a", "t")
    sites.cut("b", "t")
    sites.pass_time(3.0)
    for message in messages:
        sites.publish("a", message, depth=-1, delivery="ONE")
        to_and_fro(sites)
    return sites


def test_one_that_goes_to_and_fro_comes_to_rest_and_goes_on_after_ever_longer_waits() -> None:
    sites = gone_to_and_fro("m")
    assert sites.transfers == 2 * CROSSINGS_MAX
    assert held(sites, "a") == ["t"], "it is where it was published"
    gone_on = []
    for minute in range(1, 130):
        before = sites.transfers
        minutes_pass(sites, "a", "b")
        to_and_fro(sites)
        gone_on += [minute] * (sites.transfers - before)
    assert gone_on == [1, 2, 4, 6, 10, 14, 22, 30, 46, 62, 94, 126]


def test_one_that_has_come_through_many_sites_waits_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custody, "HOPS_AT_ONCE_MAX", 10)
    sites = gone_to_and_fro("m")
    assert sites.transfers == 10
    for _ in range(custody.WAIT_MINUTES_MAX):
        assert sites.transfers == 10
        minutes_pass(sites, "a", "b")
        to_and_fro(sites)
    assert sites.transfers == 11


@pytest.mark.parametrize(("bound", "at_most"), [("HOPS_MAX", 20), ("HOPS_CHARACTERS_MAX", 39)])
def test_one_that_can_tell_no_peer_of_more_sites_rests(
    monkeypatch: pytest.MonkeyPatch, bound: str, at_most: int
) -> None:
    """No peer would take it, or the link would end."""
    monkeypatch.setattr(codec, bound, at_most)
    sites = gone_to_and_fro("m")
    assert sites.transfers == 20
    minutes_pass(sites, "a", "b")
    sites.join("a", "t")
    after(sites)
    assert held(sites, "a") == ["t"]


def test_one_that_has_gone_to_and_fro_goes_on_at_once_when_somebody_comes() -> None:
    sites = gone_to_and_fro("m", "n")
    sites.subscribe("b", accepts="ONE")
    for _ in range(2):
        sites.settle()
        ticked(sites)
    assert sites.delivered == {("b", "m"): 1, ("b", "n"): 1}


def test_one_that_has_gone_to_and_fro_for_long_arrives_once_there_is_a_way() -> None:
    sites = gone_to_and_fro("m")
    sites.join("b", "t")
    after(sites)
    minutes_pass(sites, "a", "b")
    after(sites)
    assert sites.delivered == {("t", "m"): 1}


# -- when a way is there ------------------------------------------------------------------------------


def test_all_that_waits_for_accounts_of_a_server_goes_when_its_site_is_reached() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d")})
    for account in ("x", "y", "z"):
        sites.subscribe("d", f"{account}:c@d")
    sites.cut("c", "d")
    know_all(sites)
    for account in ("x", "y", "z"):
        sites.publish("a", account, topic=f"{account}:c@d")
    after(sites)
    assert sorted(held(sites, "a")) == ["x:c@d", "y:c@d", "z:c@d"]
    sites.join("c", "d")
    after(sites)
    assert sites.delivered == {("d", "x"): 1, ("d", "y"): 1, ("d", "z"): 1}


@pytest.mark.parametrize("earlier", [("ONE",), ("ALL",), ("ALL", "ONE")])
def test_one_that_begins_to_wait_after_ways_were_looked_at_goes_when_one_is_back(
    earlier: tuple[str, ...],
) -> None:
    """The ways are then as they were when others of the topic were held and they were looked at."""
    sites = RouterFederation({("a", "b"), ("b", "e")})
    know_all(sites)
    for mode in earlier:
        sites.publish("a", mode, depth=-1, timeout_s=1000.0, delivery=mode)
    after(sites)
    sites.subscribe("e", accepts="ONE")
    after(sites)
    sites.cut("b", "e")
    after(sites)
    sites.publish("a", "m", depth=-1, delivery="ONE")
    after(sites)
    assert ("e", "m") not in sites.delivered
    sites.join("b", "e")
    after(sites)
    assert sites.delivered["e", "m"] == 1


# -- what is not remembered ---------------------------------------------------------------------------


@pytest.mark.parametrize("ended", ["timeout", "delivery"])
def test_topics_of_which_nothing_waits_any_more_are_not_looked_at_for_ever(ended: str) -> None:
    """They are looked at when a link far away has changed; nothing that somebody wants is nearer then."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d")})
    know_all(sites)
    topics = [f"job.{number}" for number in range(5)]
    for topic in topics:
        sites.publish("a", topic, topic=topic, depth=-1, delivery="ONE", timeout_s=100.0)
    waiting = sites.routers["a"].federation.custody.waiting
    sites.cut("c", "d")
    after(sites)
    assert sorted(waiting) == topics
    if ended == "timeout":
        after(sites, 200.0)
    else:
        for topic in topics:
            sites.subscribe("a", topic, accepts="ONE")
            sites.commit("a", topic)
        assert all(sites.delivered["a", topic] == 1 for topic in topics)
    assert not held(sites, "a")
    sites.join("c", "d")
    after(sites)
    assert not waiting


# -- what waits for the same again --------------------------------------------------------------------


def test_one_goes_to_who_takes_it_again_after_having_left() -> None:
    sites = RouterFederation({("a", "b")})
    know_all(sites)
    sites.publish("a", "first", depth=-1, delivery="ONE")
    after(sites)
    for name in ("first", "second"):
        sites.subscribe("b", accepts="ONE")
        after(sites)
        sites.commit("b", name)
        unsubscribe(sites, "b")
        after(sites)
        sites.publish("a", "second" if name == "first" else "third", depth=-1, delivery="ONE")
        after(sites)
    assert sites.delivered == {("b", "first"): 1, ("b", "second"): 1}


def test_one_that_rests_goes_on_when_certificates_are_read_again_meanwhile() -> None:
    sites = RestingFederation({("a", "b"), ("a", "c")})
    know_all(sites)
    sites.subscribe("b", accepts="ONE")
    after(sites)
    sites.publish("a", depth=-1, delivery="ONE")
    sites.settle()
    sites.subscribe("a", accepts="ONE")
    after(sites)
    sites.subscribe("b", "another")
    unsubscribe(sites, "b")
    sites.delivered.clear()
    sites.routers["b"].federation.spreading.set_notary(sites.notaries["b"], IN_NEWS)
    sites.routers["b"].timing.tick(sites.now)
    sites.take("b")
    after(sites)
    assert sites.delivered == {("a", "m"): 1}


@pytest.mark.parametrize("seed", range(5))
def test_one_does_not_go_to_and_fro_while_a_link_that_has_come_up_is_not_told_yet_who_has_left(
    seed: int,
) -> None:
    """Both o1 and o2, of an earlier version, took it, and left while the link between was down."""
    many = {("a", f"x{number}") for number in range(10)} | {("b", f"y{number}") for number in range(10)}
    sites = RestingFederation({("a", "b"), ("a", "o1"), ("b", "o2"), *many}, seed, old=("o1", "o2"))
    know_all(sites)
    for name in ("o1", "o2"):
        sites.subscribe(name, accepts="ONE")
    after(sites)
    sites.cut("a", "b")
    for name in ("o1", "o2"):
        unsubscribe(sites, name)
    after(sites)
    for number in range(10):
        sites.subscribe(f"x{number}", f"n{number}")
        sites.subscribe(f"y{number}", f"n{number}")
    after(sites)
    sites.publish("a", depth=-1, delivery="ONE")
    sites.settle()
    before = sites.transfers
    sites.join("a", "b")
    for _ in range(40):
        sites.settle(40)
        sites.pass_time(0.02)
    after(sites)
    assert sites.transfers - before <= 3


def test_one_waits_at_a_site_that_is_told_of_wants_until_a_way_is_up() -> None:
    sites = RestingFederation({("a", "b"), ("b", "c"), ("o", "a")}, older=("o",))
    know_all(sites)
    sites.subscribe("c", accepts="ONE")
    after(sites)
    sites.cut("b", "c")
    after(sites)
    sites.publish("o", depth=-1, delivery="ONE")
    after(sites)
    assert held(sites, "o") == ["t"]
    sites.join("b", "c")
    after(sites)
    assert sites.delivered == {("c", "m"): 1}
