"""What a site itself wants: what its subscriptions are to, as far as their accounts may have it.

A pattern of an account that may have only some of its topics is wanted as the patterns of those. The same
topic or pattern may be wanted for the sake of several subscriptions.
"""

from collections import Counter

from routing.federation.interest import Interest
from routing.federation.spreading import Spreading
from routing.matching import Matching
from routing.message import MODES
from routing.peering.wants import Want
from routing.subscription import Pattern, Target, Topic


class OwnWants:
    """Told by `changed` of what subscriptions are to; tells `interest` and `news` of what begins and ends."""

    def __init__(self, matching: Matching, interest: Interest, news: Spreading) -> None:
        self._matching = matching
        self._interest = interest
        self._news = news
        self._wants_of: dict[Target, set[Want]] = {}
        self._count: Counter[Want] = Counter()

    @property
    def count(self) -> int:
        """How many topics and patterns there are."""
        return len({name for _, name in self._count})

    def changed(self, target: Target) -> None:
        """Look what is wanted of a topic or pattern, as subscriptions to it or their rights have changed."""
        wants = self._wanted(target)
        before = self._wants_of.pop(target, set())
        if wants:
            self._wants_of[target] = wants
        for want in wants - before:
            self._count[want] += 1
            self._set(want, True)
        for want in before - wants:
            self._count[want] -= 1
            if not self._count[want]:
                del self._count[want]
                self._set(want, False)

    def _set(self, want: Want, wanted: bool) -> None:
        self._interest.set_own(want, wanted)
        self._news.note_want(want, wanted)

    def _wanted(self, target: Target) -> set[Want]:
        if isinstance(target, Topic) and target.recipient:
            return set()
        names = target.allowed if isinstance(target, Pattern) else (target.name,)
        return {(mode, name) for mode in MODES if self._matching.wants(target, mode) for name in names}
