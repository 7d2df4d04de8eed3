"""The one way into the router: whoever makes an input need not see to it that it is carried out."""

from pathlib import Path

import pytest
import trio.testing
from trio.testing import MockClock

from routing.door import Door
from routing.errors import Refusal
from routing.message import Message
from routing.options import SubscribeOptions
from routing.peering.copies import PeerRules, UnitId
from routing.peering.wants import InterestChange
from routing.router import Router
from routing.subscription import Consumer
from tests.support.broker import virtual_site
from tests.support.one_router import SETTINGS


class Site:
    """A router behind its door; `woken` and `woken_later` count."""

    def __init__(self) -> None:
        self.woken = self.woken_later = 0
        self.router = Router("a.example", 1, SETTINGS, lambda: 0)
        self.door = Door(self.router, lambda: 7.0, self._wake, self._wake_later)

    def _wake(self) -> None:
        self.woken += 1

    def _wake_later(self) -> None:
        self.woken_later += 1


def test_an_input_is_made_at_the_time_of_the_site_and_wakes_it() -> None:
    site = Site()
    ada = Consumer(None, "ada", "desk")
    site.door.subscribe(ada, "news", SubscribeOptions(lock_s=60.0), 1)
    site.door.publish_own("news", Message(delivery="ONE"))
    assert site.woken == 2
    [lock] = ada.locks.values()
    assert lock.ends_at == 7.0 + 60.0


def test_an_input_that_is_refused_wakes_it_too() -> None:
    site = Site()
    with pytest.raises(Refusal):
        site.door.unsubscribe(Consumer(None, "ada", "desk"), "news", "", 1)
    assert site.woken == 1


def test_what_nobody_waits_for_may_wait_for_company() -> None:
    site = Site()
    ada = Consumer(None, "ada", "desk")
    site.door.subscribe(ada, "work", SubscribeOptions(credit=2), 1)
    for _ in range(2):
        site.door.publish_own("work", Message(delivery="ONE"))
    woken = site.woken
    [first, second] = ada.locks
    site.door.commit(ada, [first], None)
    assert (site.woken, site.woken_later) == (woken, 1)
    site.door.commit(ada, [second], "ack")
    assert (site.woken, site.woken_later) == (woken + 1, 1)


def test_an_acknowledgement_that_makes_room_for_the_next_message_does_not_wait() -> None:
    site = Site()
    ada = Consumer(None, "ada", "desk")
    site.door.subscribe(ada, "work", SubscribeOptions(credit=1), 1)
    for _ in range(2):
        site.door.publish_own("work", Message(delivery="ONE"))
    woken = site.woken
    site.door.commit(ada, list(ada.locks), None)
    assert (site.woken, site.woken_later) == (woken + 1, 0)


def test_that_a_peer_is_heard_may_wait_for_company_but_not_what_follows_from_it() -> None:
    site = Site()
    site.door.set_peers({"b.example": PeerRules()})
    site.door.link_up("b.example", restarted=False, knows_destinations=True)
    woken = site.woken
    site.door.hear_destinations("b.example", "arrived", {"b.example/018bcfe56800-1-1": ["c.example"]})
    site.door.heard("b.example", UnitId(1, 1))
    assert (site.woken, site.woken_later) == (woken, 2)
    site.door.hear_interest("b.example", [InterestChange("ALL", "news", 0)], whole=False)
    site.door.heard("b.example", UnitId(1, 2))
    assert (site.woken, site.woken_later) == (woken + 1, 3)


def test_what_is_read_wakes_nobody() -> None:
    site = Site()
    assert site.door.view.topic("news") is None
    assert site.door.outlook.ways("news", "ALL", -1, ()) == []
    site.door.room.check("news", 1, 1)
    assert (site.woken, site.door.view.untaken) == (0, 0)


async def test_a_publisher_that_is_refused_is_in_the_hop_log_though_nothing_else_happens(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path, queue_messages_max=1) as site:
        ada = site.login("ada")
        await ada.publish("work", b"one", delivery="ONE")
        with pytest.raises(Refusal):
            ada.send("work", b"two", delivery="ONE")
        await trio.testing.wait_all_tasks_blocked()
        assert site.broker.door.view.untaken == 0
    assert [record.reason for record in site.records() if record.event == "denied"] == ["queue-full"]
