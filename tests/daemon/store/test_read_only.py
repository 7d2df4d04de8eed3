"""A store is looked into that a daemon may begin to write, or that rests where nothing can be written."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from daemon.store.backup import DamagedError, check_store, copy_store
from daemon.store.quarantine import quarantined, read
from daemon.store.read_only import read_only
from daemon.store.store import Store

NOBODY = 65_534
BEGUN = "a daemon began to write to the store meanwhile"


@pytest.fixture
def resting(tmp_path: Path) -> Path:
    """A store that no daemon has open."""
    (tmp_path / "state").mkdir()
    path = tmp_path / "state" / "smqpd.db"
    Store(path).close()
    return path


@pytest.fixture
def unwritable(resting: Path) -> Iterator[Path]:
    """A store that rests in a directory in which nothing can be made, as on a read-only file system."""
    with TemporaryDirectory() as directory:
        store = Path(shutil.copy(resting, directory))
        store.chmod(0o444)
        store.parent.chmod(0o555)
        user = os.geteuid()
        if user == 0:  # who may write anywhere
            os.seteuid(NOBODY)
        try:
            yield store
        finally:
            os.seteuid(user)
            store.parent.chmod(0o700)


def begin_to_write(store: Path) -> None:
    """What a daemon does first, which is another user, who may."""
    user = os.geteuid()
    os.seteuid(os.getuid())
    store.parent.chmod(0o755)
    Path(f"{store}-wal").touch()
    os.seteuid(user)


def test_a_site_that_starts_meanwhile_is_backed_up_as_it_was(resting: Path, tmp_path: Path) -> None:
    boot = check_store(resting).boot

    def started(done: int, total: int) -> None:
        Store(resting).close()

    assert copy_store(resting, tmp_path / "copy.db", started).boot == boot
    assert check_store(resting).boot > boot
    assert list(resting.parent.iterdir()) == [resting]


def test_where_nothing_can_be_written_a_site_that_is_stopped_is_read(unwritable: Path) -> None:
    assert read(unwritable, quarantined) == []
    assert check_store(unwritable).messages == 0


def test_what_a_daemon_began_to_write_meanwhile_is_no_backup(unwritable: Path) -> None:
    def look() -> None:
        with read_only(unwritable) as connection:
            connection.execute("SELECT boot FROM site").fetchone()
            begin_to_write(unwritable)

    with pytest.raises(sqlite3.OperationalError, match=BEGUN):
        look()


def test_what_a_daemon_began_to_write_meanwhile_is_not_taken_for_damaged(unwritable: Path) -> None:
    def look() -> None:
        with read_only(unwritable):
            begin_to_write(unwritable)
            raise DamagedError("SQLite's integrity check says: a page is torn")

    with pytest.raises(sqlite3.OperationalError, match=BEGUN):
        look()


def test_what_is_damaged_and_rests_is_damaged(unwritable: Path) -> None:
    with pytest.raises(DamagedError), read_only(unwritable):
        raise DamagedError("SQLite's integrity check says: a page is torn")
