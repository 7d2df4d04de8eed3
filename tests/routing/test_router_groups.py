"""Groups of messages: one subscription at a time, in order. Source: routing/README.md, Groups."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.groups import IDLE_MAX, GroupedQueue
from routing.waiting import SWEPT_FROM
from tests.support.one_router import Got, RouterClient, RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite()


def worker(site: RouterSite, account: str = "ada", **options: object) -> RouterClient:
    return site.login(account).subscribe("jobs", accepts="ONE", durable=False, **options)


def publish(site: RouterSite, *bodies: str, **headers: object) -> None:
    """Each is of the group that its first letter names."""
    eva = site.login("eva")
    for body in bodies:
        eva.publish("jobs", body, delivery="ONE", group=body[0], **headers)


def test_a_group_goes_to_one_subscription_and_groups_go_in_turn(site: RouterSite) -> None:
    ada, bob = worker(site), worker(site, "bob")
    publish(site, "x1", "y1", "x2", "x3", "y2", "z1", "x4")
    assert (ada.bodies(), bob.bodies()) == (["x1", "x2", "x3", "z1", "x4"], ["y1", "y2"])


def test_what_is_of_no_group_goes_in_turn_as_before(site: RouterSite) -> None:
    ada, bob = worker(site), worker(site, "bob")
    publish(site, "x1")
    for body in "abc":
        site.login("eva").publish("jobs", body, delivery="ONE")
    assert (ada.bodies(), bob.bodies()) == (["x1", "b"], ["a", "c"])


def test_a_group_waits_for_its_subscription_and_holds_up_no_other(site: RouterSite) -> None:
    ada, bob = worker(site, credit=1), worker(site, "bob")
    publish(site, "x1", "x2", "x3", "y1", "z1")
    assert (ada.bodies(), bob.bodies()) == (["x1"], ["y1", "z1"])
    assert [topic.messages for topic in site.router.view.every_topic()] == [5]


def test_it_stays_with_its_subscription_while_nothing_of_it_is_there(site: RouterSite) -> None:
    ada, bob = worker(site), worker(site, "bob")
    for _ in range(5):
        publish(site, "x1")
        ada.commit(ada.one())
    assert bob.bodies() == []


def test_in_a_topic_that_only_patterns_follow_it_begins_anew_once_nothing_is_there(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("#", accepts="ONE")
    bob = site.login("bob").subscribe("#", accepts="ONE")
    publish(site, "x1", "x2")
    ada.commit(*ada.take())
    publish(site, "x3")
    assert (ada.bodies(), bob.bodies()) == ([], ["x3"])


def test_of_one_who_leaves_it_goes_to_another_what_was_unfinished_first(site: RouterSite) -> None:
    ada = worker(site, credit=3)
    publish(site, "x1", "x2", "x3", "x4")
    first, *_ = ada.take()
    ada.commit(first)
    bob = worker(site, "bob")
    publish(site, "x5")
    assert (ada.bodies(), bob.bodies()) == (["x4"], [])
    ada.close(lost=True)
    assert bob.bodies() == ["x2", "x3", "x4", "x5"]


def test_the_groups_of_one_who_leaves_go_to_all_who_are_left(site: RouterSite) -> None:
    ada = worker(site)
    publish(site, "x1", "y1", "x2", "z1", "y2")
    bob, cyd = worker(site, "bob"), worker(site, "cyd")
    ada.close()
    assert (bob.bodies(), cyd.bodies()) == (["x1", "x2", "y1", "y2"], ["z1"])


@pytest.mark.parametrize("how", ["close", "lose", "unsubscribe", "detach"])
def test_a_group_that_waits_for_one_who_leaves_goes_to_another(site: RouterSite, how: str) -> None:
    ada = site.login("ada").subscribe("jobs", accepts="ONE", credit=1)
    publish(site, "x1")
    ada.commit(ada.one())
    publish(site, "y1")
    assert ada.bodies() == ["y1"]
    bob = worker(site, "bob")
    publish(site, "x2", "x3")
    assert bob.bodies() == []
    if how in ("unsubscribe", "detach"):
        getattr(ada, how)("jobs")
    else:
        ada.close(lost=how == "lose")
    assert sorted(bob.bodies()) == ["x2", "x3", "y1"]


def test_what_is_given_back_comes_first_and_to_the_same(site: RouterSite) -> None:
    ada, bob = worker(site, credit=2), worker(site, "bob")
    publish(site, "x1", "x2", "x3", "x4")
    first, _ = ada.take()
    ada.give_back(first)
    assert (ada.bodies(), bob.bodies()) == (["x1"], [])


def test_while_one_is_in_a_pause_nobody_gets_more_of_its_group(site: RouterSite) -> None:
    ada, bob = worker(site, credit=1), worker(site, "bob")
    publish(site, "x1", "x2")
    ada.give_back(ada.one(), delay_s=10.0)
    assert (ada.bodies(), bob.bodies()) == ([], [])
    ada.close()
    site.wait(9.0)
    assert bob.bodies() == []
    site.wait(1.0)
    assert bob.bodies() == ["x1", "x2"]


def test_who_fails_one_again_and_again_waits_as_the_only_one(site: RouterSite) -> None:
    ada, bob = worker(site), worker(site, "bob")
    publish(site, "x1")
    ada.give_back(ada.one())
    ada.give_back(ada.one())
    assert (ada.bodies(), bob.bodies()) == ([], [])
    site.wait(0.1)
    assert (ada.bodies(), bob.bodies()) == (["x1"], [])


def test_what_is_rejected_goes_to_the_dead_letters_and_the_next_follow(site: RouterSite) -> None:
    ada = worker(site, credit=1)
    publish(site, "x1", "x2")
    ada.give_back(ada.one(), outcome="rejected")
    assert ada.bodies() == ["x2"]


def test_with_a_lock_that_times_out_a_group_goes_to_another_once_all_of_it_is_back(site: RouterSite) -> None:
    ada, bob = worker(site, credit=2), worker(site, "bob")
    publish(site, "x1")
    ada.take()
    site.wait(30.0)
    publish(site, "x2", "x3")
    second = ada.one()
    site.wait(30.0)
    assert (ada.withdrawn, bob.bodies()) == ([(1, "lock-timeout")], [])
    ada.commit(second)
    assert (ada.bodies(), bob.bodies()) == ([], ["x1", "x3"])


def test_the_last_message_of_a_group_ends_it(site: RouterSite) -> None:
    ada, bob = worker(site), worker(site, "bob")
    publish(site, "x1")
    publish(site, "x2", ends_group=True)
    publish(site, "x3")
    ada.commit(ada.take()[0])
    site.wait(0)
    assert (ada.bodies(), bob.bodies()) == ([], [])  # the last one is still worked on


def test_a_group_that_has_ended_begins_anew_with_the_next_in_turn(site: RouterSite) -> None:
    ada, bob = worker(site), worker(site, "bob")
    publish(site, "x1")
    publish(site, "x2", ends_group=True)
    publish(site, "x3", "x4")
    ada.commit(*ada.take())
    assert (ada.bodies(), bob.bodies()) == ([], ["x3", "x4"])


def test_a_higher_priority_comes_first_in_a_group_too(site: RouterSite) -> None:
    ada = worker(site, credit=1)
    publish(site, "x1", "x2")
    publish(site, "x3", priority=5)
    publish(site, "y1", priority=9)
    got = []
    for _ in range(4):
        delivered = ada.one()
        got.append(delivered.body)
        ada.commit(delivered)
    assert got == ["x1", "y1", "x3", "x2"]


def test_of_mode_all_it_comes_to_everyone(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("news"), site.login("bob").subscribe("news")
    site.login("eva").publish("news", "x1", group="x")
    assert (ada.bodies(), bob.bodies()) == (["x1"], ["x1"])


def test_a_pattern_takes_groups_and_gives_them_back(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("#", accepts="ONE", credit=1, durable=False)
    bob = site.login("bob").subscribe("jobs", accepts="ONE", credit=0)
    publish(site, "x1", "x2", "y1")
    assert ada.bodies() == ["x1"]
    bob.subscribe("jobs", accepts="ONE", credit=5)
    assert bob.bodies() == ["y1"]
    ada.close()
    assert bob.bodies() == ["x1", "x2"]


def test_of_those_who_share_a_subscription_one_has_a_group(site: RouterSite) -> None:
    ada, other = worker(site, shared=True), worker(site, shared=True)
    publish(site, "x1", "y1", "x2", "y2")
    assert (ada.bodies(), other.bodies()) == (["x1", "x2"], ["y1", "y2"])
    ada.close()
    assert other.bodies() == ["x1", "x2"]


def test_what_was_received_stays_and_its_group_with_it(site: RouterSite) -> None:
    def subscribe(**options: object) -> RouterClient:
        return site.login("ada").subscribe("jobs", accepts="ONE", **options)

    ada, bob = subscribe(), worker(site, "bob")
    publish(site, "x1", "x2", "y1")
    ada.received(ada.take()[0])
    ada.close()
    publish(site, "x3")
    assert bob.bodies() == ["y1"]
    site.restart()
    bob = worker(site, "bob")
    assert bob.bodies() == ["y1"]
    first, second = subscribe(shared=True), subscribe(shared=True)
    assert (first.bodies(), second.bodies(), bob.bodies()) == (["x1", "x2", "x3"], [], [])


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("ends", ["remove", "purge"])
def test_what_was_received_holds_its_group_no_longer_once_it_has_ended(
    site: RouterSite, ends: str, restarts: bool
) -> None:
    ada = site.login("ada").subscribe("jobs", accepts="ONE", credit=1)
    eva = site.login("eva")
    smuid = eva.publish("jobs", "x1", delivery="ONE", group="x")
    ada.received(ada.one())
    ada.close()
    publish(site, "x2")
    if restarts:
        site.restart()
    bob = worker(site, "bob")
    assert bob.bodies() == []
    if ends == "remove":
        site.login("eva").remove("jobs", smuid)
    else:
        site.login("eva").purge("jobs")
    publish(site, "x3")
    site.wait(0.0)
    assert bob.bodies() == (["x2", "x3"] if ends == "remove" else ["x3"])


def test_what_was_received_holds_its_group_no_longer_once_what_paused_behind_it_is_back(
    site: RouterSite,
) -> None:
    ada = site.login("ada").subscribe("jobs", accepts="ONE", credit=2)
    eva = site.login("eva")
    smuid = eva.publish("jobs", "x1", delivery="ONE", group="x")
    publish(site, "x2", "x3")
    first, second = ada.take()
    ada.received(first)
    ada.give_back(second, delay_s=10.0)
    ada.close()
    bob = worker(site, "bob")
    eva.remove("jobs", smuid)
    assert bob.bodies() == []
    site.wait(10.0)
    assert bob.bodies() == ["x2", "x3"]


def test_over_a_restart_order_is_kept(site: RouterSite) -> None:
    publish(site, "x1", "y1", "x2")
    publish(site, "x3", ends_group=True)
    publish(site, "x4")
    site.restart()
    ada, bob = worker(site, credit=1), worker(site, "bob")
    got = []
    for _ in range(3):
        delivered = ada.one()
        got.append(delivered.body)
        ada.commit(delivered)
    assert (got, bob.bodies()) == (["x1", "x2", "x3"], ["y1", "x4"])


GROUPS = "vwxyz"  # more than workers: one has several, of which not each has something in its hand
steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from(GROUPS), st.sampled_from([False, False, False, True])),
        st.tuples(st.just("commit"), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.just("go"), st.integers(0, 2), st.sampled_from(["close", "lose", "unsubscribe"])),
        st.tuples(st.just("come"), st.integers(0, 2), st.sampled_from([1, 1, 2, 3])),
    ),
    min_size=40,
    max_size=60,
)


@given(steps)
@settings(deadline=None, report_multiple_bugs=False)
def test_whoever_comes_and_goes_a_group_is_worked_on_in_order_by_one_at_a_time(
    steps: list[tuple[str, Any, Any]],
) -> None:
    site = RouterSite(redelivery_wait_s=0.0, max_deliveries=1_000)
    workers: dict[int, RouterClient] = {}
    hands: dict[int, list[Got]] = {}
    published: dict[str, list[int]] = {name: [] for name in GROUPS}
    finished: dict[str, list[int]] = {name: [] for name in GROUPS}
    count = 0

    def look() -> None:
        for place, each in workers.items():
            hands[place] += each.take()
        for name, numbers in published.items():
            having = [place for place, hand in hands.items() if any(got.body[0] == name for got in hand)]
            assert len(having) <= 1, "two work on one group"
            in_hand = [int(got.body[1:]) for place in having for got in hands[place] if got.body[0] == name]
            begun = finished[name] + in_hand
            assert begun == numbers[: len(begun)], "out of order"
        topic = site.router._state.topics.get("jobs")
        if topic is not None and any(each.ready for each in topic.subscriptions.values()):
            assert topic.shared.peek() is None, "a free group waits, and one is there who could take it"
        if topic is not None:
            waiting = [entry.id for entry in topic.shared.after(0, 1_000)]
            assert waiting == sorted(entry.id for entry in topic.shared), "shown is not what waits"

    arrivals = [("come", n, 1) for n in range(3)]
    for what, first, second in [
        *arrivals,
        *steps,
        ("come", 3, 100),
        *[("commit", n, 0) for n in range(4)] * 60,
    ]:
        if what == "publish":
            count += 1
            published[first].append(count)
            publish(site, f"{first}{count}", ends_group=second)
        elif what == "come" and first not in workers:
            workers[first], hands[first] = worker(site, f"w{first}", credit=second), []
        elif what == "go" and first in workers:
            del hands[first]
            going = workers.pop(first)
            if second == "unsubscribe":
                going.unsubscribe("jobs")
            else:
                going.close(lost=second == "lose")
        elif what == "commit" and hands.get(first):
            # a worker takes what it has of each group in order
            got = hands[first][second % len(hands[first])]
            got = next(each for each in hands[first] if each.body[0] == got.body[0])
            hands[first].remove(got)
            finished[got.body[0]].append(int(got.body[1:]))
            workers[first].commit(got)
        look()
        site.wait(0.0)
        look()
    assert finished == published


def test_groups_that_are_idle_are_forgotten_the_oldest_first(site: RouterSite) -> None:
    ada, bob = worker(site), worker(site, "bob")
    eva = site.login("eva")
    for number in range(2 * IDLE_MAX + 2):
        eva.publish("jobs", delivery="ONE", group=str(number), guarantee=False)
    topic = site.router._state.topics["jobs"]
    assert len(list(topic.shared.groups())) == IDLE_MAX  # type: ignore[attr-defined]
    owned = [s.groups.groups for s in topic.subscriptions.values() if s.groups is not None]
    assert sum(map(len, owned)) == IDLE_MAX
    ada.close()
    bob.close()
    assert not list(topic.shared.groups())  # type: ignore[attr-defined]


def test_groups_of_which_nothing_is_held_take_no_memory_while_nobody_takes_any(site: RouterSite) -> None:
    worker(site, "bob", credit=0)
    publish(site, "x1")
    eva = site.login("eva")
    for number in range(3 * SWEPT_FROM):
        eva.publish("jobs", delivery="ONE", group=str(number), timeout_s=1.0)
        if number % 500 == 0:
            site.wait(2.0)
    site.wait(2.0)
    queue = site.router._state.topics["jobs"].shared
    assert isinstance(queue, GroupedQueue)
    assert len(list(queue.groups())) == 1
    assert len(queue._free._first) == len(queue._free._standing) <= SWEPT_FROM
    assert worker(site).bodies() == ["x1"]


def test_what_waits_in_groups_is_shown_page_by_page(site: RouterSite) -> None:
    ada = worker(site, credit=3)
    publish(site, "x1", "y1", "x2", "z1", "v1", "y2")
    for got in reversed(ada.take()):
        ada.give_back(got)
    ada.close()
    view, topic = site.router.view, site.router._state.topics["jobs"]
    ids = [entry.id for entry, _ in view.browse("jobs", 0, 6)]
    assert ids == sorted(site.router._state.entries)
    assert [entry.id for entry, _ in view.browse("jobs", ids[0], 2)] == ids[1:3]
    assert [entry.id for entry, _ in view.browse("jobs", ids[3], 2)] == ids[4:]
    assert [entry.id for entry, _ in view.browse_back("jobs", ids[-1] + 1, 6)] == ids[::-1]
    assert [entry.id for entry, _ in view.browse_back("jobs", ids[4], 2)] == [ids[3], ids[2]]
    assert len(topic.shared.after(0, 2)) == 2  # however many groups there are
    oldest = view.oldest(topic)
    assert oldest is not None
    assert oldest.id == ids[0]
