"""Transactions of a daemon that is killed in the middle of them: each has happened, or none of it."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.ports import free_port
from tests.support.process import daemon
from tests.support.stomp import StompClient
from tests.support.stomp_site import make_stomp_site, stomp_environment

pytestmark = pytest.mark.kill

MESSAGES = 400
KILLS = 2
UNDER_WAY = 10


class Receipts(set[Any]):
    """The receipts of COMMIT that have come."""

    def expect(self, more: Any) -> Any:
        """The event of so many more having come."""
        self._goal, self._reached = len(self) + more, trio.Event()
        return self._reached

    def add(self, receipt: Any) -> None:
        super().add(receipt)
        if len(self) >= self._goal:
            self._reached.set()


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Any]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        client = StompClient(stream)
        await client.connect(login="guest", passcode="guest")
        yield client


async def work(port: int, receipts: Any) -> None:
    """Move messages from one queue to two others, many transactions under way, until the daemon ends."""
    with suppress(trio.BrokenResourceError, AssertionError):
        async with client_of(port) as client:
            await move(client, receipts)


async def move(client: Any, receipts: Any) -> None:
    await client.subscribe("/queue/in", ack="client-individual", prefetch_count=str(UNDER_WAY))
    await client.send("BEGIN", {"transaction": "left open"})
    await client.send("SEND", {"destination": "/queue/a", "transaction": "left open"}, b"never")
    while True:
        frame = await client.receive()
        if frame.command == "RECEIPT":
            receipts.add(frame.headers["receipt-id"])
            continue
        number = frame.body.decode()
        part = {"transaction": number}
        await client.send("BEGIN", part)
        await client.send("SEND", {"destination": "/queue/a", **part}, frame.body)
        await client.send("ACK", {"id": frame.headers["ack"], **part})
        await client.send("SEND", {"destination": "/queue/b", **part}, frame.body)
        await client.send("COMMIT", {**part, "receipt": number})


async def fill(port: int) -> None:
    async with client_of(port) as client:
        for number in range(MESSAGES):
            headers = {"destination": "/queue/in", "persistent": "true"}
            await client.send("SEND", headers, str(number).encode())
        await client.ask("DISCONNECT")


async def take_all(client: Any, queue: Any) -> Any:
    """The bodies that a queue holds."""
    await client.send("SEND", {"destination": queue, "persistent": "true", "receipt": "last"}, b"last")
    await client.expect("RECEIPT")
    await client.send("SUBSCRIBE", {"destination": queue, "id": queue, "prefetch-count": "0"})
    found = []
    while (message := await client.expect("MESSAGE")).body != b"last":
        found.append(message.body.decode())
    return Counter(found)


async def test_after_a_kill_a_transaction_has_happened_whole_or_not_at_all(tmp_path: Path) -> None:
    port = free_port()
    config = make_stomp_site(tmp_path / "site", port)
    path = stomp_environment(tmp_path)["PYTHONPATH"]
    receipts = Receipts()
    for kill in range(KILLS):
        async with daemon(config, PYTHONPATH=path) as running, trio.open_nursery() as nursery:
            if not kill:
                await fill(port)
            enough = receipts.expect(MESSAGES // (KILLS + 2))
            for _ in range(2):
                nursery.start_soon(work, port, receipts)
            await enough.wait()
            running.process.kill()
    async with daemon(config, PYTHONPATH=path), client_of(port) as client:
        held, one, other = [await take_all(client, f"/queue/{queue}") for queue in ("in", "a", "b")]
    assert one == other
    assert held + one == Counter(map(str, range(MESSAGES)))
    assert receipts <= one.keys()
    assert held
