"""Which record numbers a log has, and which it should have: what decides between *never* and *not known*.

Numbers rise by one from record to record over all files and boots; one that is not there is a record that
was lost: a full disk, a power cut, a file that was deleted. A file whose checksum is right is believed in
what its last line claims, which costs a tenth of reading its lines; else these are looked at, one by one.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from daemon.hops import closing
from daemon.hops.files import LogFile, read_line
from routing.hops import Closing
from routing.numbers import Number, TimeUs

PLACES_MAX: Final = 20
"""Places of damage that are named; more are counted with the last."""


class Mark(msgspec.Struct):
    """Of a record, what places it."""

    boot: Number
    record: Number
    time_us: TimeUs
    previous: Number = 0


class Stretch(msgspec.Struct, frozen=True):
    """Records that follow each other without a gap; None where a file was not opened."""

    first: int
    last: int
    first_mark: Mark | None
    last_mark: Mark | None


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Records that are missing.

    Attributes:
        first, last: their numbers.
        after_us, before_us: times of the records on both sides, by the clock of the site; None where there
            is none, or it was not read.
        boot: the last one of which they can be; None where the log does not go on, or that was not read.
    """

    first: int
    last: int
    after_us: int | None
    before_us: int | None
    boot: int | None

    @property
    def count(self) -> int:
        """How many are missing."""
        return self.last - self.first + 1


class FileDamage(msgspec.Struct, frozen=True):
    """A file that is not what it was when it was closed, or that holds what is no record.

    Attributes:
        first, last: the records that may be affected; `first` is greater where they are missing, and told of
            as a gap.
    """

    file: str
    what: str
    first: int = 1
    last: int = 0


class FileCheck:
    """Compares what a file holds with what its name and its closing line claim, block by block."""

    def __init__(self, file: LogFile, claim: tuple[Closing, int] | None) -> None:
        """`claim`: the closing line and where it stands, as `closing.find` gives them, if there is one."""
        self._file = file
        self._closing = claim[0] if claim is not None else None
        self._left = claim[1] if claim is not None else 0
        self._crc32 = 0
        self._first = self._last = b""

    def take(self, block: bytes) -> None:
        """Take the next complete lines of the file."""
        claimed = block if len(block) <= self._left else block[: self._left]
        if not claimed:
            return
        self._left -= len(claimed)
        self._crc32 = zlib.crc32(claimed, self._crc32)
        if not self._first:
            self._first = claimed[: claimed.find(b"\n") + 1]
        self._last = claimed[claimed.rfind(b"\n", 0, -1) + 1 :]

    @property
    def damage(self) -> FileDamage | None:
        """What the checksum says; None where it is right, or where there is none."""
        if self._closing is None or (not self._left and self._crc32 == self._closing.crc32):
            return None
        what = "its checksum is wrong: it has been changed since it was closed"
        return FileDamage(self._file.path.name, what, self._file.first, self._file.last or 0)

    def whole(self) -> Stretch | None:
        """All of the file, where nothing is missing in it nor damaged, and its last line says so."""
        file, line = self._file, self._closing
        if line is None or self.damage is not None or (line.first, line.last) != (file.first, file.last):
            return None
        if line.records != line.last - line.first + 1:
            return None
        return Stretch(line.first, line.last, mark(self._first), mark(self._last))


_decoder: Final = msgspec.json.Decoder(Mark)


def mark(line: bytes) -> Mark | None:
    """What places a record; None for a line that is none."""
    return read_line(_decoder, line)


def stretches(file: LogFile, blocks: Iterable[bytes], damage: list[FileDamage]) -> Iterator[Stretch]:
    """What a file holds, line by line; adds to `damage` where a line is no record."""
    begun: Mark | None = None
    newest: Mark | None = None
    position = 0
    for block in blocks:
        for line in block[:-1].split(b"\n"):
            found = mark(line)
            if found is None:
                if closing.decode(line) is None:
                    _note(damage, file, position)
            elif newest is None or begun is None:
                begun = newest = found
            elif found.record == newest.record + 1:
                newest = found
            elif found.record > newest.record:
                yield Stretch(begun.record, newest.record, begun, newest)
                begun = newest = found
            position += len(line) + 1
    if begun is not None and newest is not None:
        yield Stretch(begun.record, newest.record, begun, newest)


def _note(damage: list[FileDamage], file: LogFile, position: int) -> None:
    if len(damage) < PLACES_MAX:
        damage.append(FileDamage(file.path.name, f"the line at byte {position} is no record"))


def gaps(files: list[LogFile], held: Iterable[Stretch]) -> list[Gap]:
    """What is missing of what files claim, and between them; they hold `held`, in the order of records."""
    if not files:
        return []
    first, last = files[0].first, max(file.last or 0 for file in files)
    nothing, end = Stretch(first - 1, first - 1, None, None), Stretch(last + 1, last + 1, None, None)
    return _between([nothing, *held, end])


def _between(found: Iterable[Stretch]) -> list[Gap]:
    out = []
    before: Stretch | None = None
    for after in found:
        if before is not None and after.first > before.last + 1:
            out.append(_gap(before.last + 1, after.first - 1, before.last_mark, after.first_mark))
        if before is None or after.last > before.last:
            before = after
    return out


def _gap(first: int, last: int, before: Mark | None, after: Mark | None) -> Gap:
    return Gap(
        first=first,
        last=last,
        after_us=before.time_us if before is not None else None,
        before_us=after.time_us if after is not None else None,
        boot=after.boot - (after.previous >= last) if after is not None else None,
    )
