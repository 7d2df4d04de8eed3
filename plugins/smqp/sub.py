"""`smqpd sub`: writes messages as they come, and commits them once they are written.

Two phases for each batch: RECEIVED, write and flush, COMMIT. What was written is committed unless the
connection or this program ends in between; then it comes again, marked as received.
"""

import base64
import json
import sys
from typing import Any, Final, Literal

import msgspec
import trio

from daemon.cli.failure import FAILED, Failure
from daemon.cli.printable import printable
from daemon.frontend import SubscribeOptions
from plugins.smqp.client import Client, SubscriptionEnded
from plugins.smqp.incoming import Delivery
from plugins.smqp.profile import Profile
from routing.headers import write_headers, write_seconds
from routing.message import Section

Format = Literal["text", "headers", "raw", "json"]
BATCH_MAX: Final = 500


class Wish(msgspec.Struct, frozen=True):
    """What to receive.

    Attributes:
        count: messages until the end; None for no end.
        timeout_s: of silence until the end, which is a failure where a count was asked for; None for never.
    """

    topics: tuple[str, ...]
    options: SubscribeOptions
    count: int | None
    timeout_s: float | None
    format: Format


async def receive(profile: Profile, channel: str, wish: Wish) -> None:
    """Do it. Raises Failure, Refusal, ConnectionLost, BrokenPipeError."""
    async with profile.connect(channel) as client:
        credit = wish.options.credit if wish.count is None else min(wish.options.credit, wish.count)
        await _subscribe(client, wish, credit)
        left = wish.count
        while left is None or left > 0:
            with trio.move_on_after(
                wish.timeout_s if wish.timeout_s is not None else float("inf")
            ) as silence:
                deliveries = await _take(client)
            if silence.cancelled_caught:
                if left is None:
                    return
                raise Failure(
                    f"nothing came for {wish.timeout_s:g} s; messages still to come: {left}", FAILED
                )
            batch = deliveries if left is None else deliveries[:left]
            if left is not None:
                left -= len(batch)
                if left < credit:  # before the commit, so that no message comes that is not wanted
                    credit = left
                    await _subscribe(client, wish, credit)
                await client.give_back(deliveries[len(batch) :])
            await _finish(client, batch, wish.format)


async def _subscribe(client: Client, wish: Wish, credit: int) -> None:
    for topic in wish.topics:
        await client.subscribe(topic, msgspec.structs.replace(wish.options, credit=credit))


async def _take(client: Client) -> list[Delivery]:
    try:
        return await client.take()
    except SubscriptionEnded as ended:
        raise Failure(f"{ended}; another program uses this channel, or rights have changed") from None


async def _finish(client: Client, batch: list[Delivery], format: Format) -> None:
    for start in range(0, len(batch), BATCH_MAX):
        some = batch[start : start + BATCH_MAX]
        await client.received([delivery for delivery in some if not delivery.received])
        sys.stdout.buffer.write(b"".join(_formatted(delivery, format) for delivery in some))
        sys.stdout.buffer.flush()
        await client.commit(some)


def _formatted(delivery: Delivery, format: Format) -> bytes:
    message = delivery.message
    if format == "json":
        return json.dumps(_json(delivery), ensure_ascii=False).encode() + b"\n"
    body = b"".join(section.body for section in message.sections)
    if format == "raw":
        return body
    if not body.endswith(b"\n"):
        body += b"\n"
    if format == "headers":
        lines = [f"Topic: {delivery.topic}", *write_headers(message)]
        lines += [f"Content-Type: {section.content_type}" for section in message.sections]
        body = "".join(f"{line}\n" for line in [*lines, ""]).encode() + body + b"\n"
    return _for_people(body) if sys.stdout.isatty() else body


def _for_people(text: bytes) -> bytes:
    """What publishers wrote moves no cursor and sets no colour of whoever looks at it."""
    return "\n".join(printable(line) for line in text.decode(errors="replace").split("\n")).encode()


def _json(delivery: Delivery) -> dict[str, Any]:
    message = delivery.message
    found: dict[str, Any] = {"topic": delivery.topic, "smuid": message.smuid}
    for name in ("cmuid", "account", "created", "name", "charset", "priority", "sequence", "delivery"):
        value = getattr(message, name)
        if value:
            found[name] = value
    found |= {"receipt": message.receipt} if message.receipt != "NONE" else {}
    found |= {"reply": True} if message.reply else {}
    found |= {"guarantee": False} if not message.guarantee else {}
    found |= {"depth": message.depth} if message.depth else {}
    found |= {"hops": list(message.hops)} if message.hops else {}
    found |= {"timeout": write_seconds(message.timeout_s)} if message.timeout_s is not None else {}
    found |= {"attempt": delivery.attempt} if delivery.attempt else {}
    found |= {"received": True} if delivery.received else {}
    found |= {"headers": message.others} if message.others else {}
    found["sections"] = [_json_section(section) for section in message.sections]
    return found


def _json_section(section: Section) -> dict[str, Any]:
    found: dict[str, Any] = {"content_type": section.content_type}
    if section.headers:
        found["headers"] = section.headers
    try:
        found["text"] = section.body.decode()
    except UnicodeDecodeError:
        found["base64"] = base64.b64encode(section.body).decode()
    return found
