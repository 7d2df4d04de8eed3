"""What each account may use of a site, besides what it may do there, which is `routing.rights`.

The configuration has what holds for all, and the file of accounts what is one account's own.
"""

from typing import Annotated

import msgspec

from routing.numbers import EXACT_MAX


def _count(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description, ge=0, le=EXACT_MAX)


SessionsMax = Annotated[int, _count("Logins at a time, over all front ends.")]
PublishRateMax = Annotated[
    float,
    msgspec.Meta(
        description=(
            "Messages a second, over all its connections: none of them is read any faster. XMPP clients,"
            " whose server has one connection for all, are told to wait."
        ),
        ge=0,
        le=1e9,
    ),
]
PublishBurstMax = Annotated[
    int, _count("Messages that may come at once before that; 0 for those of one second.")
]
HeldMessagesMax = Annotated[
    int,
    _count(
        "Messages that it has published at this site, on whatever topics, and that are held; above it"
        " publishing is refused."
    ),
]
HeldBytesMax = Annotated[int, _count("Bytes of their bodies, likewise.")]
UnfinishedBytesMax = Annotated[
    int, _count("Its part, over all its connections, of what unfinished_bytes_max in [limits] is for.")
]


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """What each account may use, unless `smqpd account quotas` says otherwise for it; 0 for no limit."""

    sessions_max: SessionsMax = 0
    publish_rate_per_s_max: PublishRateMax = 0.0
    publish_burst_max: PublishBurstMax = 0
    held_messages_max: HeldMessagesMax = 0
    held_bytes_max: HeldBytesMax = 0
    unfinished_bytes_max: UnfinishedBytesMax = 0


class OwnQuotas(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Those of one account, in its file; None is what `Quotas` says, 0 no limit.

    sessions          a login more is refused
    publishing        its connections are read no faster; where many share one connection, it is refused
    held              what it would publish is refused, until some of it has been taken
    unfinished        its connections wait for room, and what does not find any is refused
    """

    sessions_max: SessionsMax | None = None
    publish_rate_per_s_max: PublishRateMax | None = None
    publish_burst_max: PublishBurstMax | None = None
    held_messages_max: HeldMessagesMax | None = None
    held_bytes_max: HeldBytesMax | None = None
    unfinished_bytes_max: UnfinishedBytesMax | None = None

    @property
    def given(self) -> dict[str, float]:
        """Those that are not None, by name."""
        every = msgspec.structs.asdict(self)
        return {name: value for name, value in every.items() if value is not None}

    def over(self, defaults: Quotas) -> Quotas:
        """What holds."""
        return msgspec.structs.replace(defaults, **self.given)
