"""The hop log: one record for each thing that a server does with a copy of a message.

A copy that a server has accepted ends in exactly one final state: the record that ends it carries
`final`. Everything that reads hop logs (the `why` command, the Spark jobs) reads this one format,
one JSON object a line; fields that hold their default are left out of the line.
"""

from typing import Annotated, Final, Literal

import msgspec

from routing.numbers import TIME_US_MAX, Count, Depth, Number, TimeUs

FORMAT_VERSION: Final = 1

HopEvent = Literal[
    "published",  # accepted from a client of this site: a copy begins
    "received",  # accepted from a peer: a copy begins
    "forwarded",  # a peer has it on disk (the acknowledgement of a forward; see `outcome`)
    "arrived",  # sites that this one was to see to have it, as a peer tells: `destinations`
    "delivered",  # handed to a subscription
    "committed",  # a subscription has finished with it
    "returned",  # given back, or taken back from a subscription; `reason` says why
    "expired",  # its timeout ended; with a `reason`, it was due to nobody, or to nobody any more
    "removed",  # REMOVE
    "dead",  # moved to the dead-letter topic; `reason` says why
    "duplicate",  # a copy that was here before: dropped, no copy begins
    "loop",  # own name in Hops: dropped, no copy begins
    "depth",  # seen before with less depth: forwarded again, delivered no second time
    "denied",  # rights or peer rules refused it
    "dropped",  # an unguaranteed copy given up under pressure, or for want of a reader; or one set aside
    "receipt",  # the receipt X/Y was sent, `receipt` holds it
    "heartbeat",  # each minute: the log up to here is complete
]


class Closing(msgspec.Struct, kw_only=True, frozen=True, tag_field="event", tag="closed"):
    """The last line of a closed file, which tells of the file and of no copy. Files of earlier have none.

    Attributes:
        version: of this format.
        first, last: numbers of the first and the last record in the file.
        records: how many there are; fewer than the numbers allow where the disk was full, or a power cut took
            some.
        crc32: of all bytes before this line (as in zlib).
    """

    version: int
    server: str
    boot: int
    first: int
    last: int
    records: int
    crc32: int


class HopRecord(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One line of the hop log.

    Attributes:
        version: of this format.
        server: the writer's server name.
        boot: raised by one at each start of the daemon.
        record: gapless over all boots of a server, so that a missing record is noticed.
        time_us: UTC microseconds by the writer's clock.
        event: what happened; see `HopEvent`.
        smuid: "" on a heartbeat, and where a publication was refused (denied), which never had one.
        topic: "" on a heartbeat only.
        peer: the other server, on events of a link.
        account: `account:channel@host` of the publisher, on published and received.
        subscription: `account:channel@host` of the subscription, and `/name` where it has one, on events of a
            delivery.
        pattern: that the subscription is to; "" where it is to the topic itself.
        mode: ONE where the copy goes to one subscriber; absent means ALL.
        depth: hops the copy may still go.
        attempt: of the delivery or the forward, from 1; 0 where it has no meaning, as of a delivery without a
            guarantee that is not acknowledged: the subscription has it thereby. A copy that goes over
            a link again, be it with more depth, goes on counting, so that the number names one crossing.
        crossing: on forwarded of mode ONE: how often the way of the message, which may lead to and fro, has
            led over this link, from 1; attempts begin anew at each. 0 where the writer does not say.
        hops: Hops so far, on received, duplicate, loop and dropped.
        size: bytes of the bodies.
        priority: 0 where the message has none.
        guarantee: False for a copy that was never on disk (a new boot has none of them).
        final: True on the one record that ends the copy at this server.
        reason: why, in words for people, on returned, expired, dead, denied, dropped.
        receipt: "X/Y" on the event receipt; on published, which receipt was asked for, ONE or ALL.
        outcome: on forwarded: what the peer said it did: accepted, depth (it was there before with less
            depth and goes on again), duplicate, loop or denied.
        sent_us: on forwarded: when this attempt was sent, by the writer's clock.
        peer_received_us, peer_sent_us: on forwarded: when, by the peer's clock, the copy came and its
            acknowledgement left.
        acknowledged_us: on forwarded: when that came, by the writer's clock; 0 where the writer does not say.
            `time_us` may be much later: what ends a copy waits for others, to be stored with them.
        due: on published and received: the subscriptions of this site that the copy was due to when it was
            routed, which is what a receipt's Y is made of; None where the writer does not say.
        expires_us: on published and received: when the copy's timeout ends, by the writer's clock; 0 where
            none was stated, -1 for a state message, and where it counts from the end of a delay.
        held: on heartbeat: guaranteed copies that this server holds.
        destinations: on arrived: the sites that have it.
        previous: on the first record of a boot: the number of the last record of the boot before, as the
            store knows it, so that a tail that was lost is noticed.
    """

    version: Count
    server: str
    boot: Number
    record: Number
    time_us: TimeUs
    event: HopEvent
    smuid: str = ""
    topic: str = ""
    peer: str = ""
    account: str = ""
    subscription: str = ""
    pattern: str = ""
    mode: Literal["ONE", "ALL"] = "ALL"
    depth: Depth = 0
    attempt: Count = 0
    crossing: Count = 0
    hops: tuple[str, ...] = ()
    size: Number = 0
    priority: Count = 0
    guarantee: bool = True
    final: bool = False
    reason: str = ""
    receipt: str = ""
    outcome: Literal["", "accepted", "depth", "duplicate", "loop", "denied"] = ""
    sent_us: TimeUs = 0
    peer_received_us: TimeUs = 0
    peer_sent_us: TimeUs = 0
    acknowledged_us: TimeUs = 0
    due: Count | None = None
    expires_us: Annotated[int, msgspec.Meta(ge=-1, le=TIME_US_MAX)] = 0
    held: Number = 0
    destinations: tuple[str, ...] = ()
    previous: Number = 0
