"""Requests and their replies over temporary queues, receipts of SMQP, and messages that are sent twice."""

import pytest

from daemon.frontend import Identity
from routing.errors import Refusal
from routing.message import Message, Section
from tests.support.site import BrokerSite
from tests.support.stomp import ConnectStomp, StompClient


async def test_a_request_is_answered_without_a_subscription(ada: StompClient, connect: ConnectStomp) -> None:
    server = connect()
    await server.connect(login="bob")
    await server.subscribe("/queue/requests")
    request = {"destination": "/queue/requests", "reply-to": "/temp-queue/answers", "correlation-id": "7"}
    await ada.send("SEND", request, b"2+2")
    asked = await server.expect("MESSAGE", correlation_id="7", reply="YES")
    await server.send(
        "SEND", {"destination": asked.headers["reply-to"], "correlation-id": "7", "receipt": "r"}, b"4"
    )
    await server.expect("RECEIPT")
    answer = await ada.expect(
        "MESSAGE",
        subscription="/temp-queue/answers",
        destination="/temp-queue/answers",
        correlation_id="7",
        account="bob:stomp@smqp.example",
    )
    assert answer.body == b"4"


@pytest.mark.parametrize("kind", ["queue", "topic"])
async def test_replies_find_the_connection_and_the_temporary_queue_that_asked(
    connect: ConnectStomp, kind: str
) -> None:
    server, *clients = connect(), connect(), connect()
    await server.connect()
    await server.subscribe("/queue/requests")
    for client in clients:
        await client.connect()
        for name in ("a", "b"):
            headers = {"destination": "/queue/requests", "reply-to": f"/temp-{kind}/{name}"}
            await client.send("SEND", headers, name.encode())
    for _ in range(4):
        asked = await server.expect("MESSAGE")
        await server.send("SEND", {"destination": asked.headers["reply-to"]}, asked.body)
    for client in clients:
        answers = [await client.expect("MESSAGE") for _ in range(2)]
        assert {answer.headers["subscription"]: answer.body for answer in answers} == {
            f"/temp-{kind}/a": b"a",
            f"/temp-{kind}/b": b"b",
        }


async def test_a_temporary_queue_may_be_subscribed_to_with_an_id_of_ones_own(ada: StompClient) -> None:
    await ada.subscribe("/temp-queue/answers", id="mine")
    await ada.send("SEND", {"destination": "/queue/loop", "reply-to": "/temp-queue/answers"})
    await ada.subscribe("/queue/loop", id="loop")
    asked = await ada.expect("MESSAGE", subscription="loop")
    await ada.send("SEND", {"destination": asked.headers["reply-to"]})
    await ada.expect("MESSAGE", subscription="mine")
    await ada.send("SEND", {"destination": "/temp-queue/answers"})
    await ada.expect("MESSAGE", subscription="mine", destination="/temp-queue/answers")


async def test_a_reply_to_takes_no_id_from_another_subscription(ada: StompClient) -> None:
    await ada.subscribe("/queue/a", id="/temp-queue/answers")
    await ada.send("SEND", {"destination": "/queue/b", "reply-to": "/temp-queue/answers", "receipt": "r"})
    error = await ada.refused(Refusal.BAD_FRAME)
    assert b"there is a subscription with id '/temp-queue/answers' already" in error.body


async def test_to_subscribe_to_a_temporary_queue_ends_no_other_that_has_its_name_as_id(
    ada: StompClient,
) -> None:
    await ada.subscribe("/queue/a", id="/temp-queue/answers")
    await ada.subscribe("/temp-queue/answers", id="mine")
    await ada.send("SEND", {"destination": "/queue/a"})
    await ada.expect("MESSAGE", subscription="/temp-queue/answers", destination="/queue/a")


async def test_an_smqp_publisher_gets_its_reply_on_its_system_topic(
    ada: StompClient, site: BrokerSite
) -> None:
    await ada.subscribe("/topic/requests")
    bob = site.open_session(Identity("bob"), "desk", protocol="smqp", remote="test")
    bob.publish("requests", Message(reply=True, sections=(Section("text/plain", b"?"),)))
    asked = await ada.expect("MESSAGE", reply="YES", reply_to="/reply-queue/bob:desk@smqp.example")
    await ada.ask("SEND", {"destination": asked.headers["reply-to"]}, b"!")
    await ada.ask("DISCONNECT")
    bob.close()


async def test_an_smqp_receipt_is_asked_for_and_comes_to_the_system_topic(
    ada: StompClient, connect: ConnectStomp
) -> None:
    listener = connect()
    await listener.connect(login="bob")
    await listener.subscribe("/topic/news")
    await ada.subscribe("ada:stomp@smqp.example", id="system")
    await ada.ask("SEND", {"destination": "/topic/news", "smqp-receipt": "ALL", "cmuid": "c-1"})
    receipt = await ada.expect("MESSAGE", subscription="system", name="Receipt")
    assert receipt.headers["Receipt-Cmuid"] == "c-1"
    assert receipt.body == b"1/1"


async def test_a_message_sent_twice_with_one_cmuid_is_routed_once(ada: StompClient) -> None:
    await ada.subscribe("/queue/work")
    for _ in range(2):
        await ada.send("SEND", {"destination": "/queue/work", "cmuid": "c-1"}, b"once")
    await ada.send("SEND", {"destination": "/queue/work"}, b"next")
    assert [(await ada.expect("MESSAGE")).body for _ in range(2)] == [b"once", b"next"]


async def test_a_message_that_has_a_cmuid_is_sent_on_with_all_its_headers(ada: StompClient) -> None:
    await ada.subscribe("/queue/work")
    await ada.send("SEND", {"destination": "/queue/work", "cmuid": "c-1"}, b"for others")
    message = await ada.expect("MESSAGE")
    await ada.subscribe("/queue/others", id="others")
    await ada.send("SEND", {**message.headers, "destination": "/queue/others"}, message.body)
    sent_on = await ada.expect("MESSAGE", subscription="others")
    assert sent_on.body == b"for others"
    assert sent_on.headers["smuid"] != message.headers["smuid"]
