"""One site, clients over streams in memory: the protocol as a client sees it."""

import pytest
import trio.testing

from daemon.frontend import Detached, Identity
from plugins.stomp.codec import encode
from plugins.stomp.settings import StompSettings
from routing.message import Message, Section
from tests.support.site import BrokerSite
from tests.support.stomp import ConnectStomp, StompClient
from tests.support.stomp_wire import Wire

VERSIONS = ["1.0", "1.1", "1.2"]


async def test_a_login_is_answered_with_what_was_agreed(connect: ConnectStomp, site: BrokerSite) -> None:
    client = connect()
    connected = await client.connect(heart_beat="0,0")
    assert connected.headers["server"] == site.server_ident
    assert connected.headers["session"]
    assert connected.headers["heart-beat"] == "1000,1000"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_message_goes_from_send_to_subscriber_in_every_version(
    connect: ConnectStomp, version: str
) -> None:
    client = connect(version)
    await client.connect()
    await client.subscribe("/queue/orders")
    body = bytes(range(256))
    await client.send(
        "SEND",
        {"destination": "/queue/orders", "content-type": "application/x-bytes", "content-length": "256"},
        body,
    )
    message = await client.expect(
        "MESSAGE", subscription="0", destination="/queue/orders", content_type="application/x-bytes"
    )
    assert message.body == body
    assert message.headers["content-length"] == "256"


async def test_who_is_leaving_hears_nothing_of_a_subscription_that_another_takes_over(
    site: BrokerSite,
) -> None:
    with Wire(site, "1.2", StompSettings()) as wire:
        wire.give(encode("CONNECT", {"accept-version": "1.2"}))
        durable = {"id": "d", "destination": "/topic/t", "durable": "true", "receipt": "1"}
        wire.give(encode("SUBSCRIBE", durable))
        assert [(await wire.frame()).command for _ in range(2)] == ["CONNECTED", "RECEIPT"]
        wire.give(encode("SEND", {"destination": "/queue/q", "receipt": "2"}))
        wire.give(encode("DISCONNECT", {"receipt": "3"}))
        wire.connection.handle([Detached("t", "d", "replaced")])
        receipts = [await wire.frame() for _ in range(2)]
        assert [receipt.headers["receipt-id"] for receipt in receipts] == ["2", "3"]


async def test_who_begins_a_durable_subscription_anew_hears_nothing_of_who_took_the_ended_one_over(
    site: BrokerSite,
) -> None:
    with Wire(site, "1.2", StompSettings()) as wire:
        wire.give(encode("CONNECT", {"accept-version": "1.2"}))
        durable = {"id": "d", "destination": "/topic/t", "durable": "true"}
        wire.give(encode("SUBSCRIBE", {**durable, "receipt": "1"}))
        assert [(await wire.frame()).command for _ in range(2)] == ["CONNECTED", "RECEIPT"]
        wire.give(encode("UNSUBSCRIBE", {"id": "d", "durable": "true"}))
        wire.give(encode("SUBSCRIBE", {**durable, "receipt": "2"}))
        wire.connection.handle([Detached("t", "d", "replaced")])
        assert (await wire.frame()).headers == {"receipt-id": "2"}
        assert wire.connection.goodbye is None


@pytest.mark.parametrize("version", VERSIONS)
async def test_stomp_is_the_same_as_connect(connect: ConnectStomp, version: str) -> None:
    client = connect(version)
    await client.send("STOMP", {"accept-version": version, "login": "ada", "passcode": "correct horse"})
    await client.expect("CONNECTED", version=version)


async def test_a_message_tells_all_that_the_servers_know(ada: StompClient) -> None:
    await ada.subscribe("/queue/orders")
    await ada.send(
        "SEND", {"destination": "/queue/orders", "priority": "4", "persistent": "true", "x-mine": "y"}, b"1"
    )
    message = await ada.expect(
        "MESSAGE",
        account="ada:stomp@smqp.example",
        priority="4",
        persistent="true",
        delivery="ONE",
        redelivered="false",
        delivery_count="1",
        x_mine="y",
    )
    assert message.headers["smuid"] == message.headers["message-id"]
    assert message.headers["created"].endswith("Z")


async def test_a_topic_goes_to_all_and_a_queue_to_one(connect: ConnectStomp) -> None:
    clients = [connect() for _ in range(3)]
    for client in clients:
        await client.connect()
        await client.subscribe("/topic/news", id="t")
        await client.subscribe("/queue/news", id="q")
    for _ in range(3):
        await clients[0].send("SEND", {"destination": "/queue/news"}, b"one")
    await clients[0].send("SEND", {"destination": "/topic/news"}, b"all")
    for client in clients:
        received = [await client.receive() for _ in range(2)]
        assert sorted(frame.body for frame in received) == [b"all", b"one"]


async def test_a_plain_subscription_takes_both_and_tells_them_apart(ada: StompClient) -> None:
    await ada.subscribe("news")
    for destination in ("/queue/news", "/topic/news", "news"):
        await ada.send("SEND", {"destination": destination})
    received = [(await ada.receive()).headers["destination"] for _ in range(3)]
    assert sorted(received) == ["/queue/news", "/topic/news", "news"]


async def test_a_channel_of_a_queue_is_its_own_queue(ada: StompClient) -> None:
    await ada.subscribe("/queue/orders/eu,us", id="some")
    await ada.subscribe("/queue/orders/asia", id="other")
    for channel in ("us", "asia", "eu"):
        await ada.send("SEND", {"destination": f"/queue/orders/{channel}"})
    received = {}
    for _ in range(3):
        frame = await ada.receive()
        received[frame.headers["destination"]] = frame.headers["subscription"]
    assert received == {
        "/queue/orders/us": "some",
        "/queue/orders/asia": "other",
        "/queue/orders/eu": "some",
    }


async def test_user_headers_arrive_as_they_were_sent(connect: ConnectStomp) -> None:
    headers = {
        "a:b": "c:d",
        "line": "1\n2",
        "back\\slash": "\\n",
        "Priority": "mine",
        "empty": "",
        " x ": " y ",
    }
    senders = {version: connect(version) for version in VERSIONS[1:]}
    receiver = connect()
    await receiver.connect()
    await receiver.subscribe("/topic/news")
    for sender in senders.values():
        await sender.connect()
        await sender.send("SEND", {"destination": "/topic/news", **headers})
        message = await receiver.expect("MESSAGE")
        assert {name: message.headers.get(name) for name in headers} == headers


async def test_a_1_0_subscriber_gets_the_headers_that_it_can_read(
    connect: ConnectStomp, ada: StompClient
) -> None:
    client = connect("1.0")
    await client.connect()
    await client.subscribe("/topic/news")
    await ada.send("SEND", {"destination": "/topic/news", "url": "http://a", "line": "1\n2"})
    message = await client.expect("MESSAGE", url="http://a", line="1\\n2")
    assert "@" in message.headers["message-id"]


async def test_1_0_needs_no_id_and_names_no_subscription(connect: ConnectStomp) -> None:
    client = connect("1.0")
    await client.connect()
    await client.ask("SUBSCRIBE", {"destination": "/queue/orders", "ack": "client"})
    await client.send("SEND", {"destination": "/queue/orders", "persistent": "true"})
    message = await client.expect("MESSAGE")
    assert "subscription" not in message.headers
    await client.ask("ACK", {"message-id": message.headers["message-id"]})
    await client.ask("UNSUBSCRIBE", {"destination": "/queue/orders"})


async def test_every_client_frame_may_ask_for_a_receipt(ada: StompClient) -> None:
    await ada.ask("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "ack": "client-individual"})
    await ada.send("SEND", {"destination": "/queue/a", "receipt": "sent"})
    frames = [await ada.receive() for _ in range(2)]
    assert sorted(frame.command for frame in frames) == ["MESSAGE", "RECEIPT"]
    ack = next(frame.headers["ack"] for frame in frames if frame.command == "MESSAGE")
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.ask("NACK", {"id": ack, "transaction": "t"})
    await ada.ask("ABORT", {"transaction": "t"})
    await ada.ask("ACK", {"id": ack})
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.ask("COMMIT", {"transaction": "t"})
    await ada.ask("UNSUBSCRIBE", {"id": "1"})
    await ada.ask("DISCONNECT")
    await ada.expect_end()


async def test_a_receipt_id_is_given_back_as_it_was(ada: StompClient) -> None:
    await ada.send("BEGIN", {"transaction": "t", "receipt": "a:b\nc\\"})
    await ada.expect("RECEIPT", receipt_id="a:b\nc\\")
    await ada.send("ABORT", {"transaction": "t", "receipt": ""})
    await ada.expect("RECEIPT", receipt_id="")


async def test_disconnect_is_answered_after_all_that_came_before(ada: StompClient) -> None:
    for number in range(20):
        await ada.send("SEND", {"destination": "/queue/a", "receipt": str(number)})
    await ada.send("DISCONNECT", {"receipt": "bye"})
    answers = [(await ada.expect("RECEIPT")).headers["receipt-id"] for _ in range(21)]
    assert answers == [*map(str, range(20)), "bye"]
    await ada.expect_end()


async def test_many_frames_may_come_in_one_segment_with_the_login(connect: ConnectStomp) -> None:
    client = connect()
    await client.raw(
        b"CONNECT\naccept-version:1.2\nlogin:ada\npasscode:correct horse\n\n\0\n"
        b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"
        b"SEND\ndestination:/queue/a\n\nfirst\0\n\nSEND\ndestination:/queue/a\n\nsecond\0"
        b"DISCONNECT\nreceipt:bye\n\n\0"
    )
    await client.expect("CONNECTED")
    await client.expect("RECEIPT", receipt_id="bye")


async def test_frames_may_come_byte_by_byte(connect: ConnectStomp) -> None:
    client = connect()
    stream = (
        b"CONNECT\r\naccept-version:1.2\r\nlogin:ada\r\npasscode:correct horse\r\n\r\n\0\r\n"
        b"SUBSCRIBE\r\nid:0\r\ndestination:/queue/a\r\n\r\n\0"
        b"SEND\r\ndestination:/queue/a\r\ncontent-length:3\r\n\r\na\0b\0"
    )
    for byte in stream:
        await client.raw(bytes([byte]))
    await client.expect("CONNECTED")
    assert (await client.expect("MESSAGE")).body == b"a\0b"


async def test_a_site_that_stops_says_so_and_where_to_go(connect: ConnectStomp, site: BrokerSite) -> None:
    client, busy = connect(), connect()
    await client.connect()
    await busy.connect()
    await busy.send("SEND", {"destination": "/queue/a", "receipt": "1"})
    await trio.testing.wait_all_tasks_blocked()
    site.draining.set()
    error = await client.refused("not-available")
    assert b"other.example:720" in error.body
    frames = [await busy.receive() for _ in range(2)]
    assert [frame.command for frame in frames] == ["RECEIPT", "ERROR"]
    late = connect()
    await late.send("CONNECT", {"accept-version": "1.2", "login": "ada", "passcode": "correct horse"})
    await late.refused("not-available")


async def test_several_sections_of_an_smqp_message_become_one_body(
    connect: ConnectStomp, ada: StompClient, site: BrokerSite
) -> None:
    await ada.subscribe("/topic/pictures")
    session = site.open_session(Identity("bob"), "desk", protocol="smqp", remote="test")
    parts = (Section("text/plain", b"a storm"), Section("image/png", b"\x89PNG", (("Content-ID", "i"),)))
    session.publish("pictures", Message(sections=parts, others=(("Colour", "grey"),)))
    message = await ada.expect("MESSAGE", account="bob:desk@smqp.example", Colour="grey")
    assert message.headers["content-type"].startswith('multipart/mixed; boundary="')
    assert b"Content-Type: image/png\r\nContent-ID: i\r\n\r\n\x89PNG\r\n" in message.body
    session.close()


@pytest.mark.parametrize("fault", [b"RUBBISH\n\n\0", b"SEND\nreceipt:bad\n\n\0", b"SEND\n\xff:\n\n\0"])
async def test_what_was_done_is_said_before_an_error_ends_the_connection(
    connect: ConnectStomp, fault: bytes
) -> None:
    client = connect()
    await client.connect()
    sends = (b"SEND\ndestination:/queue/a\nreceipt:%d\n\nbody\0" % number for number in range(100))
    await client.raw(b"".join(sends) + fault)
    for number in range(100):
        await client.expect("RECEIPT", receipt_id=str(number))
    await client.expect("ERROR")
    await client.expect_end()


async def test_what_was_done_is_said_before_a_refused_commit_ends_the_connection(
    connect: ConnectStomp,
) -> None:
    client = connect()
    await client.connect()
    await client.send("BEGIN", {"transaction": "t"})
    await client.send("SEND", {"destination": "/queue/a", "transaction": "t"})
    await client.send("SEND", {"destination": "/queue/smqpd:x@smqp.example", "transaction": "t"})
    await client.raw(
        b"SEND\ndestination:/queue/a\nreceipt:first\n\n\0COMMIT\ntransaction:t\nreceipt:second\n\n\0"
    )
    await client.expect("RECEIPT", receipt_id="first")
    await client.expect("ERROR", receipt_id="second")
    await client.expect_end()


async def test_a_receipt_names_the_message_that_was_sent(connect: ConnectStomp) -> None:
    client = connect()
    await client.connect()
    await client.subscribe("/queue/a")
    await client.send("SEND", {"destination": "/queue/a", "receipt": "r"})
    frames = [await client.receive(), await client.receive()]
    receipt, message = sorted(frames, key=lambda frame: frame.command, reverse=True)
    assert receipt.headers == {"receipt-id": "r", "smuid": message.headers["smuid"]}


@pytest.mark.parametrize("address", ["x", "ada@smqp.example", "/queue/x"])
async def test_a_reply_goes_to_an_address(ada: StompClient, address: str) -> None:
    await ada.send("SEND", {"destination": f"/reply-queue/{address}"})
    await ada.refused("bad-topic")


async def test_a_client_that_ends_its_stream_gets_all_its_answers(connect: ConnectStomp) -> None:
    client = connect()
    await client.connect()
    for number in range(10):
        await client.send("SEND", {"destination": "/queue/a", "receipt": str(number)})
    await client.stream.send_eof()
    for number in range(10):
        await client.expect("RECEIPT", receipt_id=str(number))
    await client.expect_end()
