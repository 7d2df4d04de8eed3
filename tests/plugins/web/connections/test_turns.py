"""Many who have the page read what costs them little: others run between two of their requests."""

from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from plugins.web.serving import WebServer
from tests.support.http2 import Http2Client
from tests.support.web_connection import ConnectPage

CONNECTIONS = 10
REQUESTS = 10


class TurnsCounted:
    """An application, and how many requests it began with in each turn of the event loop."""

    def __init__(self) -> None:
        self.began = Counter[int]()
        self.turn = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.began[self.turn] += 1
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def count(self) -> None:
        while True:
            self.turn += 1
            await trio.lowlevel.checkpoint()


@pytest.fixture
def app() -> TurnsCounted:
    return TurnsCounted()


@pytest.fixture
def server(site: Any, app: TurnsCounted) -> WebServer:
    return WebServer(site, app)


async def begun(app: TurnsCounted, requests: int) -> None:
    while app.began.total() < requests:
        await trio.lowlevel.checkpoint()


async def test_heads_that_are_hard_to_read_are_read_a_few_in_a_turn(
    app: TurnsCounted, connect: ConnectPage, nursery: trio.Nursery
) -> None:
    """Each header is one byte, as HPACK has it; all heads together would be half a second of work."""
    clients = [Http2Client(connect().ours) for _ in range(CONNECTIONS)]
    for client in clients:
        await client.flush()
    await wait_all_tasks_blocked()
    nursery.start_soon(app.count)
    for client in clients:
        for _ in range(REQUESTS):
            stream = client.connection.get_next_available_stream_id()
            head = [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/")]
            client.connection.send_headers(stream, [*head, *[("a", "")] * 900], end_stream=True)
    for client in clients:
        await client.flush()
    await begun(app, CONNECTIONS * REQUESTS)
    assert max(app.began.values()) <= 5


async def test_so_are_those_of_http_1_that_come_one_behind_the_other(
    app: TurnsCounted, connect: ConnectPage, nursery: trio.Nursery
) -> None:
    nursery.start_soon(app.count)
    for _ in range(10 * CONNECTIONS):
        await connect().ours.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * REQUESTS)
    await begun(app, 10 * CONNECTIONS * REQUESTS)
    assert max(app.began.values()) <= 5


class TestABodyInSmallChunks:
    """Of HTTP/1.1, 50 ms of work; its request is answered before it has come, so that nobody receives it."""

    @pytest.fixture
    def app(self) -> "AnswerAtOnce":
        return AnswerAtOnce()

    async def test_it_is_read_in_many_turns(
        self, app: "AnswerAtOnce", connect: ConnectPage, nursery: trio.Nursery
    ) -> None:
        nursery.start_soon(app.count)
        client = connect().ours
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        await client.send_all(head + b"1\r\nx\r\n" * 10_000)
        await client.send_eof()
        await begun(app, 2)
        assert max(app.began) - min(app.began) > 12


class AnswerAtOnce(TurnsCounted):
    """Has begun once more when the client has gone."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.began[self.turn] += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()
        self.began[self.turn] += 1
