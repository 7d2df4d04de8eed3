"""Messages that are published with a delay: to nobody before its end, and then as if published then."""

import pytest

from routing.decisions import RouteDelayed
from routing.joining import TOPICS_MAX
from tests.support.one_router import RouterSite

MODES = pytest.mark.parametrize("mode", ["ONE", "ALL"])


@pytest.fixture
def site() -> RouterSite:
    return RouterSite()


@MODES
def test_nobody_gets_it_before_its_time(site: RouterSite, mode: str) -> None:
    ada, eva = site.login("ada").subscribe("news", lock_s=1_000.0), site.login("eva")
    smuid = eva.publish("news", "later", delay_s=60.0, delivery=mode)
    site.wait(59.999)
    assert (ada.bodies(), site.fate(smuid), site.held) == ([], ["published"], 1)
    site.wait(0.002)
    ada.commit(got := ada.one())
    assert got.body == "later"
    assert site.fate(smuid) == ["published", "delivered", "committed!"]
    assert site.held == 0


@MODES
def test_it_is_a_copy_in_nobody_s_queue_until_then(site: RouterSite, mode: str) -> None:
    eva = site.login("eva")
    eva.publish("news", "later", delay_s=60.0, delivery=mode, timeout_s=100.0)
    eva.publish("news", "now", delivery=mode, timeout_s=100.0)
    ada = site.login("ada").subscribe("news", lock_s=1_000.0)
    assert ada.bodies() == ["now"]
    assert [entry.size for entry, _ in site.router.view.browse("news", 0, 10)] == [3]
    site.wait(61)
    assert ada.bodies() == ["later"]


@MODES
@pytest.mark.parametrize("due_before_the_start", [True, False])
def test_it_outlasts_a_restart(site: RouterSite, mode: str, due_before_the_start: bool) -> None:
    site.login("ada").subscribe("news").detach("news")
    smuid = site.login("eva").publish("news", "later", delay_s=60.0, delivery=mode)
    if due_before_the_start:
        site.now += 70
    site.restart()
    ada = site.login("ada").subscribe("news", lock_s=1_000.0)
    assert ada.bodies() == ["later"] * due_before_the_start
    site.wait(61)
    assert ada.bodies() == ["later"] * (not due_before_the_start)
    assert site.fate(smuid) == ["published", "delivered"]


def test_who_subscribed_during_the_delay_is_due_to_have_it_also_after_a_restart(site: RouterSite) -> None:
    eva, smuid = site.login("eva"), ""
    smuid = eva.publish("news", "later", delay_s=60.0)
    site.login("ada").subscribe("news").detach("news")
    site.wait(61)
    site.login("bob").subscribe("news")
    site.restart()
    ada, bob = site.login("ada").subscribe("news"), site.login("bob").subscribe("news")
    ada.commit(got := ada.one())
    assert (got.body, bob.bodies(), site.fate(smuid)[-1]) == ("later", [], "committed!")
    assert (got.attempt, got.redelivered) == (1, False)


def test_where_nobody_takes_it_when_it_is_time_it_ends(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("news", lock_s=1_000.0)
    smuid = site.login("eva").publish("news", "later", delay_s=60.0)
    ada.unsubscribe("news")
    site.wait(61)
    assert site.fate(smuid) == ["published", "expired!"]
    assert site.held == 0


@MODES
def test_its_timeout_counts_from_the_end_of_the_delay(site: RouterSite, mode: str) -> None:
    smuid = site.login("eva").publish("news", "later", delay_s=60.0, timeout_s=10.0, delivery=mode)
    site.wait(69)
    ada = site.login("ada").subscribe("news", lock_s=1_000.0)
    assert ada.bodies() == ["later"], "a stated timeout keeps it for who joins late"
    site.restart()
    site.wait(2)
    assert site.fate(smuid) == ["published", "delivered", "expired!"]
    assert site.login("ada").subscribe("news").bodies() == []


@MODES
def test_it_can_be_removed_before_and_after(site: RouterSite, mode: str) -> None:
    eva = site.login("eva")
    ada = site.login("ada").subscribe("news", lock_s=1_000.0)
    before = eva.publish("news", "removed before", delay_s=60.0, delivery=mode)
    after = eva.publish("news", "removed after", delay_s=60.0, delivery=mode)
    purged = eva.publish("olds", "purged", delay_s=60.0, delivery=mode)
    eva.remove("news", before)
    eva.purge("olds")
    site.wait(61)
    assert ada.bodies() == ["removed after"]
    eva.remove("news", after)
    assert [site.fate(smuid)[-1] for smuid in (before, after, purged)] == ["removed!"] * 3
    assert site.held == 0


@MODES
def test_it_stands_where_it_was_published(site: RouterSite, mode: str) -> None:
    ada, eva = site.login("ada").subscribe("news", credit=1, lock_s=1_000.0), site.login("eva")
    eva.publish("news", "with ada", delivery=mode)
    eva.publish("news", "later", delay_s=60.0, delivery=mode)
    for body in "ab":
        eva.publish("news", body, delivery=mode)
    site.wait(61)
    bodies = []
    for _ in range(4):
        got = ada.one()
        bodies.append(got.body)
        ada.commit(got)
    assert bodies == ["with ada", "later", "a", "b"]


def test_what_is_kept_for_late_subscribers_stays_in_order(site: RouterSite) -> None:
    eva = site.login("eva")
    for number in range(5):
        eva.publish("news", str(number), timeout_s=100.0, delay_s=60.0 if number in (1, 3) else 0.0)
    site.wait(61)
    assert site.login("ada").subscribe("news").bodies() == ["0", "1", "2", "3", "4"]


def test_one_that_is_joining_gets_it_once() -> None:
    site = RouterSite(queue_messages_max=10_000)
    eva = site.login("eva")
    for _ in range(5_000):
        eva.publish("news", "kept", timeout_s=1_000.0)
    eva.publish("news", "later", timeout_s=1_000.0, delay_s=60.0)
    site.now += 60.1  # it is time, and nothing has been done about it yet
    ada = site.login("ada").subscribe("news", credit=10_000)
    site.wait(2)
    assert ada.bodies() == ["kept"] * 5_000 + ["later"]


@MODES
def test_without_a_guarantee_it_is_in_memory_alone(site: RouterSite, mode: str) -> None:
    ada, eva = site.login("ada").subscribe("news", lock_s=1_000.0), site.login("eva")
    eva.publish("news", "later", delay_s=60.0, delivery=mode, guarantee=False)
    site.wait(61)
    assert ada.bodies() == ["later"]
    eva.publish("news", "lost", delay_s=60.0, delivery=mode, guarantee=False)
    site.restart()
    site.wait(61)
    assert site.login("ada").subscribe("news").bodies() == []


def test_without_a_guarantee_it_takes_of_the_memory_for_such_messages() -> None:
    site = RouterSite(unguaranteed_bytes_max=100_000)
    eva = site.login("eva")
    for _ in range(1_000):
        eva.publish("news", "x" * 500, delay_s=60.0, delivery="ONE", guarantee=False)
    assert (
        40
        < len([told for told in site.told if told.event == "published"])
        - len([told for told in site.told if told.event == "dropped"])
        < 100
    )


def test_many_delays_that_end_at_once_are_routed_some_at_a_time_and_those_of_later_behind_them(
    site: RouterSite,
) -> None:
    site = RouterSite(queue_messages_max=10_000)
    eva = site.login("eva")
    smuids = [eva.publish("news", str(n), delay_s=60.0, delivery="ONE") for n in range(1_000)]
    eva.publish("news", "the last", delay_s=60.01, delivery="ONE")
    ada = site.login("ada").subscribe("news", credit=10_000)
    eva.remove("news", smuids[-1])
    site.now += 61
    site.router.timing.tick(site.now)
    assert sum(type(each) is RouteDelayed for each in site.router._state.out) < 500
    site.settle()
    site.wait(1)
    assert ada.bodies() == [*map(str, range(999)), "the last"]


def test_who_begins_to_join_when_it_is_time_gets_it_once() -> None:
    site = RouterSite()
    eva = site.login("eva")
    eva.publish("news.0", "later", timeout_s=1_000.0, delay_s=60.0)
    for number in reversed(range(TOPICS_MAX + 1)):
        eva.publish(f"news.{number}", "now", timeout_s=1_000.0)
    site.now += 60.01
    site.router.timing.tick(site.now)  # that is decided, and the broker has not come to it yet
    ada = site.login("ada").subscribe("news.#", credit=10_000)
    site.wait(1)
    assert ada.bodies().count("later") == 1
