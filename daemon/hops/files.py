"""What the files of a hop log are called, which of them a directory holds, and what a line of one says.

A file's name says what it covers, so that a reader knows from a listing which record numbers are
there and which are missing. Names hold no `:` (paths of Hadoop do not allow it): a server's
`host:port` is written `host_port`.
"""

import os
import re
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from routing.numbers import NUMBER_MAX

RECORD_MAX: Final = NUMBER_MAX // 2
"""No site has written so many: a name with more is none of a log, which would go on from there."""

LISTINGS_MAX: Final = 10
"""A site closes a file about once a minute, so the second one is mostly the last."""

_OPEN = re.compile(r"open-(\d{1,19})\.jsonl")
_CLOSED = re.compile(r"hops-.+-(\d{1,19})-(\d{1,19})-(\d{1,19})\.jsonl")
_UNFIT_FOR_A_NAME = re.compile(r"[^A-Za-z0-9.-]")


_T = TypeVar("_T")


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file as a listing found it.

    Attributes:
        first: number of its first record.
        last: number of its last record; None while it is open.
        boot: None while it is open.
        size_bytes: when it was listed.
        written_s: when it was last written, by the file system's clock, seconds since 1970.
    """

    path: Path
    first: int
    last: int | None
    boot: int | None
    size_bytes: int
    written_s: float

    @property
    def is_open(self) -> bool:
        """Whether it is being written, or was when its daemon was killed."""
        return self.last is None


def read_line(decoder: msgspec.json.Decoder[_T], line: bytes) -> _T | None:
    """What a line of a file says; None where the decoder can make nothing of it, as of one that is torn."""
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def open_name(first: int) -> str:
    """The name of a file that is being written."""
    return f"open-{first}.jsonl"


def closed_name(server: str, boot: int, first: int, last: int) -> str:
    """The name of a file that is complete."""
    return f"hops-{_UNFIT_FOR_A_NAME.sub('_', server)}-{boot}-{first}-{last}.jsonl"


def list_files(directory: Path) -> list[LogFile]:
    """The files of a hop log in the order of their records; other files are passed over.

    A directory that does not exist holds none. A listing in which a file may have been renamed, made or
    deleted meanwhile is made again, a few times: it would lack what the log has.
    """
    found: list[LogFile] = []
    for _ in range(LISTINGS_MAX):
        found, names = _listed(directory)
        if names == {file.path.name for file in found}:
            break
    return sorted(found, key=lambda file: (file.first, file.is_open))


def _listed(directory: Path) -> tuple[list[LogFile], set[str]]:
    """The files as they were found, and then their names once more."""
    try:
        with os.scandir(directory) as entries:
            found = [file for entry in list(entries) if (file := _log_file(entry)) is not None]
        with os.scandir(directory) as entries:
            names = {entry.name for entry in entries if _is_of_a_log(entry)}
    except FileNotFoundError:
        return [], set()
    return found, names


def _log_file(entry: "os.DirEntry[str]") -> LogFile | None:
    """What a directory has there; None for what is no file of a log, or not there any more."""
    if not _is_of_a_log(entry):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    numbers = _numbers(entry.name)
    boot, first, last = numbers if len(numbers) > 1 else (None, numbers[0], None)
    return LogFile(
        path=Path(entry.path),
        first=first,
        last=last,
        boot=boot,
        size_bytes=status.st_size,
        written_s=status.st_mtime,
    )


def _is_of_a_log(entry: "os.DirEntry[str]") -> bool:
    return bool(_numbers(entry.name)) and entry.is_file(follow_symlinks=False)


def _numbers(name: str) -> tuple[int, ...]:
    """Boot, first and last record of a closed file, the first of an open one; none of what is no log's."""
    named = _CLOSED.fullmatch(name) or _OPEN.fullmatch(name)
    numbers = tuple(int(number) for number in named.groups()) if named else ()
    return () if any(number > RECORD_MAX for number in numbers) else numbers
