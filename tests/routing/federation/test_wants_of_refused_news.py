"""Who takes no news of a site hears in another way what is wanted there: always, and for no longer."""

from pathlib import Path

import pytest

from routing.peering.copies import PeerRules
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation
from tests.support.stored_sites import StoredFederation
from tests.support.wants import after, distances, told_besides_news, trust_all_but, unsubscribe

# -- links that flap, and starts ----------------------------------------------------------------------


@pytest.mark.parametrize("carried", range(12))
@pytest.mark.parametrize("distrusted", ["b", "c"])
def test_a_link_that_flaps_hides_nothing_of_a_site_that_is_not_trusted(distrusted: str, carried: int) -> None:
    """Whatever has been exchanged on the link when a message is published: b is the peer of a, c is not."""
    sites = RouterFederation({("a", "b"), ("b", "c")}, carried)
    sites.notaries["a"].distrusted.add(distrusted)
    know_all(sites)
    sites.subscribe(distrusted, "all", accepts="ALL")
    sites.subscribe(distrusted, "one", accepts="ONE")
    after(sites)
    far = {"b": 0 if distrusted == "b" else 1}
    sites.cut("a", "b")
    after(sites)
    assert distances(sites, "a", ("ALL", "all")) == far
    sites.join("a", "b")
    sites.settle(carried)
    assert distances(sites, "a", ("ALL", "all")) == distances(sites, "a", ("SERVER", distrusted)) == far
    sites.publish("a", "1", topic="all", depth=-1)
    sites.publish("a", "2", topic="one", depth=-1, delivery="ONE")
    after(sites)
    assert sites.delivered == {(distrusted, "1"): 1, (distrusted, "2"): 1}


def test_a_site_that_attests_nobody_at_a_start_forgets_nothing_that_others_want(tmp_path: Path) -> None:
    """As its clock is wrong: until that is right it has no link either, and what is published waits."""
    sites = StoredFederation(tmp_path, {("a", "b"), ("b", "c"), ("c", "d")})
    try:
        know_all(sites)
        for site in ("b", "c", "d"):
            sites.subscribe(site, f"of.{site}", accepts="ALL")
        after(sites)
        sites.kill("a")
        sites.notaries["a"].distrusted.update({"b", "c", "d"})
        sites.start("a")
        for far, site in enumerate(("b", "c", "d")):
            assert distances(sites, "a", ("ALL", f"of.{site}")) == {"b": far}
            assert distances(sites, "a", ("SERVER", site)) == {"b": far}
            sites.publish("a", site, topic=f"of.{site}", depth=-1)
        after(sites)
        trust_all_but(sites, "a")
        sites.join("a", "b")
        after(sites)
        assert sites.delivered == {("b", "b"): 1, ("c", "c"): 1, ("d", "d"): 1}
    finally:
        sites.close()


# -- who is trusted no more ---------------------------------------------------------------------------


def test_of_a_site_that_is_not_trusted_any_more_nothing_is_lost_meanwhile() -> None:
    """It is no peer of a."""
    sites = RouterFederation({("a", "b"), ("b", "c")})
    know_all(sites)
    sites.subscribe("c", accepts="ALL")
    after(sites)
    trust_all_but(sites, "a", "c")
    assert distances(sites, "a") == {"b": 1}
    sites.publish("a", "1", depth=-1)
    sites.settle()
    assert distances(sites, "a") == {"b": 1}
    sites.publish("a", "2", depth=-1)
    after(sites)
    assert sites.delivered == {("c", "1"): 1, ("c", "2"): 1}
    unsubscribe(sites, "c")
    after(sites)
    assert not distances(sites, "a")


@pytest.mark.parametrize("seed", range(10))
def test_every_peer_hears_at_once_who_is_not_trusted_any_more(seed: int) -> None:
    """Whoever of them it was whose word was taken: c is two links away over a, and three over x."""
    sites = RouterFederation({("d", "a"), ("a", "c"), ("d", "x"), ("x", "y"), ("y", "c")}, seed)
    know_all(sites)
    sites.subscribe("c", accepts="ALL")
    after(sites)
    trust_all_but(sites, "d", "c")
    assert distances(sites, "d")["a"] == 1
    sites.settle()
    assert all(sites.routers[name].federation.spreading.refused_by("d") == {"c"} for name in ("a", "x"))
    assert distances(sites, "d") == {"a": 1, "x": 2}
    sites.publish("d", depth=2)
    after(sites)
    assert sites.delivered == {("c", "m"): 1}
    unsubscribe(sites, "c")
    after(sites)
    assert not distances(sites, "d")


@pytest.mark.parametrize("is_wanted_before", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_wanted_beyond_who_is_not_trusted_is_told_where_rules_shut_the_other_way(
    seed: int, *, is_wanted_before: bool
) -> None:
    """The link of d and e lets nothing of the topic pass: the only way leads over c."""
    rules = {("d", "e"): PeerRules(allow_out=("other",))}
    sites = RouterFederation({("d", "a"), ("a", "c"), ("c", "e"), ("d", "e")}, seed, rules=rules)
    if not is_wanted_before:
        sites.notaries["d"].distrusted.add("c")
    know_all(sites)
    sites.subscribe("e", accepts="ALL")
    after(sites)
    if is_wanted_before:
        trust_all_but(sites, "d", "c")
        sites.settle()
    assert distances(sites, "d") == {"a": 2}
    sites.publish("d", depth=-1)
    after(sites)
    assert sites.delivered == {("e", "m"): 1}


def test_what_is_wanted_beyond_a_link_of_which_the_news_is_refused_is_told() -> None:
    """What d knew of c before is known still; it tells of no link with e, and the other way is shut."""
    rules = {("d", "e"): PeerRules(allow_out=("other",))}
    sites = RouterFederation({("d", "a"), ("a", "c"), ("d", "e")}, rules=rules)
    know_all(sites)
    sites.subscribe("e", accepts="ONE")
    after(sites)
    sites.notaries["d"].distrusted.add("c")
    for one, other in (("c", "e"), ("e", "c")):
        sites.routers[one].federation.set_peer(other, PeerRules())
    sites.join("c", "e")
    sites.settle()
    sites.now += 3.0
    for name in ("e", "c"):  # so the last that changes is what d refuses
        sites.routers[name].timing.tick(sites.now)
        sites.take(name)
        sites.settle()
    assert distances(sites, "d", ("ONE", "t")) == {"a": 2}
    sites.publish("d", depth=-1, delivery="ONE")
    after(sites)
    assert sites.delivered == {("e", "m"): 1}


# -- what was told is withdrawn -----------------------------------------------------------------------


def test_what_is_kept_of_a_peer_that_was_not_trusted_for_a_moment_is_gone_with_its_want() -> None:
    """The link is up all the time."""
    sites = RouterFederation({("a", "b"), ("b", "c")})
    know_all(sites)
    sites.subscribe("c", accepts="ALL")
    after(sites)
    trust_all_but(sites, "b", "c")
    sites.settle()
    trust_all_but(sites, "b")
    for _ in range(3):
        after(sites, 60.0)
    assert distances(sites, "a") == {"b": 1}
    unsubscribe(sites, "c")
    after(sites)
    assert not told_besides_news(sites)
    assert not distances(sites, "a")
    assert not distances(sites, "b")


def test_who_refused_a_want_hears_that_it_is_gone_with_its_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is refused any more then."""
    sites = RouterFederation({("d", "a"), ("a", "c")})
    know_all(sites)
    sites.notaries["d"].distrusted.add("somebody")  # so that it may refuse
    known = sites.routers["d"].federation.known_wants
    monkeypatch.setattr(known, "take", lambda site, index, data: "too much")
    sites.subscribe("c", accepts="ALL")
    after(sites)
    assert sites.routers["a"].federation.spreading.refused_by("d") == {"c"}
    assert "t" in told_besides_news(sites)
    assert distances(sites, "d") == {"a": 1}
    monkeypatch.undo()
    unsubscribe(sites, "c")
    after(sites)
    assert not sites.routers["a"].federation.spreading.refused_by("d")
    assert not told_besides_news(sites)
    assert not distances(sites, "d")


# -- what counts as taken -----------------------------------------------------------------------------


def test_who_tells_earlier_news_than_it_refuses_refuses_that_still() -> None:
    sites = RouterFederation({("d", "a"), ("a", "c"), ("c", "e")})
    know_all(sites)
    spreading = sites.routers["a"].federation.spreading
    earlier = spreading.known["c"]
    trust_all_but(sites, "d", "c")
    sites.cut("c", "e")
    after(sites)
    later = spreading.known["c"]
    assert later.statement.version > earlier.statement.version
    spreading.hear(sites.now, "d", earlier.signed, 1.0)  # it was on its way
    sites.take("a")
    sites.settle()
    assert spreading.refused_by("d") == {"c"}
    assert distances(sites, "d", ("SERVER", "c")) == {"a": 1}
    spreading.hear(sites.now, "d", later.signed, 1.0)
    assert not spreading.refused_by("d")


def test_who_is_not_trusted_any_more_hides_nobody_who_is_nearer() -> None:
    """What x wants, beyond the earlier o, is one link from o; what s does, two."""
    links = {("a", "o"), ("o", "x"), ("o", "y"), ("y", "s")}
    sites = RouterFederation(links, old=("x",), older=("o",))
    know_all(sites)
    for name in ("x", "s"):
        sites.subscribe(name)
    after(sites)
    trust_all_but(sites, "a", "s")
    after(sites)
    sites.publish("a", depth=2)
    after(sites)
    assert sites.delivered == {("x", "m"): 1}
