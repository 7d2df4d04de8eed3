"""What one site's hop log has to say about one message: its records, what they mean, and what is missing."""

import datetime
from pathlib import Path

import msgspec

from daemon.hops.fate import Fate, judge
from daemon.hops.reader import HopLogReader, Unread
from routing.hops import HopRecord
from routing.names import parse_smuid
from routing.numbers import TIME_US_MAX


class Findings(msgspec.Struct, kw_only=True):
    """What a log says of a message.

    Attributes:
        state: see `daemon.hops.fate.State`; `unknown` where the log has no record of the message.
        verdict: the same in words.
        covered: whether the log reaches back to the birth of the message.
        unread: what of the log could not be read, and might have told more.
        left_out: records that are not in `records`, see `shortened`.
    """

    smuid: str
    state: str
    verdict: str
    covered: bool
    fate: Fate | None
    records: list[HopRecord]
    unread: Unread
    left_out: int = 0


def examine(directory: Path, smuid: str) -> Findings:
    """Read the hop log in `directory` for one message. Raises HeaderRefusal (no Smuid) and OSError."""
    reader = HopLogReader(directory)
    records = reader.find(smuid)
    ends = HopLogReader(directory)
    first, last = ends.first(), ends.last()
    born_us = parse_smuid(smuid).birth_ms * 1000
    covered = first is not None and first.time_us <= born_us
    if records and last is not None:
        fate = judge(records, last.boot)
        state, verdict = str(fate.state), fate.verdict
    else:
        fate, state = None, "unknown"
        verdict = _unknown(directory, born_us, first, last)
    return Findings(
        smuid=smuid,
        state=state,
        verdict=verdict,
        covered=covered,
        fate=fate,
        records=records,
        unread=reader.unread,
    )


def shortened(findings: Findings, records_max: int) -> Findings:
    """The same with so many records and subscriptions at most: those of links, then the first ones."""
    kept = findings.records
    if len(kept) > records_max:
        by_weight = sorted(range(len(kept)), key=lambda index: (bool(kept[index].subscription), index))
        kept = [kept[index] for index in sorted(by_weight[:records_max])]
    fate = findings.fate
    if fate is not None:
        fate = msgspec.structs.replace(fate, readers=fate.readers[:records_max])
    return msgspec.structs.replace(
        findings, records=kept, fate=fate, left_out=len(findings.records) - len(kept)
    )


def moment(us: int) -> str:
    """A time of a record for people, UTC to the microsecond."""
    if not 0 <= us <= TIME_US_MAX:
        return f"{us} us"
    time = datetime.datetime.fromtimestamp(us // 1_000_000, datetime.UTC)
    return f"{time:%Y-%m-%d %H:%M:%S}.{us % 1_000_000:06d}"


def _unknown(directory: Path, born_us: int, first: HopRecord | None, last: HopRecord | None) -> str:
    if first is None or last is None:
        return f"No record of it: the hop log in {directory} is empty."
    if born_us < first.time_us:
        return (
            f"No record of it, but it was born {moment(born_us)} and the log only goes back to"
            f" {moment(first.time_us)}: what happened before is no longer kept."
        )
    if born_us > last.time_us:
        return (
            f"No record of it: it was born {moment(born_us)}, after the last record of the log,"
            f" {moment(last.time_us)}."
        )
    return f"No record of it, though the log covers its birth, {moment(born_us)}: this site never had it."
