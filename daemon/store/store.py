"""The store of one site: one connection that writes, one that reads.

Statements are executed by the thread that runs the event loop: they only touch memory, and a second
thread would contend for the interpreter with each row. Only the commit, which waits for the disk, is
made to be called from a worker thread; meanwhile nothing else may use the writing connection.
"""

import logging
import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from daemon.store.batch import Batch
from daemon.store.checksum import is_intact
from daemon.store.columns import BOOT_MAX, SiteTime
from daemon.store.ownership import own
from daemon.store.quarantine import Quarantined, quarantined
from daemon.store.schema import migrate, refuse_newer
from daemon.store.table import Row, Table, Tables
from daemon.store.tables import (
    annotations,
    answers,
    copies,
    interest,
    marks,
    messages,
    news,
    publications,
    quarantine,
    receipts,
    removals,
    seen,
    subscriptions,
    topics,
    wants,
)
from routing.numbers import Number
from routing.peering.copies import Seen
from routing.queue import RECEIPT
from routing.restore import Restore

CACHE_KIB: Final = 16_384
WAL_CHECKPOINT_BYTES: Final = 16 * 2**20
"""Once so much is in the write-ahead log, it is moved into the database."""

WAL_BYTES_MAX: Final = 64 * 2**20
"""What is longer is cut, what is not keeps its length: to write over it costs less than to let it
grow."""

CHECKPOINTS_MAX: Final = 3
"""One after the other, beside running commits."""

ROWS_UNMEASURED: Final = 64
BYTES_UNMEASURED: Final = 2**16
"""How large the store is gets asked after so many changes of rows, or bytes of messages, and not in each
transaction."""

PAGES_PER_COMMIT: Final = 2
ROWS_PER_PAGE: Final = 6
"""What transactions write besides messages, about."""

WAIT_S: Final = 0.05
"""For a lock that another process has. Nobody else writes, and the event loop must not wait for readers."""

_log = logging.getLogger(__name__)

_PUT_SITE: Final = (
    "UPDATE site SET last_record = ?, stopped = ?, site_time = ?, wall_time = ?, machine_boot = ?,"
    " machine_time = ?"
)


class SiteRow:
    """The one row about the site itself.

    Attributes:
        boot: of the latest start; raised in the store before it is used.
        last_record: number of the last hop record of which the store knows.
        clock: (site time, wall time, id of the machine's boot, seconds since then) when last written.
    """

    def __init__(self, boot: int, last_record: int, clock: tuple[float, float, str, float]) -> None:
        self.boot = boot
        self.last_record = last_record
        self.clock = clock


class _SiteColumns(Row):
    id: Literal[1]
    boot: Annotated[int, msgspec.Meta(ge=0, le=BOOT_MAX)]
    last_record: Number
    site_time: SiteTime
    wall_time: SiteTime
    machine_boot: str
    machine_time: SiteTime


_SITE: Final = Table("site", _SiteColumns, in_place=False)


def read_site(tables: Tables) -> SiteRow:
    """The row as the last start left it. Raises sqlite3.DatabaseError where a site cannot go on with it."""

    def lost(columns: dict[str, Any], damaged: list[str]) -> None:
        raise sqlite3.DatabaseError(f"its row about the site itself is damaged: {', '.join(damaged)}")

    site = next(tables.rows(_SITE, mend=lost), None)
    if site is None:
        raise sqlite3.DatabaseError("its row about the site itself is missing")
    clock = (site.site_time, site.wall_time, site.machine_boot, site.machine_time)
    return SiteRow(site.boot, site.last_record, clock)


class Loaded(msgspec.Struct):
    """Messages as they were read.

    Attributes:
        wires: by id.
        unreadable: by id, why not.
        ids: how many were looked for.
    """

    wires: dict[int, bytes]
    unreadable: dict[int, str]
    ids: int = 0


def make_store(path: Path, server_name: str, identity: str) -> str:
    """Make the store of a site that has none, or own the one that is there; returns its identity.

    No start is counted. Raises TooNewError, sqlite3.Error, OSError.
    """
    with closing(_connected(path)) as connection:
        return own(connection, server_name, identity)


def _connected(path: Path) -> sqlite3.Connection:
    """The connection that writes, to a store that is up to date."""
    connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        refuse_newer(connection)  # before anything that changes it
        path.chmod(0o600)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # zeros over all that is deleted, a default of some distributions, take room before they give any
        connection.execute("PRAGMA secure_delete = FAST")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


class Store:
    """The database of one site. Errors of SQLite (`sqlite3.Error`) are passed on; see `Broker`.

    Attributes:
        stopped_s: how much of site time the site has not run in, all its stops together; with the latest
            once `restore_into` has begun.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the store, bring it up to date. Raises TooNewError, sqlite3.Error."""
        self.path = path
        self._wal_path = f"{path}-wal"
        self._writer = _connected(path)
        self._forgotten = 0  # in the open transaction, of what was set aside
        self._new_bytes = self._ended_bytes = 0  # in the open transaction, of messages
        # a checkpoint would make one commit in many slow; `checkpoint` does it beside them
        self._writer.execute("PRAGMA wal_autocheckpoint = 0")
        self._writer.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
        self._mover = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._reader.execute("PRAGMA query_only = ON")
        self._reader.execute("PRAGMA cache_size = -4096")
        self._tables = Tables(self._writer)
        self._recalling = Tables(self._reader)
        self._recollection = seen.Recollection(self._recalling, lambda: self.stopped_s)
        self.stopped_s = self._stopped_before()
        self.site = self._begun()
        self._page_bytes: int = self._writer.execute("PRAGMA page_size").fetchone()[0]
        self._file_bytes = self.size_bytes = self.unused_bytes = 0
        """What is in use, and in free pages, with what is in the WAL only, as of a commit not long ago."""
        self._is_measured = True
        self._rows_measured = self._bytes_unmeasured = 0
        self._log_begun()
        self._measure()

    def _begun(self) -> SiteRow:
        """Count this start. Raises sqlite3.DatabaseError for a row without which a site cannot go on."""
        site = read_site(self._tables)
        self._writer.execute("UPDATE site SET boot = boot + 1")
        self._writer.execute(marks.FORGET, (RECEIPT,))
        return SiteRow(site.boot + 1, site.last_record, site.clock)

    def _stopped_before(self) -> float:
        """The stops before this one; 0.0 where that is damaged, so that something is forgotten too early."""
        (stopped,) = self._writer.execute("SELECT stopped FROM site").fetchone() or (0.0,)
        return stopped if isinstance(stopped, float) and 0.0 <= stopped < math.inf else 0.0

    def own(self, server_name: str, identity: str) -> str:
        """See `daemon.store.ownership.own`."""
        return own(self._writer, server_name, identity)

    def close(self) -> None:
        """Close all connections, which empties the WAL into the database."""
        self._reader.close()
        self._mover.close()
        self._writer.close()

    # -- writing ----------------------------------------------------------------------------------

    def write(self, batch: Batch, last_record: int, clock: tuple[float, float, str, float]) -> None:
        """Execute a batch in a transaction that stays open: `commit` or `roll_back` must follow."""
        self._writer.execute("BEGIN IMMEDIATE")
        self._execute(batch)
        self._recollection.note(batch.seen)
        self._writer.execute(_PUT_SITE, (last_record, self.stopped_s, *clock))
        self._new_bytes, self._ended_bytes = batch.new_bytes, batch.ended_bytes

    @contextmanager
    def trial(self) -> Iterator[Callable[[Batch], None]]:
        """Try batches, one after the other, in a transaction that is rolled back; raises what one raises."""

        def attempt(batch: Batch) -> None:
            self._writer.execute("SAVEPOINT attempt")
            try:
                self._execute(batch)
            except Exception:
                self._writer.execute("ROLLBACK TO attempt")
                raise
            finally:
                self._writer.execute("RELEASE attempt")

        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield attempt
        finally:
            self.roll_back()

    def _execute(self, batch: Batch) -> None:
        connection = self._writer
        for sql, rows in batch.statements():
            if rows:
                written = connection.executemany(sql, rows)
                if sql is quarantine.FORGET_OLDEST:
                    self._forgotten = written.rowcount
        if batch.returned_pages:
            connection.execute(f"PRAGMA incremental_vacuum({batch.returned_pages})").fetchall()

    def commit(self) -> None:
        """Make the transaction true: returns once it is on disk. May be called from another thread.

        Raises sqlite3.Error: nothing of it is stored.
        """
        self._writer.execute("COMMIT")
        if self._forgotten:
            text = "%d of the oldest left the quarantine for good: it holds as much as it may"
            _log.warning(text, self._forgotten)
            self._forgotten = 0
        self._log_commits += 1
        self._log_message_bytes += self._new_bytes
        self._bytes_unmeasured += self._new_bytes + self._ended_bytes
        if (
            self._bytes_unmeasured < BYTES_UNMEASURED
            and self._writer.total_changes - self._rows_measured < ROWS_UNMEASURED
        ):
            return
        try:
            self._measure()
            self._is_measured = True
        except sqlite3.Error as error:  # all of it is stored all the same; the next one measures again
            if self._is_measured:
                _log.warning("how large the store is cannot be read: %s", error)
            self._is_measured = False

    def roll_back(self) -> None:
        """Undo the transaction, if one is open."""
        self._forgotten = 0
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    # -- reading ----------------------------------------------------------------------------------

    def load(self, ids: Iterable[int], bytes_max: float = math.inf) -> Loaded:
        """The first of these, until they have so many bytes; what is not there is left out. May block."""
        loaded = Loaded({}, {})
        size = 0
        for id in ids:
            if size >= bytes_max:
                break
            loaded.ids += 1
            try:
                try:
                    row = self._reader.execute(messages.READ, (id,)).fetchone()
                except sqlite3.OperationalError:  # a disk that fails once need not fail twice
                    row = self._reader.execute(messages.READ, (id,)).fetchone()
            except sqlite3.DatabaseError as error:
                loaded.unreadable[id] = f"the store cannot be read there ({error})"
                continue
            if row is None:
                continue
            wire, topic, stated = row
            if not is_intact(id, topic, wire, stated):
                loaded.unreadable[id] = "its checksum is wrong: bits of it have changed since it was stored"
            else:
                loaded.wires[id] = wire
                size += len(wire)
        return loaded

    def quarantined(self) -> list[Quarantined]:
        """What was set aside. May block on the disk."""
        return quarantined(self._reader.execute)

    def recall(self, smuid: str) -> Seen | None:
        """What is remembered of another server's Smuid; None if nothing is. May block on the disk."""
        return self._recollection.find(smuid)

    @property
    def damaged(self) -> int:
        """How many rows have been found damaged since the start, besides messages that were loaded."""
        return self._tables.count + self._recalling.count

    def restore_into(self, restore: Restore, now: float, dedupe_window_s: float) -> None:
        """Give the index everything that is held. Takes about a second for 200,000 messages."""
        self.stopped_s += max(now - self.site.clock[0], 0.0)
        tables, stopped_s = self._tables, self.stopped_s
        topics.restore_into(restore, tables)
        annotations.restore_into(restore, tables)
        subscriptions.restore_into(restore, tables, now, stopped_s)
        publications.restore_into(restore, tables, now - dedupe_window_s, stopped_s)
        removals.restore_into(restore, tables)
        interest.restore_into(restore, tables)
        answers.restore_into(restore, tables)
        news.restore_into(restore, tables)
        wants.restore_into(restore, tables)
        copies.restore_into(restore, tables)
        receipts.restore_into(restore, tables)
        messages.restore_into(restore, tables)
        restore.end()
        tables.mend()

    # -- maintenance ------------------------------------------------------------------------------

    def _measure(self) -> None:
        """Ask how large the store is, and how long its log."""
        pages, free = (
            self._writer.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
        )
        self.size_bytes = (pages - free) * self._page_bytes
        self.unused_bytes = free * self._page_bytes
        self._file_bytes = pages * self._page_bytes
        self._rows_measured, self._bytes_unmeasured = self._writer.total_changes, 0
        length = self.wal_bytes()
        if length > self._log_length:  # longer than when it was begun: so it is full
            self._log_bytes = length

    def growth_bytes(self) -> int:
        """Bytes by which moving the write-ahead log into the file lets it grow; not within a transaction."""
        self._measure()
        return max(self._file_bytes - os.stat(self.path).st_size, 0)

    def wal_bytes(self) -> int:
        """The length of the write-ahead log; see `logged_bytes`."""
        try:
            return os.stat(self._wal_path).st_size
        except FileNotFoundError:
            return 0

    @property
    def logged_bytes(self) -> int:
        """About how much the write-ahead log holds since it was begun; it may be longer."""
        rows = self._writer.total_changes - self._log_rows
        pages = self._log_commits * PAGES_PER_COMMIT + rows // ROWS_PER_PAGE
        return max(pages * self._page_bytes + self._log_message_bytes, self._log_bytes)

    def _log_begun(self) -> None:
        """All of the write-ahead log is in the database: what comes is written over it."""
        self._log_commits = self._log_message_bytes = self._log_bytes = 0
        self._log_rows = self._writer.total_changes
        self._log_length: int = self.wal_bytes()

    def checkpoint(self) -> None:
        """Move the WAL into the database, beside running commits. For a worker thread; blocks on the disk.

        What was committed meanwhile is moved, too, a few times: what is left for `move_rest` is little then,
        and the disk has all else.
        """
        for _ in range(CHECKPOINTS_MAX):
            _, logged, moved = self._mover.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if logged == moved:
                return

    def move_rest(self) -> bool:
        """Move what `checkpoint` has left, in place of a commit; the next transaction begins the log anew.

        False where somebody reads from it, as a backup does: to be tried again later.
        """
        _, logged, moved = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if logged == moved:
            self._log_begun()
        return bool(logged == moved)

    def empty_wal(self) -> bool:
        """Cut the WAL to nothing, in place of a commit, which gives its room back; see `move_rest`."""
        busy: int = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            self._log_begun()
        return not busy
