"""How long messages are held, state messages, and REMOVE. Source: routing contract 4 and 5."""

import pytest

from routing.errors import Refusal
from routing.message import INFINITE
from tests.support.one_router import RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite()


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_a_message_whose_timeout_ends_is_taken_from_whoever_has_it(site: RouterSite, mode: str) -> None:
    ada = site.login("ada").subscribe("news")
    smuid = site.login("eva").publish("news", "hello", timeout_s=10.0, delivery=mode)
    got = ada.one()
    site.wait(11)
    assert ada.withdrawn == [(got.number, "expired")]
    with pytest.raises(Refusal, match="not held"):
        ada.commit(got)
    assert site.fate(smuid) == ["published", "delivered", "expired!"]
    assert site.held == 0


def test_what_expires_while_it_waits_is_never_delivered(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news", credit=1), site.login("eva")
    smuids = [eva.publish("news", body, timeout_s=10.0) for body in "abc"]
    smuids.append(eva.publish("news", "d", timeout_s=60.0))
    assert ada.bodies() == ["a"]
    site.wait(11)
    assert ada.bodies() == ["d"], "one moment ends three, and frees the credit for the fourth"
    assert [site.fate(smuid)[-1] for smuid in smuids] == ["expired!"] * 3 + ["delivered"]


def test_messages_that_expire_in_the_hands_of_each_other_s_next_takers_all_end(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("news", credit=0), site.login("bob").subscribe("news", credit=0)
    eva = site.login("eva")
    smuids = [eva.publish("news", str(number), timeout_s=10.0, priority=1) for number in range(600)]
    ada.subscribe("news", credit=300)
    bob.subscribe("news", credit=300)
    bob.give_back(*bob.take(), delay_s=2)
    bob.subscribe("news", credit=300)
    site.wait(3)
    assert len(bob.take()) == 300
    site.wait(10)
    assert {site.fate(smuid)[-1] for smuid in smuids} == {"expired!"}


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_what_was_received_before_the_timeout_ended_can_be_committed_after_it(
    site: RouterSite, mode: str
) -> None:
    ada = site.login("ada").subscribe("news")
    smuid = site.login("eva").publish("news", "hello", timeout_s=10.0, delivery=mode)
    got = ada.one()
    ada.received(got)
    site.wait(20)
    ada.commit(got)
    assert site.fate(smuid) == ["published", "delivered", "committed!"]


def test_after_the_timeout_only_those_who_had_received_a_message_finish_it(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("news"), site.login("bob").subscribe("news", credit=0)
    smuid = site.login("eva").publish("news", "hello", timeout_s=10.0)
    got = ada.one()
    ada.received(got)
    site.wait(20)
    assert bob.subscribe("news", credit=5).take() == []
    bob.unsubscribe("news")
    ada.commit(got)
    assert site.fate(smuid) == ["published", "delivered", "committed!"]


def test_one_who_leaves_after_the_timeout_does_not_end_what_another_has_received(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("news"), site.login("bob").subscribe("news", credit=0)
    smuid = site.login("eva").publish("news", "hello", timeout_s=10.0)
    got = ada.one()
    ada.received(got)
    site.wait(20)
    bob.unsubscribe("news")
    ada.commit(got)
    assert site.fate(smuid) == ["published", "delivered", "committed!"]


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_what_is_given_back_after_its_timeout_ends(site: RouterSite, mode: str) -> None:
    ada, bob = site.login("ada").subscribe("news"), site.login("bob")
    smuid = site.login("eva").publish("news", "hello", timeout_s=10.0, delivery=mode)
    got = ada.one()
    ada.received(got)
    site.wait(20)
    bob.subscribe("news")
    ada.give_back(got)
    assert (ada.take(), bob.take()) == ([], [])
    assert site.fate(smuid)[-2:] == ["returned", "expired!"]


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_a_message_that_was_received_outlives_its_timeout_and_a_restart(site: RouterSite, mode: str) -> None:
    ada = site.login("ada").subscribe("news")
    site.login("bob").subscribe("news", accepts="ALL", credit=0)
    smuid = site.login("eva").publish("news", "hello", timeout_s=10.0, delivery=mode)
    ada.received(ada.one())
    site.wait(5)
    site.restart()
    site.wait(20)
    assert site.login("bob").subscribe("news", accepts="ALL").take() == []
    ada = site.login("ada").subscribe("news")
    ada.commit(ada.one())
    assert site.fate(smuid)[-1] == "committed!"


def test_a_message_that_waits_to_come_again_expires_on_time(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news"), site.login("eva")
    smuids = [eva.publish("news", "x", timeout_s=10.0, delivery=mode) for mode in ("ONE", "ALL")]
    ada.give_back(*ada.take(), delay_s=60)
    site.wait(11)
    assert [site.fate(smuid)[-1] for smuid in smuids] == ["expired!", "expired!"]
    site.wait(60)
    assert ada.take() == []


def test_of_mode_all_an_unstated_timeout_is_a_day(site: RouterSite) -> None:
    site.login("ada").subscribe("news").close()
    smuid = site.login("eva").publish("news", "hello")
    site.wait(86_000)
    assert site.fate(smuid) == ["published"]
    site.wait(1_000)
    assert site.fate(smuid) == ["published", "expired!"]


def test_a_state_message_is_offered_to_everyone_who_comes_until_it_is_removed(site: RouterSite) -> None:
    eva = site.login("eva")
    smuid = eva.publish("state", "on", timeout_s=INFINITE)
    ada = site.login("ada").subscribe("state")
    ada.commit(ada.one())
    site.wait(10_000_000)
    site.restart()
    assert site.login("ada").subscribe("state").take() == []
    bob = site.login("bob").subscribe("state")
    got = bob.one()
    site.login("eva").remove("state", smuid)
    assert bob.withdrawn == [(got.number, "removed")]
    assert site.login("cyd").subscribe("state").take() == []
    assert site.fate(smuid)[-1] == "removed!"
    assert (site.held, site.store.messages, site.store.marks) == (0, {}, {})


def test_readers_that_come_and_go_leave_no_marks_on_a_state_message(site: RouterSite) -> None:
    site.login("eva").publish("state", "on", timeout_s=INFINITE)
    for _ in range(5):
        ada = site.login("ada").subscribe("state", durable=False)
        ada.commit(ada.one())
        ada.close()
    assert site.store.marks == {}


def test_a_subscription_is_never_taken_for_one_of_an_earlier_start(site: RouterSite) -> None:
    site.login("eva").publish("state", "on", timeout_s=INFINITE)
    ada = site.login("ada").subscribe("state")
    ada.commit(ada.one())
    ada.unsubscribe("state")
    site.restart()
    site.login("bob").subscribe("state", credit=0)
    site.restart()
    assert site.login("bob").subscribe("state").bodies() == ["on"]


def test_remove_takes_a_message_from_every_queue(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("t", credit=0), site.login("bob").subscribe("t")
    eva = site.login("eva")
    for mode in ("ONE", "ALL"):
        smuid = eva.publish("t", "hello", delivery=mode)
        got = bob.one()
        bob.received(got)
        eva.remove("t", smuid)
        assert bob.withdrawn.pop() == (got.number, "removed")
        assert site.fate(smuid)[-1] == "removed!"
    assert ada.subscribe("t", credit=5).take() == []
    assert site.held == 0


def test_removing_what_is_finished_succeeds_and_what_never_was_is_refused(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("t"), site.login("eva")
    smuid = eva.publish("t", "hello")
    ada.commit(ada.one())
    eva.remove("t", smuid)
    eva.remove("t", smuid)
    site.restart()
    eva = site.login("eva")
    eva.remove("t", smuid)
    waiting = eva.publish("other", "hello", delivery="ONE")
    for topic, unknown in (
        ("t", "a.example/0198c3a1b2c3-9-1"),
        ("t", "b.example/0198c3a1b2c3-1-1"),
        ("t", waiting),
        ("other", waiting.replace("/0", "/1")),
    ):
        with pytest.raises(Refusal) as refused:
            eva.remove(topic, unknown)
        assert refused.value.code == Refusal.NOT_FOUND


def test_finished_messages_do_not_wait_in_memory_for_their_deadline(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news"), site.login("eva")
    for _ in range(12_000):
        eva.publish("news", "x")
        ada.commit(ada.one())
        site.told.clear()
    deadlines = site.router._state.deadlines
    assert sum(map(len, deadlines._slots.values())) < 3_000
