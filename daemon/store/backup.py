"""Copies a store while its daemon goes on writing.

One read transaction holds the snapshot that is copied: what the copy holds was true together at the
moment when the copy began. (Without it, SQLite's backup begins again at each commit of the daemon.) The
daemon is held up by nothing; its write-ahead log cannot shrink until the copy is done.

What goes on with a copy may not give numbers that the one it was made of has given since: records of the hop
log are told apart by theirs, what other sites know by its boot. So both are raised beyond all that can have
been given, in the copy, and again when a site is made of it, since that may be done twice; where that is done
twice in a short time, by what the site has given in whose place it comes.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from daemon.store.checksum import is_intact
from daemon.store.columns import BOOT_MAX
from daemon.store.read_only import read_only
from daemon.store.schema import refuse_newer
from daemon.store.store import read_site
from daemon.store.table import Tables, tolerant_text
from daemon.system.private_files import write_new
from routing.errors import Refusal
from routing.frames import decode_message

STEP_PAGES: Final = 2_048
"""8 MB with SQLite's default page: many steps a second, so that progress moves and Ctrl-C is heard."""

US_PER_BOOT: Final = 600_000_000
"""No daemon starts more often, or writes more than a record each microsecond, for long."""

AHEAD: Final = (1_000, 1_000_000_000)
"""Where the clock is behind the numbers, boots and records: so many more."""

_RAISE: Final = (
    "UPDATE site SET boot = min(max(boot + iif(boot > ?1, ?2, 1), ?1), ?3),"
    " last_record = max(last_record + iif(last_record > ?4, ?5, 1), ?4)"
)

_RAISE_TO: Final = "UPDATE site SET boot = max(boot, ?), last_record = max(last_record, ?)"


class DamagedError(Exception):
    """The copy does not pass SQLite's own check."""


class BackupResult(msgspec.Struct, frozen=True):
    """What was copied.

    Attributes:
        boot: of the daemon that had written the store.
        messages: guaranteed messages that the store holds.
        unreadable: those of them that are damaged; the daemon sets such a message aside.
    """

    boot: int
    messages: int
    unreadable: int
    size_bytes: int

    @property
    def verdict(self) -> str:
        """What came of looking at each message, for people."""
        if not self.unreadable:
            return "checked"
        return f"but {self.unreadable} of them cannot be read: they were damaged before they were copied"


def copy_store(source: Path, target: Path, progress: Callable[[int, int], None]) -> BackupResult:
    """Copy the store at `source` to the new file `target`, mode 0600, and check the copy.

    `progress` is called with the pages that were copied and those there are. Raises FileNotFoundError,
    FileExistsError, DamagedError, TooNewError and sqlite3.Error; what was written by then is left.
    """
    with read_only(source) as reader:
        write_new(target, b"")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            reader.backup(
                copy,
                pages=STEP_PAGES,
                progress=lambda _status, remaining, total: progress(total - remaining, total),
            )
            # One file, which can be moved about; the daemon makes it a WAL store again when it opens it.
            copy.execute("PRAGMA journal_mode = DELETE")
            checked = _checked(copy, target)
            _raise_numbers(copy)
            return checked
        finally:
            copy.close()


def raise_numbers(path: Path, replaced: Path | None = None) -> None:
    """Have the site that goes on with this copy give no number that another one has given that did.

    They go on with the time until now, in which nobody can have given as many, and beyond the store that is
    `replaced`, where that can be read: it may have begun a moment ago, with numbers of the same time. In the
    hop log that leaves a gap: there the records are that were written since the copy was made. Raises
    sqlite3.Error.
    """
    boot, record = (0, 0) if replaced is None else _numbers(replaced)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(_RAISE_TO, (boot, record))
        _raise_numbers(connection)


def _numbers(path: Path) -> tuple[int, int]:
    """The last boot and record of the store at `path`, as far as they can be read."""
    try:
        with read_only(path) as connection:
            connection.text_factory = tolerant_text
            site = read_site(Tables(connection))
    except (OSError, sqlite3.Error):
        return 0, 0
    return site.boot, site.last_record


def _raise_numbers(connection: sqlite3.Connection) -> None:
    now_us = time.time_ns() // 1_000
    boots, records = AHEAD
    connection.execute(_RAISE, (now_us // US_PER_BOOT, boots, BOOT_MAX, now_us, records))


def check_store(path: Path) -> BackupResult:
    """Whether a daemon of this version can go on with the store in this file; changes nothing.

    Messages that cannot be read are counted, as the daemon sets them aside and goes on. Raises
    FileNotFoundError, DamagedError, TooNewError and sqlite3.Error.
    """
    with read_only(path) as connection:
        return _checked(connection, path)


def _checked(copy: sqlite3.Connection, path: Path) -> BackupResult:
    copy.text_factory = tolerant_text
    refuse_newer(copy)
    (verdict,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise DamagedError(f"SQLite's integrity check says: {verdict}")
    boot = read_site(Tables(copy)).boot
    messages = unreadable = 0
    has_checksums = any(row[1] == "checksum" for row in copy.execute("PRAGMA table_info(message)"))
    summed = "checksum" if has_checksums else "NULL"
    for id, topic, wire, stored in copy.execute(
        f"SELECT id, CAST(topic AS BLOB), CAST(wire AS BLOB), {summed} FROM message"
    ):
        messages += 1
        unreadable += not _is_readable(id, topic, wire, stored)
    size = path.stat().st_size
    return BackupResult(boot=boot, messages=messages, unreadable=unreadable, size_bytes=size)


def _is_readable(id: int, topic: bytes | None, wire: bytes | None, stored: object) -> bool:
    if wire is None or not is_intact(id, topic, wire, stored):
        return False
    try:
        decode_message(wire)
    except Refusal:
        return False
    return True
