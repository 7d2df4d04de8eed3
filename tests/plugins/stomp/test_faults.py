"""Every client frame with every header that means something, missing, doubled, empty, escaped, too long."""

import itertools

import pytest

from plugins.stomp.codec import encode, escape
from plugins.stomp.settings import StompSettings
from routing.errors import Refusal

FRAMES = {
    "SEND": {"destination": "/queue/a", "transaction": "t", "receipt": "r"},
    "SUBSCRIBE": {"id": "new", "destination": "/queue/b", "ack": "client", "receipt": "r"},
    "UNSUBSCRIBE": {"id": "0", "receipt": "r"},
    "ACK": {"id": "ACK", "message-id": "ID", "subscription": "0", "transaction": "t", "receipt": "r"},
    "NACK": {"id": "ACK", "message-id": "ID", "subscription": "0", "transaction": "t", "receipt": "r"},
    "BEGIN": {"transaction": "new", "receipt": "r"},
    "COMMIT": {"transaction": "t", "receipt": "r"},
    "ABORT": {"transaction": "t", "receipt": "r"},
    "DISCONNECT": {"receipt": "r"},
}
CASES = [(command, header) for command, headers in FRAMES.items() for header in headers]
ERROR = "ERROR"
OK = "RECEIPT"


def used(version, command, header):
    """Whether the version gives this header of the frame a meaning."""
    if command in ("ACK", "NACK") and header in ("id", "message-id", "subscription"):
        return header == "id" if version == "1.2" else header != "id"
    return True


def outcome_of_missing(version, command, header):
    if header in ("destination", "id", "message-id"):
        return OK if version == "1.0" and command == "SUBSCRIBE" and header == "id" else ERROR
    if header == "subscription":
        return ERROR if version == "1.1" else OK
    if header == "transaction":
        return ERROR if command in ("BEGIN", "COMMIT", "ABORT") else OK
    return OK


def outcome_of_empty(version, command, header):
    if header == "receipt":
        return OK
    if header == "transaction":
        return OK if command == "BEGIN" else ERROR
    return OK if (command, header) == ("SUBSCRIBE", "id") else ERROR


def outcome_of_another(version, command, header):
    """A value that is fine in itself, but not what the server was told before."""
    if header == "receipt" or (command, header) in (("SUBSCRIBE", "id"), ("BEGIN", "transaction")):
        return OK
    return ERROR


@pytest.fixture(params=["1.0", "1.1", "1.2"])
async def ready(request, connect):
    """Makes a client that is logged in, with a transaction t and a subscription 0 that holds a message."""
    numbers = itertools.count()

    async def ready():
        client, queue = connect(request.param), f"/queue/held-{next(numbers)}"
        await client.connect()
        await client.ask("BEGIN", {"transaction": "t"})
        await client.subscribe(queue, id="0", ack="client-individual")
        await client.send("SEND", {"destination": queue, "persistent": "true"})
        client.held = (await client.expect("MESSAGE")).headers
        return client

    return ready


def frame(client, command):
    replace = {"ACK": client.held.get("ack", ""), "ID": client.held["message-id"]}
    return {name: replace.get(value, value) for name, value in FRAMES[command].items()}


async def answer(client, case, expected, receipt="r"):
    """What comes is what was expected; an ERROR names the receipt and ends the connection."""
    answer = await client.receive()
    while answer.command == "MESSAGE":  # what was given back comes again
        answer = await client.receive()
    assert answer.command == expected, (case, answer.headers, answer.body)
    assert answer.headers.get("receipt-id") == receipt, case
    if expected == ERROR:
        assert answer.headers["content-type"].startswith("text/plain")
        assert int(answer.headers["content-length"]) == len(answer.body) > 0
        await client.expect_end()
    await client.stream.aclose()


async def test_a_complete_frame_is_carried_out(ready):
    for command in FRAMES:
        client = await ready()
        await client.send(command, frame(client, command))
        await answer(client, command, OK)


async def test_a_missing_header(ready):
    for command, header in CASES:
        if header == "receipt":
            continue
        client = await ready()
        headers = frame(client, command)
        del headers[header]
        await client.send(command, headers)
        expected = outcome_of_missing(client.version, command, header)
        await answer(client, (command, header), expected if used(client.version, command, header) else OK)


async def test_of_a_doubled_header_the_first_counts(ready):
    for command, header in CASES:
        client = await ready()
        headers = frame(client, command)
        first = f"{header}:{escape(headers.pop(header), client.version)}\n{header}:something else\n"
        written = encode(command, headers, version=client.version)
        await client.raw(written.replace(b"\n", b"\n" + first.encode(), 1))
        await answer(client, (command, header), OK)


async def test_an_empty_header(ready):
    for command, header in CASES:
        await another_value(ready, command, header, "", outcome_of_empty)


async def test_a_header_full_of_what_has_to_be_escaped(ready):
    for command, header in CASES:
        await another_value(ready, command, header, "a:b\\c d", outcome_of_another)


async def test_a_header_that_is_as_long_as_may_be(ready):
    for command, header in CASES:
        value = "x" * (StompSettings().header_line_bytes_max - len(header) - 1)
        await another_value(ready, command, header, value, outcome_of_another)


async def another_value(ready, command, header, value, outcome):
    """A frame that has this value in one header gets the outcome, if its version uses the header."""
    client = await ready()
    headers = {**frame(client, command), header: value}
    await client.send(command, headers)
    expected = outcome(client.version, command, header)
    await answer(
        client,
        (command, header),
        expected if used(client.version, command, header) else OK,
        headers["receipt"],
    )


async def test_a_header_that_is_too_long(ready):
    for command, header in CASES:
        client = await ready()
        value = "x" * (StompSettings().header_line_bytes_max - len(header))
        await client.send(command, {**frame(client, command), header: value})
        await client.refused(Refusal.TOO_LARGE)


@pytest.mark.parametrize(
    ("frame", "code", "text"),
    [
        (b"SEND\ndestination:/queue/a\nreceipt:r\n\n\0", Refusal.NOT_LOGGED_IN, b"SEND came before CONNECT"),
        (b"HELLO\n\n\0", Refusal.BAD_COMMAND, b"HELLO"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\0", Refusal.BAD_COMMAND, b"GET / HTTP/1.1"),
        (b"CONNECT\naccept-version:3.0\n\n\0", Refusal.NOT_AVAILABLE, b"1.0, 1.1, 1.2"),
        (b"CONNECT\naccept-version:1.2\nheart-beat:x\n\n\0", Refusal.BAD_HEADER, b"heart-beat"),
        (b"CONNECT\naccept-version:1.2\n\n\0", Refusal.BAD_LOGIN, b""),
        (b"CONNECT\naccept-version:1.2\nlogin:ada\npasscode:x\n\n\0", Refusal.BAD_LOGIN, b""),
        (b"CONNECT\naccept-version:1.2\nlogin:\npasscode:\n\n\0", Refusal.BAD_LOGIN, b""),
        (b"CONNECT\nno colon\n\n\0", Refusal.BAD_FRAME, b"no colon"),
        (b"\x16\x03\x01\x02\n\n\0", Refusal.BAD_COMMAND, b""),
    ],
)
async def test_what_cannot_be_a_login_is_refused(connect, frame, code, text):
    client = connect()
    await client.raw(frame)
    error = await client.refused(code)
    assert text in error.body


async def test_without_a_common_version_the_error_names_those_there_are(connect):
    client = connect()
    await client.send("CONNECT", {"accept-version": "2.1"})
    error = await client.refused(Refusal.NOT_AVAILABLE)
    assert error.headers["version"] == "1.0,1.1,1.2"


@pytest.mark.parametrize("client_id", ["", "a b", "a:b", "x" * 65])
async def test_a_client_id_is_a_channel_and_has_to_look_like_one(connect, client_id):
    client = connect()
    await client.send(
        "CONNECT",
        {"accept-version": "1.2", "login": "ada", "passcode": "correct horse", "client-id": client_id},
    )
    await client.refused(Refusal.BAD_LOGIN)


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
        ("SEND", {"destination": "/queue/a", "smuid": "a/1"}, Refusal.BAD_HEADER),
        ("SEND", {"destination": "/queue/a", "content-type": "?"}, Refusal.BAD_HEADER),
        ("SEND", {"destination": "/queue/a", "transaction": "none"}, Refusal.NOT_FOUND),
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/a.*"}, Refusal.BAD_TOPIC),
        ("SUBSCRIBE", {"id": "1", "destination": "/reply-queue/ada:x@smqp.example"}, Refusal.BAD_TOPIC),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "ack": "maybe"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "prefetch-count": "x"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "visibility": "x"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/a", "durable": "x"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/a", "selector": "a > 1"}, Refusal.BAD_HEADER),
        ("SUBSCRIBE", {"id": "1", "destination": "bob:desk@smqp.example"}, Refusal.FORBIDDEN),
        ("UNSUBSCRIBE", {"id": "1"}, Refusal.NOT_SUBSCRIBED),
        ("ACK", {"id": "1-1"}, Refusal.NOT_FOUND),
        ("ACK", {"id": "x"}, Refusal.NOT_FOUND),
        ("NACK", {"id": "0-0"}, Refusal.NOT_FOUND),
        ("ACK", {"id": "9" * 30 + "-1"}, Refusal.NOT_FOUND),
        ("NACK", {"id": "1-1", "requeue": "false"}, Refusal.BAD_HEADER),
        ("COMMIT", {"transaction": "none"}, Refusal.NOT_FOUND),
        ("ABORT", {"transaction": "none"}, Refusal.NOT_FOUND),
    ],
)
async def test_what_the_server_will_not_do_is_an_error_with_the_receipt_and_the_end(
    ada, command, headers, code
):
    await ada.send(command, {**headers, "receipt": "r"})
    error = await ada.refused(code)
    assert error.headers["receipt-id"] == "r"
    assert error.body.startswith(command.encode())


async def test_who_may_not_send_is_told_so(connect):
    eve = connect()
    await eve.connect(login="eve")
    await eve.ask("SEND", {"destination": "/topic/eve.news"})
    await eve.send("SEND", {"destination": "/topic/news"})
    await eve.refused(Refusal.FORBIDDEN)


async def test_nothing_is_carried_out_after_an_error(ada, connect):
    other = connect()
    await other.connect()
    await other.subscribe("/queue/a")
    await ada.raw(b"BEGIN\n\n\0SEND\ndestination:/queue/a\n\nlost\0")
    await ada.refused(Refusal.BAD_FRAME)
    await other.send("SEND", {"destination": "/queue/a"}, b"kept")
    assert (await other.expect("MESSAGE")).body == b"kept"
