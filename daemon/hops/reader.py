"""Reads hop logs, also while they are written, and whatever state a crash or a stranger left them in.

What cannot be read is counted and passed over: a torn last line, binary rubbish, a line of gigabytes,
records of a later format. Reading holds at most one block and one line in memory.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from daemon.hops import closing
from daemon.hops.coverage import FileCheck, FileDamage, Gap, Stretch, gaps, stretches
from daemon.hops.files import LogFile, list_files
from routing.hops import FORMAT_VERSION, Closing, HopRecord
from routing.names import parse_smuid

BLOCK_BYTES: Final = 1_048_576

LINE_BYTES_MAX: Final = 262_144
"""A frame's headers are bounded far below this (65,536 bytes by default), and so is a record of them."""

CLOCK_DOUBT_S: Final = 86_400.0
"""How far the birth time in a Smuid may be ahead of this site's clock: it is by the clock of another."""


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
    """

    def __init__(self, directory: Path) -> None:
        self.unread = Skipped()
        self.damage: list[FileDamage] = []
        self.gaps: list[Gap] = []
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

        Files that were last written before the message was born are not opened, and no line is decoded
        that does not hold the Smuid, but where a file is not whole.
        """
        needle = msgspec.json.encode(smuid)
        born_s = parse_smuid(smuid).birth_ms / 1000
        found = []
        held: list[Stretch] = []
        files = self.files()
        for file in files:
            if file.written_s < born_s - CLOCK_DOUBT_S:
                if file.last is not None:
                    held.append(Stretch(file.first, file.last, None, None))
                continue
            check = FileCheck(file, self._closing(file))
            for block in self._blocks(file):
                check.take(block)
                for line in _lines_with(needle, block):
                    record = self._decode(line)
                    if record and record.smuid == smuid:
                        found.append(record)
            held += self._held(file, check)
        self.gaps = gaps(files, held)
        return sorted(found, key=lambda record: (record.record, record.time_us))

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
        self.gaps = gaps(files, held)
        return (held[0].first, max(one.last for one in held)) if held else None

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
        try:
            record = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            record = None
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


def _lines_with(needle: bytes, block: bytes) -> Iterator[bytes]:
    position = block.find(needle)
    while position >= 0:
        start = block.rfind(b"\n", 0, position) + 1
        end = block.find(b"\n", position)
        yield block[start:end]
        position = block.find(needle, end)
