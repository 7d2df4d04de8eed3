"""How much goes through a topic, and through the whole site: counted as it happens, at times made into rates.

Counts begin at a start of the site, those of a topic once something is known of it.
"""

from typing import Literal

import msgspec


class Traffic(msgspec.Struct, gc=False):
    """Of one topic, or of the site; the router's own: it is read, and never written by others.

    Attributes:
        came: messages accepted, from clients and from peers.
        delivered: handed to a subscription, each time.
        committed: finished by a subscription.
        expired, removed, dropped: copies that ended so; `expired` also where they were due to nobody.
        dead: moved to the dead-letter topic, once for each subscription that could not take it.
        in_per_s, out_per_s: messages that came, and that were delivered, between the last two samples.
    """

    came: int = 0
    delivered: int = 0
    committed: int = 0
    expired: int = 0
    removed: int = 0
    dropped: int = 0
    dead: int = 0
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    sampled_came: int = 0
    sampled_delivered: int = 0

    def ended(self, event: Literal["expired", "removed", "dropped"]) -> None:
        """Count a copy that has ended so."""
        if event == "expired":
            self.expired += 1
        elif event == "removed":
            self.removed += 1
        else:
            self.dropped += 1

    def sample(self, seconds: float) -> None:
        """Make rates of what was counted since the last sample, `seconds` ago."""
        came, delivered = self.came, self.delivered
        self.in_per_s = (came - self.sampled_came) / seconds
        self.out_per_s = (delivered - self.sampled_delivered) / seconds
        self.sampled_came, self.sampled_delivered = came, delivered
