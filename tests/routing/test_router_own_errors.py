"""Errors of ours that time meets: what they are about ends, once, and everything else goes on.

The index is damaged here as an error of ours would leave it.
"""

from typing import Any

import msgspec
import pytest

from routing.decisions import Record
from routing.errors import Refusal
from routing.steps import ENDED_MAX
from routing.timing import FAILED_WAIT_S
from tests.support.one_router import RouterClient, RouterSite


class Mishaps(list[tuple[str, Exception]]):
    """What was said to have been set aside."""

    def note(self, what: str, error: Exception) -> None:
        self.append((what, error))


@pytest.fixture
def site() -> RouterSite:
    return RouterSite(subscription_unused_s=3_600.0, queue_messages_max=10_000)


@pytest.fixture
def mishaps(site: RouterSite) -> Mishaps:
    mishaps = Mishaps()
    site.router._state.mishap = mishaps.note
    return mishaps


@pytest.fixture
def ada(site: RouterSite) -> RouterClient:
    return site.login("ada")


def damage(site: RouterSite, topic: str, field: str) -> None:
    """Every copy of the topic fails where the index looks there."""
    setattr(site.router._state.topics[topic], field, object())


def over_soon(site: RouterSite) -> None:
    """Whatever is due is done, with no end of it: time is not woken for the same thing again and again."""
    for _ in range(10):
        if site.router.wake_at > site.now:
            return
        site.router.timing.tick(site.now)
        site.settle()
    pytest.fail("what is due never ends")


def test_a_timeout_that_fails_ends_its_message_and_no_other(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    bad = ada.publish("bad", "1", timeout_s=10.0)
    good = [ada.publish("good", "2", timeout_s=10.0), ada.publish("good", "3", timeout_s=10.0)]
    damage(site, "bad", "kept")
    site.wait(11)
    over_soon(site)
    assert [site.fate(smuid)[-1] for smuid in good] == ["expired!", "expired!"]
    assert sum(event.endswith("!") for event in site.fate(bad)) == 1
    assert site.held == 0
    assert not site.store.messages, "nor does it come back with a restart"
    assert mishaps


@pytest.mark.parametrize("guarantee", [True, False])
@pytest.mark.parametrize("topic", ["bad", "bob:desk@a.example"])
def test_what_ends_by_an_error_counts_for_nobody_any_more(
    ada: RouterClient, site: RouterSite, mishaps: Mishaps, topic: str, guarantee: bool
) -> None:
    def publish(body: str) -> None:
        ada.publish(topic, body, timeout_s=10.0, delivery="ONE", sequence=1, guarantee=guarantee)

    state = site.router._state
    state.settings = msgspec.structs.replace(state.settings, system_messages_max=8)  # one for each
    publish("bad")
    kept = state.topics[topic].shared
    damage(site, topic, "shared")
    site.wait(11)
    over_soon(site)
    assert mishaps
    share = state.shares.of("ada")
    assert (share.messages, share.bytes, state.guaranteed, state.unguaranteed_bytes) == (0, 0, 0, 0)
    assert not state.sequenced
    state.topics[topic].shared = kept
    publish("there is room for it")
    assert (share.messages, share.bytes) == (1, 20)


def test_a_lock_whose_end_fails_ends_its_message_and_the_next_is_handed_out(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    bob = site.login("bob").subscribe("bad", credit=1)
    eva = site.login("eva").subscribe("good", credit=1)
    bad = ada.publish("bad", "1", delivery="ONE")
    ada.publish("bad", "2", delivery="ONE")
    ada.publish("good", "3", delivery="ONE")
    assert (bob.bodies(), eva.bodies()) == (["1"], ["3"])
    bob.consumer.locks.clear()
    site.wait(61)
    over_soon(site)
    assert site.fate(bad) == ["published", "delivered", "dropped!"]
    assert bob.bodies() == ["2"]
    assert len(eva.withdrawn) == 1
    assert len(mishaps) == 1


def test_a_pause_whose_end_fails_ends_its_message(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    clients = [site.login("bob").subscribe("bad"), site.login("eva").subscribe("good")]
    bad = ada.publish("bad", "1", delivery="ONE")
    ada.publish("good", "2", delivery="ONE")
    for client in clients:
        client.give_back(client.one(), delay_s=5.0)
    damage(site, "bad", "takers")
    site.wait(6)
    over_soon(site)
    assert site.fate(bad)[-1] == "dropped!"
    assert clients[1].bodies() == ["2"]
    assert len(mishaps) == 1


def test_a_sequence_that_cannot_be_handed_on_ends(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    bob = site.login("bob").subscribe("bad", ordered=True)
    eva = site.login("eva").subscribe("good", ordered=True)
    bad = ada.publish("bad", "3", sequence=3)
    ada.publish("good", "3", sequence=3)
    site.router._state.topics["bad"].subscriptions[1 << 40 | 1].queue = object()  # type: ignore[assignment]
    site.wait(6)
    over_soon(site)
    assert eva.bodies() == ["3"]
    assert bob.bodies() == []
    assert sum(event.endswith("!") for event in site.fate(bad)) == 1
    assert site.held == 1


def test_a_receipt_that_cannot_be_told_holds_no_other_up(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    eva = site.login("eva")
    bob = site.login("bob").subscribe("news")
    bob.close()
    for client in (ada, eva):
        client.subscribe(client.address)
        client.publish("news", "state", timeout_s=float("inf"), receipt="ALL")
    damage(site, ada.address, "messages")
    site.wait(86_401)
    over_soon(site)
    assert ada.receipts() == []
    assert eva.receipts() == ["0/1"]
    assert mishaps


def test_what_cannot_be_removed_is_no_longer_there_when_its_topic_is_empty(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    for number in range(2 * ENDED_MAX):
        ada.publish("jobs", str(number), delivery="ONE")
    bad: Any = site.router._state.entries[max(site.router._state.entries)]
    answered = ada.purge("jobs")
    bad.size = None
    while not answered:
        site.wait(0.001)
    assert site.held == 0
    assert not site.store.messages
    assert len(mishaps) == 1


def test_an_emptying_that_fails_is_refused_and_the_next_one_is_done(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    for topic in ("bad", "good"):
        for number in range(2 * ENDED_MAX):
            ada.publish(topic, str(number), delivery="ONE")
    ada.delete("bad")
    emptied = ada.purge("good")
    damage(site, "bad", "subscriptions")
    while not emptied:
        site.wait(0.001)
    [error] = [answer.error for answer in ada.answers.values() if answer.error is not None]
    assert error.code == Refusal.STORE_FAILED
    assert [entry.topic.name for entry in site.router._state.entries.values()].count("good") == 0


def test_an_error_that_belongs_to_nothing_is_met_no_more_than_once_a_second(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    ada.publish("news", "1", timeout_s=10.0)
    site.router._state.locking[site] = None  # type: ignore[index]  # which is no subscription
    site.wait(10)
    assert mishaps
    before = len(mishaps)
    site.wait(10 * FAILED_WAIT_S)
    assert len(mishaps) <= before + 20
    assert site.held == 0, "all else goes on"


def test_each_minute_all_is_done_that_can_be(site: RouterSite, ada: RouterClient, mishaps: Mishaps) -> None:
    bob = site.login("bob").subscribe("news")
    bob.close()
    site.router._state.publications = None  # type: ignore[assignment]
    site.wait(3_601)
    assert site.maintain() == [bob.address]
    assert len(mishaps) == 1


def test_an_unused_subscription_that_cannot_end_holds_no_other_up(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    bob, eva = site.login("bob").subscribe("bad"), site.login("eva").subscribe("good")
    for client in (bob, eva):
        client.close()
    damage(site, "bad", "subscriptions")
    site.wait(3_601)
    assert site.maintain() == [eva.address]
    assert len(mishaps) == 1


def test_a_message_that_cannot_be_handed_out_does_not_take_its_place_in_the_queue(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    bodies = [ada.publish("jobs", str(number), delivery="ONE") for number in range(3)]
    bad: Any = next(iter(site.router._state.entries.values()))
    bad.deadline = None
    bob = site.login("bob").subscribe("jobs")
    assert bob.bodies() == ["1", "2"]
    assert [site.fate(smuid)[-1] for smuid in bodies] == ["dropped!", "delivered", "delivered"]


def test_whoever_cannot_be_handed_anything_leaves_the_queue_to_others(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    for number in range(10):
        ada.publish("jobs", str(number), delivery="ONE")
    bob = site.login("bob")
    bob.consumer.locks = None  # type: ignore[assignment]
    bob.subscribe("jobs", credit=100)
    eva = site.login("eva").subscribe("jobs", credit=100)
    assert len(eva.bodies()) >= 7


@pytest.mark.parametrize(
    ("delivery", "field"), [("ONE", "takers"), ("ONE", "shared"), ("ALL", "subscriptions")]
)
def test_a_message_that_cannot_be_offered_is_refused_and_nothing_of_it_is_left(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps, delivery: str, field: str
) -> None:
    bob = site.login("bob").subscribe("bad", credit=1)
    ada.subscribe(ada.address)
    waits = [ada.publish("bad", body, delivery=delivery) for body in ("1", "2")]
    [first] = bob.take()
    topic = site.router._state.topics["bad"]
    whole = getattr(topic, field)
    damage(site, "bad", field)
    with pytest.raises(Refusal) as refused:
        ada.publish("bad", "3", delivery=delivery, cmuid="c3", receipt="ALL")
    assert refused.value.code == Refusal.STORE_FAILED
    assert mishaps
    setattr(topic, field, whole)
    assert site.held == len(waits)
    assert topic.messages == len(waits)
    assert len(site.store.messages) == len(waits)
    again = ada.publish("bad", "3", delivery=delivery, cmuid="c3")
    bob.commit(first)
    for body in ("2", "3"):
        got = bob.one()
        assert got.body == body
        bob.commit(got)
    assert site.fate(again)[-1] == "committed!"
    assert site.held == 0
    assert not ada.receipts()
    assert not any(told.body == "3" and told.smuid != again for told in site.told)


def test_a_commit_that_does_not_come_true_brings_nothing_back_that_has_ended_since(
    site: RouterSite, ada: RouterClient
) -> None:
    bob = site.login("bob").subscribe("t")
    site.login("eva").subscribe("t")
    smuid = ada.publish("t", "1", timeout_s=10.0)
    router = site.router
    router.acknowledging.commit(site.now, bob.consumer, [bob.one().number], None)
    commits = [one for one in router.take() if isinstance(one, Record) and one.event == "committed"]
    site.wait(11)
    router.acknowledging.uncommit(commits, site.now)
    site.wait(1)
    assert [event for event in site.fate(smuid) if event.endswith("!")] == ["expired!"]
    assert site.held == 0
    assert bob.bodies() == []


def test_what_a_commit_had_ended_of_a_system_topic_waits_there_again_where_it_does_not_come_true(
    site: RouterSite,
) -> None:
    bob = site.login("bob")
    bob.subscribe(bob.address)
    site.login("ada").publish(bob.address, "reply")
    router = site.router
    router.acknowledging.commit(site.now, bob.consumer, [bob.one().number], None)
    commits = [one for one in router.take() if isinstance(one, Record) and one.event == "committed"]
    router.acknowledging.uncommit(commits, site.now)
    site.settle()
    again = bob.one()
    assert again.body == "reply"
    bob.commit(again)
    assert site.held == 0


def test_commits_that_do_not_come_true_bring_back_what_the_last_of_them_had_ended(site: RouterSite) -> None:
    bob = site.login("bob").subscribe("t", name="one").subscribe("t", name="two")
    site.login("ada").publish("t", "1")
    router = site.router
    router.acknowledging.commit(site.now, bob.consumer, [got.number for got in bob.take()], None)
    commits = [one for one in router.take() if isinstance(one, Record) and one.event == "committed"]
    assert [one.final for one in commits] == [False, True]
    router.acknowledging.uncommit(commits, site.now)
    site.settle()
    again = bob.take()
    assert [got.body for got in again] == ["1", "1"]
    bob.commit(*again)
    assert site.held == 0


def test_who_joins_while_what_is_kept_cannot_be_looked_at_gets_what_comes(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    ada.publish("bad", "kept", timeout_s=100.0)
    topic = site.router._state.topics["bad"]
    whole = topic.kept
    damage(site, "bad", "kept")
    bob = site.login("bob").subscribe("bad")
    topic.kept = whole
    ada.publish("bad", "new")
    assert bob.bodies() == ["new"]
    assert len(mishaps) == 1


def test_an_emptying_that_fails_at_once_is_refused(
    site: RouterSite, ada: RouterClient, mishaps: Mishaps
) -> None:
    ada.publish("bad", "1", delivery="ONE")
    damage(site, "bad", "subscriptions")
    ada.delete("bad")
    [error] = [answer.error for answer in ada.answers.values() if answer.error is not None]
    assert error.code == Refusal.STORE_FAILED
    assert len(mishaps) == 1


class NobodyMaySubscribe:
    """Rights that all have until they are taken."""

    taken = False

    def may_subscribe(self, account: str, topic: str) -> bool:
        return not self.taken

    def subscribable(self, account: str, pattern: str) -> list[str]:
        return [] if self.taken else [pattern]


@pytest.mark.parametrize("target", ["bad", "bad.#"])
def test_a_subscription_that_is_forbidden_and_cannot_end_holds_no_other_up(target: str) -> None:
    rights, mishaps = NobodyMaySubscribe(), Mishaps()
    site = RouterSite(rights)
    site.router._state.mishap = mishaps.note
    site.login("bob").subscribe(target).consumer.subscriptions.clear()
    eve = site.login("eve").subscribe("good").subscribe("good.#")
    rights.taken = True
    site.router.changed_rights.take_on(site.now)
    site.settle()
    assert sorted(eve.detached) == [("good", "forbidden"), ("good.#", "forbidden")]
    assert len(mishaps) == 1
