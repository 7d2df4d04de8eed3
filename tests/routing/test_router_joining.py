"""Subscriptions to topics that keep much for those who join late: offered in steps, delivered in order."""

from routing.joining import OFFERED_MAX
from routing.message import INFINITE
from tests.support.one_router import RouterClient, RouterSite

LARGE = 2 * OFFERED_MAX + 500


def site_that_keeps(count: int) -> tuple[RouterSite, RouterClient]:
    site = RouterSite(queue_messages_max=100_000)
    ada = site.login("ada")
    for number in range(count):
        ada.publish("state", str(number), timeout_s=INFINITE)
    return site, ada


def test_what_a_small_topic_keeps_comes_at_once() -> None:
    site, _ = site_that_keeps(10)
    assert site.login("bob").subscribe("state").bodies() == [str(number) for number in range(10)]


def test_what_a_large_topic_keeps_comes_in_its_order_with_what_comes_meanwhile() -> None:
    site, ada = site_that_keeps(LARGE)
    bob = site.login("bob").subscribe("state", credit=LARGE + 2)
    assert bob.take() == []
    # nobody else is held up
    eva = site.login("eva").subscribe("news")
    ada.publish("news", "at once")
    assert eva.bodies() == ["at once"]
    ada.publish("state", "new")
    ada.publish("state", "urgent", priority=9)
    site.wait(1)
    assert bob.bodies() == ["urgent", *map(str, range(LARGE)), "new"]


def test_who_leaves_before_all_was_offered_holds_nothing_up() -> None:
    site, ada = site_that_keeps(LARGE)
    bob = site.login("bob").subscribe("state")
    bob.unsubscribe("state")
    site.wait(1)
    assert all(entry.due == 0 for entry in site.router._state.entries.values())
    assert ada.purge("state") is not None
    site.wait(1)
    assert site.held == 0


def test_what_has_ended_before_it_was_offered_does_not_come() -> None:
    site, ada = site_that_keeps(LARGE)
    bob = site.login("bob").subscribe("state", credit=LARGE)
    last = max(site.router._state.entries)
    ada.remove("state", site.router._state.entries[last].smuid(site.router._state.server))
    site.wait(1)
    assert bob.bodies() == [str(number) for number in range(LARGE - 1)]


def test_after_a_restart_in_the_middle_all_of_it_comes() -> None:
    site, _ = site_that_keeps(LARGE)
    site.login("bob").subscribe("state", credit=1)
    site.restart()
    bob = site.login("bob").subscribe("state", credit=LARGE)
    site.wait(1)
    assert bob.bodies() == [str(number) for number in range(LARGE)]
