"""Accepting messages: once, within bounds, and what is not guaranteed. Source: routing contract 1 and 3."""

from typing import Any

import pytest

from routing.errors import Refusal
from routing.message import Section
from tests.support.one_router import RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite(queue_messages_max=3, queue_bytes_max=1_000, unguaranteed_bytes_max=10_000)


def test_a_cmuid_again_is_answered_with_the_first_smuid_and_routed_no_second_time(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news"), site.login("eva")
    first = eva.publish("news", "hello", cmuid="c1")
    assert eva.publish("news", "hello", cmuid="c1") == first
    assert ada.bodies() == ["hello"]


def test_a_cmuid_is_known_after_a_restart_and_forgotten_after_the_window(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("news")
    first = site.login("eva").publish("news", "hello", cmuid="c1")
    ada.commit(ada.one())
    site.wait(300)
    site.restart()
    eva = site.login("eva")
    assert eva.publish("news", "hello", cmuid="c1") == first
    site.wait(301)
    site.maintain()
    assert eva.publish("news", "hello", cmuid="c1") != first


def test_a_cmuid_belongs_to_its_account_and_channel(site: RouterSite) -> None:
    smuids = {
        site.login("eva").publish("news", cmuid="c1"),
        site.login("eva", "phone").publish("news", cmuid="c1"),
        site.login("fay").publish("news", cmuid="c1"),
    }
    assert len(smuids) == 3


def test_smuids_differ_and_sort_by_age_over_restarts(site: RouterSite) -> None:
    smuids = [site.login("eva").publish("news") for _ in range(3)]
    site.restart()
    site.wait(1)
    smuids += [site.login("eva").publish("news") for _ in range(3)]
    assert len(set(smuids)) == 6
    assert sorted(smuids[:3]) < sorted(smuids[3:])


@pytest.mark.parametrize(("body", "count"), [("x", 3), ("x" * 600, 2)])
def test_a_full_queue_refuses_and_loses_nothing(site: RouterSite, body: str, count: int) -> None:
    eva = site.login("eva")
    for _ in range(count):
        eva.publish("jobs", body, delivery="ONE")
    with pytest.raises(Refusal) as refused:
        eva.publish("jobs", body, delivery="ONE")
    assert refused.value.code == Refusal.QUEUE_FULL
    assert "jobs" in refused.value.text
    eva.publish("other", body, delivery="ONE")
    ada = site.login("ada").subscribe("jobs")
    assert ada.bodies() == [body] * count
    site.settle()


def test_a_refused_cmuid_may_be_published_again(site: RouterSite) -> None:
    eva = site.login("eva")
    for _ in range(3):
        eva.publish("jobs", delivery="ONE")
    with pytest.raises(Refusal):
        eva.publish("jobs", delivery="ONE", cmuid="c1")
    ada = site.login("ada").subscribe("jobs")
    ada.commit(*ada.take())
    eva.publish("jobs", "again", delivery="ONE", cmuid="c1")
    assert ada.bodies() == ["again"]


def test_unguaranteed_messages_are_never_stored_answered_or_acknowledged(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news", credit=1), site.login("eva")
    assert eva.publish("news", "a", guarantee=False) == ""
    assert eva.publish("news", "b", guarantee=False) == ""
    got = ada.take()
    assert [(g.body, g.acknowledge) for g in got] == [("a", False), ("b", False)]
    assert site.store.messages == {}
    assert [(t.event, t.final) for t in site.told if t.event == "delivered"] == [("delivered", True)] * 2
    with pytest.raises(Refusal):
        ada.commit(*got)


def test_unguaranteed_messages_wait_in_memory_and_a_restart_ends_them(site: RouterSite) -> None:
    eva = site.login("eva")
    eva.publish("jobs", "a", guarantee=False, delivery="ONE")
    assert site.router._state.unguaranteed_bytes > 0
    assert site.login("ada").subscribe("jobs").bodies() == ["a"]
    assert site.router._state.unguaranteed_bytes == 0
    eva.publish("other", "b", guarantee=False, delivery="ONE")
    site.restart()
    assert site.login("ada").subscribe("other").bodies() == []


def test_under_pressure_the_oldest_unguaranteed_messages_are_dropped_and_on_record(
    site: RouterSite,
) -> None:
    ada, eva = site.login("ada").subscribe("a", credit=0), site.login("eva")
    for body in "abcd":
        eva.publish(body, body * 6_000, guarantee=False, delivery="ALL" if body == "a" else "ONE")
    dropped = [t for t in site.told if t.event == "dropped"]
    assert [t.body[0] for t in dropped] == ["a", "b", "c"]
    assert all(t.final and "memory" in t.reason for t in dropped)
    assert ada.subscribe("a", credit=9).take() == []


def test_under_pressure_what_a_worker_has_in_hand_is_dropped_last() -> None:
    site = RouterSite(unguaranteed_bytes_max=10_000)
    eva = site.login("eva")

    def dropped() -> str:
        return "".join(t.body[0] for t in site.told if t.event == "dropped")

    eva.publish("a", "1" * 3_000, guarantee=False, delivery="ONE")
    worker = site.login("ada").subscribe("a", acknowledges_all=True)
    eva.publish("b", "2" * 3_000, guarantee=False, delivery="ONE")
    assert dropped() == ""
    eva.publish("a", "3" * 3_000, guarantee=False, delivery="ONE")
    eva.publish("b", "4" * 3_000, guarantee=False, delivery="ONE")
    assert dropped() == "24"
    assert worker.withdrawn == []
    eva.publish("a", "5" * 3_000, guarantee=False, delivery="ONE")
    first, second, third = worker.take()
    assert dropped() == "241"
    assert worker.withdrawn == [(first.number, "dropped")]
    worker.give_back(second)
    worker.commit(third, *worker.take())
    assert site.router._state.unguaranteed_bytes == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"others": (("X", "y" * 3_000),)},
        {"others": (("X", "🦀" + "y" * 700),)},
        {"others": tuple((f"X-{number}", "") for number in range(15))},
        {"sections": (Section("text/plain", b"", (("X", "y" * 3_000),)),)},
        {"sections": (Section("text/plain; x=" + "y" * 3_000, b""),)},
        {"sections": tuple(Section("text/plain", b"") for _ in range(15))},
    ],
    ids=[
        "a long header",
        "one with letters that take much",
        "many headers",
        "a long one of a section",
        "a long type",
        "many sections",
    ],
)
def test_unguaranteed_messages_without_bodies_take_memory_too(
    site: RouterSite, headers: dict[str, Any]
) -> None:
    eva = site.login("eva")
    for topic in range(20):
        eva.publish(f"t{topic}", guarantee=False, delivery="ONE", **headers)
    assert [t.event for t in site.told].count("dropped") == 18
    assert len(site.router._state.header_bytes) == 2


def test_an_unguaranteed_message_with_a_stated_timeout_is_offered_to_those_who_join_late(
    site: RouterSite,
) -> None:
    ada, eva = site.login("ada").subscribe("news"), site.login("eva")
    eva.publish("news", "hello", guarantee=False, timeout_s=60.0)
    assert ada.bodies() == ["hello"]
    assert site.login("bob").subscribe("news").bodies() == ["hello"]
    site.wait(61)
    assert site.login("cyd").subscribe("news").bodies() == []
    assert [(t.event, t.final) for t in site.told] == [
        ("published", False),
        ("delivered", False),
        ("delivered", False),
        ("expired", True),
    ]
    assert site.router._state.unguaranteed_bytes == 0
    assert site.router._state.topics["news"].messages == 0


def test_counts_follow_what_is_held(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news", credit=0), site.login("eva")
    eva.publish("news", "four")
    eva.publish("news", "seven77", guarantee=False)
    topic = site.router._state.topics["news"]
    assert (topic.messages, topic.bytes, site.held) == (2, 11, 1)
    ada.subscribe("news", credit=1)
    ada.commit(ada.take()[0])
    assert (topic.messages, topic.bytes, site.held) == (0, 0, 0)
