"""What a site itself wants: what its subscriptions are to, as far as their accounts may have it.

A pattern of an account that may have only some of its topics is wanted as the patterns of those. The same
topic or pattern may be wanted for the sake of several subscriptions.

Of what takes mode ONE news says besides whether somebody is attached: a subscription that lasts wants it also
while nobody is, or what is published elsewhere would be due to nobody.
"""

from collections import Counter

from routing.federation.interest import Interest
from routing.federation.spreading import Spreading
from routing.matching import Matching
from routing.message import MODES
from routing.peering.wants import Said, SaidKind
from routing.subscription import Target
from routing.targets import Pattern, Topic


class OwnWants:
    """Told by `changed` of what subscriptions are to; tells `interest` and `news` of what begins and ends."""

    def __init__(self, matching: Matching, interest: Interest, news: Spreading) -> None:
        self._matching = matching
        self._interest = interest
        self._news = news
        self._wants_of: dict[Target, set[Said]] = {}
        self._count: Counter[Said] = Counter()

    @property
    def count(self) -> int:
        """How many topics and patterns there are."""
        return len({name for _, name in self._count})

    def changed(self, target: Target) -> None:
        """Look what is wanted of a topic or pattern, as its subscriptions, sessions or rights are others."""
        wants = self._wanted(target)
        before = self._wants_of.pop(target, set())
        if wants:
            self._wants_of[target] = wants
        for want in sorted(wants - before):
            self._count[want] += 1
            self._set(want, True)
        for want in sorted(before - wants):
            self._count[want] -= 1
            if not self._count[want]:
                del self._count[want]
                self._set(want, False)

    def _set(self, said: Said, wanted: bool) -> None:
        kind, name = said
        if kind != "ATTACHED":
            self._interest.set_own((kind, name), wanted)
        self._news.note_want(said, wanted)

    def is_attended(self, topic: Topic) -> bool:
        """Whether somebody is attached to what takes messages of mode ONE of a topic, or has just been.

        One session may be about to take the place of another.
        """
        targets = self._matching.targets(topic)
        return any(kind == "ATTACHED" for each in targets for kind, _ in self._wants_of.get(each, ()))

    def _wanted(self, target: Target) -> set[Said]:
        if isinstance(target, Topic) and target.recipient:
            return set()
        names = target.allowed if isinstance(target, Pattern) else (target.name,)
        kinds: list[SaidKind] = [mode for mode in MODES if self._matching.wants(target, mode)]
        if self._matching.is_attended(target):
            kinds.append("ATTACHED")
        return {(kind, name) for kind in kinds for name in names}
