"""`smqpd sub`: writes messages as they come, and commits them once they are written.

Two phases: RECEIVED, then batch by batch write, and COMMIT. What was written is committed unless this program
ends in between; then it comes again, marked as received. Where the connection ends, another is made: what
comes again over it, and is written already, is committed without being written twice. What is withdrawn
before it is written is another's, or nobody's: it is not written, and does not count.
"""

import base64
import json
import math
import random
import sys
from typing import Any, Final, Literal

import msgspec
import trio

from daemon.frontend import SubscribeOptions
from daemon.terminal.failure import FAILED, UNREACHABLE, USAGE, Failure, tell
from daemon.terminal.printable import printable
from plugins.smqp.client import (
    Client,
    LoginRefused,
    SubscriptionEnded,
    lost_where_refused,
    passing_over_lost,
)
from plugins.smqp.connection import ConnectionLost
from plugins.smqp.incoming import Delivery
from plugins.smqp.profile import Profile
from plugins.smqp.standard_output import StandardOutput
from routing.errors import HeaderRefusal, Refusal
from routing.headers import write_headers, write_seconds
from routing.message import Section

Format = Literal["text", "headers", "raw", "json"]
BATCH_MAX: Final = 500
UNCERTAIN_MAX: Final = 100_000
"""What is written may be committed though the answer was lost with its connection: it never comes again."""

SUBSCRIBE_TIMEOUT_S: Final = 30.0
PAUSE_FIRST_S: Final = 0.5
PAUSE_MAX_S: Final = 30.0
"""Between attempts to connect again."""

FINAL: Final = ("disabled", "protocol", "refused", "framing-lost", "tls")
"""Ends of a connection after which another one would end the same."""


class Wish(msgspec.Struct, frozen=True):
    """What to receive.

    Attributes:
        count: messages until the end; None for no end.
        timeout_s: of silence until the end, which is a failure where a count was asked for; None for never.
            A connection that is lost does not end it.
    """

    topics: tuple[str, ...]
    options: SubscribeOptions
    count: int | None
    timeout_s: float | None
    format: Format


async def receive(profile: Profile, channel: str, wish: Wish, output: StandardOutput) -> None:
    """Do it, over as many connections as it takes once there has been a first one.

    A site that has not noticed the end of one may count it, and have no room for the next: that ends in time.

    Raises Failure, Refusal, ConnectionLost where no other connection can be made, and BrokenPipeError.
    """
    receiving = _Receiving(wish, output)
    while True:
        try:
            async with profile.connect(channel) as client:
                with lost_where_refused():
                    await receiving.over(client)
            return
        except (ConnectionLost, LoginRefused) as lost:
            await receiving.wait_to_connect_again(lost)


class _Receiving:
    """What came, and what is still to come, over all connections."""

    def __init__(self, wish: Wish, output: StandardOutput) -> None:
        self._wish = wish
        self._output = output
        self._left = wish.count
        self._silent_at: float | None = None  # when the silence has been long enough; None before the first
        self._connected_at: float | None = None  # None while there is no connection
        self._is_refused = False  # since the last connection, and has been told so
        self._pause_s = PAUSE_FIRST_S
        self._uncertain: dict[str, None] = {}
        """Smuids of what is written, until the server has said that it is committed; the oldest first."""

    async def over(self, client: Client) -> None:
        """Receive over a connection until there is nothing more to come. Raises also ConnectionLost."""
        credit = self._credit()
        # of its own: a short silence that ends `sub` says nothing of how busy the site may be
        with trio.move_on_after(SUBSCRIBE_TIMEOUT_S) as waiting:
            await self._subscribe(client, credit)
        if waiting.cancelled_caught:
            raise Failure(f"the site has not answered SUBSCRIBE within {SUBSCRIBE_TIMEOUT_S:g} s", FAILED)
        if self._silent_at is None:
            self._heard()
        elif self._connected_at is None:
            tell("connected again")
        self._connected_at = trio.current_time()
        self._is_refused = False
        while self._left is None or self._left > 0:
            assert self._silent_at is not None
            with trio.CancelScope(deadline=self._silent_at) as silence:
                deliveries = await _take(client)
            if silence.cancelled_caught:
                self._end_silent()
                return
            again = [delivery for delivery in deliveries if delivery.message.smuid in self._uncertain]
            if again:
                await self._commit(client, again)
                deliveries = [delivery for delivery in deliveries if delivery not in again]
            batch = deliveries if self._left is None else deliveries[: self._left]
            with passing_over_lost():
                await client.received([delivery for delivery in batch if not delivery.received])
            if self._left is not None:
                # before the commit, so that no message comes that is not wanted
                credit = await self._change_credit(client, credit, min(credit, self._left - len(batch)))
                with passing_over_lost():
                    await client.give_back(deliveries[len(batch) :], outcome="released")
            await self._finish(client, batch)
            # more is to come again where some of these were withdrawn
            credit = await self._change_credit(client, credit, max(credit, self._credit()))
            self._heard()

    async def wait_to_connect_again(self, lost: ConnectionLost | LoginRefused) -> None:
        """Wait longer each time. Raises `lost` where it is of no use, and Failure where all is written."""
        if self._silent_at is None or _is_final(lost):
            raise lost
        if self._left == 0:
            written = "written, but perhaps to come again, as it is not known to be committed"
            raise Failure(f"no connection: {lost}; {written}: {len(self._uncertain)}", UNREACHABLE)
        now = trio.current_time()
        if self._connected_at is not None:
            if now - self._connected_at > self._pause_s:
                self._pause_s = PAUSE_FIRST_S
            self._connected_at = None
            tell(f"no connection: {lost}; trying again until there is one")
            if not self._wish.options.durable:
                tell("without --channel nothing waits for this subscription meanwhile")
        elif isinstance(lost, LoginRefused) and not self._is_refused:
            self._is_refused = True
            tell(f"login refused: {lost.text}; trying again until it is not")
        if now >= self._silent_at:
            raise lost
        pause_s = random.uniform(0.75, 1.0) * self._pause_s
        await trio.sleep(min(pause_s, self._silent_at - now))
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    def _heard(self) -> None:
        timeout_s = self._wish.timeout_s
        self._silent_at = math.inf if timeout_s is None else trio.current_time() + timeout_s

    def _end_silent(self) -> None:
        if self._left is not None:
            text = f"nothing came for {self._wish.timeout_s:g} s; messages still to come: {self._left}"
            raise Failure(text, FAILED)

    def _credit(self) -> int:
        most = self._wish.options.credit
        return most if self._left is None else min(most, self._left)

    async def _subscribe(self, client: Client, credit: int) -> None:
        try:
            for topic in self._wish.topics:
                await client.subscribe(topic, msgspec.structs.replace(self._wish.options, credit=credit))
        except HeaderRefusal as refusal:  # an option is beyond what this site allows
            raise Failure(refusal.text, USAGE) from None

    async def _change_credit(self, client: Client, credit: int, wanted: int) -> int:
        """What it is now. Where a subscription has ended this takes none back from who has it now."""
        if wanted == credit or client.has_ended:
            return credit
        await self._subscribe(client, wanted)
        return wanted

    async def _finish(self, client: Client, received: list[Delivery]) -> None:
        """Write and commit what is not withdrawn by the time that its turn comes."""
        for start in range(0, len(received), BATCH_MAX):
            batch = received[start : start + BATCH_MAX]
            some = [delivery for delivery in batch if delivery.withdrawn is None]
            await self._write([_formatted(delivery, self._wish.format) for delivery in some])
            if self._left is not None:
                self._left -= len(some)
            self._uncertain |= {delivery.message.smuid: None for delivery in some if delivery.number}
            while len(self._uncertain) > UNCERTAIN_MAX:
                del self._uncertain[next(iter(self._uncertain))]
            await self._commit(client, some)

    async def _write(self, messages: list[bytes]) -> None:
        """Cancelled, it begins no other message, and the connection, cancelled too, commits none."""
        try:
            await self._output.write(messages)
        except trio.Cancelled:
            tell("standard output was not read on, and may end within a message; that is not committed")
            raise
        except BrokenPipeError:
            raise
        except OSError as error:
            text = (
                f"standard output cannot be written: {error.strerror}; what is not written is not committed"
            )
            raise Failure(text) from None
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _commit(self, client: Client, written: list[Delivery]) -> None:
        with passing_over_lost():
            await client.commit(written)
        for delivery in written:
            self._uncertain.pop(delivery.message.smuid, None)
            if delivery.withdrawn is not None:
                what = f"written, and withdrawn before it was committed ({delivery.withdrawn})"
                tell(f"{what}: {delivery.message.smuid}")


def _is_final(lost: ConnectionLost | LoginRefused) -> bool:
    return lost.code != Refusal.TOO_MANY if isinstance(lost, LoginRefused) else lost.reason in FINAL


async def _take(client: Client) -> list[Delivery]:
    try:
        return await client.take()
    except SubscriptionEnded as ended:
        raise Failure(
            f"{ended}; another program uses this channel, rights have changed, or the topic was deleted"
        ) from None


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
    for name in (
        "cmuid",
        "account",
        "created",
        "name",
        "charset",
        "priority",
        "sequence",
        "delivery",
        "group",
    ):
        value = getattr(message, name)
        if value:
            found[name] = value
    found |= {"receipt": message.receipt} if message.receipt != "NONE" else {}
    found |= {"group_end": True} if message.ends_group else {}
    found |= {"reply": True} if message.reply else {}
    found |= {"guarantee": False} if not message.guarantee else {}
    found |= {"depth": message.depth} if message.depth else {}
    found |= {"hops": list(message.hops)} if message.hops else {}
    found |= {"timeout": write_seconds(message.timeout_s)} if message.timeout_s is not None else {}
    found |= {"pattern": delivery.pattern} if delivery.pattern else {}
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
