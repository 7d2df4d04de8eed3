"""One daemon for each state directory."""

import os
import shutil
import signal
import sqlite3
from pathlib import Path
from typing import Final

import pytest

from daemon.configuration.config import load
from daemon.configuration.discovery import installed_plugins
from daemon.settings import STORE
from daemon.site.admin_login import keep_password
from daemon.site.lock import StateInUseError, running_pid, signal_running, state_lock
from daemon.store.store import make_store
from tests.support.made_site import made_site
from tests.support.required import needs_root

SOMEBODY: Final = 12_345
"""A user that is not root."""


def test_the_lock_is_held_once_and_names_its_holder(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert running_pid(state) is None
    with state_lock(state):
        assert running_pid(state) == os.getpid()
        with pytest.raises(StateInUseError, match=f"in use by process {os.getpid()}"), state_lock(state):
            pass
        assert running_pid(state) == os.getpid()
    assert running_pid(state) is None
    with state_lock(state):
        assert running_pid(state) == os.getpid()


def test_state_is_private(tmp_path: Path) -> None:
    with state_lock(tmp_path / "a" / "state"):
        assert (tmp_path / "a" / "state").stat().st_mode & 0o777 == 0o700


def test_who_has_the_directory_has_root_write_to_no_other_file(tmp_path: Path) -> None:
    """Root restores a backup over a site whose user has put links into its state."""
    other, state = tmp_path / "other", tmp_path / "state"
    other.write_text("of root")
    other.chmod(0o644)
    state.mkdir()
    (state / "lock").symlink_to(other)
    with pytest.raises(OSError, match="symbolic link"), state_lock(state):
        pass
    (state / STORE).symlink_to(other)
    with pytest.raises(sqlite3.DatabaseError):
        make_store(state / STORE, "a.example", "0")
    assert (other.read_text(), other.stat().st_mode & 0o777) == ("of root", 0o644)


@needs_root
def test_what_root_makes_in_a_site_is_of_the_user_that_it_runs_as(tmp_path: Path) -> None:
    """As `quarantine drop` does in a site that was restored, and `account passwd` where there are no keys."""
    site = made_site(tmp_path / "site", "a.example", 7720, is_bare=True).config.parent
    shutil.rmtree(site / "keys", ignore_errors=True)
    (site / "state" / "lock").unlink(missing_ok=True)
    for path in (site, *site.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY)
    with state_lock(site / "state"):
        pass
    settings = load(site / "smqpd.toml", installed_plugins())
    assert keep_password(site, settings, "admin", "secret")
    assert (site / "keys" / "admin.toml").exists()
    assert {path.stat().st_uid for path in (site, *site.rglob("*"))} == {SOMEBODY}


def test_a_signal_goes_to_who_holds_the_lock_and_to_nobody_else(tmp_path: Path) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, frame: heard.append(number))
    try:
        assert not signal_running(tmp_path, signal.SIGHUP)
        with state_lock(tmp_path):
            assert signal_running(tmp_path, signal.SIGHUP)
        assert not signal_running(tmp_path, signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == [signal.SIGHUP]


@pytest.mark.parametrize("text", ["", "x", "1", "-1", "99999999999999999999999"])
def test_a_lock_file_with_nonsense_in_it_signals_nobody(tmp_path: Path, text: str) -> None:
    with state_lock(tmp_path):
        (tmp_path / "lock").write_text(text)
        assert not signal_running(tmp_path, signal.SIGHUP)
