"""Subscriptions that end while much waits for them: gone at once, what waited for them in steps."""

from routing.steps import ENDED_MAX
from tests.support.one_router import RouterClient, RouterSite

LARGE = 2 * ENDED_MAX + 200


def site_with_a_long_queue(*, receipt: str = "NONE") -> tuple[RouterSite, RouterClient, RouterClient]:
    """Gives (site, ada, bob): much of what ada has published waits for bob."""
    site = RouterSite(queue_messages_max=10_000)
    ada, bob = site.login("ada"), site.login("bob").subscribe("news", credit=2)
    for number in range(LARGE):
        ada.publish("news", str(number), receipt=receipt)
    return site, ada, bob


def test_a_long_queue_is_given_up_in_steps() -> None:
    site, ada, bob = site_with_a_long_queue()
    bob.unsubscribe("news")
    held = site.held
    assert LARGE > held > LARGE - 2 * ENDED_MAX
    # nobody is kept waiting by it, and nothing of it comes to who subscribes anew
    again = site.login("bob").subscribe("news", credit=10)
    ada.publish("news", "new")
    assert [got.body for got in again.take()] == ["new"]
    while site.held > 1:
        site.wait(0.001)
        assert site.held >= held - ENDED_MAX
        held = site.held
    finals = [record.event for record in site.told if record.final]
    assert finals == ["expired"] * LARGE


def test_what_another_subscription_waits_for_stays() -> None:
    site, ada, bob = site_with_a_long_queue()
    site.login("eva").subscribe("news", credit=0)
    ada.publish("news", "for both")
    bob.unsubscribe("news")
    site.wait(1)
    while site.held > 1:
        site.wait(0.001)
    site.login("eva").subscribe("news", credit=1)
    assert site.held == 1


def test_what_expires_meanwhile_ends_once() -> None:
    site = RouterSite(queue_messages_max=10_000)
    ada, bob = site.login("ada"), site.login("bob").subscribe("news", credit=0)
    for number in range(LARGE):
        ada.publish("news", str(number), timeout_s=5.0)
    bob.unsubscribe("news")
    site.wait(10)
    assert site.held == 0
    finals = [record.smuid for record in site.told if record.final]
    assert len(finals) == len(set(finals)) == LARGE


def test_receipts_are_closed_for_each() -> None:
    site, _, bob = site_with_a_long_queue(receipt="ALL")
    bob.unsubscribe("news")
    while [got for got in site.router._state.entries.values() if got.topic.name == "news"]:
        site.wait(0.001)
    receipts = [record for record in site.told if record.event == "receipt"]
    assert len(receipts) == LARGE


def test_after_a_restart_in_the_middle_nothing_is_held_up() -> None:
    site, _, bob = site_with_a_long_queue()
    bob.unsubscribe("news")
    assert site.held
    site.restart()
    site.wait(1)
    assert site.held == 0
