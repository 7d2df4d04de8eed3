"""What a connection over a real socket is told in the turn of the loop in which that comes true."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from plugins.stomp.codec import Version
from plugins.stomp.conversation import StompConversation
from plugins.stomp.settings import StompSettings
from tests.support.patience import PATIENCE_S
from tests.support.site import BrokerSite, running_site
from tests.support.sockets import socket_pair
from tests.support.stomp import ConnectStomp, StompClient, stomp_server

BODY = bytes(range(1, 256)) * 200
MESSAGES = 60
"""More than fits into both ends of a socket: 3 MB."""


@asynccontextmanager
async def logged_in(connect: ConnectStomp, version: Version = "1.2") -> AsyncIterator[StompClient]:
    client: StompClient = connect(version, pair=socket_pair)
    async with client.stream:
        await client.connect()
        yield client


async def test_who_reads_late_gets_each_frame_whole_and_in_order(connect: ConnectStomp) -> None:
    async with logged_in(connect) as ada, logged_in(connect) as late:
        await late.subscribe("/topic/a", ack="client-individual", prefetch_count=str(MESSAGES))
        for number in range(MESSAGES):
            await ada.ask("SEND", {"destination": "/topic/a", "n": str(number)}, BODY)
        await late.send("SEND", {"destination": "/queue/b", "receipt": "between"})
        frames = [await late.receive() for _ in range(MESSAGES + 1)]
        messages = [frame for frame in frames if frame.command == "MESSAGE"]
        assert [frame.headers["n"] for frame in messages] == [str(number) for number in range(MESSAGES)]
        assert all(frame.body == BODY for frame in messages)


async def test_what_is_acknowledged_by_being_sent_is_so_only_once_it_was(
    connect: ConnectStomp, site: BrokerSite
) -> None:
    async with logged_in(connect) as ada, logged_in(connect) as late:
        await late.subscribe("/queue/a", ack="auto")
        for _ in range(MESSAGES):
            await ada.ask("SEND", {"destination": "/queue/a", "persistent": "true"}, BODY)
        assert site.broker.held > 0
        for _ in range(MESSAGES):
            await late.expect("MESSAGE")
        with trio.fail_after(PATIENCE_S):
            while site.broker.held:
                await trio.sleep(0.01)


async def test_a_client_that_has_gone_when_it_is_told_something_harms_nobody(
    connect: ConnectStomp, site: BrokerSite
) -> None:
    async with (
        logged_in(connect) as ada,
        logged_in(connect) as gone,
        logged_in(connect) as other,
    ):
        await gone.subscribe("/queue/a", ack="client-individual")
        await gone.stream.aclose()
        for _ in range(3):
            await ada.ask("SEND", {"destination": "/queue/a", "persistent": "true"}, BODY)
        await other.subscribe("/queue/a", ack="client-individual")
        for _ in range(3):
            await other.expect("MESSAGE")
        assert site.broker.mishaps.count == 0


async def test_an_error_of_ours_with_what_a_client_is_told_ends_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OwnError(Exception):
        pass

    handle = StompConversation.handle

    def fails(conversation: Any, events: Any) -> None:
        if conversation.version == "1.1":
            raise OwnError
        handle(conversation, events)

    monkeypatch.setattr(StompConversation, "handle", fails)
    async with running_site(tmp_path) as site:
        with pytest.RaisesGroup(OwnError, flatten_subgroups=True, allow_unwrapped=True):
            async with stomp_server(site, StompSettings()) as connect, logged_in(connect, "1.1") as broken:
                await broken.send("SEND", {"destination": "/queue/a", "persistent": "true", "receipt": "r"})
                await broken.expect_end()
        await wait_all_tasks_blocked()
        assert (site.broker.held, site.broker.mishaps.count) == (1, 0)
