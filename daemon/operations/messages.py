"""What a topic holds, to be looked at: headers, and as much of the bodies as fits."""

from contextlib import aclosing
from typing import Final

from daemon.broker.broker import Broker
from daemon.frontend import HeldMessage
from daemon.operating.messages import (
    BODIES_BYTES_MAX,
    BODY_BYTES_MAX,
    BROWSED_MAX,
    HEADERS_BYTES_MAX,
    Browsed,
    BrowsedMessage,
    DeadLetter,
)
from routing.headers import write_headers
from routing.message import Message
from routing.names import SERVER_ACCOUNT, birth_ms, check_topic, dead_letter_topic, make_address

READ_AT_ONCE: Final = 50
"""Messages, whose bodies are read whole."""


MESSAGE_BYTES: Final = 300
SECTION_BYTES: Final = 60
"""In JSON without its headers, about."""


class MessageQueries:
    """Reads the messages of one site."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def browse(self, topic: str, after: int, count: int) -> list[BrowsedMessage]:
        """See `daemon.operating.operations.Operations`."""
        check_topic(topic)
        found: list[BrowsedMessage] = []
        room, headers_room = BODIES_BYTES_MAX, HEADERS_BYTES_MAX
        every = self._broker.browse_every(topic, after, min(count, BROWSED_MAX), READ_AT_ONCE)
        async with aclosing(every) as pages:
            async for page in pages:
                for held in page:
                    shown = self._shown(held, min(BODY_BYTES_MAX, room))
                    room -= sum(len(section.body) for section in shown.sections)
                    found.append(shown)
                    headers_room -= _headers_bytes(shown)
                    if headers_room <= 0:
                        return found
        return found

    async def dead_letters(self, topic: str, after: int, count: int) -> list[DeadLetter]:
        """See `daemon.operating.operations.Operations`."""
        found = await self.browse(dead_letter_topic(check_topic(topic)), after, count)
        return [_dead_letter(message, self._broker.server_name) for message in found]

    def _shown(self, held: HeldMessage, bytes_max: int) -> BrowsedMessage:
        message, room = held.stored.message, bytes_max
        sections = []
        for section in message.sections:
            body = section.body[: max(room, 0)]
            room -= len(body)
            sections.append(
                Browsed(
                    content_type=section.content_type,
                    headers=section.headers,
                    size=len(section.body),
                    body=body,
                )
            )
        return BrowsedMessage(
            id=held.message_id,
            smuid=held.smuid,
            account=message.account,
            age_s=max(self._broker.clock.wall_ms() - birth_ms(held.smuid), 0) / 1000,
            expires_in_s=held.expires_in_s,
            locked=held.locked,
            size=message.size_bytes,
            headers=tuple(_headers(message)),
            sections=tuple(sections),
        )


def _headers(message: Message) -> list[tuple[str, str]]:
    lines = (line.partition(":") for line in write_headers(message))
    return [(name, value.removeprefix(" ")) for name, _, value in lines]


def _headers_bytes(shown: BrowsedMessage) -> int:
    """About so many, with what is around them in JSON: each letter as one byte."""
    found = MESSAGE_BYTES + sum(len(name) + len(value) for name, value in shown.headers)
    for section in shown.sections:
        found += SECTION_BYTES + len(section.content_type)
        found += sum(len(name) + len(value) for name, value in section.headers)
    return found


def is_of_this_server(account: str, server: str) -> bool:
    """Whether a message was published by this server itself, as its dead letters are."""
    return account == make_address(SERVER_ACCOUNT, "system", server)


def _dead_letter(message: BrowsedMessage, server: str) -> DeadLetter:
    """With what its headers say, if it was this server that wrote them."""
    said = dict(message.headers) if is_of_this_server(message.account, server) else {}
    return DeadLetter(
        topic=said.get("Dead-Topic", ""),
        smuid=said.get("Dead-Smuid", ""),
        account=said.get("Dead-Account", ""),
        subscription=said.get("Dead-Subscription", ""),
        deliveries=said.get("Dead-Deliveries", ""),
        reason=said.get("Dead-Reason", ""),
        message=message,
    )
