"""STOMP in WebSocket messages, cut and typed as clients do it."""

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import lockstep_stream_one_way_pair, memory_stream_one_way_pair
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    Request,
    TextMessage,
)

from plugins.stomp.codec import Decoder, encode
from tests.support.patience import PATIENCE_S, pass_time
from tests.support.site import BrokerSite
from tests.support.stomp import WIDE, ConnectStomp

CONNECT = encode("CONNECT", {"accept-version": "1.2", "login": "ada", "passcode": "correct horse"})


class Browser:
    """The client's side of a WebSocket."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.websocket = WSConnection(ConnectionType.CLIENT)
        self.events: list[Any] = []
        self.decoder = Decoder(WIDE)

    async def send(self, event: Any) -> None:
        await self.stream.send_all(self.websocket.send(event))

    async def event(self) -> Any:
        with trio.fail_after(PATIENCE_S):
            while not self.events:
                self.websocket.receive_data(await self.stream.receive_some(65_536) or None)
                self.events += self.websocket.events()
        return self.events.pop(0)

    async def open(self, *subprotocols: str) -> str | None:
        await self.send(Request(host="a", target="/ws", subprotocols=list(subprotocols)))
        accepted = await self.event()
        assert isinstance(accepted, AcceptConnection)
        return accepted.subprotocol

    async def frame(self) -> Any:
        """The next STOMP frame, and the type of the WebSocket message that it came in."""
        kind = None
        while (frame := self.decoder.next_frame()) is None:
            event = await self.event()
            kind = type(event)
            self.decoder.feed(event.data.encode() if kind is TextMessage else bytes(event.data))
        return frame, kind


@pytest.fixture
def browser(connect: ConnectStomp) -> Any:
    return Browser(connect(websocket=True).stream)


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [
        (["v10.stomp", "v11.stomp", "v12.stomp"], "v12.stomp"),
        (["v10.stomp", "v11.stomp"], "v11.stomp"),
        (["v10.stomp"], "v10.stomp"),
        (["mqtt"], None),
        ([], None),
    ],
)
async def test_the_best_subprotocol_offered_is_agreed_to(
    browser: Any, offered: list[str], agreed: str | None
) -> None:
    assert await browser.open(*offered) == agreed


@pytest.mark.parametrize("kind", [TextMessage, BytesMessage])
async def test_the_server_answers_in_the_kind_of_message_that_the_client_uses(
    browser: Any, kind: Any
) -> None:
    await browser.open("v12.stomp")
    await browser.send(kind(CONNECT.decode() if kind is TextMessage else CONNECT))
    frame, came_as = await browser.frame()
    assert (frame.command, came_as) == ("CONNECTED", kind)


async def test_a_body_that_is_no_text_comes_as_bytes(browser: Any) -> None:
    await browser.open("v12.stomp")
    await browser.send(TextMessage(CONNECT.decode()))
    await browser.frame()
    await browser.send(TextMessage("SUBSCRIBE\nid:0\ndestination:/queue/a\nreceipt:r\n\n\0"))
    await browser.frame()
    body = bytes(range(256))
    headers = {"destination": "/queue/a", "content-length": "256"}
    await browser.send(BytesMessage(encode("SEND", headers, body)))
    frame, came_as = await browser.frame()
    assert (frame.body, came_as) == (body, BytesMessage)
    await browser.send(TextMessage("SEND\ndestination:/queue/a\n\nsmörgås\0"))
    frame, came_as = await browser.frame()
    assert (frame.body.decode(), came_as) == ("smörgås", TextMessage)


async def test_frames_may_be_cut_and_joined_by_messages_anyhow(browser: Any) -> None:
    await browser.open("v12.stomp")
    stream = CONNECT + b"\n" + encode("BEGIN", {"transaction": "t", "receipt": "ø"})
    text = stream.decode()
    for at in range(0, len(text), 7):
        await browser.send(TextMessage(text[at : at + 7]))
    assert (await browser.frame())[0].command == "CONNECTED"
    assert (await browser.frame())[0].headers["receipt-id"] == "ø"


async def test_a_message_may_come_in_fragments(browser: Any) -> None:
    await browser.open("v12.stomp")
    await browser.send(BytesMessage(CONNECT[:20], message_finished=False))
    await browser.send(BytesMessage(CONNECT[20:]))
    assert (await browser.frame())[0].command == "CONNECTED"


@pytest.mark.parametrize("kind", [TextMessage, BytesMessage])
async def test_an_empty_message_ends_nothing(browser: Any, kind: Any) -> None:
    connect = CONNECT.decode() if kind is TextMessage else CONNECT
    await browser.open("v12.stomp")
    await browser.send(kind(connect[:0]))
    await trio.testing.wait_all_tasks_blocked()
    await browser.send(kind(connect))
    assert (await browser.frame())[0].command == "CONNECTED"


@pytest.mark.parametrize("kind", [TextMessage, BytesMessage])
async def test_empty_fragments_end_nothing(browser: Any, kind: Any) -> None:
    connect = CONNECT.decode() if kind is TextMessage else CONNECT
    await browser.open("v12.stomp")
    for data, is_last in ((connect[:0], False), (connect, False), (connect[:0], True)):
        await browser.send(kind(data, message_finished=is_last))
        await trio.testing.wait_all_tasks_blocked()
    assert (await browser.frame())[0].command == "CONNECTED"
    await browser.send(kind("\n" if kind is TextMessage else b"\n"))
    await trio.testing.wait_all_tasks_blocked()
    await browser.send(Ping(b"there?"))
    assert await browser.event() == Pong(b"there?")


async def test_a_character_may_be_cut_between_reads(browser: Any) -> None:
    await browser.open("v12.stomp")
    await browser.send(TextMessage(CONNECT.decode()))
    await browser.frame()
    for byte in browser.websocket.send(TextMessage("BEGIN\ntransaction:t\nreceipt:😀\n\n\0")):
        await browser.stream.send_all(bytes([byte]))
        await trio.testing.wait_all_tasks_blocked()
    assert (await browser.frame())[0].headers["receipt-id"] == "😀"


async def test_a_ping_is_answered(browser: Any) -> None:
    await browser.open("v12.stomp")
    await browser.send(Ping(b"there?"))
    assert await browser.event() == Pong(b"there?")


async def test_a_ping_while_much_is_sent_keeps_no_heart_beat_from_being_heard(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    def pair() -> Any:
        """The client's sends go at once, and the server's as the client reads."""
        (asks, hears), (answers, reads) = memory_stream_one_way_pair(), lockstep_stream_one_way_pair()
        return trio.StapledStream(asks, reads), trio.StapledStream(answers, hears)

    browser = Browser(connect(websocket=True, pair=pair).stream)
    await browser.open("v12.stomp")
    await browser.send(BytesMessage(CONNECT.replace(b"login", b"heart-beat:2000,0\nlogin")))
    await browser.frame()
    await browser.send(BytesMessage(b"SUBSCRIBE\nid:0\ndestination:/topic/a\nreceipt:r\n\n\0"))
    await browser.frame()
    await browser.send(BytesMessage(encode("SEND", {"destination": "/topic/a"}, b"x" * 200_000)))
    await trio.testing.wait_all_tasks_blocked()
    for payload in (b"first", b"last"):
        await browser.send(Ping(payload))
        await trio.testing.wait_all_tasks_blocked()
    for _ in range(4):
        await pass_time(mock_clock, 4)
        await browser.send(BytesMessage(b"\n"))
    frame, _ = await browser.frame()
    assert len(frame.body) == 200_000
    assert await browser.event() == Pong(b"last")


async def test_after_an_error_the_server_closes_the_websocket(browser: Any) -> None:
    await browser.open("v12.stomp")
    await browser.send(TextMessage("SEND\n\n\0"))
    assert (await browser.frame())[0].command == "ERROR"
    closed = await browser.event()
    assert isinstance(closed, CloseConnection)
    assert closed.code == 1000
    await browser.send(closed.response())
    assert await browser.stream.receive_some(1) == b""


async def test_a_ping_that_crosses_the_close_does_no_harm(browser: Any) -> None:
    await browser.open("v12.stomp")
    ping = browser.websocket.send(Ping(b"there?"))
    await browser.send(TextMessage("SEND\n\n\0"))
    assert (await browser.frame())[0].command == "ERROR"
    close = await browser.event()
    assert isinstance(close, CloseConnection)
    await browser.stream.send_all(ping)
    await trio.testing.wait_all_tasks_blocked()
    await browser.send(close.response())
    assert not await browser.stream.receive_some(1)


async def test_a_client_may_close_the_websocket(browser: Any) -> None:
    await browser.open("v12.stomp")
    await browser.send(TextMessage(CONNECT.decode()))
    await browser.frame()
    await browser.send(CloseConnection(1000))
    assert isinstance(await browser.event(), CloseConnection)
    assert await browser.stream.receive_some(1) == b""


async def test_who_breaks_the_rules_of_websocket_is_told_so(browser: Any) -> None:
    await browser.open("v12.stomp")
    await browser.stream.send_all(b"\xff\xff\xff\xff")
    closed = await browser.event()
    assert (type(closed), closed.code) == (CloseConnection, 1002)


async def test_the_log_tells_that_the_rules_of_websocket_were_broken(browser: Any, site: BrokerSite) -> None:
    await browser.open("v12.stomp")
    await browser.send(TextMessage(CONNECT.decode()))
    await browser.frame()
    await browser.stream.send_all(b"\xff\xff\xff\xff")
    await browser.event()
    await trio.testing.wait_all_tasks_blocked()
    assert site.ended == ["the site ended it: its client broke the rules of WebSocket"]


async def test_a_message_of_the_websocket_is_one_frame(browser: Any) -> None:
    await browser.open("v12.stomp")
    await browser.send(TextMessage(CONNECT.decode()))
    await browser.frame()
    frames = [encode("SUBSCRIBE", {"id": "0", "destination": "/topic/a", "receipt": "s"})]
    frames += [encode("SEND", {"destination": "/topic/a"}, b"%d" % number) for number in range(3)]
    await browser.send(TextMessage(b"".join(frames).decode()))
    for _ in range(4):
        event = await browser.event()
        browser.decoder.feed(event.data.encode())
        assert browser.decoder.next_frame() is not None
        assert browser.decoder.next_frame() is None


async def answer_to(browser: Any, request: bytes) -> tuple[bytes, bytes]:
    """The head and the body of an answer after which the connection ends."""
    await browser.stream.send_all(request)
    answer = b""
    with trio.fail_after(PATIENCE_S):
        while data := await browser.stream.receive_some(65_536):
            answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


async def test_an_http_request_that_is_no_websocket_is_answered_as_http(browser: Any) -> None:
    head, body = await answer_to(browser, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"STOMP over WebSocket" in body


HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)


@pytest.mark.parametrize(
    "request_line_and_headers", [b"HEAD / HTTP/1.1\r\nHost: a\r\n", HANDSHAKE.replace(b"GET", b"HEAD")]
)
async def test_head_is_answered_without_a_body(browser: Any, request_line_and_headers: bytes) -> None:
    head, body = await answer_to(browser, request_line_and_headers + b"\r\n")
    assert (head.split(b" ")[1], body) == (b"400", b"")


@pytest.mark.parametrize(
    "handshake",
    [
        HANDSHAKE.replace(b"Host: a", b"Host: \xff"),
        HANDSHAKE.replace(b"Host: a", b"Host: xn--a"),
        HANDSHAKE + b"Sec-WebSocket-Protocol: v12.st\xf6mp\r\n",
        HANDSHAKE + b"Sec-WebSocket-Extensions: permessage-deflate; \xff\r\n",
    ],
)
async def test_a_handshake_with_a_header_that_is_no_ascii_is_refused(
    browser: Any, handshake: bytes, site: BrokerSite
) -> None:
    head, body = await answer_to(browser, handshake + b"\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"STOMP over WebSocket" in body
    assert not site.broker.mishaps.count


async def test_what_is_not_even_http_is_dropped(browser: Any) -> None:
    await browser.stream.send_all(CONNECT)
    while await browser.stream.receive_some(65_536):
        pass


async def test_an_old_websocket_version_is_told_which_one_is_spoken(browser: Any) -> None:
    head, _ = await answer_to(browser, HANDSHAKE.replace(b"13", b"8") + b"\r\n")
    assert head.startswith(b"HTTP/1.1 426 ")
    assert b"\r\nsec-websocket-version: 13" in head.lower()


async def test_who_does_not_shake_hands_is_dropped(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect(websocket=True)
    await client.raw(b"GET / HT")
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(16)
    assert await client.stream.receive_some(1) == b""


async def test_the_time_to_log_in_is_not_longer_over_a_websocket(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    browser = Browser(connect(websocket=True).stream)
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(10)
    await browser.open("v12.stomp")
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(6)
    frame, _ = await browser.frame()
    assert frame.headers["message"] == "not-logged-in"
