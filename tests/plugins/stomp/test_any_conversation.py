"""Conversations made up at random, half sense and half nonsense: the server answers, or ends them."""

import random
from typing import Any

import pytest

from plugins.stomp.codec import VERSIONS, Version, encode
from plugins.stomp.settings import StompSettings
from tests.support.site import BrokerSite
from tests.support.stomp_wire import Wire

CONVERSATIONS = 50
SENSE = {
    "SEND": {"destination": ["/queue/a", "/topic/a", "a", "/temp-queue/x", "/queue/a/b", "/topic/a.*"]},
    "SUBSCRIBE": {
        "destination": ["/queue/a", "/topic/a", "a", "/temp-queue/x", "/topic/*", "/queue/a.#"],
        "id": ["0", "1"],
    },
    "UNSUBSCRIBE": {"id": ["0", "1"]},
    "ACK": {},
    "NACK": {},
    "BEGIN": {"transaction": ["t", "u"]},
    "COMMIT": {"transaction": ["t", "u"]},
    "ABORT": {"transaction": ["t", "u"]},
}
COMMANDS = [*SENSE, "SEND", "SEND", "SEND", "SUBSCRIBE", "SUBSCRIBE", "ACK", "ACK", "DISCONNECT", "HELLO"]
MORE = {
    "ack": ["auto", "client", "client-individual", "none"],
    "activemq.subscriptionName": ["mine", ""],
    "content-type": ["text/plain", "text"],
    "created": ["2026-11-21T10:00:00Z", "now"],
    "delivery": ["ONE", "ALL"],
    "durable": ["true", "false"],
    "expires": ["0", "1", "9999999999999"],
    "guarantee": ["YES", "NO"],
    "id": ["1-1", "1-2", "2-1", "x"],
    "message-id": ["x@1-1", "x"],
    "ordered": ["true"],
    "persistent": ["true", "false"],
    "prefetch-count": ["1", "0"],
    "reply-to": ["/temp-queue/x", "/queue/a", "ada:c@smqp.example"],
    "requeue": ["true", "false"],
    "sequence": ["1", "2", "0"],
    "shared": ["true", "false"],
    "smqp-receipt": ["ALL", "ONE"],
    "Stomp-Header": ["a:b", "%"],
    "subscription": ["0", "1"],
    "timeout": ["60", "0", "INFINITE"],
    "transaction": ["t", "u"],
    "x": ["a:b", "1\n2", "\\", "smörgås", "\x7f", ""],
}


def frame(dice: random.Random, version: Version, given: list[Any]) -> tuple[bytes, str]:
    """A frame, and the receipt that it asks for."""
    command = dice.choice(COMMANDS)
    headers = {name: dice.choice(values) for name, values in SENSE.get(command, {}).items()}
    if command in ("ACK", "NACK") and given:
        message = dice.choice(given)
        headers = {"id": message.get("ack", ""), "message-id": message["message-id"]}
    for name in dice.sample(list(MORE), dice.choice([0, 0, 0, 1, 2])):
        headers[name] = dice.choice(MORE[name])
    headers["receipt"] = str(dice.random())
    body = dice.choice([b"", b"x", bytes(range(256))])
    headers["content-length"] = str(len(body))
    return encode(command, headers, body, version=version), headers["receipt"]


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_said_is_answered_or_ends_the_conversation(site: BrokerSite, seed: int) -> None:
    dice = random.Random(seed)
    ended = 0
    for _ in range(CONVERSATIONS):
        version = dice.choice(VERSIONS)
        with Wire(site, version, StompSettings()) as wire:
            await wire.begin(needs_message=False)
            asked: set[str] = set()
            given: list[Any] = []
            answer: Any = None
            for _ in range(dice.randrange(1, 20)):
                data, receipt = frame(dice, version, given)
                asked.add(receipt)
                wire.give(data)
                while receipt in asked and not (answer and answer.command == "ERROR"):
                    answer = await wire.frame()
                    if answer.command == "MESSAGE":
                        given.append(answer.headers)
                    elif answer.command == "RECEIPT":
                        asked.remove(answer.headers["receipt-id"])
                if wire.ends:
                    ended += answer.command == "ERROR"
                    break
            assert wire.ends or not asked
    assert 0 < ended < CONVERSATIONS
