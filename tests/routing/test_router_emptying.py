"""Topics that are emptied and deleted: at once where they are small, in steps where they are large."""

import pytest

from routing import emptying
from routing.steps import ENDED_MAX
from tests.support.one_router import RouterClient, RouterSite
from tests.support.remembered import bytes_kept

LARGE = ENDED_MAX + 200


@pytest.fixture
def site() -> RouterSite:
    return RouterSite(queue_messages_max=10_000)


@pytest.fixture
def ada(site: RouterSite) -> RouterClient:
    return site.login("ada")


def fill(client: RouterClient, topic: str, count: int, **headers: object) -> None:
    for number in range(count):
        client.publish(topic, str(number), **headers)


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_a_small_topic_is_empty_at_once(site: RouterSite, ada: RouterClient, mode: str) -> None:
    bob = site.login("bob").subscribe("jobs", credit=2)
    fill(ada, "jobs", 10, delivery=mode)
    fill(ada, "other", 1, delivery="ONE")
    held = bob.take()
    assert ada.purge("jobs")
    assert site.held == 1
    assert sorted(bob.withdrawn) == [(got.number, "removed") for got in held]
    # nothing was handed out in the place of what was taken away
    assert bob.take() == []


def test_a_large_topic_is_emptied_in_steps_and_answered_after_the_last(
    site: RouterSite, ada: RouterClient
) -> None:
    fill(ada, "jobs", LARGE, delivery="ONE")
    answered = ada.purge("jobs")
    assert not answered
    assert site.held == LARGE - ENDED_MAX
    # what comes meanwhile stays
    ada.publish("jobs", "new", delivery="ONE")
    while not answered:
        site.wait(0.001)
    assert site.held == 1
    assert site.login("bob").subscribe("jobs").one().body == "new"


def test_one_large_topic_after_the_other(site: RouterSite, ada: RouterClient) -> None:
    for topic in ("jobs", "news"):
        fill(ada, topic, LARGE, delivery="ONE")
    first, second = ada.purge("jobs"), ada.purge("news")
    while not second:
        site.wait(0.001)
    assert first
    assert site.held == 0


def test_what_comes_while_a_purge_waits_for_its_turn_stays(site: RouterSite, ada: RouterClient) -> None:
    fill(ada, "jobs", LARGE, delivery="ONE")
    ada.publish("news", "old", delivery="ONE")
    ada.purge("jobs")
    answered = ada.purge("news")
    ada.publish("news", "new", delivery="ONE")
    while not answered:
        site.wait(0.001)
    assert site.held == 1
    assert site.login("bob").subscribe("news").one().body == "new"


def test_what_comes_while_a_deletion_waits_for_its_turn_is_gone_too(
    site: RouterSite, ada: RouterClient
) -> None:
    fill(ada, "jobs", LARGE, delivery="ONE")
    ada.purge("jobs")
    answered = ada.delete("news")
    ada.publish("news", "new", delivery="ONE")
    while not answered:
        site.wait(0.001)
    assert site.held == 0
    assert "news" not in site.router._state.topics


def test_an_empty_topic_of_a_large_site_is_emptied_at_once(
    site: RouterSite, ada: RouterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emptying, "LOOKED_AT_MAX", 10)
    ada.publish("jobs", "first", delivery="ONE")
    fill(ada, "other", 50, delivery="ONE")
    assert ada.purge("nothing")
    answered = ada.purge("jobs")
    site.wait(0.001)
    assert answered
    assert site.held == 50


def test_those_that_wait_for_their_turn_take_no_room_for_what_the_site_holds(
    site: RouterSite, ada: RouterClient
) -> None:
    fill(ada, "jobs", LARGE, delivery="ONE")
    site.router.topics.purge(site.now, ada.consumer, "jobs", None)
    purge = site.router.topics.purge
    assert bytes_kept(lambda _: purge(site.now, ada.consumer, "jobs", None)) < 100 * LARGE


def test_a_large_topic_that_is_deleted_is_gone_with_what_came_meanwhile(
    site: RouterSite, ada: RouterClient
) -> None:
    bob = site.login("bob").subscribe("jobs", credit=1)
    ada.set_delivery("jobs", "ONE")
    fill(ada, "jobs", LARGE)
    bob.take()
    answered = ada.delete("jobs")
    ada.publish("jobs", "new")
    while not answered:
        site.wait(0.001)
    assert site.held == 0
    assert "jobs" not in site.router._state.topics
    assert bob.detached == [("jobs", "removed")]


def test_a_restart_in_the_middle_leaves_what_had_not_been_reached(
    site: RouterSite, ada: RouterClient
) -> None:
    fill(ada, "jobs", LARGE, delivery="ONE")
    ada.purge("jobs")
    site.restart()
    site.wait(1)
    assert site.held == LARGE - ENDED_MAX


def test_it_waits_while_much_is_to_be_carried_out(site: RouterSite, ada: RouterClient) -> None:
    fill(ada, "jobs", 6 * ENDED_MAX, delivery="ONE")
    router = site.router
    router.topics.purge(site.now, ada.consumer, "jobs", None)
    for _ in range(100):
        router.timing.tick(site.now)
    assert len(router._state.entries) > 0
    while router._state.entries:
        site.wait(0.001)


def test_a_topic_is_deleted_though_somebody_publishes_all_the_time(
    site: RouterSite, ada: RouterClient
) -> None:
    ada.set_delivery("jobs", "ONE")
    fill(ada, "jobs", LARGE)
    answered = ada.delete("jobs")
    for _ in range(100):
        if answered:
            break
        ada.publish("jobs", "new")
        site.wait(0.001)
    assert answered
