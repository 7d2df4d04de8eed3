"""The time to log in is the client's: what the site takes to verify a password does not count."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from daemon.accounts import verifying
from daemon.accounts.passwords import verify_password
from daemon.settings import Limits
from tests.support.patience import PATIENCE_S, pass_time
from tests.support.site import PASSWORD, BrokerSite, running_site
from tests.support.smqp_peer import SmqpPeer, connected, frame, publish, serve_connection


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path, Limits(login_timeout_s=10.0)) as site:
        yield site


async def test_a_login_whose_time_ends_while_its_password_is_verified_is_answered(
    site: BrokerSite, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    verify, gate = verify_password, threading.Event()

    def verify_later(password: str, phc: str) -> Any:
        gate.wait(PATIENCE_S)
        return verify(password, phc)

    monkeypatch.setattr(verifying, "verify_password", verify_later)
    async with connected(site, None) as peer:
        assert (await peer.line())[0] == "SMQP 1.0 Ready smqpd/test"
        await peer.send(frame(f"PASS ada {PASSWORD}"))
        await pass_time(mock_clock, 20)
        gate.set()
        assert (await peer.line())[0] == "OK PASS"
        await peer.send(publish("t", "c1"))
        assert (await peer.line())[0] == "OK PUBLISH"


async def test_who_says_nothing_is_told_how_long_it_had(
    site: BrokerSite, mock_clock: trio.testing.MockClock
) -> None:
    async with connected(site, None) as peer:
        assert (await peer.line())[0] == "SMQP 1.0 Ready smqpd/test"
        mock_clock.jump(20)
        assert await peer.line() == ("BYE login-timeout", {"Text": "no login within 10 s"})


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([f"X-{number}: a" for number in range(17)], ("too-many", "more than 16 header lines")),
        (["X: " + "a" * 1_024], ("too-large", "the header lines are longer than 1024 bytes")),
    ],
)
async def test_the_limits_of_the_configuration_hold_before_the_login(
    tmp_path: Path, lines: list[str], error: tuple[str, str]
) -> None:
    limits = Limits(frame_headers_max=16, frame_header_bytes_max=1_024)
    async with running_site(tmp_path, limits) as site, connected(site, None) as peer:
        await peer.line()
        await peer.send(frame(f"PASS ada {PASSWORD}", *lines))
        start, attributes = await peer.line()
        assert (start, attributes["Text"]) == (f"ERROR {error[0]}", error[1])


async def test_the_limits_of_a_configuration_that_is_read_anew_hold_for_who_is_logged_in(
    site: BrokerSite,
) -> None:
    async with connected(site) as peer:
        for bytes_max, answer in ((1_000, "ERROR too-large"), (4_000, "OK")):
            limits = Limits(message_bytes_max=bytes_max)
            site.broker.reconfigure(msgspec.structs.replace(site.broker.settings, limits=limits))
            await peer.send(publish("t", "c1", body=b"x" * 2_000))
            start, _ = await peer.line()
            assert start.startswith(answer)


async def test_who_leaves_while_its_password_waits_gives_its_place_up(
    site: BrokerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    monkeypatch.setattr(verifying, "verify_password", lambda password, phc: gate.wait(PATIENCE_S))
    verifier = site.broker.accounts._verifier
    async with connected(site, None) as peer:
        await peer.line()
        await peer.send(frame("PASS ada wrong"), publish("t", "c1"))
        while not verifier._tries:
            await trio.sleep(0.01)
    with trio.fail_after(PATIENCE_S):
        while verifier._tries:
            await trio.sleep(0.05)
    gate.set()


async def test_who_has_taken_some_of_the_time_to_connect_has_the_rest_of_it_to_log_in(
    site: BrokerSite, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    began = trio.current_time()
    nursery.start_soon(serve_connection, site, theirs, "10.0.0.1:4711", began + 3.0)
    peer = SmqpPeer(ours)
    assert (await peer.line())[0] == "SMQP 1.0 Ready smqpd/test"
    while await peer.frame() is not None:
        pass
    assert trio.current_time() - began == pytest.approx(3.0, abs=1.0)
