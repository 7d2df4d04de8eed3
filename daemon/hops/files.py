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

_OPEN = re.compile(r"open-(\d{1,19})\.jsonl")
_CLOSED = re.compile(r"hops-(.+)-(\d{1,19})-(\d{1,19})-(\d{1,19})\.jsonl")
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

    A directory that does not exist holds none. A file that is renamed or deleted meanwhile may be
    missing from the list.
    """
    found = []
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return []
    for entry in entries:
        opened, closed = _OPEN.fullmatch(entry.name), _CLOSED.fullmatch(entry.name)
        numbers = opened.groups() if opened else closed.groups()[1:] if closed else ()
        if not numbers or any(int(number) > RECORD_MAX for number in numbers):
            continue
        try:
            if not entry.is_file(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        first = int(opened[1]) if opened else int(closed[3]) if closed else 0
        found.append(
            LogFile(
                path=Path(entry.path),
                first=first,
                last=int(closed[4]) if closed else None,
                boot=int(closed[2]) if closed else None,
                size_bytes=status.st_size,
                written_s=status.st_mtime,
            )
        )
    return sorted(found, key=lambda file: (file.first, file.is_open))
