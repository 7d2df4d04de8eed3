"""What of mode ONE waits in the topics of a pattern, found for those who begin to consume from that.

Meanwhile they are given nothing, so that what they get first is the most urgent and the oldest of all.
What begins to wait in the meantime is noted as it comes.
"""

from itertools import islice
from typing import Final

from routing.delivery import Deliveries
from routing.state import SiteState
from routing.steps import Task
from routing.targets import Pattern

LOOKED_AT_MAX: Final = 250
"""Topics that one step looks at, or places in the tree of them."""


class Gathering(Task):
    """One pattern to which somebody is attached, or about to be."""

    decides = False

    def __init__(self, state: SiteState, deliveries: Deliveries, pattern: Pattern) -> None:
        self._matching = state.matching
        self._deliveries = deliveries
        self._pattern = pattern
        self._topics = state.matching.waiting_for(pattern)
        self._shared = state.takers.begin_gathering(pattern)

    @property
    def what(self) -> str:
        """The name of the task in the log."""
        return f"what waits in the topics of {self._pattern.name}"

    def step(self, now: float) -> bool:
        """Look at some of the topics; True after the last one, or where nobody is there for it any more."""
        pattern = self._pattern
        if pattern.shared is not self._shared:  # it was forgotten, and may be gathered anew
            return True
        if not self._matching.is_attended(pattern):
            pattern.forget_shared()
            return True
        left = LOOKED_AT_MAX
        for topic in islice(self._topics, LOOKED_AT_MAX):
            left -= 1
            if topic is not None and (entry := topic.shared.peek()) is not None:
                self._shared.note_found(topic.name, entry)
        pattern.is_gathering = not left
        return bool(left)

    def failed(self) -> None:
        """Let those who are there have what was found so far."""
        if self._pattern.shared is self._shared:
            self._pattern.is_gathering = False

    def ended(self, now: float) -> None:
        """Give what was found to those who are there."""
        for subscription in list(self._pattern.subscriptions.values()):
            self._deliveries.pump_all(subscription, now)
