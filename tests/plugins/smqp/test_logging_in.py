"""The time to log in is the client's: what the site takes to verify a password does not count."""

import threading

import pytest
import trio

from daemon.accounts import verifying
from daemon.settings import Limits
from tests.support.site import PASSWORD, running_site
from tests.support.smqp_peer import connected, frame, publish


@pytest.fixture
async def site(tmp_path):
    async with running_site(tmp_path, Limits(login_timeout_s=0.2)) as site:
        yield site


async def test_a_login_whose_time_ends_while_its_password_is_verified_is_answered(site, monkeypatch):
    verify, gate = verifying.verify_password, threading.Event()

    def verify_later(password, phc):
        gate.wait(30)
        return verify(password, phc)

    monkeypatch.setattr(verifying, "verify_password", verify_later)
    async with connected(site, None) as peer:
        assert (await peer.line())[0] == "SMQP 1.0 Ready smqpd/test"
        await peer.send(frame(f"PASS ada {PASSWORD}"))
        await trio.sleep(0.4)
        gate.set()
        assert (await peer.line())[0] == "OK PASS"
        await peer.send(publish("t", "c1"))
        assert (await peer.line())[0] == "OK PUBLISH"


async def test_who_says_nothing_is_told_how_long_it_had(site):
    async with connected(site, None) as peer:
        assert (await peer.line())[0] == "SMQP 1.0 Ready smqpd/test"
        assert await peer.line() == ("BYE login-timeout", {"Text": "no login within 0.2 s"})


async def test_who_leaves_while_its_password_waits_gives_its_place_up(site, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(verifying, "verify_password", lambda password, phc: gate.wait(30))
    verifier = site.broker.accounts._verifier
    async with connected(site, None) as peer:
        await peer.line()
        await peer.send(frame("PASS ada wrong"), publish("t", "c1"))
        while not verifier._tries:
            await trio.sleep(0.01)
    with trio.fail_after(30):
        while verifier._tries:
            await trio.sleep(0.05)
    gate.set()
