"""The time to log in is the client's: what the site takes to verify a password does not count."""

import threading
from typing import Any

import pytest
import trio
import trio.testing

from daemon.accounts import verifying
from daemon.accounts.passwords import verify_password
from daemon.settings import Limits
from tests.support.patience import PATIENCE_S, pass_time
from tests.support.site import PASSWORD, BrokerSite
from tests.support.stomp import ConnectStomp


@pytest.fixture
def limits() -> Limits:
    return Limits(login_timeout_s=10.0)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Verifications wait until it is opened."""
    verify, gate = verify_password, threading.Event()

    def verify_later(password: str, phc: str) -> Any:
        gate.wait(PATIENCE_S)
        return verify(password, phc)

    monkeypatch.setattr(verifying, "verify_password", verify_later)
    return gate


async def test_a_login_whose_time_ends_while_its_password_is_verified_is_answered(
    connect: ConnectStomp, gate: Any, mock_clock: trio.testing.MockClock
) -> None:
    clients = [connect() for _ in range(12)]
    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(client.connect)
        await pass_time(mock_clock, 20)
        gate.set()
    for client in clients:
        await client.ask("SEND", {"destination": "/queue/t"}, b"hello")


async def test_who_says_nothing_is_told_how_long_it_had(
    connect: ConnectStomp, gate: Any, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await pass_time(mock_clock, 20)
    error = await client.refused("not-logged-in")
    assert error.body == b"no login within 10 s\n"


async def test_a_wrong_password_is_told_so_however_long_that_takes(
    connect: ConnectStomp, gate: Any, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await client.send(
        "CONNECT", {"accept-version": "1.2", "host": "/", "login": "ada", "passcode": PASSWORD + "!"}
    )
    await pass_time(mock_clock, 20)
    gate.set()
    await client.refused("bad-login")


async def test_who_leaves_while_its_password_waits_gives_its_place_up(
    site: BrokerSite, connect: ConnectStomp, gate: Any
) -> None:
    clients = [connect() for _ in range(12)]
    for number, client in enumerate(clients):
        await client.send("CONNECT", {"accept-version": "1.2", "login": f"nobody{number}", "passcode": "x"})
    await trio.testing.wait_all_tasks_blocked(0.01)
    verifier = site.broker.accounts._verifier
    assert len(verifier._tries) == 12
    for client in clients:
        await client.stream.aclose()
    with trio.fail_after(PATIENCE_S):
        while verifier._tries:
            await trio.sleep(0.05)
    gate.set()


async def test_what_is_sent_with_the_login_is_done_after_it(connect: ConnectStomp, gate: Any) -> None:
    client = connect()
    await client.send("CONNECT", {"accept-version": "1.2", "login": "ada", "passcode": PASSWORD})
    await trio.testing.wait_all_tasks_blocked(0.01)
    await client.send("SEND", {"destination": "/queue/t", "receipt": "1"}, b"hello")
    await trio.testing.wait_all_tasks_blocked(0.01)
    gate.set()
    await client.expect("CONNECTED")
    await client.expect("RECEIPT", receipt_id="1")
