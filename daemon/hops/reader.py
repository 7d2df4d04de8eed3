"""Reads hop logs, also while they are written, and whatever state a crash or a stranger left them in.

What cannot be read is counted and passed over: a torn last line, binary rubbish, a line of gigabytes,
records of a later format. Reading holds at most one block and one line in memory.
"""

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from daemon.hops import closing
from daemon.hops.coverage import FileCheck, FileDamage, Gap, Stretch, gaps, mark, stretches
from daemon.hops.files import LogFile, list_files, read_line
from routing.hop_words import BEGINS, LINE_BYTES_MAX
from routing.hops import FORMAT_VERSION, Closing, HopRecord
from routing.names import parse_smuid
from routing.numbers import NUMBER_MAX

BLOCK_BYTES: Final = 1_048_576

CLOCK_DOUBT_S: Final = 86_400.0
"""How far the birth time in a Smuid may be ahead of this site's clock: it is by the clock of another."""

LEAP_S: Final = 3_600.0
"""Between the times of two files that follow each other; less is a daemon that had little to write. It takes
two dozen smaller leaps to come to `CLOCK_DOUBT_S`."""


class Skipped(msgspec.Struct):
    """What was passed over.

    Attributes:
        torn: last lines that are not complete; usual in a file that is being written.
        bad: lines that are no record of this format.
        too_long: lines above `LINE_BYTES_MAX`.
        vanished: files that were deleted between listing and reading.
    """

    torn: int = 0
    bad: int = 0
    too_long: int = 0
    vanished: int = 0


class HopLogReader:
    """The records of a directory, oldest file first.

    Attributes:
        unread: what was passed over so far.
        damage: what `find` and `check` have found to be damaged.
        gaps: the records that they have found to be missing, in the order of their numbers.
        unreadable: the numbers of what names the message that `find` was asked for and is no record of this
            format, as one of a later version; `NUMBER_MAX` where it has none that can be read.
        open_from: the first record of the file that `find` has found open; None where all are closed.
        is_cut_off: whether that one ends in the middle of a line.
    """

    def __init__(self, directory: Path) -> None:
        self.unread = Skipped()
        self.damage: list[FileDamage] = []
        self.gaps: list[Gap] = []
        self.unreadable: list[int] = []
        self.open_from: int | None = None
        self.is_cut_off = False
        self._directory = directory
        self._decoder = msgspec.json.Decoder(HopRecord)

    def files(self) -> list[LogFile]:
        """The files as they are now; see `list_files`."""
        return list_files(self._directory)

    def records(self) -> Iterator[HopRecord]:
        """Every record that can be read, in the order of the files. Raises OSError."""
        for file in self.files():
            for block in self._blocks(file):
                for line in block[:-1].split(b"\n"):
                    if record := self._decode(line):
                        yield record

    def find(self, smuid: str) -> list[HopRecord]:
        """The records of one message, in their order. Raises HeaderRefusal for what is no Smuid, and OSError.

        Closed files that were last written before the message was born are opened only where its beginning is
        in no other, and the clock may have been behind when they were written. No line is decoded that does
        not hold the Smuid, but where a file is not whole.
        """
        born_s = parse_smuid(smuid).birth_ms / 1000
        files = self.files()
        self.open_from = files[-1].first if files and files[-1].is_open else None
        # what follows a file that may hold it was written later, whatever the clock said then
        recent = (at for at, file in enumerate(files) if file.written_s >= born_s - CLOCK_DOUBT_S)
        first = next(recent, len(files))
        found: list[HopRecord] = []
        held: dict[int, list[Stretch]] = {}
        # what an open file holds its name does not tell, of one that could not be closed neither
        needed = dict.fromkeys(at for at, file in enumerate(files) if at >= first or file.is_open)
        for at in itertools.chain(needed, _perhaps_later(files, first, born_s)):
            if at not in needed and any(record.event in BEGINS for record in found):
                break
            if at not in held:
                more, held[at] = self._find_in(files[at], smuid)
                found += more
        for at, file in enumerate(files[:first]):
            if at not in held and file.last is not None:
                held[at] = [Stretch(file.first, file.last, None, None)]
        self.gaps = gaps(self._still_kept(files), [stretch for at in sorted(held) for stretch in held[at]])
        return sorted(found, key=lambda record: (record.record, record.time_us))

    def _find_in(self, file: LogFile, smuid: str) -> tuple[list[HopRecord], list[Stretch]]:
        """The records of one message in a file, and what the file holds."""
        needle = msgspec.json.encode(smuid)
        found = []
        check = FileCheck(file, self._closing(file))
        torn = self.unread.torn
        for block in self._blocks(file):
            check.take(block)
            for line in _lines_with(needle, block):
                record = self._decode(line)
                if record is None:
                    placed = mark(line)
                    self.unreadable.append(placed.record if placed is not None else NUMBER_MAX)
                elif record.smuid == smuid:
                    found.append(record)
        if file.is_open and file.first == self.open_from:
            self.is_cut_off = self.unread.torn > torn
        return found, self._held(file, check)

    def check(self) -> tuple[int, int] | None:
        """Look for gaps and damage in all files; the first and the last number, None in an empty log.

        Raises OSError.
        """
        held: list[Stretch] = []
        files = self.files()
        for file in files:
            check = FileCheck(file, self._closing(file))
            for block in self._blocks(file):
                check.take(block)
            held += self._held(file, check)
        self.gaps = gaps(self._still_kept(files), held)
        return (held[0].first, max(one.last for one in held)) if held else None

    def _still_kept(self, files: list[LogFile]) -> list[LogFile]:
        """`files` without the oldest, where these have been deleted since: nothing of them is missing."""
        kept = {file.first for file in self.files()}
        return list(itertools.dropwhile(lambda file: file.first not in kept, files))

    def _held(self, file: LogFile, check: FileCheck) -> list[Stretch]:
        """What a file holds that has been read to its end."""
        whole = check.whole()
        if whole is not None:
            return [whole]
        if check.damage is not None:
            self.damage.append(check.damage)
        unread, self.unread = self.unread, Skipped()  # counted already, as far as it matters
        held = list(stretches(file, self._blocks(file), self.damage))
        found, self.unread = self.unread, unread
        if found.too_long:
            self.damage.append(FileDamage(file.path.name, "a line in it is too long to be a record"))
        if found.torn and not file.is_open:
            self.damage.append(FileDamage(file.path.name, "it ends in the middle of a line"))
        return held

    def _closing(self, file: LogFile) -> tuple[Closing, int] | None:
        try:
            return None if file.is_open else closing.find(file.path)
        except FileNotFoundError:
            return None

    def first(self) -> HopRecord | None:
        """The oldest record that is left; None in an empty log. Raises OSError."""
        return next(self.records(), None)

    def last(self) -> HopRecord | None:
        """The newest record; None in an empty log. Raises OSError."""
        for file in reversed(self.files()):
            newest = None
            for block in self._blocks(file):
                for line in reversed(block[:-1].split(b"\n")):
                    if record := self._decode(line):
                        newest = record
                        break
            if newest:
                return newest
        return None

    def _decode(self, line: bytes) -> HopRecord | None:
        if len(line) > LINE_BYTES_MAX:
            self.unread.too_long += 1
            return None
        record = read_line(self._decoder, line)
        if record is None or record.version != FORMAT_VERSION:
            self.unread.bad += record is not None or closing.decode(line) is None
            return None
        return record

    def _blocks(self, file: LogFile) -> Iterator[bytes]:
        """The complete lines of a file, many at a time, each with its newline."""
        opened = self._open(file)
        if opened is None:
            self.unread.vanished += 1
            return
        with opened:
            rest, skipping = b"", False
            while block := opened.read(BLOCK_BYTES):
                if skipping:
                    _, newline, block = block.partition(b"\n")
                    skipping = not newline
                    if skipping:
                        continue
                end = block.rfind(b"\n") + 1
                if end:
                    yield rest + block[:end]
                    rest = block[end:]
                else:
                    rest += block
                if len(rest) > LINE_BYTES_MAX:
                    self.unread.too_long += 1
                    rest, skipping = b"", True
            self.unread.torn += bool(rest)

    def _open(self, file: LogFile) -> BinaryIO | None:
        """Open a file, also if it was closed and so renamed since it was listed; None if it is gone."""
        try:
            return file.path.open("rb")
        except FileNotFoundError:
            renamed = (other for other in self.files() if other.first == file.first and not other.is_open)
            closed = next(renamed, None) if file.is_open else None
        try:
            return closed.path.open("rb") if closed else None
        except FileNotFoundError:
            return None


def _perhaps_later(files: list[LogFile], first: int, born_s: float) -> Iterator[int]:
    """Which files before `first` may be of the time of birth or later, the newest first.

    Times leap from one file to the next where the clock was set, or the daemon was down: the clock may have
    been behind by as much in all files before. Where no file is as late as the birth, it may be behind still.
    """
    behind_s = 0.0 if first < len(files) else math.inf
    for at in reversed(range(first)):
        if at + 1 < len(files):
            leap_s = files[at + 1].written_s - files[at].written_s
            behind_s += leap_s if leap_s > LEAP_S else 0.0
        if files[at].written_s + behind_s >= born_s - CLOCK_DOUBT_S:
            yield at


def _lines_with(needle: bytes, block: bytes) -> Iterator[bytes]:
    position = block.find(needle)
    while position >= 0:
        start = block.rfind(b"\n", 0, position) + 1
        end = block.find(b"\n", position)
        yield block[start:end]
        position = block.find(needle, end)
