"""How fast messages come and go: made of what the router counts, by who looks at that now and then."""

from typing import Final

import msgspec

from routing.traffic import Traffic


class Rates(msgspec.Struct, frozen=True, gc=False):
    """Of one topic, or of all, at a look at what they had counted.

    Attributes:
        came, delivered: what they had counted then.
        in_per_s, out_per_s: messages that came, and deliveries, between the look before and that one.
    """

    came: int = 0
    delivered: int = 0
    in_per_s: float = 0.0
    out_per_s: float = 0.0

    def later(self, traffic: Traffic, seconds: float) -> "Rates":
        """Those at another look, so many seconds after this one."""
        came, delivered = traffic.came - self.came, traffic.delivered - self.delivered
        if not (came or delivered or self.in_per_s or self.out_per_s):
            return self  # as it is with most topics
        return Rates(traffic.came, traffic.delivered, came / seconds, delivered / seconds)


NO_RATES: Final = Rates()
"""Of what nobody has looked at yet."""
