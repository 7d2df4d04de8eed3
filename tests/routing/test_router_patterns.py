"""One subscription to all topics of a pattern."""

import math

import pytest

from routing.names import make_address
from routing.rights import Rights, RightsTable
from routing.targets import GRANTS_MAX, Pattern
from routing.waiting import SWEPT_FROM
from tests.support.one_router import SERVER, RouterSite


class AdaMay:
    """Rights that can be changed: what ada may subscribe to; all others may everything."""

    def __init__(self, *patterns: str) -> None:
        self.set(*patterns)

    def set(self, *patterns: str) -> None:
        self._table = RightsTable(SERVER, {"ada": Rights(subscribe=patterns)})

    def may_subscribe(self, account: str, topic: str) -> bool:
        return account != "ada" or self._table.allows(account, "subscribe", topic)

    def subscribable(self, account: str, pattern: str) -> list[str]:
        return [pattern] if account != "ada" else self._table.subscribable(account, pattern)


def test_what_comes_to_any_topic_of_it_comes_by_it_and_names_the_topic() -> None:
    site = RouterSite()
    ada = site.login("ada").subscribe("weather.#")
    for topic in ("weather", "weather.oslo", "weather.oslo.rain", "news.oslo"):
        ada.publish(topic, topic)
    got = ada.take()
    assert [each.topic for each in got] == ["weather", "weather.oslo", "weather.oslo.rain"]
    ada.commit(*got)
    assert site.held == 0


def test_it_has_one_credit_and_one_order_by_priority_over_all_topics() -> None:
    site = RouterSite()
    ada = site.login("ada").subscribe("#", credit=1)
    bob = site.login("bob")
    bob.publish("a", "first")
    bob.publish("b", "low", delivery="ONE")
    bob.publish("c", "older", priority=1)
    bob.publish("d", "urgent", priority=9, delivery="ONE")
    bob.publish("e", "newer", priority=1, delivery="ONE")
    came = []
    while got := ada.take():
        assert len(got) == 1
        came.append(got[0].body)
        ada.commit(*got)
    assert came == ["first", "urgent", "older", "newer", "low"]
    assert site.held == 0


def test_what_was_published_before_comes_within_its_timeout_in_order_over_all_topics() -> None:
    site = RouterSite()
    bob = site.login("bob")
    for number, topic in enumerate(("x.a", "x.b", "x.a", "y", "x.c")):
        bob.publish(topic, str(number), timeout_s=10)
    bob.publish("x.a", "gone", timeout_s=1)
    bob.publish("x.b", "to one", delivery="ONE")
    site.wait(2)
    assert site.login("ada").subscribe("x.*").bodies() == ["0", "1", "2", "4", "to one"]


def test_replies_and_dead_letters_come_only_to_who_names_them() -> None:
    site = RouterSite(max_deliveries=1)
    ada = site.login("ada").subscribe("#").subscribe("*.jobs", name="another")
    eve = site.login("eve").subscribe("dead.#")
    ada.publish(make_address("ada", "desk", SERVER), "reply")
    ada.publish("jobs", "bad", delivery="ONE")
    [job] = ada.take()
    ada.give_back(job)
    [dead] = eve.take()
    assert (job.topic, dead.topic, dead.body) == ("jobs", "dead.jobs", "bad")
    eve.detach("dead.#")
    assert ada.take() == []


def test_a_message_that_two_of_ones_own_take_comes_once_also_after_a_restart() -> None:
    site = RouterSite()
    ada = site.login("ada")
    ada.publish("a.b", "kept", timeout_s=100)
    ada.subscribe("#").subscribe("a.b").subscribe("a.*").subscribe("a.#", name="another")
    assert ada.bodies() == ["kept", "kept"]  # for `another`, too
    ada.publish("a.b", "new", timeout_s=100, receipt="ALL")
    ada.publish("a.c", "other")
    assert sorted(ada.bodies()) == ["new", "new", "other", "other"]
    site.restart()
    ada = site.login("ada").subscribe("#").subscribe("a.b").subscribe("a.*").subscribe("a.#", name="another")
    assert sorted(ada.bodies()) == ["kept", "kept", "new", "new", "other", "other"]


def test_a_receipt_counts_it_once() -> None:
    site = RouterSite()
    bob = site.login("bob").subscribe(make_address("bob", "desk", SERVER))
    ada = site.login("ada").subscribe("a.*").subscribe("a.b")
    eve = site.login("eve").subscribe("#")
    bob.publish("a.b", "news", receipt="ALL")
    ada.commit(*ada.take())
    eve.commit(*eve.take())
    assert bob.receipts() == ["2/2"]


def test_a_message_to_one_goes_in_turn_to_who_takes_its_topic_by_name_or_by_pattern() -> None:
    site = RouterSite()
    named = [site.login("ada", f"c{number}").subscribe("jobs.a") for number in range(2)]
    by_pattern = [site.login(account).subscribe(p) for account, p in (("bob", "jobs.*"), ("eve", "#"))]
    for number in range(8):
        named[0].publish("jobs.a", str(number), delivery="ONE")
    assert [len(client.take()) for client in (*named, *by_pattern)] == [2, 2, 2, 2]
    named[0].publish("jobs.b", "more", delivery="ONE")
    assert [len(client.take()) for client in by_pattern] == [1, 0]


def test_what_one_gives_back_goes_to_the_next_whichever_way_that_takes_it() -> None:
    site = RouterSite()
    ada = site.login("ada").subscribe("jobs.a")
    bob = site.login("bob").subscribe("jobs.#")
    ada.publish("jobs.a", "job", delivery="ONE")
    [first] = ada.take()
    ada.give_back(first)
    [second] = bob.take()
    bob.give_back(second)
    [third] = ada.take()
    assert [each.attempt for each in (first, second, third)] == [1, 2, 3]


def test_what_waits_in_many_topics_comes_to_one_after_the_other_though_some_of_it_ends() -> None:
    site = RouterSite()
    bob = site.login("bob")
    smuids = {
        body: bob.publish(topic, body, delivery="ONE", priority=priority)
        for topic, body, priority in (
            ("a", "1", 1),
            ("b", "2", 2),
            ("a", "3", 3),
            ("b", "4", 1),
            ("a", "5", 2),
        )
    }
    ada = site.login("ada").subscribe("#", credit=1)
    [got] = ada.take()
    assert got.body == "3"
    bob.remove("b", smuids["2"])
    bob.publish("b", "6", delivery="ONE", priority=5)
    bob.publish("c", "7", delivery="ONE", priority=4)
    ada.commit(got)
    came = []
    while got_next := ada.take():
        came.append(got_next[0].body)
        ada.commit(*got_next)
    assert came == ["6", "7", "5", "1", "4"]


def test_only_what_rights_allow_comes_and_waits_and_is_counted() -> None:
    site = RouterSite(AdaMay("weather.#"))
    bob = site.login("bob").subscribe(make_address("bob", "desk", SERVER))
    bob.publish("secret.kept", "no", timeout_s=100)
    ada = site.login("ada").subscribe("#")
    bob.publish("secret.plans", "no")
    bob.publish("secret.jobs", "no", delivery="ONE")
    bob.publish("weather.oslo", "rain", receipt="ALL")
    assert ada.bodies() == ["rain"]
    assert site.router.view.takers("secret.plans", "ALL") == 0
    assert site.router.view.takers("weather.bergen", "ONE") == 1


def test_rights_that_change_take_topics_away_and_add_others() -> None:
    rights = AdaMay("#")
    site = RouterSite(rights)
    bob = site.login("bob")
    ada = site.login("ada").subscribe("#", credit=0)
    bob.publish("a", "a", timeout_s=100)
    bob.publish("b", "b", timeout_s=100)
    rights.set("b", "c")
    site.router.changed_rights.take_on(site.now)
    site.settle()
    bob.publish("a", "not for ada", timeout_s=100)
    ada.subscribe("#", credit=10)
    assert ada.bodies() == ["b"]
    rights.set("a", "b")
    site.router.changed_rights.take_on(site.now)
    site.settle()
    assert ada.bodies() == ["a", "not for ada"]
    rights.set()
    site.router.changed_rights.take_on(site.now)
    site.settle()
    assert ada.detached == [("#", "forbidden")]


def test_each_subscription_of_an_account_gets_what_is_kept_once_it_has_the_right() -> None:
    rights = AdaMay("b")
    site = RouterSite(rights)
    site.login("bob").publish("a", "state", timeout_s=math.inf)
    desk, lab = (site.login("ada", channel).subscribe("#") for channel in ("desk", "lab"))
    rights.set("#")
    reload(site)
    assert (desk.bodies(), lab.bodies()) == (["state"], ["state"])


def test_a_start_ends_nothing_and_the_next_change_of_rights_what_an_account_may_not_have_any_more() -> None:
    """A start may have found another file of accounts by mistake."""
    rights = AdaMay("#")
    site = RouterSite(rights)
    site.login("ada").subscribe("a").subscribe("b").subscribe("b.#").subscribe("c.#").subscribe("*.x")
    rights.set("b", "d.#")
    site.restart()
    state = site.router._state
    assert len(state.subscriptions) == 5
    reload(site)
    assert sorted(each.target.name for each in state.subscriptions.values()) == ["*.x", "b", "b.#"]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_several_of_ones_own_gain_with_a_right_comes_once(*, restarts: bool) -> None:
    rights = AdaMay("b.b", "a.a")
    site = RouterSite(rights)
    patterns = ["*.b", "#", "a.*"]
    ada = site.login("ada")
    for pattern in patterns:
        ada.subscribe(pattern, credit=0)
    site.login("bob").publish("a.b", "state", timeout_s=math.inf)
    rights.set("#")
    reload(site)
    if restarts:
        site.restart()
        ada = site.login("ada")
    for pattern in patterns:
        ada.subscribe(pattern, credit=10)
    got = ada.one()
    assert (got.topic, got.body) == ("a.b", "state")
    ada.commit(got)
    site.restart()
    ada = site.login("ada")
    for pattern in patterns:
        ada.subscribe(pattern)
    assert ada.take() == []


def reload(site: RouterSite) -> None:
    site.router.changed_rights.take_on(site.now)
    site.settle()


@pytest.mark.parametrize("in_hand", ["locked", "received", "given back"])
def test_what_it_has_in_hand_comes_once_when_a_right_goes_and_comes_again(in_hand: str) -> None:
    rights = AdaMay("#")
    site = RouterSite(rights)
    ada = site.login("ada").subscribe("a.#", lock_s=1_000.0)
    smuid = site.login("bob").publish("a.b", "x", timeout_s=1_000.0)
    got = ada.one()
    if in_hand == "received":
        ada.received(got)
    elif in_hand == "given back":
        ada.give_back(got, delay_s=10.0)
    for patterns in (["a.c"], ["#"]):
        rights.set(*patterns)
        reload(site)
    assert ada.take() == []
    site.wait(20)
    ada.commit(ada.one() if in_hand == "given back" else got)
    site.wait(20)
    assert ada.take() == []
    assert site.fate(smuid)[-1] == "committed"


def test_what_is_left_to_another_is_not_given_up_with_a_right() -> None:
    rights = AdaMay("#")
    site = RouterSite(rights)
    ada, bob = (site.login(name).subscribe("a.#") for name in ("ada", "bob"))
    smuid = site.login("eva").publish("a.b", "x", timeout_s=5)
    ada.give_back(ada.one(), delay_s=10)
    got = bob.one()
    bob.received(got)
    site.wait(6)
    rights.set("a.c")
    reload(site)
    site.wait(6)
    bob.commit(got)
    assert site.fate(smuid)[-1] == "committed!"


@pytest.mark.parametrize("restarts", [False, True])
def test_what_had_failed_before_a_right_went_has_failed_when_it_comes_again(*, restarts: bool) -> None:
    rights = AdaMay("#")
    site = RouterSite(rights)
    ada = site.login("ada").subscribe("a.#")
    site.login("bob").publish("a.b", "state", timeout_s=math.inf)
    ada.give_back(ada.one())
    ada.give_back(ada.one(), outcome="released")
    ada.give_back(ada.one(), delay_s=5.0)
    ada.pause()
    site.wait(5)
    for patterns in (["a.c"], ["#"]):
        rights.set(*patterns)
        reload(site)
    if restarts:
        site.restart()
        ada = site.login("ada").subscribe("a.#")
    ada.resume()
    got = ada.one()
    assert (got.attempt, got.redelivered) == (3, True)


def test_what_is_given_back_of_a_topic_that_is_forbidden_meanwhile_does_not_come_again() -> None:
    rights = AdaMay("#")
    site = RouterSite(rights)
    ada = site.login("ada").subscribe("a.#")
    bob = site.login("bob")
    for body in ("at once", "later"):
        bob.publish("a.b", body)
    at_once, later = ada.take()
    ada.give_back(later, delay_s=10.0)
    rights.set("a.c")
    reload(site)
    ada.give_back(at_once)
    site.wait(20)
    assert (ada.take(), site.held) == ([], 0)


@pytest.mark.parametrize("while_down", [False, True])
def test_what_came_before_a_right_and_is_kept_for_nobody_comes_not_even_after_a_restart(
    while_down: bool,
) -> None:
    rights = AdaMay("b")
    site = RouterSite(rights)
    bob = site.login("bob").subscribe("a", credit=0)
    ada = site.login("ada").subscribe("#")
    bob.publish("a", "before")
    bob.publish("b", "always")
    rights.set("a", "b")
    if while_down:
        site.restart()
    else:
        reload(site)
    bob.publish("a", "since")
    for _ in range(2):
        site.restart()
        ada = site.login("ada").subscribe("#")
        assert sorted(ada.bodies()) == ["always", "since"]


def test_what_was_given_up_with_a_right_does_not_come_back_with_it_and_a_restart() -> None:
    rights = AdaMay("#")
    site = RouterSite(rights)
    bob = site.login("bob").subscribe("#", credit=0)
    site.login("ada").subscribe("#", credit=0)
    for topic in ("a", "b"):
        bob.publish(topic, topic)
    for patterns in (["a"], ["a", "b.#"], ["#"]):
        rights.set(*patterns)
        reload(site)
    site.restart()
    assert site.login("ada").subscribe("#").bodies() == ["a"]


def test_rights_that_came_at_very_many_times_lose_nothing() -> None:
    rights = AdaMay("t0")
    site = RouterSite(rights)
    bob = site.login("bob").subscribe("#", credit=0)
    ada = site.login("ada").subscribe("#", credit=0)
    for number in range(1, GRANTS_MAX + 10):
        bob.publish(f"t{number - 1}", "x")
        rights.set(*(f"t{each}" for each in range(number + 1)))
        reload(site)
    site.restart()
    ada = site.login("ada").subscribe("#", credit=1_000)
    assert len(ada.take()) == GRANTS_MAX + 9


def test_a_receipt_does_not_count_who_came_to_have_the_right_later() -> None:
    rights = AdaMay("b")
    site = RouterSite(rights)
    eve = site.login("eve").subscribe(make_address("eve", "desk", SERVER))
    bob = site.login("bob").subscribe("a")
    ada = site.login("ada").subscribe("#")
    eve.publish("a", "x", timeout_s=100, receipt="ALL")
    rights.set("a")
    reload(site)
    ada.commit(ada.one())
    assert eve.receipts() == []
    bob.commit(bob.one())
    assert eve.receipts() == ["1/1"]


def test_a_receipt_counts_what_it_had_in_hand_when_a_right_went_and_came_again() -> None:
    rights = AdaMay("#")
    site = RouterSite(rights)
    eve = site.login("eve").subscribe(make_address("eve", "desk", SERVER))
    ada = site.login("ada").subscribe("#")
    eve.publish("a", "x", timeout_s=100, receipt="ALL")
    for patterns in (["b"], ["#"]):
        rights.set(*patterns)
        reload(site)
    ada.commit(ada.one())
    assert eve.receipts() == ["1/1"]


@pytest.mark.parametrize(("after", "came"), [(["a.1"], 1), (["a.c"], 0), (["a.c", "#"], 4_500)])
def test_a_right_that_changes_while_it_is_joining_holds_for_what_it_is_still_offered(
    after: list[str], came: int
) -> None:
    rights = AdaMay("#")
    site = RouterSite(rights)
    bob = site.login("bob")
    for number in range(4_500):
        bob.publish(f"a.{number}", "x", timeout_s=100)
    ada = site.login("ada").subscribe("a.#", credit=10_000)
    for pattern in after:
        rights.set(pattern)
        reload(site)
    site.wait(1)
    got = [each.topic for each in ada.take()]
    assert len(got) == len(set(got)) == came


def test_it_is_stored_and_restored_with_all_that_waits_for_it() -> None:
    site = RouterSite()
    ada = site.login("ada").subscribe("a.*")
    bob = site.login("bob")
    ada.close()
    bob.publish("a.b", "1")
    bob.publish("a.c", "2", delivery="ONE")
    bob.publish("a.d", "3")
    site.restart()
    ada = site.login("ada").subscribe("a.*", credit=1)
    came = []
    while got := ada.take():
        came.append((got[0].topic, got[0].body))
        ada.commit(*got)
    assert came == [("a.b", "1"), ("a.c", "2"), ("a.d", "3")]
    ada.unsubscribe("a.*")
    bob.publish("a.b", "nobody")
    site.restart()
    assert site.held == 0


def test_a_hundred_thousand_topics_are_one_subscription() -> None:
    site = RouterSite()
    ada = site.login("ada").subscribe("sensor.#", credit=0)
    for number in range(1_000):
        ada.publish(f"sensor.{number}", "x")
    state = site.router._state
    assert (len(state.subscriptions), len(site.store.subscriptions)) == (1, 1)
    assert all(not topic.subscriptions for topic in state.topics.values())
    ada.unsubscribe("sensor.#")
    site.wait(1)
    assert (state.topics, state.entries) == ({}, {})
    assert not len(state.matching._patterns)


def test_topics_that_are_forgotten_are_found_no_more() -> None:
    site = RouterSite()
    ada = site.login("ada")
    smuid = ada.publish("a.b", "x", timeout_s=100)
    ada.remove("a.b", smuid)
    assert list(site.router._state.matching._listed.under("#")) == []
    assert site.login("bob").subscribe("#").bodies() == []


def test_topics_in_which_nothing_waits_any_more_take_no_memory_while_a_follower_is_busy() -> None:
    site = RouterSite()
    ada = site.login("ada").subscribe("#", accepts="ONE", credit=1)
    eva = site.login("eva")
    eva.publish("jobs.first", "first", delivery="ONE")
    eva.publish("jobs.second", "second", delivery="ONE")
    for number in range(3 * SWEPT_FROM):
        eva.publish(f"jobs.{number}", delivery="ONE", timeout_s=1.0)
        if number % 500 == 0:
            site.wait(2.0)
    site.wait(2.0)
    (following,) = ada.consumer.subscriptions.values()
    assert isinstance(following.target, Pattern)
    assert following.target.shared is not None
    assert len(following.target.shared._first) <= SWEPT_FROM
    ada.commit(ada.one())
    assert ada.bodies() == ["second"]
