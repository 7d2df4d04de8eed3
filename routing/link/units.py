"""The units of a link as values. Times that end in `_us` are UTC microseconds by their writer's clock."""

import enum
from typing import Any, Final, Literal

import msgspec

from routing.message import DeliveryMode

TransferOutcome = Literal["accepted", "depth", "duplicate", "loop", "denied"]
UNIT_OVERHEAD_BYTES: Final = 200
"""What a unit costs beside its message, so that a window in bytes also bounds empty messages."""

OUTCOMES: tuple[TransferOutcome, ...] = ("accepted", "depth", "duplicate", "loop", "denied")


class Lane(enum.IntEnum):
    """An ordered stream of a link. What waits in one never holds up another."""

    CONTROL = 0
    URGENT = 1
    BULK = 2


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first unit in each direction, in the control lane.

    Attributes:
        version: (major, minor) of the link protocol.
        server: the name of the site that speaks.
        site: identifies the installation behind the name, so that two with one name are noticed; ""
            from a peer that does not say.
        boot: raised at each start of the daemon, so that a restart is noticed.
        features: words; what both say holds.
        window_units: transfers, and controls, that the site takes without having acknowledged them.
        window_bytes: bytes of messages, likewise.
    """

    version: tuple[int, int] = (1, 0)
    server: str
    site: str = ""
    boot: int
    features: tuple[str, ...] = ()
    window_units: int = 1_000
    window_bytes: int = 4_194_304


class Welcome(msgspec.Struct, frozen=True):
    """This connection is the link between the two sites."""


class Goodbye(msgspec.Struct, frozen=True):
    """No new transfer follows; the sender closes once what it sent is acknowledged.

    Attributes:
        reason: a word, such as `draining`.
    """

    reason: str


class Transfer(msgspec.Struct, kw_only=True):
    """One copy of a message.

    Attributes:
        number: names the copy in acknowledgements; 0 for an unguaranteed one, which has none.
        attempt: from 1, one more each time that the router sends the copy again.
        topic: that it was published to.
        depth: hops that it may still go from the receiver on; -1 for no limit.
        hops: the servers that sent it on, the sender of this copy last.
        timeout_left_s: seconds it still lives; `INFINITE` for a state message, None where none was stated.
        mode: ONE or ALL, the topic's own mode of the origin applied.
        flags: words for the router.
        destinations: the sites that the receiver is to see to; none where it goes wherever it is wanted.
        wire: the message as `routing.frames` encodes it.
        reference: the sending broker's own; not sent.
    """

    topic: str
    wire: bytes
    number: int = 0
    attempt: int = 1
    depth: int = 0
    hops: tuple[str, ...] = ()
    timeout_left_s: float | None = None
    mode: DeliveryMode = "ALL"
    guarantee: bool = True
    flags: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    reference: Any = None


class Control(msgspec.Struct, kw_only=True):
    """What one router tells the other; it comes in order on a link.

    What is not acknowledged when the link goes down the router tells again on the next one, if it still
    holds: each kind must bear to come twice.

    Attributes:
        kind: a word; a kind that the receiver does not know is acknowledged and passed over.
        reference: the sending broker's own; not sent.
    """

    kind: str
    payload: bytes
    number: int = 0
    reference: Any = None


class Acknowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What became of units that have arrived; sent when the receiver has on disk what it promises.

    Attributes:
        ranges: of numbers, (first, last), rising.
        received_us, sent_us: when, by the receiver's clock, the units came and this left.
        reason: in words, where they were denied.
    """

    outcome: TransferOutcome
    ranges: tuple[tuple[int, int], ...]
    received_us: int
    sent_us: int
    reason: str = ""


class Probe(msgspec.Struct, frozen=True):
    """A question that must go through the receiver's broker."""

    number: int
    sent_us: int


class ProbeReply(msgspec.Struct, frozen=True):
    """Its answer, from the receiver's broker. `sent_us` is the probe's."""

    number: int
    sent_us: int
    answered_us: int


class Unknown(msgspec.Struct, frozen=True):
    """A unit that only a newer peer knows. It is passed over."""

    command: str


Unit = Hello | Welcome | Goodbye | Transfer | Control | Acknowledge | Probe | ProbeReply | Unknown
