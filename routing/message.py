"""What a message is: the headers of the SMQP draft as typed values, and its content sections.

A message is a value. What the server knows of a copy (its place in a queue, its deadline, who has it)
is not here but in `routing.queue`.
"""

import math
from typing import Final, Literal, get_args

import msgspec

DeliveryMode = Literal["ONE", "ALL"]
MODES: Final[tuple[DeliveryMode, ...]] = get_args(DeliveryMode)
ReceiptMode = Literal["NONE", "ONE", "ALL"]

INFINITE: Final = math.inf
HEADER_BYTES: Final = 200
"""What a header takes in memory besides its text."""
FEW_HEADERS_BYTES: Final = 2_048
"""What is not counted: nearly all messages have fewer than ten short headers, and take no more."""
DEPTH_UNLIMITED: Final = -1


def text_bytes(text: str) -> int:
    """What a text takes in memory: each character as much as that one of them which takes most, up to 4."""
    return len(text) if text.isascii() else text.__sizeof__()


class Section(msgspec.Struct, frozen=True):
    """One content section: its type, its other Content-* headers in order, and its bytes."""

    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message, as its publisher and the servers on its way have written it.

    Attributes:
        name: the subject, at most 128 characters, without its charset.
        charset: the charset parameter of Name; None where none was given.
        priority: 0 where none was given, else 1 or more; higher goes first.
        created: date-time as it was written, UTC (`2026-11-21T10:00:00.250Z`); "" where absent.
        timeout_s: seconds; `INFINITE` for a state message; None where none was stated.
        depth: hops the message may still go; -1 for no limit.
        delivery: None where the message does not say (which means ALL).
        group: of mode ONE: it goes to the subscription that has others of the group; None for no group.
        ends_group: it is the last one of its group; what comes then under this name begins anew.
        hops: the servers that sent the message on, oldest first.
        smuid: "" until the first server has given one.
        account: `account:channel@host` of the publisher; "" until the server has written it.
        others: headers unknown to SMQP, as (name, value) in the order in which they came.
    """

    name: str | None = None
    charset: str | None = None
    priority: int = 0
    created: str = ""
    receipt: ReceiptMode = "NONE"
    reply: bool = False
    timeout_s: float | None = None
    depth: int = 0
    sequence: int | None = None
    guarantee: bool = True
    delivery: DeliveryMode | None = None
    group: str | None = None
    ends_group: bool = False
    hops: tuple[str, ...] = ()
    mime_version: str | None = None
    smuid: str = ""
    cmuid: str = ""
    account: str = ""
    others: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes of all bodies."""
        sections = self.sections
        if len(sections) == 1:  # nearly all have one
            return len(sections[0].body)
        return sum(len(section.body) for section in sections)

    @property
    def header_bytes(self) -> int:
        """About the memory of headers unknown to SMQP, and of those of sections; 0 for few short ones."""
        total = 0
        for name, value in self.others:
            total += len(name) + text_bytes(value) + HEADER_BYTES
        for section in self.sections:
            total += text_bytes(section.content_type) + HEADER_BYTES
            for name, value in section.headers:
                total += len(name) + text_bytes(value) + HEADER_BYTES
        return total if total > FEW_HEADERS_BYTES else 0

    @property
    def memory_bytes(self) -> int:
        """About the memory of bodies and headers."""
        return self.size_bytes + self.header_bytes
