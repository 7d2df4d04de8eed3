"""What one account may use: its own quotas where it has some, else those of the configuration.

sessions          a login more is refused
publishing        its connections are read no faster; where many share one connection, it is refused
held              what it would publish is refused, until some of it has been taken
unfinished        its connections wait for room, and what does not find any is refused
"""

import msgspec

from daemon.settings import (
    HeldBytesMax,
    HeldMessagesMax,
    PublishBurstMax,
    PublishRateMax,
    Quotas,
    SessionsMax,
    UnfinishedBytesMax,
)


class OwnQuotas(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """See `daemon.settings.Quotas`; None is what that says, 0 no limit."""

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
