"""Logging in: what is told, how long it takes to guess, and what a bad file changes."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from daemon.accounts.accounts import (
    ACCOUNTS_MAX,
    DELAY_S_MAX,
    GUESS_S,
    GUESS_WAIT_S,
    GUESSES,
    PAIRS_MAX,
    Accounts,
)
from daemon.accounts.accounts_file import Account, NoSuchAccountError, edit, read_accounts
from daemon.accounts.passwords import (
    PHC_PATTERN,
    generate_password,
    hash_password,
    unmatched_hash,
    verify_password,
)
from daemon.accounts.remembered_passwords import REMEMBER_S, RememberedPasswords
from daemon.configuration.config import FILE_BYTES_MAX
from daemon.settings import ConfigError
from daemon.system.outlasting import OutlastingMemory
from routing.errors import Refusal
from routing.rights import Rights
from tests.support.passwords import cheap_hash

HASH = cheap_hash("right")
REMOTE = "192.0.2.1:4711"


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "accounts.toml"
    write(
        path,
        f"""# who is who
[accounts.ann]
password = "{HASH}"  # since May
[accounts.ann.rights]
publish = ["orders.#"]

[accounts.old]
password = "{HASH}"
disabled = true
""",
    )
    return path


@pytest.fixture
def accounts(file: Path) -> Accounts:
    return Accounts(file, "a.example")


@pytest.fixture(autouse=True)
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verifications take no time: a thread's would take as much of the clock's as there is to jump over."""

    async def run_sync(verify: Callable[[str, str], bool], password: str, phc: str) -> bool:
        await trio.lowlevel.checkpoint()
        return verify(password, phc)

    monkeypatch.setattr("daemon.accounts.verifying.trio.to_thread.run_sync", run_sync)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that were verified the slow way."""
    passwords: list[str] = []

    def verify(password: str, phc: str) -> bool:
        passwords.append(password)
        return verify_password(password, phc)

    monkeypatch.setattr("daemon.accounts.verifying.verify_password", verify)
    return passwords


async def refused(accounts: Accounts, account: str, password: str, remote: str = REMOTE) -> float:
    """The seconds that a refusal took."""
    began = trio.current_time()
    with pytest.raises(Refusal) as caught:
        await accounts.authenticate(account, password, remote)
    assert caught.value.code == Refusal.BAD_LOGIN
    assert caught.value.text == "account or password is wrong"
    return trio.current_time() - began


async def test_the_right_password_logs_in_at_once(accounts: Accounts, autojump_clock: MockClock) -> None:
    identity = await accounts.authenticate("ann", "right", REMOTE)
    assert identity.account == "ann"
    assert trio.current_time() == pytest.approx(0, abs=0.01)


async def test_wrong_unknown_and_disabled_are_answered_alike(
    accounts: Accounts, autojump_clock: MockClock
) -> None:
    assert await refused(accounts, "ann", "wrong") == pytest.approx(0.5)
    assert await refused(accounts, "nobody", "right") == pytest.approx(0.5)
    assert await refused(accounts, "old", "right") == pytest.approx(0.5)


async def test_each_failure_delays_the_pair_more_and_nobody_else(
    accounts: Accounts, autojump_clock: MockClock
) -> None:
    delays = [await refused(accounts, "ann", "wrong", f"192.0.2.1:{port}") for port in range(1, 8)]
    assert delays == pytest.approx([0.5, 1, 2, 4, DELAY_S_MAX, DELAY_S_MAX, DELAY_S_MAX])
    assert await refused(accounts, "ann", "wrong", "[2001:db8::1]:99") == pytest.approx(0.5)
    assert await refused(accounts, "bob", "wrong") == pytest.approx(0.5)


async def test_success_forgives(accounts: Accounts, autojump_clock: MockClock) -> None:
    for _ in range(4):
        await refused(accounts, "ann", "wrong")
    await accounts.authenticate("ann", "right", REMOTE)
    assert await refused(accounts, "ann", "wrong") == pytest.approx(0.5)


async def test_time_forgives(accounts: Accounts, autojump_clock: MockClock) -> None:
    for _ in range(4):
        await refused(accounts, "ann", "wrong")
    await trio.sleep(1_000)
    assert await refused(accounts, "ann", "wrong") == pytest.approx(0.5)


async def test_many_at_a_time_log_in_together_when_they_know_the_password(
    accounts: Accounts, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(accounts.authenticate, "ann", "right", REMOTE)
    assert trio.current_time() == pytest.approx(0, abs=0.01)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, str]]:
    """Verifications take no time; when each was begun, and its password."""
    made: list[tuple[float, str]] = []

    def verify(password: str, phc: str) -> bool:
        return password == "right"

    async def run_sync(verify: Callable[[str, str], bool], password: str, phc: str) -> bool:
        made.append((trio.current_time(), password))
        return verify(password, phc)

    monkeypatch.setattr("daemon.accounts.verifying.verify_password", verify)
    monkeypatch.setattr("daemon.accounts.verifying.trio.to_thread.run_sync", run_sync)
    return made


async def test_guessing_a_few_at_a_time_gains_little(
    accounts: Accounts, autojump_clock: MockClock, quick: list[tuple[float, str]]
) -> None:
    numbers = iter(range(100_000))

    async def guess() -> None:
        while True:  # who does not wait to be told that it was wrong
            with trio.move_on_after(GUESS_WAIT_S + 0.1):
                await refused(accounts, "ann", f"wrong {next(numbers)}")

    with trio.move_on_after(600):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(guess)
    assert len(quick) <= GUESSES + 600 / GUESS_S


@pytest.mark.parametrize("remembered", [True, False])
async def test_a_flood_of_guesses_delays_who_knows_the_password_by_seconds(
    accounts: Accounts, autojump_clock: MockClock, quick: list[tuple[float, str]], remembered: bool
) -> None:
    numbers = iter(range(1_000_000))
    if remembered:
        await accounts.authenticate("ann", "right", "192.0.2.9:1")

    async def guess() -> None:
        while True:
            with trio.move_on_after(GUESS_WAIT_S + 0.1):
                await refused(accounts, "ann", f"wrong {next(numbers)}")

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(guess)
            await trio.sleep(0.01)
        for _ in range(5):
            began = trio.current_time()
            await accounts.authenticate("ann", "right", REMOTE)
            assert trio.current_time() - began <= GUESS_WAIT_S + 0.01
            await trio.sleep(3)
        nursery.cancel_scope.cancel()


async def test_the_right_password_of_a_disabled_account_is_right_once_it_is_enabled(
    accounts: Accounts, file: Path, autojump_clock: MockClock
) -> None:
    await refused(accounts, "old", "right")
    with edit(file) as editor:
        editor.set_disabled("old", False)
    accounts.replace(accounts.read())
    await accounts.authenticate("old", "right", REMOTE)


async def test_clients_with_an_old_password_hold_up_nobody_and_cost_nothing(
    accounts: Accounts, autojump_clock: MockClock, verified: list[str]
) -> None:
    await refused(accounts, "ann", "old password")
    async with trio.open_nursery() as nursery:

        async def try_again_and_again() -> None:
            for _ in range(20):
                await refused(accounts, "ann", "old password")

        for _ in range(6):
            nursery.start_soon(try_again_and_again)
        await trio.sleep(30)
        await accounts.authenticate("ann", "right", REMOTE)
    assert verified == ["old password", "right"]


async def test_who_knows_the_password_gets_in_among_guessers(
    accounts: Accounts, autojump_clock: MockClock
) -> None:
    numbers = iter(range(1_000))
    await accounts.authenticate("ann", "right", "192.0.2.9:1")

    async def guess() -> None:
        while True:
            await refused(accounts, "ann", f"wrong {next(numbers)}")

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(guess)
        await trio.sleep(300)
        began = trio.current_time()
        await accounts.authenticate("ann", "right", REMOTE)
        assert trio.current_time() - began < 3
        nursery.cancel_scope.cancel()


async def test_a_crowd_with_one_password_costs_one_verification(
    accounts: Accounts, autojump_clock: MockClock, verified: list[str]
) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(2_000):
            nursery.start_soon(accounts.authenticate, "ann", "right", f"192.0.2.{number % 250}:1")
    await accounts.authenticate("ann", "right", REMOTE)
    assert verified == ["right"]


async def test_who_waits_for_the_same_is_not_harmed_by_who_gives_up(
    accounts: Accounts, verified: list[str]
) -> None:
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as impatient:
            async with trio.open_nursery() as first:
                first.start_soon(accounts.authenticate, "ann", "right", REMOTE)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(accounts.authenticate, "ann", "right", REMOTE)
                await trio.testing.wait_all_tasks_blocked()
                impatient.cancel()
    assert verified == ["right"]


async def test_a_flood_from_one_address_delays_no_other(
    accounts: Accounts, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[str] = []
    all_are_there = trio.Event()

    async def run_sync(verify: Callable[[str, str], bool], password: str, phc: str) -> bool:
        await all_are_there.wait()
        verified.append(password)
        return False

    monkeypatch.setattr("daemon.accounts.verifying.trio.to_thread.run_sync", run_sync)
    async with trio.open_nursery() as nursery:
        for number in range(900):
            remote = f"[2001:db8::{number:x}]:1"
            nursery.start_soon(accounts.authenticate, f"nobody{number}", "flood", remote)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(accounts.authenticate, "ann", "honest", "[2001:db8:0:1::1]:1")
        await trio.testing.wait_all_tasks_blocked()
        all_are_there.set()
        while "honest" not in verified:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert len(verified) < 900 / 2


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


async def test_what_is_remembered_of_failures_is_bounded(accounts: Accounts) -> None:
    for number in range(PAIRS_MAX + 100):
        accounts._pair(str(number), "ann")
    for number in range(ACCOUNTS_MAX + 100):
        pair = accounts._pair("one", f"nobody{number}")
        for _ in range(5 if number == 3 else 1):
            pair.failed()
    assert sum(map(len, accounts._addresses.values())) == accounts._pairs <= PAIRS_MAX
    assert len(accounts._addresses["one"]) == ACCOUNTS_MAX
    assert accounts._pair("one", "nobody3").failures == 5


def test_a_bad_file_keeps_the_accounts_and_says_why(accounts: Accounts, file: Path) -> None:
    write(file, '[accounts.ann]\npasword = "x"')
    with pytest.raises(ConfigError, match=r"accounts\.ann\.pasword: unknown key; did you mean password\?"):
        accounts.read()
    assert accounts.enabled("ann")
    assert accounts.rights.allows("ann", "publish", "orders.new")


def test_a_reload_brings_new_accounts_rights_and_disablings(accounts: Accounts, file: Path) -> None:
    with edit(file) as editor:
        editor.add("bob", Account(password=HASH, rights=Rights(subscribe=("news",))))
        editor.set_disabled("ann", True)
    accounts.replace(accounts.read())
    assert not accounts.enabled("ann")
    assert accounts.enabled("bob")
    assert accounts.rights.allows("bob", "subscribe", "news")


def test_editing_keeps_comments_and_privacy(file: Path) -> None:
    file.chmod(0o640)
    with edit(file) as editor:
        editor.add("b.b+c", Account(password=HASH))
        editor.set_rights("ann", Rights(subscribe=("*.new", "#")))
        editor.set_password("old", HASH)
    accounts = read_accounts(file)
    assert accounts["ann"].rights == Rights(subscribe=("*.new", "#"))
    assert "b.b+c" in accounts
    assert file.read_text().startswith("# who is who\n")
    assert "# since May" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["accounts.toml"]


def add_then_miss(file: Path) -> None:
    with edit(file) as editor:
        editor.add("new", Account(password=HASH))
        editor.set_disabled("anne", True)


def test_an_edit_that_fails_changes_nothing(file: Path) -> None:
    before = file.read_text()
    with pytest.raises(NoSuchAccountError, match=r"did you mean ann\?"):
        add_then_miss(file)
    with pytest.raises(FileExistsError), edit(file) as editor:
        editor.add("ann", Account(password=HASH))
    with pytest.raises(ConfigError, match="an account name is"), edit(file) as editor:
        editor.add("a:b", Account(password=HASH))
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[account.ann]", "did you mean accounts"),
        ("accounts = 1", "expected tables"),
        ("[accounts]\nann = 1", "expected a table"),
        ('[accounts."dead.ann"]', "not `smqpd` or `dead.`"),
        ("[accounts.smqpd]", "not `smqpd` or `dead.`"),
        ("[accounts.ann]", "password: is required"),
        ('[accounts.ann]\npassword = "secret"', "expected an Argon2id hash"),
        (
            f'[accounts.ann]\npassword = "{HASH}"\nrights = {{publish = ["a b"]}}',
            "rights: 'a b' is not a topic pattern",
        ),
        (f'[accounts.ann]\npassword = "{HASH}"\nrights = {{write = ["a"]}}', "rights.write: unknown key"),
    ],
)
def test_a_bad_accounts_file_is_refused_by_key(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path / "a.toml", text)
    with pytest.raises(ConfigError) as caught:
        read_accounts(tmp_path / "a.toml")
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_accounts_file_that_others_can_read_is_refused(file: Path) -> None:
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"mode 0644.*chmod 600"):
        read_accounts(file)


def test_passwords_are_hashed_with_salt_and_bounded() -> None:
    assert hash_password("right") != HASH
    assert verify_password("right", HASH)
    assert not verify_password("right ", HASH)
    assert not verify_password("\udc80", HASH)
    assert verify_password("x" * 1024, hash_password("x" * 1024))
    assert not verify_password("x" * 1025, hash_password("x" * 1024))
    for bad in ("", "x" * 1025):
        with pytest.raises(ValueError, match="1 to 1024 bytes"):
            hash_password(bad)


def test_an_account_that_does_not_exist_is_verified_at_the_cost_of_one_that_does() -> None:
    nobody, somebody = unmatched_hash(), hash_password("right")
    assert re.fullmatch(PHC_PATTERN, nobody)
    assert [len(part) for part in nobody.split("$")] == [len(part) for part in somebody.split("$")]
    assert nobody.split("$")[:4] == somebody.split("$")[:4]
    assert not verify_password("right", nobody)
    assert unmatched_hash() != nobody


def test_generated_passwords_differ() -> None:
    assert len({generate_password() for _ in range(100)}) == 100


def test_a_file_does_not_grow_beyond_what_is_read_of_it(file: Path) -> None:
    write(file, f"{file.read_text()}# {'x' * (FILE_BYTES_MAX - len(file.read_text()) - 10)}\n")
    before = read_accounts(file)
    with pytest.raises(ConfigError, match="is larger than"), edit(file) as editor:
        editor.add("fay", Account(password=HASH))
    assert read_accounts(file) == before
