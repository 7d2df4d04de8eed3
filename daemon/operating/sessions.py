"""Who is logged in."""

import msgspec


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One login.

    Attributes:
        id: names it for as long as the site runs.
        remote: `address:port`.
        opened_at: Unix time, seconds.
        subscriptions: that it consumes from.
        in_flight: messages that it has and has not finished; `in_flight_max` if it used all of its credit.
        published: messages that it has published.
        unsent, unsent_bytes: what waits for the client to read it.
        paused_s: how long it gets no more messages since so much is unsent; None where it gets them.
    """

    id: int
    account: str
    channel: str
    protocol: str
    remote: str
    opened_at: float
    subscriptions: int
    in_flight: int
    in_flight_max: int
    published: int
    unsent: int
    unsent_bytes: int
    paused_s: float | None
