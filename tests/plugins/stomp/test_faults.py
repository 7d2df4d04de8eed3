"""What is refused: frames that come at the wrong time, values that mean nothing, what may not be done."""

import pytest

from routing.errors import Refusal
from tests.support.stomp import ConnectStomp, StompClient


@pytest.mark.parametrize(
    ("frame", "code", "text"),
    [
        (b"SEND\ndestination:/queue/a\nreceipt:r\n\n\0", Refusal.NOT_LOGGED_IN, b"SEND came before CONNECT"),
        (b"HELLO\n\n\0", Refusal.BAD_COMMAND, b"HELLO"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\0", Refusal.BAD_COMMAND, b"GET / HTTP/1.1"),
        (b"CONNECT\naccept-version:3.0\n\n\0", Refusal.NOT_AVAILABLE, b"1.0, 1.1, 1.2"),
        (b"CONNECT\naccept-version:1.2\nheart-beat:x\n\n\0", Refusal.BAD_HEADER, b"heart-beat"),
        (
            b"CONNECT\naccept-version:1.2\n\n\0",
            Refusal.BAD_LOGIN,
            b"CONNECT has no login and no passcode: give an account of this site as the header login,"
            b" and its password as passcode",
        ),
        (
            b"CONNECT\naccept-version:1.2\nlogin:ada\n\n\0",
            Refusal.BAD_LOGIN,
            b"CONNECT has no passcode: give",
        ),
        (b"CONNECT\naccept-version:1.2\npasscode:x\n\n\0", Refusal.BAD_LOGIN, b"CONNECT has no login: give"),
        (
            b"CONNECT\naccept-version:1.2\nlogin:ada\npasscode:x\n\n\0",
            Refusal.BAD_LOGIN,
            b"account or password is wrong",
        ),
        (
            b"CONNECT\naccept-version:1.2\nlogin:\npasscode:\n\n\0",
            Refusal.BAD_LOGIN,
            b"no login and no passcode",
        ),
        (b"CONNECT\nno colon\n\n\0", Refusal.BAD_FRAME, b"no colon"),
        (b"CONNECT\ncontent-length:5000\n\n", Refusal.TOO_LARGE, b"more than 4096 bytes"),
        (b"SEND\n\n" + b"x" * 5000, Refusal.TOO_LARGE, b"more than 4096 bytes"),
        (b"\x16\x03\x01\x02\n\n\0", Refusal.BAD_COMMAND, b""),
    ],
)
async def test_what_cannot_be_a_login_is_refused(
    connect: ConnectStomp, frame: bytes, code: str, text: bytes
) -> None:
    client = connect()
    await client.raw(frame)
    error = await client.refused(code)
    assert text in error.body


@pytest.mark.parametrize(
    "frame",
    [
        b"CONNECT login:ada passcode:secret\n\n\0",
        b"STOMP\tlogin:ada\tpasscode:secret\n\n\0",
        b"CONNECT\nlogin:ada\npasscode secret\n\n\0",
        b"CONNECT\nlogin:ada\npasscode:x\nsecret\n\n\0",
    ],
)
async def test_an_error_of_a_login_holds_no_passcode(connect: ConnectStomp, frame: bytes) -> None:
    client = connect()
    await client.raw(frame)
    error = await client.expect("ERROR")
    assert b"secret" not in error.body


async def test_without_a_common_version_the_error_names_those_there_are(connect: ConnectStomp) -> None:
    client = connect()
    await client.send("CONNECT", {"accept-version": "2.1"})
    error = await client.refused(Refusal.NOT_AVAILABLE)
    assert error.headers["version"] == "1.0,1.1,1.2"


@pytest.mark.parametrize(
    ("command", "headers", "code"),
    [
        ("CONNECT", {"accept-version": "1.2"}, Refusal.BAD_COMMAND),
        ("STOMP", {"accept-version": "1.2"}, Refusal.BAD_COMMAND),
        ("MESSAGE", {}, Refusal.BAD_COMMAND),
        ("send", {"destination": "/queue/a"}, Refusal.BAD_COMMAND),
        ("SEND", {"destination": "/topic/a b"}, Refusal.BAD_TOPIC),
        ("SEND", {"destination": "/exchange/a/b"}, Refusal.BAD_TOPIC),
        ("SEND", {"destination": "/queue/a/b,c"}, Refusal.BAD_TOPIC),
        ("SEND", {"destination": "/queue/a", "priority": "high"}, Refusal.BAD_HEADER),
        ("SEND", {"destination": "/queue/a", "JMSXGroupSeq": "x"}, Refusal.BAD_HEADER),
        ("SEND", {"destination": "/queue/a?consumer.prefetchSize=1"}, Refusal.BAD_TOPIC),
        ("SEND", {"destination": "/queue/a", "content-type": "?"}, Refusal.BAD_HEADER),
        ("SEND", {"destination": "/queue/a", "transaction": "none"}, Refusal.NOT_FOUND),
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/a b.*"}, Refusal.BAD_TOPIC),
        ("SUBSCRIBE", {"id": "1", "destination": "/reply-queue/ada:x@smqp.example"}, Refusal.BAD_TOPIC),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "ack": "maybe"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "prefetch-count": "x"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "visibility": "x"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "visibility": "0"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/a", "durable": "x"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/a", "selector": "a > 1"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "browser": "true"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/a", "no-local": "true"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/a", "activemq.noLocal": "true"}, Refusal.BAD_HEADER),
        ("SEND", {"destination": "/queue/a", "x-message-ttl": "1000"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a?consumer.prefetchSize=1"}, Refusal.BAD_TOPIC),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "x-message-ttl": "1000"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "bob:desk@smqp.example"}, Refusal.FORBIDDEN),
        ("UNSUBSCRIBE", {"id": "1"}, Refusal.NOT_SUBSCRIBED),
        ("ACK", {"id": "1-1"}, Refusal.NOT_FOUND),
        ("ACK", {"id": "x"}, Refusal.NOT_FOUND),
        ("NACK", {"id": "0-0"}, Refusal.NOT_FOUND),
        ("ACK", {"id": "9" * 30 + "-1"}, Refusal.NOT_FOUND),
        ("NACK", {"id": "1-1", "requeue": "false"}, Refusal.NOT_FOUND),
        ("NACK", {"id": "1-1", "requeue": "maybe"}, Refusal.BAD_HEADER),
        ("COMMIT", {"transaction": "none"}, Refusal.NOT_FOUND),
        ("ABORT", {"transaction": "none"}, Refusal.NOT_FOUND),
    ],
)
async def test_what_the_server_will_not_do_is_an_error_with_the_receipt_and_the_end(
    ada: StompClient, command: str, headers: dict[str, str], code: str
) -> None:
    await ada.send(command, {**headers, "receipt": "r"})
    error = await ada.refused(code)
    assert error.headers["receipt-id"] == "r"
    assert error.body.startswith(command.encode())


async def test_who_may_not_send_is_told_so(connect: ConnectStomp) -> None:
    eve = connect()
    await eve.connect(login="eve")
    await eve.ask("SEND", {"destination": "/topic/eve.news"})
    await eve.send("SEND", {"destination": "/topic/news"})
    await eve.refused(Refusal.FORBIDDEN)


async def test_nothing_is_carried_out_after_an_error(ada: StompClient, connect: ConnectStomp) -> None:
    other = connect()
    await other.connect()
    await other.subscribe("/queue/a")
    await ada.raw(b"BEGIN\n\n\0SEND\ndestination:/queue/a\n\nlost\0")
    await ada.refused(Refusal.BAD_FRAME)
    await other.send("SEND", {"destination": "/queue/a"}, b"kept")
    assert (await other.expect("MESSAGE")).body == b"kept"
