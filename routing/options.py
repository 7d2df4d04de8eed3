"""What a subscription wants, and how what it was given comes back."""

from typing import Literal

import msgspec

Accepts = Literal["ONE", "ALL", "BOTH"]
ReturnOutcome = Literal["failed", "released", "rejected", "withheld"]
"""Of a delivery that comes back: worked on in vain; not touched; not wanted again by anybody; or not for the
subscription: one in mode ALL never comes to it again, one in mode ONE counts as released.
"""


class SubscribeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscription wants.

    Attributes:
        credit: unfinished messages at a time; 0 delivers nothing for now.
        accepts: the delivery modes it takes part in.
        durable: it outlives the session; False ends it with the session.
        ordered: messages of one publisher that have a Sequence come in its order.
        lock_s: seconds until an unreceived message goes to the next subscriber; None for the site's default.
        acknowledges_all: unguaranteed messages are locked for it, too, until it acknowledges them; without it
            they are finished once they have been handed over.
        shared: the session consumes from it beside others that say so, each with the credit, `lock_s` and
            `acknowledges_all` that it states, and each message goes to one of them; without it, it takes the
            subscription over. Of a session that consumes from it already, this stays as it was.
        tells_removals: the session is told of messages of mode ALL that are removed while they are kept, also
            of those that it has finished; until it ends or subscribes anew without it.
        name: tells apart several subscriptions of one account and channel to one topic or pattern.
    """

    credit: int = 100
    accepts: Accepts = "BOTH"
    durable: bool = True
    ordered: bool = False
    lock_s: float | None = None
    acknowledges_all: bool = False
    shared: bool = False
    tells_removals: bool = False
    name: str = ""
