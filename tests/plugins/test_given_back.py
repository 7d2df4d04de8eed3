"""However a connection ends that holds part of a message, what it held is given back."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daemon.connections.transport import StreamTransport
from daemon.settings import Limits
from plugins.stomp.codec import encode
from plugins.stomp.plugin import connections
from plugins.stomp.settings import StompSettings
from tests.support.site import PASSWORD, running_site
from tests.support.smqp_peer import frame, publish, serve_connection

BODY = b"x" * 50_000
REMOTES = [f"192.0.2.{number}:1" for number in range(1, 4)]

ENDS = ("complete", "close", "reset", "cancel", "break")


def smqp(account: str, topic: str) -> tuple[bytes, bytes]:
    """What logs in, and a message."""
    return frame(f"PASS {account} {PASSWORD}"), publish(topic, "c", body=BODY)


def stomp(account: str, topic: str) -> tuple[bytes, bytes]:
    """The same, half of it in an open transaction."""
    login = encode("CONNECT", {"accept-version": "1.2", "login": account, "passcode": PASSWORD})
    headers = {"destination": f"/queue/{topic}", "content-length": str(len(BODY))}
    begin = encode("BEGIN", {"transaction": "a"})
    in_transaction = encode("SEND", {**headers, "transaction": "a"}, BODY)
    return login, begin + in_transaction + encode("SEND", headers, BODY)


@pytest.mark.parametrize("speak", [smqp, stomp])
async def test_nothing_stays_counted_when_all_have_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speak: Callable[..., Any]
) -> None:
    monkeypatch.setattr("daemon.connections.unfinished.WAIT_S", 0.05)
    chance = random.Random(20)
    limits = Limits(message_bytes_max=100_000, unfinished_bytes_max=250_000)
    async with running_site(tmp_path, limits) as site:
        budget, most = site.broker.unfinished, 0
        server = connections(site, StompSettings())  # type: ignore[arg-type]  # nobody listens here
        for account in ("ada", "bob", "eve"):  # from now on to log in takes no time
            await site.authenticate(account, PASSWORD, REMOTES[0])

        async def client(end: str) -> None:
            nonlocal most
            ours, theirs = trio.testing.memory_stream_pair()
            account, topic = chance.choice([("ada", "t"), ("bob", "t"), ("eve", "eve.t"), ("eve", "t")])
            login, message = speak(account, topic)
            remote = chance.choice(REMOTES)
            cut = chance.randrange(len(message))
            async with trio.open_nursery() as nursery:
                if speak is smqp:
                    nursery.start_soon(serve_connection, site, theirs, remote)
                else:
                    nursery.start_soon(server.serve, StreamTransport(theirs), remote, math.inf)
                await ours.send_all(login + message[:cut])
                with trio.move_on_after(chance.random() / 2):
                    while True:
                        most = max(most, budget.bytes)
                        if not await ours.receive_some():
                            break
                if end == "complete":
                    await ours.send_all(message[cut:])
                elif end == "break":
                    await ours.send_all(b"\0\n\n\0" * 20_000)
                if end in ("complete", "break"):
                    await trio.sleep(chance.random() / 2)  # it leaves at any moment, late ones too
                if end in ("complete", "break", "close"):
                    await ours.aclose()
                elif end == "reset":
                    await trio.aclose_forcefully(ours)
                    await trio.aclose_forcefully(theirs)
                else:
                    nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(client, ENDS[number % len(ENDS)])
                await trio.sleep(chance.random() / 50)  # they come one after another, and are there together
        assert most > 0
        assert budget.bytes == 0
        assert not budget._by_account
        assert not budget._by_address
        assert not budget._waiting
