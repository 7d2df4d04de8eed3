"""What one connection does to the page: who takes nothing, who leaves, and what nobody should send."""

from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import h2.errors
import h2.events
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from daemon.frontend import Identity
from daemon.settings import Limits
from plugins.web.app import make_app
from plugins.web.connection import KEEP_ALIVE_S, UNDER_WAY_MAX
from plugins.web.live import STREAMS_MAX, Live
from plugins.web.serving import WebServer
from plugins.web.settings import WebSettings
from routing.message import Message
from tests.support.http2 import Http2Client
from tests.support.site import PASSWORD, BrokerSite
from tests.support.web import REMOTE

ADA = ("authorization", f"Basic {b64encode(f'ada:{PASSWORD}'.encode()).decode()}")
FORM = ("content-type", "application/x-www-form-urlencoded")
SEND_S = 30.0


class Connected:
    """A connection that the page serves.

    Attributes:
        ours: the end of the client.
        ended: set once the page has done with it.
    """

    def __init__(self) -> None:
        self.ours, self._theirs = memory_stream_pair()
        self.ended = trio.Event()

    async def serve(self, server: WebServer) -> None:
        await server.serve(self._theirs, REMOTE)
        await self._theirs.aclose()
        self.ended.set()


Connect = Callable[[], Connected]


@pytest.fixture
def limits() -> Limits:
    return Limits(send_timeout_s=SEND_S)


@pytest.fixture
def live(site: Any) -> Live:
    return Live(site)


@pytest.fixture
def server(site: Any, live: Live) -> WebServer:
    return WebServer(site, make_app(site, WebSettings(), live))


@pytest.fixture
def connect(server: WebServer, nursery: trio.Nursery) -> Connect:
    def connect() -> Connected:
        connected = Connected()
        nursery.start_soon(connected.serve, server)
        return connected

    return connect


@pytest.fixture
def connected(connect: Connect) -> Connected:
    return connect()


@pytest.fixture
def client(connected: Connected) -> Http2Client:
    return Http2Client(connected.ours)


class TestWhoTakesNothing:
    """An answer is there, and its client leaves no room for it."""

    @pytest.fixture
    def client(self, connected: Connected) -> Http2Client:
        return Http2Client(connected.ours, window=0)

    async def test_it_is_sent_away(
        self, site: BrokerSite, client: Http2Client, connected: Connected, autojump_clock: MockClock
    ) -> None:
        began = trio.current_time()
        await client.begin("GET", "/login")
        await connected.ended.wait()
        assert SEND_S <= trio.current_time() - began < 2 * SEND_S
        assert site.broker.mishaps.count == 0

    async def test_also_who_listens_to_events_that_have_no_end(
        self, client: Http2Client, connected: Connected, live: Live, autojump_clock: MockClock
    ) -> None:
        began = trio.current_time()
        assert await client.status(await client.begin("GET", "/events", ADA)) == 200
        with trio.move_on_after(10 * SEND_S):
            await connected.ended.wait()
        assert SEND_S <= trio.current_time() - began < 2 * SEND_S
        assert live.streams == 0

    async def test_pings_do_not_help(
        self, client: Http2Client, connected: Connected, autojump_clock: MockClock
    ) -> None:
        began = trio.current_time()
        await client.begin("GET", "/login")
        while trio.current_time() - began < 2 * SEND_S and not connected.ended.is_set():
            client.connection.ping(b"I'm here")
            await client.flush()
            await trio.sleep(SEND_S / 4)
        assert connected.ended.is_set()

    async def test_who_takes_a_little_now_and_then_stays(
        self, client: Http2Client, autojump_clock: MockClock
    ) -> None:
        stream = await client.begin("GET", "/static/page.css")
        taken = 0
        while client.connection.streams[stream].open:
            await trio.sleep(SEND_S * 0.9)
            client.connection.increment_flow_control_window(500, stream)
            await client.flush()
            event = await client.until(h2.events.DataReceived, stream)
            taken += len(event.data)
            if event.stream_ended:
                break
        assert taken > 2_000

    async def test_who_leaves_is_done_with_at_once(
        self, client: Http2Client, connected: Connected, autojump_clock: MockClock
    ) -> None:
        began = trio.current_time()
        assert await client.status(await client.begin("GET", "/login")) == 200
        await client.stream.aclose()
        await connected.ended.wait()
        assert trio.current_time() == began

    async def test_so_is_who_listens_to_events(
        self, client: Http2Client, connected: Connected, live: Live, autojump_clock: MockClock
    ) -> None:
        assert await client.status(await client.begin("GET", "/events", ADA)) == 200
        assert live.streams == 1
        await client.stream.aclose()
        await connected.ended.wait()
        assert live.streams == 0


async def test_who_leaves_between_two_requests_is_done_with_at_once(
    client: Http2Client, connected: Connected, autojump_clock: MockClock
) -> None:
    began = trio.current_time()
    await client.until(h2.events.StreamEnded, await client.begin("GET", "/health/live"))
    await client.stream.aclose()
    await connected.ended.wait()
    assert trio.current_time() == began


async def test_what_was_asked_for_is_done_also_when_the_client_has_left(
    site: BrokerSite,
    client: Http2Client,
    connected: Connected,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    """With its line in the log."""
    caplog.set_level("INFO")
    session = site.open_session(Identity("ada"), "desk", protocol="test", remote=REMOTE)
    session.publish("jobs", Message(delivery="ONE"), 1)
    await session.events()
    await client.begin("POST", "/api/topic/purge?name=jobs", ADA)
    await wait_all_tasks_blocked()
    await client.stream.aclose()
    await connected.ended.wait()
    assert "purged jobs, which held 1 message: by ada" in caplog.text


async def test_the_head_of_events_has_no_end_to_wait_for(
    client: Http2Client, live: Live, autojump_clock: MockClock
) -> None:
    stream = await client.begin("HEAD", "/events", ADA)
    began = trio.current_time()
    assert await client.status(stream) == 200
    await client.until(h2.events.StreamEnded, stream)
    assert (live.streams, trio.current_time()) == (0, began)


async def test_events_have_as_many_streams_as_there_may_be(
    connect: Connect, live: Live, autojump_clock: MockClock
) -> None:
    """Also once they were left, whatever the client had still to take."""
    for _ in range(STREAMS_MAX + 1):
        connected = connect()
        leaving = Http2Client(connected.ours, window=0)
        assert await leaving.status(await leaving.begin("GET", "/events", ADA)) == 200
        await leaving.stream.aclose()
        await connected.ended.wait()


class TestDraining:
    """What is under way when the site drains is answered whole, and then told to be the last."""

    @pytest.fixture
    def server(self, server: WebServer, nursery: trio.Nursery) -> WebServer:
        nursery.start_soon(server.drain)
        return server

    async def test_a_body_that_still_comes(
        self, site: BrokerSite, client: Http2Client, connected: Connected, autojump_clock: MockClock
    ) -> None:
        publish = ("POST", "/api/topic/messages?name=jobs", ADA)
        streams = [await client.begin(*publish, ends=False) for _ in range(2)]
        await wait_all_tasks_blocked()
        site.draining.set()
        for stream in streams:
            client.connection.send_data(stream, b"work", end_stream=True)
        await client.flush()
        for stream in streams:
            assert await client.status(stream) == 200
            await client.until(h2.events.StreamEnded, stream)
        await client.until(h2.events.ConnectionTerminated)
        await connected.ended.wait()

    async def test_events_of_two(
        self, site: BrokerSite, client: Http2Client, connected: Connected, autojump_clock: MockClock
    ) -> None:
        streams = [await client.begin("GET", "/events", ADA) for _ in range(2)]
        for stream in streams:
            await client.until(h2.events.DataReceived, stream)
        site.draining.set()
        for stream in streams:
            await client.until(h2.events.StreamEnded, stream)
        await client.until(h2.events.ConnectionTerminated)
        await connected.ended.wait()


async def test_a_connection_may_have_any_number_of_requests(
    client: Http2Client, autojump_clock: MockClock
) -> None:
    for _ in range(1_100):
        stream = await client.begin("GET", "/health/live")
        assert await client.status(stream) == 200
        await client.until(h2.events.StreamEnded, stream)


async def test_a_ping_is_not_the_beginning_of_a_request(
    client: Http2Client, connected: Connected, autojump_clock: MockClock
) -> None:
    """And holds no connection either."""
    await client.until(h2.events.StreamEnded, await client.begin("GET", "/health/live"))
    answered = trio.current_time()
    with suppress(trio.BrokenResourceError):  # it was closed
        while True:
            client.connection.ping(b"I'm here")
            await client.flush()
            await trio.sleep(1.0)
    assert KEEP_ALIVE_S <= trio.current_time() - answered < KEEP_ALIVE_S + 5


class TestFrames:
    """Such as clients may send, or should not: the rest of the connection goes on, or it is closed."""

    @pytest.fixture(autouse=True)
    async def nothing_of_ours_has_failed(
        self, site: BrokerSite, caplog: pytest.LogCaptureFixture
    ) -> AsyncIterator[None]:
        yield
        assert site.broker.mishaps.count == 0
        assert "Traceback" not in caplog.text

    @pytest.mark.parametrize(
        ("path", "headers", "status"),
        [
            ("/api/account/add", (), 401),
            ("/login", (FORM, ("content-length", "9999999")), 413),
            ("/topic/purge", (FORM,), 303),
        ],
    )
    async def test_a_body_that_was_answered_early(
        self,
        client: Http2Client,
        path: str,
        headers: tuple[tuple[str, str], ...],
        status: int,
        autojump_clock: MockClock,
    ) -> None:
        listening = await client.begin("GET", "/events", ADA)
        assert await client.status(listening) == 200
        stream = await client.begin("POST", path, *headers, ends=False)
        for _ in range(30):
            client.connection.send_data(stream, b"x" * 1_000)
        await client.flush()
        assert await client.status(stream) == status
        await client.until(h2.events.StreamEnded, stream)
        for _ in range(30):
            client.connection.send_data(stream, b"x" * 1_000)
        await client.flush()
        for _ in range(3):
            await client.until(h2.events.DataReceived, listening)

    async def test_a_body_that_comes_after_the_answer(
        self, client: Http2Client, autojump_clock: MockClock
    ) -> None:
        stream = await client.begin("POST", "/api/account/add", ends=False)
        client.connection.send_data(stream, b"x" * 1_000)
        late = client.connection.data_to_send()
        assert await client.status(stream) == 401
        await client.stream.send_all(late)
        assert await client.status(await client.begin("GET", "/health/live")) == 200

    async def test_a_connect_as_to_a_proxy(self, client: Http2Client, autojump_clock: MockClock) -> None:
        client.connection.send_headers(1, [(":method", "CONNECT"), (":authority", "localhost:1")])
        await client.flush()
        assert await client.status(1) == 501
        assert await client.status(await client.begin("GET", "/health/live")) == 200

    async def test_a_connect_that_is_cancelled_at_once(
        self, client: Http2Client, autojump_clock: MockClock
    ) -> None:
        client.connection.send_headers(1, [(":method", "CONNECT"), (":authority", "localhost:1")])
        client.connection.reset_stream(1)
        await client.flush()
        assert await client.status(await client.begin("GET", "/health/live")) == 200

    async def test_a_websocket_that_does_not_wait_for_an_answer(
        self, connect: Connect, autojump_clock: MockClock
    ) -> None:
        """In HTTP/1.1. Which of both would come first is a matter of chance, so several do so."""
        upgrade = (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        for _ in range(10):
            connected = connect()
            await connected.ours.send_all(upgrade + b"\x81\x80abcd")
            assert (await connected.ours.receive_some()).startswith(b"HTTP/1.1 403 ")
            await connected.ended.wait()

    async def test_a_websocket_over_http_2(self, client: Http2Client, autojump_clock: MockClock) -> None:
        """Which is not offered. Other requests of its connection go on."""
        listening = await client.begin("GET", "/events", ADA)
        assert await client.status(listening) == 200
        assert not client.connection.remote_settings.enable_connect_protocol
        for _ in range(10):
            version = ("sec-websocket-version", "13")
            stream = await client.begin("CONNECT", "/", (":protocol", "websocket"), version, ends=False)
            client.connection.send_data(stream, b"a frame")
            await client.flush()
            assert await client.status(stream) == 501
        for _ in range(3):
            await client.until(h2.events.DataReceived, listening)

    async def test_a_path_that_is_no_ascii(self, client: Http2Client, autojump_clock: MockClock) -> None:
        assert await client.status(await client.begin("GET", "/é")) == 400
        assert await client.status(await client.begin("GET", "/health/live")) == 200

    async def test_priorities_of_many_streams(self, client: Http2Client, autojump_clock: MockClock) -> None:
        for number in range(1_100):
            client.connection.prioritize(1 + 2 * number, weight=5)
        client.connection.highest_outbound_stream_id = 0
        await client.flush()
        assert await client.status(await client.begin("GET", "/health/live")) == 200

    async def test_a_method_that_is_no_ascii(
        self, client: Http2Client, connected: Connected, autojump_clock: MockClock
    ) -> None:
        await client.begin("GÉT", "/health/live")
        await connected.ended.wait()

    async def test_frames_that_are_none(
        self, client: Http2Client, connected: Connected, autojump_clock: MockClock
    ) -> None:
        await client.flush()
        await client.stream.send_all(b"\0\0\1\7" + b"\xff" * 100)
        await connected.ended.wait()


async def test_an_answer_is_taken_while_a_body_still_comes_that_nobody_reads(
    connected: Connected, autojump_clock: MockClock
) -> None:
    client = Http2Client(connected.ours, window=0)
    stream = await client.begin("POST", "/api/account/add", ends=False)
    for _ in range(100):
        while client.connection.local_flow_control_window(stream) < 1_000:
            await client.flush()
            await client.until(h2.events.WindowUpdated)
        client.connection.send_data(stream, b"x" * 1_000)
    await client.flush()
    assert await client.status(stream) == 401
    client.connection.increment_flow_control_window(1_000, stream)
    await client.flush()
    assert b"not-logged-in" in (await client.until(h2.events.DataReceived, stream)).data


class TestRequestsThatAreCancelledAtOnce:
    """Each with a guess at a password, which is under way for longer."""

    async def cancel_many(self, client: Http2Client) -> None:
        guess = ("authorization", f"Basic {b64encode(b'ada:guess').decode()}")
        for _ in range(5 * UNDER_WAY_MAX):
            client.connection.reset_stream(await client.begin("GET", "/api/overview", guess))
        await client.flush()

    async def test_they_are_not_many_at_a_time(self, client: Http2Client, autojump_clock: MockClock) -> None:
        await client.status(await client.begin("GET", "/health/live"))
        before = trio.lowlevel.current_statistics().tasks_living
        await self.cancel_many(client)
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living <= before + 2 * UNDER_WAY_MAX

    async def test_one_more_may_be_repeated_and_the_others_go_on(
        self, site: BrokerSite, client: Http2Client, autojump_clock: MockClock
    ) -> None:
        listening = await client.begin("GET", "/events", ADA)
        assert await client.status(listening) == 200
        await self.cancel_many(client)
        stream = await client.begin("GET", "/health/live")
        refused = await client.until(h2.events.StreamReset, stream)
        assert refused.error_code == h2.errors.ErrorCodes.REFUSED_STREAM
        for _ in range(3):
            await client.until(h2.events.DataReceived, listening)
        assert site.broker.mishaps.count == 0


class TestTwoUploads:
    """On one connection, where the site has room for one at a time."""

    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(message_bytes_max=100_000, unfinished_bytes_max=200_000, send_timeout_s=SEND_S)

    @pytest.fixture
    async def first(self, client: Http2Client) -> int:
        """It has its room, as some of it was taken."""
        first = await self.begin(client)
        await self.upload(client, first, 40_000)
        await client.until(h2.events.WindowUpdated, first)
        return first

    @pytest.fixture
    async def second(self, client: Http2Client, first: int) -> int:
        """It waits, and much of it has come."""
        second = await self.begin(client)
        await self.upload(client, second, 60_000)
        await wait_all_tasks_blocked()
        return second

    async def test_the_one_that_waits_does_not_hold_up_the_other(
        self, site: BrokerSite, client: Http2Client, first: int, second: int
    ) -> None:
        await self.upload(client, first, 50_000, ends=True)
        assert await client.status(first) == 200
        await self.upload(client, second, 30_000, ends=True)
        assert await client.status(second) == 200
        assert site.broker.unfinished.bytes == 0

    async def test_no_more_comes_of_the_one_that_waits_than_its_window(
        self, client: Http2Client, second: int
    ) -> None:
        client.connection.ping(b"all read")
        await client.flush()
        await client.until(h2.events.PingAckReceived)
        assert client.connection.local_flow_control_window(second) < 10_000

    async def test_one_of_any_size_is_taken(self, client: Http2Client) -> None:
        """Though each byte of it is padded with ten."""
        stream = await client.begin("POST", "/api/topic/messages?name=jobs", ADA, ends=False)
        await self.upload(client, stream, 20_000, by=1, pad_length=10, ends=True)
        assert await client.status(stream) == 200

    async def begin(self, client: Http2Client) -> int:
        length = ("content-length", "90000")
        return await client.begin("POST", "/api/topic/messages?name=jobs", ADA, length, ends=False)

    async def upload(
        self,
        client: Http2Client,
        stream: int,
        size: int,
        *,
        by: int = 10_000,
        pad_length: int | None = None,
        ends: bool = False,
    ) -> None:
        for _ in range(size // by):
            while client.connection.local_flow_control_window(stream) < by + (pad_length or 0) + 1:
                await client.flush()
                await client.until(h2.events.WindowUpdated)
            client.connection.send_data(stream, b"x" * by, pad_length=pad_length)
        if ends:
            client.connection.end_stream(stream)
        await client.flush()


async def test_a_body_that_nobody_reads_holds_no_connection(
    connected: Connected, autojump_clock: MockClock
) -> None:
    """In HTTP/1.1, of which there is more than is kept for an application."""
    began = trio.current_time()
    head = b"POST /api/account/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n"
    await connected.ours.send_all(head + b"x" * 2_000_000)
    assert (await connected.ours.receive_some()).startswith(b"HTTP/1.1 401 ")
    await connected.ended.wait()
    assert trio.current_time() - began < SEND_S
