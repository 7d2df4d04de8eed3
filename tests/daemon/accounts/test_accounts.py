"""Logging in: what is told, how long it takes to guess, and what a reload brings."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing
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
from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from daemon.settings import ConfigError
from routing.rights import Rights
from tests.support.logins import HASH, REMOTE, refused, write


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
    assert GUESSES <= len(quick) <= GUESSES + 600 / GUESS_S


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
