"""Where every copy of every message went, from the hop logs of all sites."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from daemon.hops.reader import HopLogReader
from routing.hops import HopRecord

BEGINS = ("published", "received")


class CopyTally(msgspec.Struct):
    """What the logs say.

    Attributes:
        copies: that began.
        ends: of copies, by event.
        held: copies without an end.
        wrong: what no log may say, in words.
        commits: by subscription and Smuid.
        receipts: sent, by Smuid.
        events: records of each kind.
    """

    copies: int = 0
    ends: Counter[str] = msgspec.field(default_factory=Counter)
    held: list[str] = []
    wrong: list[str] = []
    commits: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    receipts: defaultdict[str, list[str]] = msgspec.field(default_factory=lambda: defaultdict(list))
    events: Counter[str] = msgspec.field(default_factory=Counter)


def account(state_directories: Iterable[Path]) -> CopyTally:
    """Read the logs of sites, which must be closed: each copy has exactly one end.

    One that has ended and comes again, for other sites, is a copy once more, for peers alone.
    """
    found = CopyTally()
    for directory in state_directories:
        _read(directory, found)
    return found


def _read(directory: Path, found: CopyTally) -> None:
    reader = HopLogReader(directory / "hops")
    records = list(reader.records())
    if reader.unread != type(reader.unread)():
        found.wrong.append(f"{directory}: {reader.unread}")
    numbers = [record.record for record in records]
    if numbers != list(range(1, len(numbers) + 1)):
        found.wrong.append(f"{directory}: the records have gaps")
    open_copies: Counter[str] = Counter()
    for record in records:
        _take(record, open_copies, found)
    for smuid, count in open_copies.items():
        if count:
            found.held.append(f"{smuid} at {directory.parent.name}")


def _take(record: HopRecord, open_copies: Counter[str], found: CopyTally) -> None:
    found.events[record.event] += 1
    where = f"{record.smuid} at {record.server}"
    goes_on_anew = record.event == "depth" and not open_copies[record.smuid]
    if record.event in BEGINS or goes_on_anew:
        found.copies += 1
        open_copies[record.smuid] += 1
        if open_copies[record.smuid] > 1:
            found.wrong.append(f"{where}: two copies at a time")
    if record.event == "committed":
        found.commits[record.subscription, record.smuid] += 1
    if record.event == "receipt":
        found.receipts[record.smuid].append(record.receipt)
    if record.final:
        found.ends[record.event] += 1
        open_copies[record.smuid] -= 1
        if open_copies[record.smuid] < 0:
            found.wrong.append(f"{where}: a second end, {record.event}")
