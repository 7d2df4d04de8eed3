"""STOMP to SMQP and back: everything that SMQP has a name for, and everything that it has none for."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from plugins.smqp.connecting import session
from plugins.stomp.codec import VERSIONS
from routing.message import Message, Section
from tests.support.patience import PATIENCE_S
from tests.support.site import PASSWORD, BrokerSite
from tests.support.smqp_peer import serve_connection
from tests.support.stomp import ConnectStomp, StompClient

EVERY_BYTE = bytes(range(256))
SMQPS_OWN = {
    "priority": "5",
    "name": "Storm",
    "created": "2026-11-21T10:00:00.25Z",
    "depth": "3",
    "delivery": "ALL",
    "sequence": "9",
    "cmuid": "c-9",
    "timeout": "3600",
    "smqp-receipt": "ONE",
    "reply": "YES",
    "reply-to": "/queue/answers",
    "mime-version": "1.0",
    "content-type": "application/x-bytes",
    "content-encoding": "gzip",
    "content-language": "nb",
}
OTHERS = {
    "correlation-id": "7",
    "Zebra": " striped ",
    "Priority": "mine",
    "subject": "smörgås : 🌩",
    "two words": "%0A",
    "snö": "x",
    "empty": "",
    "type": "order",
}
ESCAPED = {"line": "1\n2", "a:b": "c:d", "back\\slash": "\\n"}
ONLY_IN_1_2 = {"return": "1\r2"}


def everything(version: str) -> dict[str, str]:
    headers = {**SMQPS_OWN, **OTHERS}
    if version == "1.0":
        headers["Zebra"] = "striped"  # padding is no part of a value there
    else:
        headers |= ESCAPED
    return headers | (ONLY_IN_1_2 if version == "1.2" else {})


@pytest.fixture
async def bob(site: BrokerSite, nursery: trio.Nursery) -> AsyncIterator[Any]:
    """A client that speaks SMQP."""
    ours, theirs = trio.testing.memory_stream_pair()
    nursery.start_soon(serve_connection, site, theirs, "192.0.2.1:4711")
    async with session(ours, "bob", PASSWORD, channel="desk") as bob:
        yield bob


@pytest.mark.parametrize("guarantee", ["YES", "NO"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_all_headers_and_every_byte_go_from_stomp_to_smqp_and_back(
    connect: ConnectStomp, bob: Any, version: str, guarantee: str
) -> None:
    stomp = connect(version)
    await stomp.connect()
    await stomp.subscribe("/topic/back", ack="client-individual")
    await bob.subscribe("there")
    headers = {**everything(version), "guarantee": guarantee}
    await stomp.send("SEND", {"destination": "/topic/there", "content-length": "256", **headers}, EVERY_BYTE)
    with trio.fail_after(PATIENCE_S):
        delivery = await anext(bob)
    came = delivery.message
    assert (came.name, came.priority, came.sequence, came.delivery) == ("Storm", 5, 9, "ALL")
    assert (came.depth, came.receipt, came.reply, came.cmuid) == (3, "ONE", True, "c-9")
    assert (came.created, came.mime_version) == ("2026-11-21T10:00:00.25Z", "1.0")
    assert came.guarantee == (guarantee == "YES")
    of_content = (("content-encoding", "gzip"), ("content-language", "nb"))
    assert came.sections == (Section("application/x-bytes", EVERY_BYTE, of_content),)
    assert ("correlation-id", "7") in came.others
    await bob.publish("back", msgspec.structs.replace(came, smuid="", account="", hops=()))
    message = await stomp.receive()
    while message.command != "MESSAGE":
        message = await stomp.receive()
    assert message.body == EVERY_BYTE
    assert message.headers["account"] == "bob:desk@smqp.example"
    counted_down = float(message.headers["timeout"])
    assert 3_590 < counted_down <= 3_600
    expected = {**headers, "timeout": message.headers["timeout"], "content-length": "256"}
    if guarantee == "YES":
        expected |= {"persistent": "true"}
        del expected["guarantee"]
    assert {name: message.headers.get(name) for name in expected} == expected


async def test_who_speaks_smqp_answers_a_request_of_stomp(ada: StompClient, bob: Any) -> None:
    await bob.subscribe("requests")
    request = {"destination": "/queue/requests", "reply-to": "/temp-queue/answers", "correlation-id": "7"}
    await ada.send("SEND", request, b"2+2")
    with trio.fail_after(PATIENCE_S):
        asked = (await anext(bob)).message
    assert asked.reply
    answer_to = dict(asked.others)["reply-to"]
    await bob.publish(answer_to, Message(sections=(Section("text/plain", b"4"),)))
    answer = await ada.expect("MESSAGE", subscription="/temp-queue/answers")
    assert answer.body == b"4"


async def test_who_speaks_stomp_answers_a_request_of_smqp(ada: StompClient, bob: Any) -> None:
    await ada.subscribe("/topic/requests")
    await bob.subscribe(bob.topic)
    await bob.publish("requests", Message(reply=True, sections=(Section("text/plain", b"2+2"),)))
    asked = await ada.expect("MESSAGE", reply="YES")
    await ada.ask("SEND", {"destination": asked.headers["reply-to"], "content-type": "text/plain"}, b"4")
    with trio.fail_after(PATIENCE_S):
        answer = await anext(bob)
    assert answer.message.sections == (Section("text/plain", b"4"),)
