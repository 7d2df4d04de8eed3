"""What a test that plays a peer of a site says, and hears."""

from typing import Any, Final

from hyperframe.frame import Frame

from routing.link.units import Acknowledge, Transfer
from tests.support.links import Puppet, copy

CONTROL_STREAM: Final = 1


def sealed(number: int, **fields: Any) -> Transfer:
    return copy("zeta", "weather", number=number, **fields)


async def answers(player: Puppet, count: int) -> list[tuple[str, int, str]]:
    """The first so many acknowledgements, each of one number: outcome, number, reason."""
    found = await player.hear(Acknowledge, count)
    return [(one.outcome, one.ranges[0][0], one.reason) for one in found if isinstance(one, Acknowledge)]


async def ended(player: Puppet, reason: str) -> None:
    await player.until(lambda: player.closed is not None)
    assert player.closed is not None
    assert reason in player.closed


def wire(frame: Frame, times: int = 1) -> bytes:
    return frame.serialize() * times
