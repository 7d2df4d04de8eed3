"""What one site's hop log has to say about one message: its records, what they mean, and what is missing."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from daemon.hops.coverage import FileDamage, Gap
from daemon.hops.reader import CLOCK_DOUBT_S, HopLogReader, Skipped
from routing.fate import Fate, end_of, judge
from routing.hop_words import BEGINS
from routing.hops import HopRecord
from routing.names import parse_smuid
from routing.numbers import NUMBER_MAX, TIME_US_MAX

_NOT_CLOSED: Final = (
    "But the log was not closed when its daemon ended: the last of it may never have come true, which the"
    " next start takes back."
)
"""Records are written before the store commits what they tell of."""


class Awaited(msgspec.Struct, frozen=True):
    """A peer that is to have a copy, and has not answered for it: the log has a hop only once that is so.

    Attributes:
        is_up: whether there is a link with it.
        may_have: whether it may have the copy already.
        attempt: of the transfer that went last; 0 while none has, as far as is known since the last start.
        sent_us: when that went over this link; 0 where it went over an earlier one, if at all.
    """

    peer: str
    is_up: bool
    may_have: bool = False
    attempt: int = 0
    sent_us: int = 0


class Findings(msgspec.Struct, kw_only=True):
    """What a log says of a message.

    Attributes:
        state: see `routing.fate.FateState`; `unknown` where the log has no record of the message.
        verdict: the same in words.
        covered: whether the log reaches back to the birth of the message, whatever the clock showed then,
            and nothing is missing in it that might tell of the message.
        unread: what of the log could not be read, and might have told more.
        left_out: records that are not in `records`, see `shortened`.
        gaps: records that are missing, and might tell more of the message.
        damage: files that have been changed since they were closed, and might.
        awaited: what is not in the log, and only a site that runs can tell; see `with_awaited`.
    """

    smuid: str
    state: str
    verdict: str
    covered: bool
    fate: Fate | None
    records: list[HopRecord]
    unread: Skipped
    left_out: int = 0
    gaps: list[Gap] = []
    damage: list[FileDamage] = []
    awaited: list[Awaited] = []


def examine(
    directory: Path,
    smuid: str,
    *,
    has_ended: bool = False,
    is_behind: Callable[[HopRecord], bool] = lambda newest: False,
) -> Findings:
    """Read the hop log in `directory` for one message.

    Args:
        has_ended: whether no daemon runs that writes it.
        is_behind: whether one may run that cannot write it, as its disk is full; this is its newest record.

    Raises HeaderRefusal (no Smuid) and OSError.
    """
    reader = HopLogReader(directory)
    records = reader.find(smuid)
    ends = HopLogReader(directory)
    first, last = ends.first(), ends.last()
    gaps = [gap for gap in reader.gaps if _matters(gap.last, records) and _may_be_of(gap, smuid, last)]
    damage = [one for one in reader.damage if one.last and _matters(one.last, records)]
    unreadable = sum(_matters(number, records) for number in reader.unreadable)
    # a start cuts off what was not written to its end; nothing tells what else was not
    is_cut_off = has_ended and reader.is_cut_off and _matters(NUMBER_MAX, records)
    stops_us = None
    if last is not None and is_behind(last) and _matters(NUMBER_MAX, records):
        stops_us = last.time_us
    doubt = _doubt(gaps, damage, unreadable, stops_us=stops_us, is_cut_off=is_cut_off)
    covered = first is not None and not _begins_after(first, smuid) and not doubt
    if records and last is not None:
        fate = judge(records, last.boot + has_ended, doubt)
        state, verdict = str(fate.state), fate.verdict
        if has_ended and reader.open_from is not None and records[-1].record >= reader.open_from:
            verdict += f" {_NOT_CLOSED}"
    else:
        fate, state = None, "unknown"
        is_empty = not doubt and ends.unread == Skipped()
        verdict = _unknown(directory, smuid, first, last, doubt, is_empty=is_empty)
    return Findings(
        smuid=smuid,
        state=state,
        verdict=verdict,
        covered=covered,
        fate=fate,
        records=records,
        unread=reader.unread,
        gaps=gaps,
        damage=damage,
    )


def with_awaited(findings: Findings, awaited: list[Awaited]) -> Findings:
    """What a log says, and of whom an answer is awaited: asked after it was read.

    Asked before, a peer might be said to be awaited whose answer the log has.
    """
    verdict = " ".join([findings.verdict, *map(_awaited_words, awaited)])
    return msgspec.structs.replace(findings, verdict=verdict, awaited=awaited)


def _awaited_words(one: Awaited) -> str:
    if one.sent_us:
        sent = f"Sent to {one.peer} at {moment(one.sent_us)}, attempt {one.attempt}"
        return f"{sent}: its answer is awaited."
    when = "when its turn comes on the link" if one.is_up else "when there is a link with it"
    if one.may_have and one.attempt:
        has_it = f"Perhaps {one.peer} has it, from attempt {one.attempt} that it has not answered"
        return f"{has_it}: it is sent again {when}."
    unknown = "; whether it was before the last start of this site is not known" if one.may_have else ""
    return f"To be sent to {one.peer} {when}{unknown}."


def _matters(last: int, records: list[HopRecord]) -> bool:
    """Whether records that are lost, up to this number, might tell what the message's own do not."""
    if not records:
        return True
    if end_of(records) is not None:
        return False
    has_beginning = any(record.event in BEGINS for record in records)
    return not has_beginning or last > records[0].record


def _may_be_of(gap: Gap, smuid: str, newest: HopRecord | None) -> bool:
    """Whether a record of the message may be in the gap: of one of this site its boot tells.

    That of another site tells its time alone, and the clock may have been wrong at the gap.
    """
    parts = parse_smuid(smuid)
    is_own = newest is not None and parts.server == newest.server
    return not is_own or gap.boot is None or gap.boot >= parts.boot


def _begins_after(first: HopRecord, smuid: str) -> str:
    """Why a log that begins with `first` may not reach back to the birth of the message; "" if it does.

    Once older records are no longer kept, the clock may have been wrong when `first` was written: it counts
    only as far as clocks do not differ. Of a message of this site the boot tells, which no clock does.
    """
    parts = parse_smuid(smuid)
    born_us = parts.birth_ms * 1000
    goes_back = f"it was born {moment(born_us)} and the log only goes back to {moment(first.time_us)}"
    if born_us < first.time_us:
        return goes_back
    if first.record <= 1 or (parts.server == first.server and parts.boot > first.boot):
        return ""
    if born_us < first.time_us + CLOCK_DOUBT_S * 1_000_000:
        return f"{goes_back} by the clock of this site, which may have been behind"
    return ""


def _doubt(
    gaps: list[Gap], damage: list[FileDamage], unreadable: int, *, stops_us: int | None, is_cut_off: bool
) -> str:
    """What is missing, in words; "" for nothing.

    `unreadable`: lines that name the message; `stops_us`: when the daemon wrote last, where it may go on
    without; `is_cut_off`: it has ended in the middle of a line.
    """
    parts = []
    if unreadable:
        parts.append(
            f"{unreadable} record{'s' if unreadable > 1 else ''} that name{'' if unreadable > 1 else 's'} it"
            " cannot be read, as of another version of smqpd, or damaged"
        )
    if gaps:
        count, first, last = sum(gap.count for gap in gaps), gaps[0], gaps[-1]
        many = f", in {len(gaps)} gaps" if len(gaps) > 1 else ""
        numbers = f"{first.first}" if count == 1 else f"{first.first} to {last.last}"
        parts.append(
            f"{count} record{'s' if count > 1 else ''} of this log {'are' if count > 1 else 'is'} missing"
            f" ({numbers}{many}{written(first.after_us, last.before_us)})"
        )
    parts += [f"{one.file} is damaged ({one.what})" for one in damage[:1]]
    if len(damage) > 1:
        parts.append(f"so are {len(damage) - 1} other files")
    if stops_us is not None:
        parts.append(
            f"nothing was written to its log after {moment(stops_us)}, and the site may have gone on"
        )
    if is_cut_off:
        parts.append("the log ends in the middle of a record, and what it lacks only the next start tells")
    return ", and ".join(parts)


def shortened(findings: Findings, records_max: int) -> Findings:
    """The same with so many records, gaps and subscriptions at most: those of links, then the first ones."""
    kept = findings.records
    if len(kept) > records_max:
        by_weight = sorted(range(len(kept)), key=lambda index: (bool(kept[index].subscription), index))
        kept = [kept[index] for index in sorted(by_weight[:records_max])]
    fate = findings.fate
    if fate is not None:
        fate = msgspec.structs.replace(fate, readers=fate.readers[:records_max])
    return msgspec.structs.replace(
        findings,
        records=kept,
        fate=fate,
        left_out=len(findings.records) - len(kept),
        gaps=findings.gaps[:records_max],
        damage=findings.damage[:records_max],
    )


def moment(us: int) -> str:
    """A time of a record for people, UTC to the microsecond."""
    if not 0 <= us <= TIME_US_MAX:
        return f"{us} us"
    time = datetime.datetime.fromtimestamp(us // 1_000_000, datetime.UTC)
    return f"{time:%Y-%m-%d %H:%M:%S}.{us % 1_000_000:06d}"


def written(after_us: int | None, before_us: int | None) -> str:
    """When a gap was written, in words after its numbers; "" where that is not known."""
    after = f" after {moment(after_us)}" if after_us is not None else ""
    before = f" before {moment(before_us)}" if before_us is not None else ""
    return f", written{' and'.join(part for part in (after, before) if part)}" if after or before else ""


def _unknown(
    directory: Path,
    smuid: str,
    first: HopRecord | None,
    last: HopRecord | None,
    doubt: str,
    *,
    is_empty: bool,
) -> str:
    if first is None or last is None:
        nothing = f"No record of it: the hop log in {directory}"
        if is_empty:
            return f"{nothing} is empty."
        return f"{nothing} has none that can be read{f': {doubt}' if doubt else ''}."
    if after := _begins_after(first, smuid):
        return f"No record of it, but {after}: what happened before is no longer kept."
    if doubt:
        return f"No record of it, but that does not say that this site never had it: {doubt}."
    born_us = parse_smuid(smuid).birth_ms * 1000
    if born_us > last.time_us:
        return (
            f"No record of it: it was born {moment(born_us)}, after the last record of the log,"
            f" {moment(last.time_us)}."
        )
    return f"No record of it, though the log covers its birth, {moment(born_us)}: this site never had it."
