"""The events by which the overview is told as it changes."""

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from plugins.web.events import EventStream
from plugins.web.live import STREAMS_MAX, Live
from tests.support.broker import SessionClient


class Listener:
    """A browser that listens to the events of the overview."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._gone = trio.Event()
        self._sender, self.heard = trio.open_memory_channel[Any](100)
        self.statuses: list[int] = []

    async def run(self) -> None:
        with self._sender:
            await self._stream({"type": "http", "method": "GET"}, self._receive, self._send)

    def leave(self) -> None:
        self._gone.set()

    async def next(self) -> Any:
        """The next event."""
        with trio.fail_after(60):
            data = await self.heard.receive()
        return json.loads(data.partition(b"data: ")[2])

    async def _receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])
        elif message["body"]:
            await self._sender.send(message["body"])


async def yes() -> bool:
    return True


async def test_the_overview_is_told_as_it_changes(
    site: Any, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    live = Live(site)
    listener = Listener(EventStream(site, live, yes))
    nursery.start_soon(listener.run)
    assert (await listener.next())["texts"]["held"] == "0"
    await SessionClient(site.broker, "ada", "desk").publish("jobs", delivery="ONE")
    while (await listener.next())["texts"]["held"] != "1":
        pass
    listener.leave()
    await trio.testing.wait_all_tasks_blocked()
    assert live.streams == 0


async def test_who_may_no_longer_listen_is_told_no_more(site: Any, autojump_clock: MockClock) -> None:
    allowed = [True, True, False]

    async def may_listen() -> bool:
        return allowed.pop(0)

    listener = Listener(EventStream(site, Live(site), may_listen))
    await listener.run()
    assert len([each async for each in listener.heard]) == 2


async def test_a_site_that_drains_ends_its_streams(site: Any, nursery: trio.Nursery) -> None:
    listener = Listener(EventStream(site, Live(site), yes))
    nursery.start_soon(listener.run)
    await listener.next()
    site.draining.set()
    with trio.fail_after(60), pytest.raises(trio.EndOfChannel):
        await listener.next()


async def test_only_so_many_listen_at_a_time(site: Any) -> None:
    live = Live(site)
    live.streams = STREAMS_MAX
    listener = Listener(EventStream(site, live, yes))
    await listener.run()
    assert listener.statuses == [503]
    assert live.streams == STREAMS_MAX
