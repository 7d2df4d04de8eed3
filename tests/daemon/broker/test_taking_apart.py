"""Where a transaction that finds no room is cut in two, and who is told that something cannot be stored."""

from daemon.broker.inputs import ends_of_inputs
from daemon.broker.taking_apart import Fault, TakingApart
from routing.decisions import (
    INPUT_END,
    AnswerRequest,
    Decision,
    DropSetAside,
    MarkReturned,
    StorePublication,
    Together,
)
from routing.door import Door
from routing.message import Message
from routing.options import SubscribeOptions
from routing.peering.copies import PeerRules, UnitId
from routing.peering.decisions import AcknowledgeUnit, StoreInterest
from routing.peering.wants import InterestChange
from routing.router import Router
from routing.subscription import Consumer
from tests.support.one_router import SETTINGS


class Site:
    """A router behind its door, with ada who works off jobs, bob, and a peer; some of it cannot be stored."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ended: list[str] = []
        self.router = Router("a.example", 1, SETTINGS, lambda: 0)
        self.door = Door(self.router, lambda: self.now, lambda: None, lambda: None)
        self.ada, self.bob = Consumer(None, "ada", "desk"), Consumer(None, "bob", "desk")
        self.door.set_peers({"b.example": PeerRules()})
        self.door.link_up("b.example")
        self.door.subscribe(self.ada, "jobs", SubscribeOptions(durable=True, lock_s=60.0), "subscribed")
        self.door.publish_own("jobs", Message(delivery="ONE"))
        [self.job] = self.ada.locks
        self.router.take()

    def answers(self, unstored: type[Decision]) -> list[object]:
        """Requests and controls that are answered as if all was well, where one decision is not stored."""
        every = self.router.take()
        faults = [Fault(each, ValueError()) for each in every if isinstance(each, unstored)]
        assert len(faults) == 1
        taking_apart = TakingApart(
            self.router, lambda peer, _: self.ended.append(peer), lambda *_: None, lambda *_: None
        )
        kept = taking_apart.set_aside(every, set(), faults, self.now).decisions
        requests = [each.request for each in kept if isinstance(each, AnswerRequest) and not each.error]
        units = [each.unit.number for each in kept if isinstance(each, AcknowledgeUnit)]
        return [*requests, *(number for number in units if not self.ended)]


def test_who_gives_a_message_back_is_refused_where_that_cannot_be_stored_and_nobody_else() -> None:
    site = Site()
    site.door.set_timeout(site.bob, "before", 5.0, "before")
    site.door.give_back(site.ada, [site.job], "broken", 0.0, "given back")
    site.door.set_timeout(site.bob, "after", 5.0, "after")
    assert site.answers(MarkReturned) == ["before", "after"]


def test_who_publishes_is_not_refused_where_the_message_is_stored_and_its_cmuid_is_not() -> None:
    site = Site()
    message = Message(delivery="ONE", cmuid="c1", created="2026-01-01T00:00:00Z")
    site.door.publish(site.bob, "jobs", message, "bob:desk@a.example", "published")
    site.door.set_timeout(site.bob, "after", 5.0, "after")
    assert site.answers(StorePublication) == ["published", "after"]


def test_nobody_is_refused_for_what_time_alone_brings_about() -> None:
    site = Site()
    site.now = 61.0
    site.door.tick()
    site.door.set_timeout(site.bob, "other", 5.0, "after")
    site.door.heard("b.example", UnitId(1, 7))
    assert site.answers(MarkReturned) == ["after", 7]


def test_the_link_ends_over_which_a_peer_told_what_cannot_be_stored() -> None:
    """It tells that again over the next one."""
    site = Site()
    site.door.hear_interest("b.example", [InterestChange("ALL", "news", 0)], whole=False)
    site.door.heard("b.example", UnitId(1, 7))
    site.door.set_timeout(site.bob, "other", 5.0, "after")
    assert site.answers(StoreInterest) == ["after"]
    assert site.ended == ["b.example"]


def test_a_transaction_ends_between_inputs_and_never_inside_what_comes_true_together() -> None:
    some = DropSetAside("a.example/1-1-1")
    alone: list[Decision] = [some, some, INPUT_END]
    together: list[Decision] = [
        Together(begins=True),
        INPUT_END,
        some,
        INPUT_END,
        some,
        Together(begins=False),
        INPUT_END,
    ]
    assert list(ends_of_inputs([*alone, *together, *alone, some])) == [3, 10, 13]
