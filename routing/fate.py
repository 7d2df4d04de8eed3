"""What became of one message at one site, judged from its records alone: what each record means for a copy.

A verdict claims no more than the records say: where the log does not reach back to the beginning, or the
last word is missing, it says so. `smqpd why` asks it about the log of a site, `smqpd trace route` about those
of all; the trace jobs state the same rules as columns (`routing.trace.ends`), from the words that stand here.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal

import msgspec

from routing.durations import duration
from routing.hop_words import BEGINS, ENDS, HAD, REFUSES
from routing.hops import HopRecord

FateState = Literal[
    "waiting",  # held: for its subscribers, or, if it is a state message, for ever
    "committed",
    "delivered",  # without a guarantee and acknowledgements, so that it ends with the delivery
    "forwarded",  # handed to other sites, and no longer this one's
    "denied",  # peers were still to have it, and those of which the log tells would not take it
    "expired",
    "unwanted",  # due to nobody, or to nobody any more, before its timeout ended
    "removed",
    "dead",
    "dropped",
    "gone",  # without a guarantee, and it ended with the daemon, by a stop or a kill, or may have
    "refused",  # a copy that this site did not take
    "unknown",
]


_OF_HELD: Final = ("delivered", "returned", "committed", "forwarded", "arrived", "depth")
"""What is written only while a copy is held: not so a receipt, nor that it came again."""

_UNRECORDED: Final = (
    "where that was killed, it may have been finished in the half second before, of which no record is left"
)


class Reader(msgspec.Struct):
    """One subscription that the message was delivered to.

    Attributes:
        pattern: that it is to; "" where it is to the topic itself.
        delivered_us: when it was first delivered; 0 where the log no longer has that.
        attempts: deliveries.
        committed_us: None where it is not finished.
        returned: why the last delivery came back; "" where none did.
    """

    subscription: str
    delivered_us: int = 0
    attempts: int = 0
    committed_us: int | None = None
    returned: str = ""
    pattern: str = ""

    @property
    def name(self) -> str:
        """What verdicts call it."""
        return f"{self.subscription} (by {self.pattern})" if self.pattern else self.subscription


class Fate(msgspec.Struct):
    """What became of a message.

    Attributes:
        began: the record by which this site took it; None where the log has none.
        ended: the record that ended it here; None while it is held, also when it has come home.
        readers: in the order of their first delivery.
        verdict: one or two plain sentences.
    """

    state: FateState
    verdict: str
    began: HopRecord | None
    ended: HopRecord | None
    readers: list[Reader]


def judge(records: list[HopRecord], newest_boot: int | None, doubt: str = "", *, log_ends: str = "") -> Fate:
    """The fate that `records`, all of one message and in their order, tell of; at least one.

    Args:
        newest_boot: that of the newest record of the whole log, or a greater one where the daemon has ended
            since; None where that is not known: a copy without a guarantee does not outlive its boot.
        doubt: what is not in the log, in words, and might tell more of this message; "" for nothing.
        log_ends: when, in words, where the log may be older than what is known otherwise; "" where it is that
            of a site that was just asked.
    """
    began = next((record for record in records if record.event in BEGINS), None)
    ended = end_of(records, unbroken=not doubt)
    if ended is None and _left_once_or_twice(records):
        doubt = doubt or "it was here before, and the record of that is missing"
    readers = readers_of(records)
    held = f"Held at the end of its log, {log_ends}" if log_ends else "Still held"
    state, end = _end(records, began, ended, readers, newest_boot, held)
    if doubt and ended is None:
        state, end = "unknown", f"What became of it is not known: {doubt}. {_without_it(records, readers)}"
    verdict = end if state == "refused" else f"{_beginning(began)} {end}"
    return Fate(state=state, verdict=verdict, began=began, ended=ended, readers=readers)


def end_of(records: list[HopRecord], *, unbroken: bool = True) -> HopRecord | None:
    """The record that ended a copy; None while it is held. `unbroken`: none of its records can be missing."""
    ends = [record for record in records if record.final]
    if not ends or _came_home_since(records, ends, unbroken=unbroken) or _left_once_or_twice(records):
        return None
    return min(
        _of_last_stay(records, ends),
        key=lambda record: ENDS.index(record.event) if record.event in ENDS else len(ENDS),
    )


def _came_home_since(records: list[HopRecord], ends: list[HopRecord], *, unbroken: bool) -> bool:
    """Whether a copy of mode ONE that was handed on has come home, and has not ended since.

    It may be home before the acknowledgement of its leaving, whose record ends it only then, each time; and
    that may come after what has ended it since.
    """
    begins = [record for record in records if record.event in BEGINS]
    handed = any(record.mode == "ONE" and record.event == "forwarded" for record in ends)
    if not handed or not (len(begins) > 1 or _came_back(begins)):
        return False
    since = [end for end in ends if end.record > begins[-1].record]
    if all(map(_is_numbered, since)):
        return all(_is_leaving_before(begins[-1], end) for end in since)
    return unbroken and len(begins) > len(ends)


def _is_numbered(end: HopRecord) -> bool:
    """Earlier versions do not number the crossings of a link."""
    return end.event != "forwarded" or end.crossing > 0


def _is_leaving_before(begun: HopRecord, end: HopRecord) -> bool:
    """Whether that end is a leaving after which it came home with `begun`, as the Hops tell of that."""
    if end.event != "forwarded" or not end.crossing:
        return False
    return end.crossing <= list(pairwise(begun.hops)).count((begun.server, end.peer))


def _of_last_stay(records: list[HopRecord], ends: list[HopRecord]) -> list[HopRecord]:
    """Of the ends of a copy those that are no leavings after which it came home."""
    begins = [record for record in records if record.event in BEGINS]
    return [end for end in ends if not begins or not _is_leaving_before(begins[-1], end)] or ends


def _came_back(begins: list[HopRecord]) -> bool:
    """Whether the Hops of the last of these say that the message was at this server before."""
    return bool(begins) and begins[-1].server in begins[-1].hops


def _left_once_or_twice(records: list[HopRecord]) -> bool:
    """Whether its first coming is in no record, and its one leaving may be the first or the second."""
    begins = [record for record in records if record.event in BEGINS]
    ends = [record for record in records if record.final]
    if len(begins) != 1 or len(ends) != 1 or not _came_back(begins) or _is_numbered(ends[0]):
        return False
    return ends[0].mode == "ONE" and ends[0].event == "forwarded" and ends[0].record > begins[0].record


def readers_of(records: list[HopRecord]) -> list[Reader]:
    """The subscriptions of which records, all of one message at one site and in their order, tell."""
    readers: dict[tuple[str, str], Reader] = {}
    for record in records:
        if not record.subscription:
            continue
        key = record.subscription, record.pattern
        reader = readers.setdefault(key, Reader(record.subscription, pattern=record.pattern))
        if record.event == "delivered":
            reader.delivered_us = reader.delivered_us or record.time_us
            reader.attempts = max(reader.attempts + 1, record.attempt)
        elif record.event == "committed":
            reader.committed_us = record.time_us
        elif record.event == "returned":
            reader.returned = record.reason or "given back"
    return list(readers.values())


def _beginning(began: HopRecord | None) -> str:
    if began is None:
        return "The log does not have how this site came by it."
    if began.event == "published":
        return f"Published by {began.account}." if began.account else "Published."
    return f"Received from {began.peer}." if began.peer else "Received."


def _end(
    records: list[HopRecord],
    began: HopRecord | None,
    ended: HopRecord | None,
    readers: list[Reader],
    newest_boot: int | None,
    held: str,
) -> tuple[FateState, str]:
    """`held`: how it is said that it is held."""
    if ended is not None:
        return _ended(records, began, ended, readers)
    if began is None and all(record.event in REFUSES for record in records):
        return _refused(records)
    if began is None and not any(record.event in _OF_HELD for record in records):
        return "unknown", "What became of it here is not known."
    if not records[0].guarantee and newest_boot is None:
        return (
            "gone",
            "It had no guarantee, and nothing tells of its end: it is held, or was dropped as the daemon"
            f" ended; {_UNRECORDED}.",
        )
    if not records[0].guarantee and newest_boot is not None and newest_boot > records[-1].boot:
        return (
            "gone",
            f"It had no guarantee, and was dropped as the daemon ended, which it has since; {_UNRECORDED}.",
        )
    begins = [record for record in records if record.event in BEGINS]
    home = len(begins) > 1 and any(record.event == "forwarded" and record.final for record in records)
    back = f"It was handed on, and came home from {begins[-1].peer}. " if home else ""
    # what is for one, and is here, is with nobody else: who took it has given it back
    away = "" if records[0].mode == "ONE" else _away(records)
    return "waiting", back + _waiting(records, readers, away, held)


def _refused(records: list[HopRecord]) -> tuple[FateState, str]:
    """Of a message that came and was not taken, as all records say: it may have been here before these."""
    again = [record for record in records if record.event in ("duplicate", "loop") and not record.reason]
    last = again[-1] if again else records[-1]
    came = f"It came{f' from {last.peer}' if last.peer else ''}, and was not taken"
    if again:
        return "unknown", f"{came} again: {_reason(last)}. What became of it here is not known."
    return "refused", f"{came}: {_reason(last)}."


def _ended(
    records: list[HopRecord], began: HopRecord | None, ended: HopRecord, readers: list[Reader]
) -> tuple[FateState, str]:
    after = _after(began, ended)
    committed = [reader.name for reader in readers if reader.committed_us is not None]
    also = f" Committed by {_count(committed)} before." if committed else ""
    match ended.event:
        case "committed":
            return "committed", f"Finished{after}: committed by {_count(committed)}."
        case "delivered":
            everyone = _count([reader.name for reader in readers])
            return "delivered", f"Delivered{after} to {everyone}, without a guarantee."
        case "forwarded":
            state, told = _handed_on(records, began, ended)
            return state, told + also
        case "arrived":
            told = f"{ended.peer} tells that {_sites(ended.destinations)} it, the last that it was for"
            return "forwarded", f"Handed on{after}: {told}.{also}"
        case "expired":
            if ended.reason:
                return "unwanted", f"Ended{after}, as it was {ended.reason}.{also}"
            return "expired", f"Expired{after}: its timeout ended.{also}"
        case "removed":
            return "removed", f"Removed{after}{f': {ended.reason}' if ended.reason else ''}.{also}"
        case "dead":
            return (
                "dead",
                f"Given up{after} and moved to the topic dead.{ended.topic}: {_reason(ended)}.{also}",
            )
        case "dropped":
            if ended.guarantee:
                kept = "`smqpd quarantine` has what there is of it"
                return "dropped", f"Given up{after}: {_reason(ended)}; {kept}.{also}"
            return "dropped", f"Dropped{after}, as it had no guarantee: {_reason(ended)}."
        case _:
            return "unknown", f"The record that ends it says {ended.event!r}, which ends no message."


def _after(began: HopRecord | None, record: HopRecord) -> str:
    if began is None:
        return ""
    after_us = record.time_us - began.time_us
    return f" {duration(after_us)} later" if after_us >= 0 else " (its clock was set back meanwhile)"


def _handed_on(records: list[HopRecord], began: HopRecord | None, ended: HopRecord) -> tuple[FateState, str]:
    """What the answers of peers say, of which the last one has ended a copy: that may be a refusal."""
    answers = [record for record in records if record.event == "forwarded"]
    if ended.mode == "ONE":  # it may have gone to and fro: it is with the last who took it
        answers = _of_last_stay(records, [record for record in answers if record.final])[-1:]
    taken = [record for record in answers if record.outcome in HAD]
    told = _told(records)
    names = _different(record.peer for record in taken)
    denied = [peer for peer in _different(_peers(answers, "denied")) if peer not in names]
    refusals = f"{_names(denied)} would not take it, or {_is(denied)} no peer any more" if denied else ""
    if names:
        logs = f"{'whose log has' if len(names) == 1 else 'whose logs have'} what came of it"
        others = "".join(f" {one}." for one in (told, refusals) if one)
        return "forwarded", f"Handed on{_after(began, taken[-1])} to {_names(names)}, {logs}.{others}"
    if told:
        return "forwarded", f"Handed on: {told}.{f' {refusals}.' if refusals else ''}"
    if unanswered := _different(_peers(answers, "")):
        there = "the log there tells" if len(unanswered) == 1 else "the logs there tell"
        handed = f"Handed on{_after(began, ended)} to {_names(unanswered)}"
        return "forwarded", f"{handed}, without an acknowledgement: only {there} whether it came."
    loops = [peer for peer in _different(_peers(answers, "loop")) if peer not in denied]
    came = f"it had come by way of {_names(loops)}" if loops else ""
    why = "; ".join(one for one in (refusals, came) if one)
    return "denied", f"Ended here{_after(began, ended)}: {why}; and nobody else was still to have it."


def _peers(answers: list[HopRecord], outcome: str) -> list[str]:
    return [record.peer for record in answers if record.outcome == outcome]


def _told(records: list[HopRecord]) -> str:
    """Which sites have it as peers tell, in words; "" for none."""
    tellers = _different(record.peer for record in records if record.event == "arrived")
    parts = []
    for teller in tellers:
        sites = _different(
            site
            for record in records
            if record.event == "arrived" and record.peer == teller
            for site in record.destinations
        )
        if sites:
            parts.append(f"{teller} tells that {_names(sites)} {_has(sites)} it")
    return "; ".join(parts)


def _without_it(records: list[HopRecord], readers: list[Reader]) -> str:
    told = _waiting(records, readers, _away(records), "held").removeprefix("held: ")
    return f"As far as the log goes: {told}"


def _away(records: list[HopRecord]) -> str:
    """Who else has taken it, in words; "" for nobody."""
    taken = _different(
        record.peer for record in records if record.event == "forwarded" and record.outcome in HAD
    )
    parts = [f"{_names(taken)} {_has(taken)} taken it" if taken else "", _told(records)]
    return "; ".join(part for part in parts if part)


def _waiting(records: list[HopRecord], readers: list[Reader], away: str, held: str) -> str:
    """`away`: who else has taken it; `held`: how it is said that it is held."""
    committed = [reader.name for reader in readers if reader.committed_us is not None]
    done = f" Committed by {_count(committed)} so far." if committed else ""
    done += f" {away}." if away else ""
    last = next(
        (record for record in reversed(records) if record.event in ("delivered", "returned", "committed")),
        None,
    )
    if last is None:
        published = next((record for record in records if record.event == "published"), None)
        delay = f"; it was {published.reason}" if published is not None and published.reason else ""
        if away:
            return f"{held} for others, or for those who come: {away}."
        return f"{held}: nobody is known to have it yet{delay}."
    if last.event == "returned":
        return f"{held}: it came back from {last.subscription} ({_reason(last)}).{done}"
    last_of = {(record.subscription, record.pattern): record for record in records if record.subscription}
    out = [
        reader.name for reader in readers if last_of[reader.subscription, reader.pattern].event == "delivered"
    ]
    if out:
        return f"{held}: delivered to {_count(out)} and not committed yet.{done}"
    return f"{held} for others, or for those who come.{done}"


def _reason(record: HopRecord) -> str:
    return record.reason or {"duplicate": "it had been here before", "loop": "it had come from here"}.get(
        record.event, "no reason was recorded"
    )


def _count(subscriptions: list[str]) -> str:
    if len(subscriptions) == 1:
        return subscriptions[0]
    return f"{len(subscriptions)} subscriptions"


def _different(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _names(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _sites(names: tuple[str, ...]) -> str:
    return f"{names[0]} has" if len(names) == 1 else f"{len(names)} sites have"
