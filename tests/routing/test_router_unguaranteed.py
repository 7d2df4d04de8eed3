"""Messages without a guarantee, with subscriptions that acknowledge all they get: in memory, as others are.

Source: routing contract 3.
"""

import pytest

from routing.errors import Refusal
from tests.support.one_router import RouterClient, RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite(max_deliveries=3)


@pytest.fixture
def worker(site: RouterSite) -> RouterClient:
    return site.login("ada").subscribe("jobs", acknowledges_all=True)


def send(site: RouterSite, *bodies: str, topic: str = "jobs", mode: str = "ONE", **headers: object) -> None:
    for body in bodies:
        site.login("eva").publish(topic, body, guarantee=False, delivery=mode, **headers)


def events(site: RouterSite, body: str) -> list[str]:
    """What became of it once it was published."""
    return [t.event + "!" * t.final for t in site.told if t.body == body]


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_it_is_locked_until_it_is_committed_and_never_on_disk(
    site: RouterSite, worker: RouterClient, mode: str
) -> None:
    send(site, "a", mode=mode)
    got = worker.one()
    assert got.acknowledge
    assert events(site, "a") == ["delivered"]
    worker.received(got)
    worker.commit(got)
    assert events(site, "a") == ["delivered", "committed!"]
    assert site.store.messages == {}
    assert not site.store.marks
    assert site.router._state.unguaranteed_bytes == 0


def test_what_a_worker_had_that_left_goes_to_the_next_with_its_count(
    site: RouterSite, worker: RouterClient
) -> None:
    send(site, "a", "b")
    assert worker.bodies() == ["a", "b"]
    worker.close(lost=True)
    other = site.login("bob").subscribe("jobs", acknowledges_all=True)
    assert [(g.body, g.attempt, g.redelivered) for g in other.take()] == [("a", 2, True), ("b", 1, True)]


def test_what_is_given_back_comes_again_and_dies_after_too_many_times(
    site: RouterSite, worker: RouterClient
) -> None:
    send(site, "bad")
    for attempt in (1, 2, 3):
        got = worker.one()
        assert got.attempt == attempt
        worker.give_back(got)
        site.wait(1)
    assert worker.take() == []
    assert events(site, "bad")[-2:] == ["returned", "dead!"]
    dead = site.login("ops").subscribe("dead.jobs", acknowledges_all=True).one()
    assert (dead.body, dict(dead.message.others)["Dead-Deliveries"]) == ("bad", "3")
    assert site.store.messages == {}


def test_a_lock_times_out_and_a_late_commit_is_refused(site: RouterSite) -> None:
    slow = site.login("ada").subscribe("jobs", acknowledges_all=True, lock_s=5.0)
    send(site, "a")
    got = slow.one()
    site.wait(6)
    assert slow.withdrawn == [(got.number, "lock-timeout")]
    with pytest.raises(Refusal):
        slow.commit(got)
    assert slow.one().attempt == 2


def test_credit_bounds_what_is_in_hand(site: RouterSite) -> None:
    worker = site.login("ada").subscribe("jobs", acknowledges_all=True, credit=2)
    send(site, "a", "b", "c")
    first, _ = worker.take()
    worker.commit(first)
    assert worker.bodies() == ["c"]


def test_of_mode_all_each_subscription_is_done_in_its_own_way(site: RouterSite, worker: RouterClient) -> None:
    reader = site.login("bob").subscribe("jobs")
    asks = site.login("eva").subscribe("eva:desk@a.example")
    send(site, "news", mode="ALL", receipt="ALL")
    assert not reader.one().acknowledge
    worker.give_back(worker.one())
    assert reader.take() == []
    assert asks.receipts() == []
    worker.commit(worker.one())
    assert asks.receipts() == ["2/2"]
    assert events(site, "news")[-2:] == ["receipt", "committed!"]


def test_a_receipt_counts_who_committed(site: RouterSite, worker: RouterClient) -> None:
    asks = site.login("eva").subscribe("eva:desk@a.example")
    send(site, "a", receipt="ONE")
    got = worker.one()
    assert asks.receipts() == []
    worker.commit(got)
    assert asks.receipts() == ["1/1"]


def test_received_it_stays_with_its_subscription_until_a_restart(
    site: RouterSite, worker: RouterClient
) -> None:
    send(site, "a")
    worker.received(worker.one())
    worker.close()
    assert site.login("bob").subscribe("jobs", acknowledges_all=True).take() == []
    back = site.login("ada").subscribe("jobs", acknowledges_all=True)
    again = back.one()
    assert again.received
    assert again.acknowledge
    site.restart()
    assert site.login("ada").subscribe("jobs", acknowledges_all=True).take() == []


def test_a_timeout_ends_it_with_whomever_it_is(site: RouterSite, worker: RouterClient) -> None:
    send(site, "a", timeout_s=10.0)
    got = worker.one()
    site.wait(11)
    assert worker.withdrawn == [(got.number, "expired")]
    assert site.router._state.unguaranteed_bytes == 0


def test_a_dead_letter_that_takes_the_place_of_what_it_tells_of_ends_it_once() -> None:
    """Memory is for one of them: the dead letter, which came last."""
    site = RouterSite(unguaranteed_bytes_max=2_000)
    worker = site.login("ada").subscribe("jobs", acknowledges_all=True)
    send(site, "a")
    worker.give_back(worker.one(), outcome="rejected")
    ends = [(t.topic, t.event) for t in site.told if t.final]
    assert ends == [("jobs", "dropped")]
    assert site.login("eva").subscribe("dead.jobs").bodies() == ["a"]
