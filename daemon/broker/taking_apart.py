"""What is kept of a transaction that cannot be stored, and who is told that something was not.

Two reasons: the store fails (a full disk), and then new messages are refused and all else is tried again, of
half as many inputs each time, until some of it finds room. A dead letter that finds none alone, and a copy of
a peer, give way to what follows, which may be what makes room: see `daemon.broker.giving_way`. Or
single decisions cannot be stored, by an error of ours or at a damaged place of the store, and then those are
set aside with what hangs on them, and all else is tried again at once.

Whoever asked for what is set aside is refused. Of a message that is its publisher, or the peer that it came
from; of all else whoever the same input answers, before or after: a request is refused, and the link with a
peer ends, so that it gives the same again. What time alone brings about answers nobody, and neither is a
publisher refused whose message is stored without its Cmuid.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final

import msgspec

from daemon.broker.giving_way import give_way
from daemon.broker.inputs import ends_of_inputs
from daemon.system.mishaps import OWN_ERROR
from routing import decisions
from routing.decisions import Bury, Decision, message_of
from routing.errors import Refusal
from routing.peering.about import OfEntry
from routing.peering.copies import Arrival
from routing.peering.decisions import AcknowledgeUnit, DiscardReceipt
from routing.queue import TOGETHER, Entry
from routing.router import Router
from routing.subscription import Consumer

REFUSAL: Final = Refusal(Refusal.STORE_FAILED, "the site could not store this; its log says why")
REASON: Final = "it could not be stored"

_OF_A_LOST_COPY: Final = (decisions.Record, decisions.DiscardMessage, DiscardReceipt)
"""What is still true of a copy that could not be stored, and ends."""


class Kept(msgspec.Struct):
    """What is left to do.

    Attributes:
        failed: ids of messages that never were.
        burials: to be tried later.
        arrivals: copies that were taken, and are to come again later.
    """

    decisions: list[Decision]
    failed: Iterable[int]
    burials: list[Bury] = []
    arrivals: list[Arrival] = []


class Fault(msgspec.Struct):
    """A decision that cannot be carried out."""

    decision: Decision
    error: Exception

    @property
    def what(self) -> str:
        """The decision for people: what it was about, and nothing of what publishers wrote."""
        decision = self.decision
        told = [type(decision).__name__]
        for name in ("peer", "smuid", "topic", "publisher"):
            value = getattr(decision, name, "")
            if value and isinstance(value, str):
                told.append(f"{name} {value}")
        entry = decision.entry if isinstance(decision, (OfEntry, decisions.AnswerRequest)) else None
        if isinstance(entry, Entry):
            told.append(f"topic {entry.topic.name}, number {entry.id}")
        return ", ".join(told)


class TakingApart:
    """Owned by the executor.

    Args:
        end_link: ends the link with a peer, for a reason.
        refuse: tells a session now that its request is refused, whenever there is a transaction again.
        unpublish: takes back that a session has published so many messages.
    """

    def __init__(
        self,
        router: Router,
        end_link: Callable[[str, str], None],
        refuse: Callable[[decisions.AnswerRequest, Refusal], None],
        unpublish: Callable[[Consumer, int], None],
    ) -> None:
        self._router = router
        self._end_link = end_link
        self._refuse = refuse
        self._unpublish_for = unpublish

    def refuse_new(
        self,
        every: list[Decision],
        buried: set[int],
        refusal: Refusal,
        now: float,
        alone: list[Decision],
    ) -> Kept:
        """Refuse the new messages of clients, since the store fails; keep the rest for next time.

        What the server itself publishes is kept too, unless it tells of a message that is refused; and what
        came from a peer, which goes on waiting for its acknowledgement. If the input that was tried `alone`,
        with nothing else, brings one of these, see `give_way`. What comes true together is kept whole,
        unless it was tried `alone`: then it is refused whole if messages are in it, and none is removed.
        """
        too_large = {id(d) for d in alone if type(d) is decisions.StoreMessage and d.entry.flags & TOGETHER}
        undone: set[int] = set()
        undone_messages: dict[int, str] = {}
        for first, last in _together(every, too_large):
            begin = every[first]
            assert isinstance(begin, decisions.Together)
            if begin.removes:
                continue
            undone |= self._undo(every, first, last, undone_messages, now)
            answer = every[last - 1]
            assert isinstance(answer, decisions.AnswerRequest)
            self._refuse(answer, refusal)
            undone.add(id(answer))
        answered = {d.entry.id for d in every if type(d) is decisions.AnswerRequest and d.entry is not None}
        failed: dict[int, str] = {}
        for decision in every:
            if type(decision) is not decisions.StoreMessage or decision.entry.flags & TOGETHER:
                continue
            if decision.entry.id in answered or decision.cause in failed:
                self._unpublish(decision, failed, now)
        gave_way = give_way(self._router, every, alone, now)
        no_more = buried | undone | gave_way.decisions
        kept = self._without(every, no_more, failed | undone_messages, refusal, gave_way.messages)
        kept.burials, kept.arrivals = gave_way.burials, gave_way.arrivals
        return kept

    def set_aside(self, every: list[Decision], buried: set[int], faults: list[Fault], now: float) -> Kept:
        """Set aside single decisions that cannot be stored; keep the rest for next time."""
        culprits = {id(fault.decision) for fault in faults}
        failed: dict[int, str] = {}
        undone: set[int] = set()
        for first, last in _together(every, culprits):
            undone |= self._undo(every, first, last, failed, now)
        answered = {d.entry.id for d in every if type(d) is decisions.AnswerRequest and d.entry is not None}
        lost: set[int] = set()
        others: set[int] = set()
        for decision in every:
            if id(decision) in undone:
                continue
            if type(decision) is decisions.StoreMessage:
                if decision.cause in failed:
                    self._unpublish(decision, failed, now)
                elif id(decision) not in culprits:
                    continue
                elif decision.entry.id in answered:
                    self._unpublish(decision, failed, now)
                else:
                    lost.add(decision.entry.id)
                    self._router.setting_aside.set_aside(now, decision.entry, REASON)
            elif id(decision) in culprits:
                others.add(id(decision))
                if isinstance(decision, (decisions.Bury, decisions.RouteDelayed)):
                    self._router.setting_aside.set_aside(now, decision.entry, REASON)
        self._refuse_whose(every, others)
        kept = self._without(every, buried | culprits | undone, failed, REFUSAL)
        kept.decisions = [told for d in kept.decisions if (told := _told(d, lost)) is not None]
        return kept

    def _undo(
        self, every: list[Decision], first: int, last: int, failed: dict[int, str], now: float
    ) -> set[int]:
        """Something of what was to come true together never can: none of it does, and its request is refused.

        Returns the identities of the decisions that are undone; what was given back stays so.
        """
        group = every[first : last + 1]
        commits = [d for d in group if type(d) is decisions.Record and d.event == "committed"]
        committed = {record.entry.id for record in commits}
        undone = {id(group[0]), id(group[-1]), *map(id, commits)}
        messages = 0
        for d in group:
            if isinstance(d, (decisions.StoreMessage, decisions.KeepMessage)) and d.entry.flags & TOGETHER:
                self._unpublish(d, failed, now)
                undone.add(id(d))
                messages += 1
            of_message = isinstance(d, decisions.AnswerRequest) and d.entry is not None
            of_commit = isinstance(d, (decisions.MarkDone, decisions.DiscardMessage)) and (
                message_of(d) in committed
            )
            if of_message or of_commit:
                undone.add(id(d))
        self._router.acknowledging.uncommit(commits, now)
        answer = every[last - 1]
        assert isinstance(answer, decisions.AnswerRequest)
        every[last - 1] = msgspec.structs.replace(answer, error=answer.error or REFUSAL)
        self._unpublish_for(answer.consumer, messages)
        return undone

    def _unpublish(
        self, decision: decisions.StoreMessage | decisions.KeepMessage, failed: dict[int, str], now: float
    ) -> None:
        message = decision.message
        failed[decision.entry.id] = message.smuid
        self._router.unpublish(decision.entry, message.account, message.cmuid, now)

    def _without(
        self,
        every: list[Decision],
        done: set[int],
        failed: dict[int, str],
        refusal: Refusal,
        undone: Iterable[int] = (),
    ) -> Kept:
        """What is left without messages that never were; the publishers of those that `failed` are told."""
        smuids = set(failed.values())
        never_were = {*failed, *undone}
        kept = []
        for decision in every + self._router.take():
            if id(decision) in done:
                continue
            if isinstance(decision, decisions.AnswerRequest) and decision.smuid in smuids:
                self._refuse(decision, refusal)
                if decision.entry is not None or decision.repeated:  # not of a removal
                    self._unpublish_for(decision.consumer, 1)
            elif isinstance(decision, decisions.StorePublication) and decision.smuid in smuids:
                continue
            elif message_of(decision) not in never_were:
                kept.append(decision)
        return Kept(kept, never_were)

    def _refuse_whose(self, every: list[Decision], culprits: set[int]) -> None:
        """Refuse the requests, and end the links, that the inputs of these decisions answer.

        Not what answers for a message: its publisher is told what became of that.
        """
        for first, end in pairwise([0, *ends_of_inputs(every), len(every)]):
            if not any(id(decision) in culprits for decision in every[first:end]):
                continue
            for position in range(first, end):
                decision = every[position]
                if isinstance(decision, decisions.AnswerRequest) and decision.entry is None:
                    every[position] = msgspec.structs.replace(decision, error=decision.error or REFUSAL)
                elif isinstance(decision, AcknowledgeUnit):
                    self._end_link(decision.peer, OWN_ERROR)


def _together(every: list[Decision], culprits: set[int]) -> list[tuple[int, int]]:
    """Where decisions that come true together begin and end, and a culprit is among them."""
    found = []
    first, met = 0, False
    for position, decision in enumerate(every):
        if isinstance(decision, decisions.Together):
            if met and not decision.begins:
                found.append((first, position))
            first, met = position, False
        else:
            met = met or id(decision) in culprits
    return found


def _told(decision: Decision, lost: set[int]) -> Decision | None:
    """A decision, as it stands where these copies could not be stored and end; None where it does not."""
    if not lost:
        return decision
    if isinstance(decision, AcknowledgeUnit) and decision.entry_id in lost:
        return msgspec.structs.replace(decision, outcome="denied", reason=REASON)
    if message_of(decision) not in lost or isinstance(decision, AcknowledgeUnit):
        return decision
    if not isinstance(decision, _OF_A_LOST_COPY):
        return None
    if isinstance(decision, decisions.Record) and decision.event == "delivered":
        return None
    return decision


def whom(effect: Any) -> tuple[Any, str]:
    """Whom an effect is for: the handle of a session, or None, and a peer, or ""."""
    consumer = getattr(effect, "consumer", None)
    return (consumer.handle if consumer is not None else None), getattr(effect, "peer", "")
