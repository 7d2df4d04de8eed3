"""Groups of messages: what is of one group of a topic goes to one subscription, in order, while that stays.

    waits        nobody has anything of it: the next subscription whose turn it is takes it over
    is owned     it is with one subscription, which alone gets what comes
    is held up   something of it is in a hand that is gone, or in a pause: nobody gets more of it until that
                 is finished, or waits again; what came first is first

So two never work on one group. Its owner has it until that leaves or lets a lock time out, or had the last
message of it (`ENDS_GROUP`); what is in hand then is finished or comes back before anybody gets more of it.
What an owner that leaves had received keeps the group for it, until that ends, or it is back.

Groups are known by name for as long as anything of them is held, so that none holds up another. Of those
that are idle a topic remembers whose they were, of the `IDLE_MAX` that were used last: one that is forgotten
begins anew, with nothing of it in anybody's hand. All are forgotten with their topic, as one that only
patterns follow is whenever nothing of it is held: nobody bounds how many such topics there are. (Hashes in a
fixed number of buckets would need no bound, but a slow consumer would hold up groups that only share its
bucket.)

Of mode ONE only. Who is next for a group that waits is in `routing.grouping`.
"""

from collections.abc import Callable, Container, Iterator
from itertools import chain
from typing import Any, Final, Generic, Protocol, TypeVar

from routing.queue import ENDS_GROUP, Entry, GroupedEntry, KeptEntries, PriorityQueue
from routing.waiting import WaitingQueues

IDLE_MAX: Final = 1_000


class Owner(Protocol):
    """Who can own groups: a subscription, or one who shares it.

    Attributes:
        groups: those that are its own; None where it never had one.
    """

    groups: "OwnedGroups[Any] | None"

    @property
    def attached(self) -> bool:
        """Whether anybody consumes from it."""


OwnerType = TypeVar("OwnerType", bound=Owner)


class Group(Generic[OwnerType]):
    """One group of a topic.

    Attributes:
        owner: who alone gets what comes; None for nobody.
        had: who is to get it next only where nobody else can, a lock timed out.
        out: ids of what is neither finished nor waits: in a hand or a pause, or it is being buried.
        paused: those of them that are in a pause.
        is_ended: its owner gets no more of it.
        is_open: somebody may take what is first in it.
    """

    __slots__ = ("had", "is_ended", "is_open", "name", "out", "owner", "paused", "queue", "waiting")

    def __init__(self, name: str, queue: "GroupedQueue[OwnerType]") -> None:
        self.name = name
        self.queue = queue
        self.waiting = PriorityQueue()
        self.owner: OwnerType | None = None
        self.had: OwnerType | None = None
        self.out: set[int] = set()
        self.paused: set[int] = set()
        self.is_ended = False
        self.is_open = False

    @property
    def is_free(self) -> bool:
        """Whether anybody may take it over."""
        return self.owner is None and not self.out

    def is_for(self, subscription: OwnerType) -> bool:
        """Whether this one may take more of what it owns."""
        return self.owner is subscription and not self.is_ended and not self.paused


class OwnedGroups(Generic[OwnerType]):
    """The groups that one subscription owns, and what waits in them for it."""

    def __init__(self, owner: OwnerType) -> None:
        self._owner = owner
        self.waiting: WaitingQueues[Group[OwnerType]] = WaitingQueues(self._queue_of)
        self.groups: dict[Group[OwnerType], None] = {}

    def is_first(self, *others: Entry | None) -> bool:
        """Whether something waits in them that comes before these."""
        first = self.waiting.peek()
        return first is not None and all(each is None or _rank(first) < _rank(each) for each in others)

    def _queue_of(self, group: Group[OwnerType]) -> PriorityQueue | None:
        return group.waiting if group.is_for(self._owner) else None


class GroupedQueue(PriorityQueue, Generic[OwnerType]):
    """What waits in a topic with groups: shown and taken is what anybody may have, all of it is in here.

    Args:
        topic: its name.
        instead_of: its queue until now.
        opened: told of a group of which somebody may take what is first, who could not before.
    """

    __slots__ = ("_by_name", "_free", "_grouped", "_idle", "_opened", "topic")

    def __init__(
        self, topic: str, instead_of: PriorityQueue, opened: Callable[[Group[OwnerType]], None]
    ) -> None:
        self._lanes, self._priorities = instead_of._lanes, instead_of._priorities
        self._stale = instead_of._stale
        self.topic = topic
        self._opened = opened
        self._by_name: dict[str, Group[OwnerType]] = {}
        self._grouped = KeptEntries()  # what waits in all groups
        self._idle: dict[str, None] = {}
        self._free: WaitingQueues[str] = WaitingQueues(self._free_queue)

    def _free_queue(self, name: str) -> PriorityQueue | None:
        group = self._by_name.get(name)
        return group.waiting if group is not None and group.is_free else None

    # -- as one queue -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Entry]:
        groups = (group.waiting for group in self._by_name.values())
        return iter(sorted(chain(super().__iter__(), *groups), key=_rank))

    def __contains__(self, entry: Entry) -> bool:
        group = self.group_of(entry)
        return super().__contains__(entry) if group is None else entry in group.waiting

    def count_in_steps(self) -> Iterator[int]:
        """As `PriorityQueue.count_in_steps`, with what waits in groups."""
        yield from super().count_in_steps()
        yield len(self._grouped)

    def oldest(self, topic: object) -> Entry | None:
        """What has been here for longest, of whatever priority and group."""
        found = (super().oldest(topic), *self._grouped.after(0, 1))
        return min((entry for entry in found if entry is not None), key=_id, default=None)

    def after(self, id: int, count: int) -> list[Entry]:
        """As `PriorityQueue.after`; of all groups together the first `count`."""
        return super().after(id, count) + self._grouped.after(id, count)

    def before(self, id: int, count: int) -> list[Entry]:
        """As `PriorityQueue.before`; of all groups together the last `count`."""
        return super().before(id, count) + self._grouped.before(id, count)

    def insert(self, entry: Entry) -> None:
        """Add an entry where it belongs by its arrival, whether it is new or comes back."""
        if not isinstance(entry, GroupedEntry):
            super().insert(entry)
            return
        group = self._group(entry)
        group.out.discard(entry.id)
        group.paused.discard(entry.id)
        group.waiting.insert(entry)
        self._grouped.add(entry)
        self._settle(group)

    def peek(self) -> Entry | None:
        """The entry that is next for whoever comes, or None."""
        alone, grouped = super().peek(), self._free.peek()
        if alone is None or (grouped is not None and _rank(grouped) < _rank(alone)):
            return grouped
        return alone

    def pop(self) -> Entry:
        """Take the entry that `peek` has just shown; one of a group is to be `claim`ed."""
        entry = self.peek()
        return self._free.pop() if isinstance(entry, GroupedEntry) else super().pop()

    def take(self, entry: Entry) -> None:
        """Take an entry out of the middle of the queue, if it is here: another site has it."""
        group = self.group_of(entry)
        if not isinstance(entry, GroupedEntry):
            super().take(entry)
        elif group is not None and entry in group.waiting:
            group.waiting.take(entry)
            self._grouped.discard(entry.id)
            self._settle(group)

    # -- groups -----------------------------------------------------------------------------------

    def groups(self) -> Iterator[Group[OwnerType]]:
        """All that are known."""
        return iter(self._by_name.values())

    def group_of(self, entry: Entry) -> Group[OwnerType] | None:
        """The group of an entry; None where it has none, or nothing is known of it."""
        return self._by_name.get(entry.group) if isinstance(entry, GroupedEntry) else None

    def _group(self, entry: GroupedEntry) -> Group[OwnerType]:
        group = self._by_name.get(entry.group)
        if group is None:
            group = self._by_name[entry.group] = Group(entry.group, self)
        self._idle.pop(group.name, None)
        return group

    def claim(self, entry: GroupedEntry, subscription: OwnerType) -> None:
        """Note that a subscription has an entry that was taken out: the group is its own."""
        group = self._group(entry)
        group.out.add(entry.id)
        self._grouped.discard(entry.id)
        if group.owner is not subscription:
            _own(group, subscription)
            group.is_ended = False
        if entry.flags & ENDS_GROUP:
            group.is_ended = True
        group.had = None
        self._settle(group)

    def hand_on(self, entry: GroupedEntry, subscription: OwnerType) -> None:
        """Note that a subscription has what another one had, or it before a start: the group is its own."""
        group = self._group(entry)
        group.out.add(entry.id)
        _own(group, subscription)
        group.is_ended = group.is_ended or bool(entry.flags & ENDS_GROUP)
        group.is_open = False  # what waits is to be given to this one now
        self._settle(group)

    def pause(self, entry: GroupedEntry) -> None:
        """Note that an entry comes back later: until then nobody gets more of its group."""
        group = self._group(entry)
        group.out.add(entry.id)
        group.paused.add(entry.id)
        self._settle(group)

    def end_turn(self, entry: GroupedEntry) -> None:
        """Have others come first, once all is back that the owner has, which did not finish this in time."""
        group = self._by_name.get(entry.group)
        if group is not None and group.owner is not None:
            group.had = group.owner
            group.is_ended = True
            self._settle(group)

    def release(self, group: Group[OwnerType], heir: OwnerType | None, received: Container[int]) -> None:
        """Take a group from its owner, which has left; what it had received is the `heir`'s."""
        keeps = heir is not None and any(id in received for id in group.out)
        _own(group, heir if keeps else None)
        if not keeps:
            group.is_ended = False
        group.is_open = False  # what waits is for somebody else now, even where it was open to the owner
        self._settle(group)

    def let_go(self, entry: GroupedEntry) -> None:
        """Take an entry out of its group: it has ended, or was given back."""
        group = self._by_name.get(entry.group)
        if group is None:
            return
        group.out.discard(entry.id)
        group.paused.discard(entry.id)
        if entry in group.waiting:
            group.waiting.take(entry)
            self._grouped.discard(entry.id)
        self._settle(group)

    def forget_idle(self) -> None:
        """Forget whose the idle groups were."""
        for name in self._idle:
            _own(self._by_name.pop(name), None)
        self._idle.clear()

    def _settle(self, group: Group[OwnerType]) -> None:
        """Something of a group has changed: who may have what is first in it now."""
        if group.owner is not None and not group.out and (group.is_ended or not group.owner.attached):
            _own(group, None)
            group.is_ended = group.is_open = False
        first, was_open = group.waiting.peek(), group.is_open
        if first is None:
            group.is_open = False
            if not group.out:
                self._rest(group)
            return
        if group.owner is None:
            group.is_open = group.is_free
            if group.is_open:
                self._free.note(group.name, first)
        else:
            group.is_open = group.is_for(group.owner)
            if group.is_open and group.owner.groups is not None:
                group.owner.groups.waiting.note(group, first)
        if group.is_open and not was_open:
            self._opened(group)

    def _rest(self, group: Group[OwnerType]) -> None:
        """Nothing of a group is held any more."""
        name = group.name
        if group.owner is None:
            self._by_name.pop(name, None)
            self._idle.pop(name, None)
            return
        self._idle[name] = None
        if len(self._idle) > IDLE_MAX:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            _own(self._by_name.pop(oldest), None)


def _own(group: Group[OwnerType], subscription: OwnerType | None) -> None:
    """Make a group one's own, and nobody else's."""
    if group.owner is not None and group.owner.groups is not None:
        group.owner.groups.groups.pop(group, None)
    group.owner = subscription
    if subscription is not None:
        if subscription.groups is None:
            subscription.groups = OwnedGroups(subscription)
        subscription.groups.groups[group] = None


def _id(entry: Entry) -> int:
    return entry.id


def _rank(entry: Entry) -> tuple[int, int]:
    return -entry.priority, entry.id
