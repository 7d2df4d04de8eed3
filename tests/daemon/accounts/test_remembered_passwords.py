"""Passwords that were right are remembered for a while, over a restart too."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from daemon.accounts.accounts import Accounts
from daemon.accounts.accounts_editor import edit
from daemon.accounts.passwords import hash_password
from daemon.accounts.remembered_passwords import REMEMBER_S, RememberedPasswords
from daemon.system.outlasting import OutlastingMemory
from tests.support.logins import REMOTE, refused, write


@pytest.mark.parametrize("change", ["password", "disabled", "gone"])
async def test_what_is_remembered_ends_with_the_password(
    accounts: Accounts, file: Path, autojump_clock: MockClock, verified: list[str], change: str
) -> None:
    await accounts.authenticate("ann", "right", REMOTE)
    if change == "gone":
        write(file, "")
    else:
        with edit(file) as editor:
            editor.set_disabled("ann", True)
            if change == "password":
                editor.set_disabled("ann", False)
                editor.set_password("ann", hash_password("new"))
    accounts.replace(accounts.read())
    assert len(accounts._remembered) == 0
    await refused(accounts, "ann", "right")
    assert verified == ["right", "right"]


async def test_what_is_remembered_ends_with_time_and_is_bounded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.accounts.remembered_passwords.ACCOUNTS_MAX", 3)
    remembered = RememberedPasswords()
    for name in "abcd":
        remembered.note(name, "right", "hash")
    assert [remembered.knows(name, "right", "hash") for name in "abcd"] == [False, True, True, True]
    assert not remembered.knows("b", "wrong", "hash")
    assert not remembered.knows("b", "right", "another hash")
    await trio.sleep(REMEMBER_S + 1)
    assert not remembered.knows("b", "right", "hash")


@pytest.fixture
def memory() -> Iterator[OutlastingMemory]:
    memory = OutlastingMemory.create()
    yield memory
    os.close(memory.descriptor)


def after_a_restart(memory: OutlastingMemory) -> OutlastingMemory:
    """What the next process is given."""
    return OutlastingMemory(memory.descriptor)


async def test_what_is_remembered_outlasts_a_restart_where_its_memory_is_kept(
    file: Path, memory: OutlastingMemory, autojump_clock: MockClock, verified: list[str]
) -> None:
    await Accounts(file, "a.example", memory).authenticate("ann", "right", REMOTE)
    restarted = Accounts(file, "a.example", after_a_restart(memory))
    await restarted.authenticate("ann", "right", REMOTE)
    assert verified == ["right"]
    await refused(restarted, "ann", "wrong")
    assert verified == ["right", "wrong"]


async def test_a_password_that_changed_during_the_restart_is_not_remembered(
    file: Path, memory: OutlastingMemory, autojump_clock: MockClock, verified: list[str]
) -> None:
    await Accounts(file, "a.example", memory).authenticate("ann", "right", REMOTE)
    with edit(file) as editor:
        editor.set_password("ann", hash_password("new"))
    restarted = Accounts(file, "a.example", after_a_restart(memory))
    await refused(restarted, "ann", "right")
    assert len(after_a_restart(memory).read()) == 1  # the key


async def test_a_use_is_written_again_when_it_is_much_later(
    memory: OutlastingMemory, autojump_clock: MockClock
) -> None:
    remembered = RememberedPasswords(memory)
    remembered.note("ann", "right", "hash")
    for pause_s, records in ((10, 2), (REMEMBER_S / 2, 3)):
        await trio.sleep(pause_s)
        assert remembered.knows("ann", "right", "hash")
        assert len(after_a_restart(memory).read()) == records


@given(
    records=st.lists(st.binary(max_size=80), max_size=4),
    cut=st.integers(0, 300),
    bare=st.binary(max_size=100),
)
def test_memory_that_holds_anything_at_all_is_begun_anew(records: list[bytes], cut: int, bare: bytes) -> None:
    async def remember() -> None:
        memory = OutlastingMemory.create()
        try:
            memory.replace(records)
            os.ftruncate(memory.descriptor, min(cut, os.fstat(memory.descriptor).st_size))
            os.pwrite(memory.descriptor, bare, os.fstat(memory.descriptor).st_size)
            remembered = RememberedPasswords(after_a_restart(memory))
            remembered.note("ann", "right", "hash")
            assert RememberedPasswords(after_a_restart(memory)).knows("ann", "right", "hash")
        finally:
            os.close(memory.descriptor)

    trio.run(remember)


async def test_full_memory_is_written_anew(
    memory: OutlastingMemory, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.system.outlasting.BYTES_MAX", 600)
    remembered = RememberedPasswords(memory)
    for _ in range(20):
        remembered.note("ann", "right", "hash")
        remembered.keep({})
        remembered.note("ann", "right", "hash")
        await trio.sleep(REMEMBER_S / 2)
        assert remembered.knows("ann", "right", "hash")
    assert RememberedPasswords(after_a_restart(memory)).knows("ann", "right", "hash")
    assert os.fstat(memory.descriptor).st_size <= 600
