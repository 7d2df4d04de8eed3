"""Who takes nothing of an answer, who leaves, and how a connection ends."""

from contextlib import suppress

import h2.errors
import h2.events
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daemon.frontend import Identity
from daemon.settings import Limits
from plugins.web.connection import KEEP_ALIVE_S
from plugins.web.live import STREAMS_MAX, Live
from plugins.web.serving import WebServer
from routing.message import Message
from tests.support.http2 import Http2Client
from tests.support.site import BrokerSite
from tests.support.web import REMOTE
from tests.support.web_connection import ADA, SEND_S, ConnectPage, ServedConnection


class TestWhoTakesNothing:
    """An answer is there, and its client leaves no room for it."""

    @pytest.fixture
    def client(self, connected: ServedConnection) -> Http2Client:
        return Http2Client(connected.ours, window=0)

    async def test_it_is_sent_away(
        self, site: BrokerSite, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
    ) -> None:
        began = trio.current_time()
        await client.begin("GET", "/login")
        await connected.ended.wait()
        assert SEND_S <= trio.current_time() - began < 2 * SEND_S
        assert site.broker.mishaps.count == 0

    async def test_also_who_listens_to_events_that_have_no_end(
        self, client: Http2Client, connected: ServedConnection, live: Live, autojump_clock: MockClock
    ) -> None:
        began = trio.current_time()
        assert await client.status(await client.begin("GET", "/events", ADA)) == 200
        with trio.move_on_after(10 * SEND_S):
            await connected.ended.wait()
        assert SEND_S <= trio.current_time() - began < 2 * SEND_S
        assert live.streams == 0

    async def test_pings_do_not_help(
        self, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
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
        self, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
    ) -> None:
        began = trio.current_time()
        assert await client.status(await client.begin("GET", "/login")) == 200
        await client.stream.aclose()
        await connected.ended.wait()
        assert trio.current_time() == began

    async def test_so_is_who_listens_to_events(
        self, client: Http2Client, connected: ServedConnection, live: Live, autojump_clock: MockClock
    ) -> None:
        assert await client.status(await client.begin("GET", "/events", ADA)) == 200
        assert live.streams == 1
        await client.stream.aclose()
        await connected.ended.wait()
        assert live.streams == 0


async def test_who_leaves_between_two_requests_is_done_with_at_once(
    client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
) -> None:
    began = trio.current_time()
    await client.until(h2.events.StreamEnded, await client.begin("GET", "/health/live"))
    await client.stream.aclose()
    await connected.ended.wait()
    assert trio.current_time() == began


async def test_what_was_asked_for_is_done_also_when_the_client_has_left(
    site: BrokerSite,
    client: Http2Client,
    connected: ServedConnection,
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
    connect: ConnectPage, live: Live, autojump_clock: MockClock
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
        self, site: BrokerSite, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
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

    async def test_a_request_that_comes_too_late_may_be_repeated_elsewhere(
        self, site: BrokerSite, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
    ) -> None:
        under_way = await client.begin("POST", "/api/topic/messages?name=jobs", ADA, ends=False)
        await wait_all_tasks_blocked()
        site.draining.set()
        await wait_all_tasks_blocked()
        refused = await client.until(h2.events.StreamReset, await client.begin("GET", "/health/live"))
        assert refused.error_code == h2.errors.ErrorCodes.REFUSED_STREAM
        client.connection.send_data(under_way, b"work", end_stream=True)
        await client.flush()
        assert await client.status(under_way) == 200
        await connected.ended.wait()

    async def test_requests_that_wait_for_their_turn(
        self, site: BrokerSite, connect: ConnectPage, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        connections = [connect() for _ in range(10)]
        await wait_all_tasks_blocked()
        for each in connections:
            nursery.start_soon(each.ours.send_all, b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        site.draining.set()
        for each in connections:
            assert (await each.ours.receive_some()).startswith(b"HTTP/1.1 200 ")
            await each.ended.wait()

    async def test_events_of_two(
        self, site: BrokerSite, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
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
    client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
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


async def test_who_has_taken_some_of_the_time_to_connect_has_the_rest_of_it_to_ask(
    server: WebServer, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    connected, began = ServedConnection(), trio.current_time()
    nursery.start_soon(connected.serve, server, began + 3.0)
    await connected.ended.wait()
    assert 3.0 <= trio.current_time() - began < Limits().login_timeout_s / 2
