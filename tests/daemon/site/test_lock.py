"""One daemon for each state directory."""

import os
import signal
from pathlib import Path

import pytest

from daemon.site.lock import StateInUseError, running_pid, signal_running, state_lock


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
