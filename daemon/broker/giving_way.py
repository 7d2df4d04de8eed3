"""What brings a message for which the disk has no room is undone, so that what follows can go on.

A dead letter     its message is held on as before, and the decision to bury it is to be carried out later
a peer's copy     has never come: it is not answered, stays the peer's, and is to be taken later

Both wait where they cost no room, and keep nobody: no subscriber has them, and no credit is taken for them.
"""

from collections.abc import Iterator

import msgspec

from daemon.broker.inputs import inputs_of
from routing import decisions
from routing.decisions import Bury, Decision
from routing.peering.copies import Arrival, Seen
from routing.peering.decisions import AcknowledgeUnit, StoreAnswer, StoreSeen, TellReceipt
from routing.queue import GONE
from routing.router import Router


class Undone(msgspec.Struct):
    """What gave way.

    Attributes:
        decisions: identities of those that are not to be carried out.
        messages: ids of those that never were.
    """

    decisions: set[int] = msgspec.field(default_factory=set)
    messages: set[int] = msgspec.field(default_factory=set)
    burials: list[Bury] = msgspec.field(default_factory=list)
    arrivals: list[Arrival] = msgspec.field(default_factory=list)


def give_way(router: Router, every: list[Decision], alone: list[Decision], now: float) -> Undone:
    """Undo all burials, or all copies that have come, if `alone`, which found no room, is one of them.

    All: so they keep their order, and not each of them has to be found to have no room.
    """
    if any(True for _ in _burials(alone)):
        return _unbury(router, every, now)
    if any(True for _ in _holding(alone)):
        return _untake(router, every, now)
    return Undone()


def _burials(decided: list[Decision]) -> Iterator[tuple[decisions.StoreMessage, decisions.Record]]:
    """The dead letters of one input, each with the record that a message is finished by it."""
    letters = {
        d.cause: d
        for d in decided
        if type(d) is decisions.StoreMessage and d.cause and d.entry.topic.is_dead_letter
    }
    for d in decided:
        if type(d) is decisions.Record and d.event == "dead" and d.entry.id in letters:
            yield letters[d.entry.id], d


def _unbury(router: Router, every: list[Decision], now: float) -> Undone:
    """The youngest first: a message that several could not take has ended by the last of its burials."""
    undone = Undone()
    finished = {
        d.entry.id
        for d in every
        if type(d) is decisions.Record and d.final and d.event in ("committed", "forwarded", "dead")
    }
    for decided in reversed(list(inputs_of(every))):
        for letter, record in _burials(decided):
            entry, subscription = record.entry, record.subscription
            assert subscription is not None
            if entry.flags & GONE and not record.final and entry.id in finished:
                continue  # the one who finished it last was told so: this one keeps its place
            router.unpublish(letter.entry, letter.message.account, letter.message.cmuid, now)
            undone.messages.add(letter.entry.id)
            undone.decisions.add(id(record))
            for d in decided:
                if (type(d) is decisions.DiscardMessage and d.entry is entry) or (
                    type(d) is decisions.MarkDone
                    and (d.entry_id, d.subscription_id) == (entry.id, subscription.id)
                ):
                    undone.decisions.add(id(d))
            if (bury := router.acknowledging.not_buried(record, now)) is not None:
                undone.burials.append(bury)
    undone.burials.reverse()
    return undone


def _holding(decided: list[Decision]) -> Iterator[tuple[decisions.StoreMessage, AcknowledgeUnit]]:
    """The copies of peers that one input has begun to hold."""
    stored = {d.entry.id: d for d in decided if type(d) is decisions.StoreMessage}
    for d in decided:
        if type(d) is AcknowledgeUnit and d.arrival is not None and d.entry_id in stored:
            yield stored[d.entry_id], d


def _untake(router: Router, every: list[Decision], now: float) -> Undone:
    """What came later of the same Smuid was decided by what is undone, and is to come again, too."""
    undone = Undone()
    federation = router.federation
    before: dict[str, Seen] = {}
    smuids: set[str] = set()
    asked: set[tuple[str, int]] = set()
    for decided in inputs_of(every):
        left_s: dict[int, float] = {}
        for stored, answer in _holding(decided):
            assert answer.arrival is not None
            smuid = answer.arrival.message.smuid
            smuids.add(smuid)
            undone.messages.add(stored.entry.id)
            left_s[id(answer)] = max(stored.entry.deadline - now, 0.0)
            federation.arriving.not_held(stored.entry, answer.arrival, before.get(smuid), now)
        for d in decided:
            if isinstance(d, AcknowledgeUnit) and d.arrival is not None and d.arrival.message.smuid in smuids:
                arrival = d.arrival
                asked.add((arrival.peer, arrival.query))
                if arrival.timeout_left_s is not None and id(d) in left_s:
                    arrival = msgspec.structs.replace(arrival, timeout_left_s=left_s[id(d)])
                undone.arrivals.append(arrival)
                undone.decisions.add(id(d))
            elif isinstance(d, (StoreSeen, decisions.Refused)) and d.smuid in smuids:
                undone.decisions.add(id(d))
            elif isinstance(d, StoreSeen):
                before[d.smuid] = d.seen
    for d in every:
        if isinstance(d, (StoreAnswer, TellReceipt)) and (d.peer, d.query) in asked:
            undone.decisions.add(id(d))
            router.receipts.not_answered(d.peer, d.query)
    return undone
