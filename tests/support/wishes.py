"""Who is due for what, by the words of the contract alone: kept beside a router to judge it."""

from dataclasses import dataclass

from routing.subscription import Subscription


@dataclass(frozen=True)
class SubscriptionWish:
    """A subscription: what is it to, whose is it, by what name, and does it take mode ALL?"""

    id: int
    target: str
    owner: str
    name: str
    accepts_all: bool

    def takes(self, topic: str) -> bool:
        """Whether what is published to a topic is for it."""
        return takes(self.target, topic)


class Wishes:
    """The subscriptions of a site."""

    def __init__(self) -> None:
        self._wishes: dict[int, SubscriptionWish] = {}

    def begin(self, subscription: Subscription) -> None:
        options = subscription.options
        name = subscription.target.name
        self._wishes[subscription.id] = SubscriptionWish(
            subscription.id, name, subscription.owner, options.name, options.accepts != "ONE"
        )

    def end(self, id: int) -> None:
        self._wishes.pop(id, None)

    def keep(self, ids: set[int]) -> None:
        """All others have ended."""
        self._wishes = {id: wish for id, wish in self._wishes.items() if id in ids}

    def due(self, topic: str) -> set[int]:
        """To whom a message of mode ALL is due: to one of each account, channel and name."""
        first: dict[tuple[str, str], SubscriptionWish] = {}
        for wish in sorted(self._wishes.values(), key=lambda wish: (wish.target != topic, wish.id)):
            if wish.accepts_all and wish.takes(topic):
                first.setdefault((wish.owner, wish.name), wish)
        return {wish.id for wish in first.values()}

    def is_first_for(self, id: int, topic: str) -> bool:
        """Whether a new one gets what a topic keeps: no other one of its own has it."""
        new = self._wishes[id]
        others = [wish for wish in self._wishes.values() if (wish.owner, wish.name) == (new.owner, new.name)]
        having = [wish.id for wish in others if wish.accepts_all and wish.takes(topic)]
        return having == [id]


def takes(target: str, topic: str) -> bool:
    """Whether a subscription to a topic or pattern takes a topic, level by level."""
    if target == topic:
        return True
    if not {"*", "#"} & set(target):
        return False
    wanted, levels = target.split("."), topic.split(".")
    if "@" in topic or (levels[0] == "dead" and len(levels) > 1 and wanted[0] != "dead"):
        return False
    if wanted[-1] == "#":
        wanted.pop()
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(
        want in ("*", level) for want, level in zip(wanted, levels, strict=True)
    )
