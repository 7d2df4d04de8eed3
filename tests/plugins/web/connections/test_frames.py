"""What comes on a connection: frames that nobody should send, and more than there is room for."""

from base64 import b64encode
from collections.abc import AsyncIterator

import h2.errors
import h2.events
import h2.settings
import pytest
import trio
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, HeadersFrame
from trio.testing import MockClock, wait_all_tasks_blocked

from daemon.settings import Limits
from plugins.web.connection import REQUESTS_MAX, UNDER_WAY_MAX
from plugins.web.http2 import UNTAKEN_BYTES_MAX
from plugins.web.serving import HEAD_BYTES_MAX
from tests.support.http2 import Http2Client
from tests.support.site import BrokerSite
from tests.support.web_connection import ADA, FORM, SEND_S, ConnectPage, ServedConnection


class TestFrames:
    """Such as clients may send, or should not: the rest of the connection goes on, or it is closed."""

    @pytest.fixture
    async def client(
        self, client: Http2Client, site: BrokerSite, caplog: pytest.LogCaptureFixture
    ) -> AsyncIterator[Http2Client]:
        """After which nothing of ours has failed. (Nobody runs an async fixture that no test asks for.)"""
        yield client
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

    async def test_a_body_that_is_cancelled_as_another_request_begins(
        self, client: Http2Client, autojump_clock: MockClock
    ) -> None:
        stream = await client.begin("POST", "/api/topic/messages?name=jobs", ADA, ends=False)
        assert await client.status(await client.begin("GET", "/api/overview", ADA)) == 200
        await wait_all_tasks_blocked()
        client.connection.send_data(stream, b"x" * 100)
        client.connection.reset_stream(stream)
        assert await client.status(await client.begin("GET", "/health/live")) == 200
        await wait_all_tasks_blocked()

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
        self, connect: ConnectPage, autojump_clock: MockClock
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

    async def test_who_would_change_to_http_2_is_answered_in_http_1(
        self, connected: ServedConnection, autojump_clock: MockClock
    ) -> None:
        upgrade = b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
        await connected.ours.send_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n" + upgrade)
        assert (await connected.ours.receive_some()).startswith(b"HTTP/1.1 200 ")

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
        self, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
    ) -> None:
        await client.begin("GÉT", "/health/live")
        await connected.ended.wait()

    async def test_a_head_that_is_larger_than_was_told(
        self, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
    ) -> None:
        await client.flush()
        told = (await client.until(h2.events.RemoteSettingsChanged)).changed_settings
        assert told[h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE].new_value == HEAD_BYTES_MAX
        most = await client.begin("GET", "/health/live", ("more", "x" * (HEAD_BYTES_MAX - 1_000)))
        assert await client.status(most) == 200
        await client.begin("GET", "/health/live", ("more", "x" * HEAD_BYTES_MAX))
        await client.until(h2.events.ConnectionTerminated)
        await connected.ended.wait()

    async def test_a_table_that_changes_its_size_more_often_than_it_may(
        self, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
    ) -> None:
        """Each time it takes a byte of a head, and work that counts for no header."""
        for size in (0, 1_000):
            client.connection.encoder.header_table_size = size
        assert await client.status(await client.begin("GET", "/health/live")) == 200
        for size in (2_000, 0, 1_000):
            client.connection.encoder.header_table_size = size
        await client.begin("GET", "/health/live")
        await client.until(h2.events.ConnectionTerminated)
        await connected.ended.wait()

    @pytest.mark.parametrize(
        ("frames", "error"),
        [
            (
                (HeadersFrame(1, b"x" * 16_384), *(ContinuationFrame(1, b"x" * 8_192) for _ in range(3))),
                h2.errors.ErrorCodes.ENHANCE_YOUR_CALM,
            ),
            ((DataFrame(1, b"x" * 100_000),), h2.errors.ErrorCodes.FRAME_SIZE_ERROR),
        ],
        ids=["a head", "a frame"],
    )
    async def test_what_is_too_large_though_its_end_has_not_come(
        self,
        client: Http2Client,
        connected: ServedConnection,
        frames: tuple[Frame, ...],
        error: h2.errors.ErrorCodes,
        autojump_clock: MockClock,
    ) -> None:
        await client.flush()
        await client.until(h2.events.RemoteSettingsChanged)
        await client.stream.send_all(b"".join(frame.serialize() for frame in frames)[:50_000])
        assert (await client.until(h2.events.ConnectionTerminated)).error_code == error
        await connected.ended.wait()

    async def test_frames_that_are_none(
        self, client: Http2Client, connected: ServedConnection, autojump_clock: MockClock
    ) -> None:
        await client.flush()
        await client.stream.send_all(b"\0\0\1\7" + b"\xff" * 100)
        await connected.ended.wait()


async def test_an_answer_is_taken_while_a_body_still_comes_that_nobody_reads(
    connected: ServedConnection, autojump_clock: MockClock
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

    @pytest.mark.parametrize(
        ("query", "more"), [("", "x" * 30_000), ("?" + "x" * 30_000, "")], ids=["header", "path"]
    )
    async def test_nor_are_their_heads_many_bytes(
        self, client: Http2Client, query: str, more: str, autojump_clock: MockClock
    ) -> None:
        guess, large = ("authorization", f"Basic {b64encode(b'ada:guess').decode()}"), ("more", more)
        path = f"/api/overview{query}"
        first, second, *_, last = [await client.begin("GET", path, guess, large) for _ in range(10)]
        refused = await client.until(h2.events.StreamReset, last)
        assert refused.error_code == h2.errors.ErrorCodes.REFUSED_STREAM
        for stream in (first, second):
            assert await client.status(stream) == 401
        assert await client.status(await client.begin("GET", "/health/live", large)) == 200

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


class TestBodiesThatNobodyReceivesYet:
    """Of who shows a token that is none, which is answered after a while."""

    @pytest.fixture
    async def streams(self, client: Http2Client) -> list[int]:
        token = ("authorization", "Bearer none")
        path = "/api/topic/messages?name=jobs"
        return [await client.begin("POST", path, token, ends=False) for _ in range(REQUESTS_MAX - 1)]

    @pytest.fixture
    async def sent_bytes(self, client: Http2Client, streams: list[int]) -> int:
        """As many as may be sent."""
        sent = 0
        for stream in streams:
            await self.all_read(client)
            while window := client.connection.local_flow_control_window(stream):
                client.connection.send_data(stream, b"x" * min(window, 10_000))
                sent += min(window, 10_000)
                await self.all_read(client)
        return sent

    async def all_read(self, client: Http2Client) -> None:
        client.connection.ping(b"all read")
        await client.flush()
        await client.until(h2.events.PingAckReceived)

    async def test_they_are_not_many_bytes(self, sent_bytes: int, autojump_clock: MockClock) -> None:
        assert UNTAKEN_BYTES_MAX < sent_bytes <= UNTAKEN_BYTES_MAX + 65_535

    async def test_others_go_on_once_they_are_answered(
        self, client: Http2Client, streams: list[int], sent_bytes: int, autojump_clock: MockClock
    ) -> None:
        for stream in streams:
            assert await client.status(stream) == 401
        await self.upload(client)

    async def test_others_go_on_once_they_are_cancelled(
        self, client: Http2Client, streams: list[int], sent_bytes: int, autojump_clock: MockClock
    ) -> None:
        """At once, though the tokens are still being refused."""
        for stream in streams:
            client.connection.reset_stream(stream)
        await self.all_read(client)
        assert client.connection.outbound_flow_control_window == 65_535
        await self.upload(client)

    async def upload(self, client: Http2Client) -> None:
        stream = await client.begin("POST", "/api/topic/messages?name=jobs", ADA, ends=False)
        await self.all_read(client)
        for _ in range(5):
            client.connection.send_data(stream, b"x" * 10_000)
        client.connection.end_stream(stream)
        await client.flush()
        assert await client.status(stream) == 200


async def test_a_body_that_nobody_reads_holds_no_connection(
    connected: ServedConnection, autojump_clock: MockClock
) -> None:
    """In HTTP/1.1, of which there is more than is kept for an application."""
    began = trio.current_time()
    head = b"POST /api/account/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n"
    await connected.ours.send_all(head + b"x" * 2_000_000)
    assert (await connected.ours.receive_some()).startswith(b"HTTP/1.1 401 ")
    await connected.ended.wait()
    assert trio.current_time() - began < SEND_S
