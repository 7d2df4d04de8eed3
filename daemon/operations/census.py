"""All topics are counted every few seconds, in steps; what has gone through them is made into rates."""

from collections.abc import Callable
from typing import Final

import msgspec
import trio

from daemon.operating.overview import Totals
from daemon.operations.rates import NO_RATES, Rates
from daemon.system.stepping import in_steps
from routing.names import DEAD_LETTER_PREFIX
from routing.targets import Topic
from routing.traffic import Traffic
from routing.view import SiteView

SAMPLE_S: Final = 5.0
"""Between two samples of the rates, where there are few topics."""

LOOK_S: Final = 0.000_2
"""For each topic so much time passes before all are looked at again, which takes a hundredth of it."""

NEARLY_FULL: Final = 0.8
FULLEST_MAX: Final = 5


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """All topics together.

    Attributes:
        topics: without system topics.
        totals: what went through all topics, those that are forgotten included.
        fullest: those that are nearly full, and their share of what they may hold; the fullest first.
    """

    totals: Totals
    topics: int = 0
    held_bytes: int = 0
    dead_letters: int = 0
    fullest: tuple[tuple[str, float], ...] = ()


class Census:
    """Counts the topics of one site.

    Args:
        bounds: messages and bytes that a topic may hold.
    """

    def __init__(self, view: SiteView, bounds: Callable[[], tuple[int, int]]) -> None:
        self._view = view
        self._bounds = bounds
        self._counted = Counted(totals=Totals())
        self._counted_at = float("-inf")
        self._rates = NO_RATES
        self._topic_rates: dict[Traffic, Rates] = {}
        self._looking = trio.Lock()

    async def run(self) -> None:
        """Take samples until cancelled."""
        sampled_at = trio.current_time()
        while True:
            await trio.sleep(max(SAMPLE_S, self._pause_s))
            async with self._looking:
                now = trio.current_time()
                elapsed, sampled_at = now - sampled_at, now
                totals = await self._look(elapsed)
                self._rates = self._rates.later(totals, elapsed)

    async def counted(self) -> Counted:
        """All topics, as they were a moment ago, or where there are many, some seconds ago."""
        async with self._looking:
            if trio.current_time() - self._counted_at >= self._pause_s:
                await self._look(None)
        return self._counted

    @property
    def rates(self) -> Rates:
        """Of the whole site, at the last sample."""
        return self._rates

    def topic_rates(self, traffic: Traffic) -> Rates:
        """Of what goes through one topic, at the last sample."""
        return self._topic_rates.get(traffic, NO_RATES)

    @property
    def _pause_s(self) -> float:
        return LOOK_S * self._view.topic_count

    def _totals(self) -> Totals:
        """That of the topics that are forgotten, to which those that are there are to be added."""
        totals = Totals()
        totals.add(self._view.forgotten)
        return totals

    async def _look(self, elapsed: float | None) -> Totals:
        """Count all topics; with a sample of the rates, where so many seconds have passed since the last one.

        Returns what has gone through all of them.
        """
        messages_max, bytes_max = self._bounds()
        topics = held_bytes = dead_letters = 0
        totals = self._totals()
        fullest: list[tuple[float, str]] = []
        before = self._topic_rates
        rates: dict[Traffic, Rates] = {}  # anew, so that none are kept of topics that are gone
        async for some in in_steps(self._view.every_topic()):
            totals.add_all(topic.traffic for topic in some)
            for topic in some:
                held_bytes += topic.bytes
                if elapsed is not None and ((traffic := topic.traffic).came or traffic.delivered):
                    rates[traffic] = before.get(traffic, NO_RATES).later(traffic, elapsed)
                if not topic.is_system:
                    topics += 1
                if not topic.messages:
                    continue
                if topic.name.startswith(DEAD_LETTER_PREFIX):
                    dead_letters += topic.messages
                share = _share(topic, messages_max, bytes_max)
                if share >= NEARLY_FULL:
                    fullest = sorted([*fullest, (share, topic.name)], reverse=True)[:FULLEST_MAX]
        if elapsed is not None:
            self._topic_rates = rates
        self._counted = Counted(
            totals=totals,
            topics=topics,
            held_bytes=held_bytes,
            dead_letters=dead_letters,
            fullest=tuple((name, share) for share, name in fullest),
        )
        self._counted_at = trio.current_time()
        return totals


def _share(topic: Topic, messages_max: int, bytes_max: int) -> float:
    return max(topic.messages / messages_max, topic.bytes / bytes_max if bytes_max else 0.0)
