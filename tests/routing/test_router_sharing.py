"""Several sessions that consume from one subscription together. Source: routing/README.md, Subscriptions."""

import pytest

from routing.errors import Refusal
from tests.support.one_router import RouterClient, RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite()


def worker(site: RouterSite, **options: object) -> RouterClient:
    return site.login("ada").subscribe("news", shared=True, **options)


def publish(site: RouterSite, bodies: str, **headers: object) -> None:
    eva = site.login("eva")
    for body in bodies:
        eva.publish("news", body, **headers)


def test_each_message_goes_to_one_of_them_in_turn(site: RouterSite) -> None:
    workers, bob = [worker(site) for _ in range(3)], site.login("bob").subscribe("news")
    publish(site, "abcdef")
    assert [each.bodies() for each in workers] == [["a", "d"], ["b", "e"], ["c", "f"]]
    assert bob.bodies() == list("abcdef")
    assert [each.detached for each in workers] == [[], [], []]


def test_messages_of_mode_one_go_to_them_as_to_other_subscriptions(site: RouterSite) -> None:
    clients = [worker(site), worker(site), site.login("bob").subscribe("news")]
    publish(site, "abcdef", delivery="ONE")
    assert [each.bodies() for each in clients] == [["a", "d"], ["b", "e"], ["c", "f"]]


def test_each_has_a_credit_of_its_own(site: RouterSite) -> None:
    narrow, wide = worker(site, credit=1), worker(site, credit=3)
    publish(site, "abcdef")
    assert (narrow.bodies(), wide.bodies()) == (["a"], ["b", "c", "d"])
    late = worker(site, credit=1)
    assert late.bodies() == ["e"]
    wide.commit(*wide.take())
    assert wide.bodies() == []


def test_whoever_finishes_gets_the_next(site: RouterSite) -> None:
    first, second = worker(site, credit=1), worker(site, credit=1)
    publish(site, "abcd")
    second.commit(second.one())
    assert (first.bodies(), second.bodies()) == (["a"], ["c"])


def test_one_that_is_slow_to_read_is_passed_over(site: RouterSite) -> None:
    slow, fast = worker(site), worker(site)
    slow.pause()
    publish(site, "abc")
    assert (slow.bodies(), fast.bodies()) == ([], ["a", "b", "c"])
    slow.resume()
    publish(site, "d")
    assert (slow.bodies(), fast.bodies()) == (["d"], [])


def test_when_all_have_committed_nothing_is_left(site: RouterSite) -> None:
    workers = [worker(site), worker(site)]
    publish(site, "abcd")
    for each in workers:
        each.commit(*each.take())
    assert site.held == 0
    assert [told.event for told in site.told if told.final] == ["committed"] * 4


def test_a_receipt_counts_them_as_one(site: RouterSite) -> None:
    first, second = worker(site), worker(site)
    eva = site.login("eva").subscribe("eva:desk@a.example")
    eva.publish("news", "a", receipt="ALL")
    first.commit(first.one())
    assert eva.receipts() == ["1/1"]
    assert second.take() == []


def test_what_one_gives_back_goes_to_another(site: RouterSite) -> None:
    first, second = worker(site), worker(site)
    publish(site, "a")
    first.give_back(first.one())
    got = second.one()
    assert (got.body, got.attempt, got.redelivered) == ("a", 2, True)
    second.give_back(got)
    assert first.one().attempt == 3, "at once, as somebody else can take it"


def test_what_is_rejected_is_dead(site: RouterSite) -> None:
    first, second = worker(site), worker(site)
    dead = site.login("ops").subscribe("dead.news")
    publish(site, "a")
    first.give_back(first.one(), outcome="rejected")
    assert (dead.bodies(), second.bodies()) == (["a"], [])


def test_what_comes_back_to_the_only_one_left_waits_as_ever(site: RouterSite) -> None:
    first, second = worker(site), worker(site)
    publish(site, "a")
    first.give_back(first.one())
    first.close()
    second.give_back(second.one())
    assert second.bodies() == []
    site.wait(0.2)
    assert second.bodies() == ["a"]


def test_a_lock_that_times_out_is_withdrawn_from_whoever_had_it(site: RouterSite) -> None:
    slow, other = worker(site, lock_s=5.0), worker(site, lock_s=50.0)
    publish(site, "ab")
    [a], [b] = slow.take(), other.take()
    site.wait(6)
    assert slow.withdrawn == [(a.number, "lock-timeout")]
    assert other.withdrawn == []
    again = other.one()
    assert (again.body, again.attempt) == ("a", 2)
    with pytest.raises(Refusal, match="not held"):
        slow.commit(a)
    other.commit(b, again)
    assert site.held == 0


def test_a_removed_message_is_withdrawn_from_whoever_had_it(site: RouterSite) -> None:
    first, second = worker(site), worker(site)
    smuid = site.login("eva").publish("news", "a")
    publish(site, "b")
    first.remove("news", smuid)
    assert (len(first.withdrawn), second.withdrawn) == (1, [])


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_what_one_had_when_it_leaves_goes_to_the_others(site: RouterSite, mode: str) -> None:
    leaving, *others = worker(site), worker(site), worker(site)
    publish(site, "abcdef", delivery=mode)
    assert leaving.bodies() == ["a", "d"]
    for other in others:
        other.take()
    leaving.close(lost=True)
    got = [got for other in others for got in other.take()]
    assert [(each.body, each.attempt) for each in got] == [("a", 2), ("d", 1)]


def test_what_one_had_received_when_it_leaves_goes_to_the_others_marked_so(site: RouterSite) -> None:
    leaving, *others = worker(site), worker(site), worker(site)
    publish(site, "abcdef")
    for each in (leaving, *others):
        each.received(*each.take())
    leaving.close()
    got = [other.one() for other in others]
    assert [(each.body, each.received) for each in got] == [("a", True), ("d", True)]
    for other, one in zip(others, got, strict=True):
        other.commit(one)
    assert site.held == 4


def test_what_the_last_one_had_waits_for_who_comes(site: RouterSite) -> None:
    for each in (worker(site), worker(site)):
        each.close()
    publish(site, "ab")
    only = worker(site)
    only.received(only.take()[0])
    only.close()
    first, second = worker(site), worker(site)
    assert [(each.body, each.received) for each in first.take()] == [("a", True), ("b", False)]
    assert second.take() == []


def test_one_that_detaches_leaves_the_others(site: RouterSite) -> None:
    first, second = worker(site), worker(site)
    first.detach("news")
    publish(site, "ab")
    assert (first.bodies(), second.bodies()) == ([], ["a", "b"])
    with pytest.raises(Refusal, match="not attached"):
        first.detach("news")


def test_unsubscribing_ends_it_for_all(site: RouterSite) -> None:
    first, second = worker(site), worker(site)
    bob = site.login("bob").subscribe("news")
    publish(site, "ab")
    bob.commit(*bob.take())
    first.unsubscribe("news")
    assert (first.detached, second.detached) == ([], [("news", "removed")])
    assert site.held == 0, "due to nobody any more"
    publish(site, "c")
    assert [bob.bodies(), second.bodies()] == [["c"], ["b"]]


def test_one_bound_to_sessions_ends_with_the_last_of_them(site: RouterSite) -> None:
    first, second = worker(site, durable=False), worker(site, durable=False)
    publish(site, "ab")
    first.close()
    assert second.bodies() == ["b", "a"]
    second.close()
    assert (site.held, site.router._state.subscriptions) == (0, {})


def test_who_does_not_share_takes_it_over_from_all(site: RouterSite) -> None:
    sharing = [worker(site), worker(site)]
    publish(site, "ab")
    alone = site.login("ada").subscribe("news")
    assert [each.detached for each in sharing] == [[("news", "replaced")]] * 2
    got = alone.take()
    assert [(each.body, each.attempt) for each in got] == [("a", 2), ("b", 2)]
    alone.commit(*got)
    publish(site, "c")
    again = worker(site)
    assert (alone.detached, again.bodies()) == ([("news", "replaced")], ["c"])


def test_a_takeover_hands_nothing_to_those_that_it_ends(site: RouterSite) -> None:
    sharing = [worker(site), worker(site)]
    publish(site, "abcd", delivery="ONE")
    for each in sharing:
        each.take()
    alone = site.login("ada").subscribe("news")
    assert [each.bodies() for each in sharing] == [[], []]
    assert alone.bodies() == ["a", "b", "c", "d"]


def test_a_session_changes_its_part_alone_and_stays_beside_the_others(site: RouterSite) -> None:
    first, second = worker(site, credit=1), worker(site, credit=1)
    publish(site, "abcd")
    first.subscribe("news", credit=2)
    assert (first.bodies(), second.bodies()) == (["a", "c"], ["b"])
    assert second.detached == []


def test_what_it_accepts_changes_for_all(site: RouterSite) -> None:
    first, second = worker(site, accepts="ALL"), worker(site, accepts="ALL")
    publish(site, "ab", delivery="ONE")
    assert (first.bodies(), second.bodies()) == ([], [])
    second.subscribe("news", accepts="BOTH")
    assert sorted([*first.bodies(), *second.bodies()]) == ["a", "b"]


def test_after_a_restart_they_share_again(site: RouterSite) -> None:
    first, second = worker(site), worker(site)
    publish(site, "abcd")
    a, _ = first.take()
    first.received(a)
    second.commit(*second.take())
    site.restart()
    first, second = worker(site, credit=1), worker(site)
    assert [(got.body, got.received) for got in first.take()] == [("a", True)]
    assert second.bodies() == ["c"]


def test_an_unguaranteed_message_is_held_for_those_who_acknowledge_and_done_for_others(
    site: RouterSite,
) -> None:
    careful, quick = worker(site, acknowledges_all=True), worker(site)
    publish(site, "ab", guarantee=False)
    assert [each.acknowledge for each in (careful.one(), quick.one())] == [True, False]
    careful.close(lost=True)
    assert quick.bodies() == ["a"]
    assert site.router._state.entries == {}


def test_one_that_somebody_shares_is_in_use(site: RouterSite) -> None:
    kept = worker(site)
    site.now += 3_000_000
    site.maintain()
    assert kept.detached == []
    kept.close()
    site.now += 3_000_000
    assert site.maintain() == ["ada:desk@a.example"]


def test_sessions_that_come_and_go_leave_nothing_behind(site: RouterSite) -> None:
    kept = worker(site)
    for _ in range(50):
        worker(site).close()
    topic = site.router._state.topics["news"]
    [subscription] = topic.subscriptions.values()
    assert (len(topic.takers), len(subscription.members)) == (1, 1)
    kept.unsubscribe("news")
    assert site.router._state.topics == {}
