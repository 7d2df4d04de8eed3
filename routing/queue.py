"""The index of what waits: an `Entry` for each copy that this site holds, and queues of them.

Bodies are not here. A million waiting messages cost a million entries, so an entry is kept to one small
untracked struct (no garbage collector header) and never holds a string that can be derived: the Smuid
of one of our own messages is made again from its birth, boot and counter.

Order: a higher priority first, first in first out inside a priority (SMQP PRIORITY). The identifiers
of one site rise in the order of arrival, so "first in" is "lower id".
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from routing.names import Smuid, birth_ms, make_smuid
from routing.shares import Share

ONE: Final = 1  # goes to one subscriber; without it, to all
GUARANTEED: Final = 2  # on disk before the publisher's OK
STATED: Final = 4  # a timeout was stated: kept for those who join later, until it ends
RECEIPT: Final = 8  # the publisher asked for a receipt that is still pending
SEQUENCED: Final = 16  # it has a Sequence
GONE: Final = 32  # finished, for all
COUNTED: Final = 64  # unguaranteed and counted in the memory that such messages may take
EXPIRED: Final = 128  # its timeout has ended; only those that had received it may finish it
TOGETHER: Final = 256  # stored with others at once or not at all
CROSSES: Final = 512  # it came from a peer, or may go to one
PASSING: Final = 1024  # held for peers alone: whoever is here had it before
DELAYED: Final = 2048  # nobody is to have it yet; its deadline is when that ends
GROUPED: Final = 4096  # of a group, in mode ONE: a `GroupedEntry`
ENDS_GROUP: Final = 8192  # the last one of its group: what comes then begins anew
PASSED_ON: Final = 16384  # as of `Copy.is_passed_on`, and so counted apart
COMMITTED_STATES: Final = (
    ONE | GUARANTEED | STATED | RECEIPT | SEQUENCED | PASSING | DELAYED | GROUPED | ENDS_GROUP
)
"""The flags that are written to the store."""

WAITS_NO_MORE: Final = GONE | EXPIRED
"""The flags of what is left in a queue only because nobody has come past it."""

LOOKED_AT_MAX: Final = 2_000
"""Messages of one priority in a queue, where the oldest of one topic is looked for."""

COUNTED_AT_ONCE: Final = 64
"""Messages, which takes some microseconds: who counts looks at the clock between two parts."""

COUNTER_BITS: Final = 40
"""A site's id of a message is `boot << COUNTER_BITS | counter`: it rises over all boots."""


_NUMBERS: Final = tuple(range(16_384))


def shared(size: int) -> int:
    """A size, as the one object that it is in all entries that have it, where it is small."""
    return _NUMBERS[size] if size < len(_NUMBERS) else size


def own_id(parts: Smuid) -> int:
    """The id that a message with this Smuid has at the server that the Smuid names."""
    return parts.boot << COUNTER_BITS | parts.counter


class Entry(msgspec.Struct, gc=False):
    """One copy of a message that this site holds.

    Attributes:
        id: unique at this site, rising in order of arrival.
        topic: its `Topic`.
        origin: the Smuid; or, of a message of our own that waits, its birth in Unix milliseconds.
        due: subscriptions that have still to finish it, peers that have still to answer for it, and sites
            that it is to be seen to; 1 for mode ONE.
        deadline: site time in seconds at which it expires, or its delay ends; `inf` for none.
        share: of the account that it counts on; None for nobody's.
    """

    id: int
    topic: Any
    origin: int | str
    priority: int
    size: int
    flags: int
    due: int
    deadline: float
    share: Share | None = None

    def smuid(self, server: str) -> str:
        """The Smuid of its message; `server` is the name of this site."""
        if isinstance(self.origin, str):
            return self.origin
        return make_smuid(server, self.origin, self.id >> COUNTER_BITS, self.id & ((1 << COUNTER_BITS) - 1))

    def compact(self, server: str) -> int | str:
        """Hold as little as possible of the Smuid, now that the message waits; returns that."""
        origin = self.origin
        if isinstance(origin, str) and origin.startswith(server + "/"):
            birth = birth_ms(origin)
            # one of our own that comes back from other custodians has another id than it was born with
            if origin == make_smuid(
                server, birth, self.id >> COUNTER_BITS, self.id & ((1 << COUNTER_BITS) - 1)
            ):
                self.origin = birth
        return self.origin


class GroupedEntry(Entry, gc=False):
    """A copy of mode ONE that is of a group: see `routing.groups`."""

    group: str = ""


def of_group(entry: Entry, group: str, *, ends: bool) -> GroupedEntry:
    """The same copy, as one of a group, which it `ends`."""
    flags = entry.flags | GROUPED | ENDS_GROUP if ends else entry.flags | GROUPED
    return GroupedEntry(
        entry.id,
        entry.topic,
        entry.origin,
        entry.priority,
        entry.size,
        flags,
        entry.due,
        entry.deadline,
        entry.share,
        group,
    )


def _id(entry: Entry) -> int:
    return entry.id


class KeptEntries:
    """Entries in the order of their ids, which is that of their arrival; any can be taken out."""

    __slots__ = ("_by_id", "_first", "_ids")

    def __init__(self) -> None:
        self._by_id: dict[int, Entry] = {}
        self._ids: list[int] = []  # also of entries that have been taken out, until those are the most
        self._first = 0  # the place of the first that has not been; nor has the last one been

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, id: int) -> bool:
        return id in self._by_id

    def add(self, entry: Entry) -> None:
        """Add an entry: the newest, or one that waits again, or whose delay has ended."""
        self._by_id[entry.id] = entry
        if not self._ids or self._ids[-1] < entry.id:
            self._ids.append(entry.id)
            return
        at = bisect_left(self._ids, entry.id)
        if self._ids[at] != entry.id:
            self._ids.insert(at, entry.id)
        self._first = min(self._first, at)

    def discard(self, id: int) -> None:
        """Take an entry out, if it is here."""
        if self._by_id.pop(id, None) is None:
            return
        if not self._by_id or len(self._ids) > 2 * len(self._by_id) + 1000:
            self._ids, self._first = sorted(self._by_id), 0
            return
        # the oldest are taken out most of all, and who looks is to pass over none of them
        while self._ids[self._first] not in self._by_id:
            self._first += 1
        while self._ids[-1] not in self._by_id:
            self._ids.pop()

    def ids(self) -> Iterable[int]:
        """The ids of the entries, in order."""
        return sorted(self._by_id)

    def after(self, id: int, count: int) -> list[Entry]:
        """The first `count` entries that came after the one with this id."""
        return self._at(range(bisect_right(self._ids, id, self._first), len(self._ids)), count)

    def before(self, id: int, count: int) -> list[Entry]:
        """The last `count` entries that came before the one with this id, newest first."""
        return self._at(range(bisect_left(self._ids, id) - 1, self._first - 1, -1), count)

    def _at(self, places: range, count: int) -> list[Entry]:
        found = (self._by_id.get(self._ids[place]) for place in places)
        return list(islice((entry for entry in found if entry is not None), count))


class PriorityQueue:
    """Entries by priority, each priority first in first out; those that wait no more are passed over."""

    __slots__ = ("_lanes", "_priorities", "_stale")

    def __init__(self) -> None:
        self._lanes: dict[int, deque[Entry]] = {}
        self._priorities: list[int] = []  # negated, so that the first is the highest
        self._stale = 0

    def __bool__(self) -> bool:
        return self.peek() is not None

    def __iter__(self) -> Iterator[Entry]:
        for negated in self._priorities:
            for entry in self._lanes[-negated]:
                if not entry.flags & WAITS_NO_MORE:
                    yield entry

    def __contains__(self, entry: Entry) -> bool:
        """Where the queue is in the order of arrival."""
        lane = self._lanes.get(entry.priority, ())
        at = bisect_left(lane, entry.id, key=_id)
        return at < len(lane) and lane[at] is entry

    def count_in_steps(self) -> Iterator[int]:
        """Count what waits, a part after the other, which are to be added: others may run between.

        Where some are finished, all are looked at, which would take long at once where there are very many;
        what comes or ends meanwhile may be counted or not.
        """
        lanes = list(self._lanes.values())
        if not self._stale:
            yield sum(map(len, lanes))
            return
        for lane in lanes:
            entries = list(lane)
            for first in range(0, len(entries), COUNTED_AT_ONCE):
                some = entries[first : first + COUNTED_AT_ONCE]
                yield sum(1 for entry in some if not entry.flags & WAITS_NO_MORE)

    def oldest(self, topic: Any) -> Entry | None:
        """What has been here for longest of a topic, of whatever priority.

        None where nothing is, or, in a queue of many topics, not among the first `LOOKED_AT_MAX`.
        """
        oldest: Entry | None = None
        for lane in self._lanes.values():
            head: Entry | None
            if not lane or (head := lane[0]).topic is not topic or head.flags & WAITS_NO_MORE:
                waiting = islice((entry for entry in lane if not entry.flags & WAITS_NO_MORE), LOOKED_AT_MAX)
                head = next((entry for entry in waiting if entry.topic is topic), None)
            if head is not None and (oldest is None or head.id < oldest.id):
                oldest = head
        return oldest

    def push(self, entry: Entry) -> None:
        """Add an entry behind all others of its priority."""
        lane = self._lanes.get(entry.priority)
        if lane is None:
            lane = self._open(entry.priority)
        lane.append(entry)

    def insert(self, entry: Entry) -> None:
        """Add an entry where it belongs by its arrival, whether it is new or comes back."""
        lane = self._lanes.get(entry.priority)
        if lane is None:
            lane = self._open(entry.priority)
        if not lane or lane[-1].id < entry.id:
            lane.append(entry)
        elif entry.id < lane[0].id:
            lane.appendleft(entry)
        else:
            lane.insert(bisect_left(lane, entry.id, key=_id), entry)

    def peek(self) -> Entry | None:
        """The entry that is next, or None."""
        while self._priorities:
            priority = -self._priorities[0]
            lane = self._lanes[priority]
            while lane:
                entry = lane[0]
                if not entry.flags & WAITS_NO_MORE:
                    return entry
                lane.popleft()
                self._stale -= 1
            del self._lanes[priority], self._priorities[0]
        self._stale = 0
        return None

    def pop(self) -> Entry:
        """Take the entry that `peek` has just shown."""
        return self._lanes[-self._priorities[0]].popleft()

    def after(self, id: int, count: int) -> list[Entry]:
        """The first `count` entries of each priority that came after the one with this id."""
        out: list[Entry] = []
        for lane in self._lanes.values():
            later = islice(lane, bisect_right(lane, id, key=_id), None)
            out += islice((entry for entry in later if not entry.flags & WAITS_NO_MORE), count)
        return out

    def before(self, id: int, count: int) -> list[Entry]:
        """The last `count` entries of each priority that came before the one with this id."""
        out: list[Entry] = []
        for lane in self._lanes.values():
            earlier = islice(reversed(lane), len(lane) - bisect_left(lane, id, key=_id), None)
            out += islice((entry for entry in earlier if not entry.flags & WAITS_NO_MORE), count)
        return out

    def take(self, entry: Entry) -> None:
        """Take an entry out of the middle of a queue in the order of arrival."""
        lane = self._lanes[entry.priority]
        del lane[bisect_left(lane, entry.id, key=_id)]

    def take_out(self, is_out: Callable[[Entry], bool]) -> list[Entry]:
        """Take out all entries of which that is true."""
        out: list[Entry] = []
        for priority, lane in self._lanes.items():
            stays: deque[Entry] = deque()
            for entry in lane:
                if not entry.flags & WAITS_NO_MORE:
                    (out if is_out(entry) else stays).append(entry)
            self._lanes[priority] = stays
        self._stale = 0
        return out

    def forget(self) -> None:
        """Note that one entry in here waits no more; once that is so of half, they are swept out."""
        self._stale += 1
        if self._stale < 1000 or self._stale * 2 < sum(map(len, self._lanes.values())):
            return
        for priority, lane in self._lanes.items():
            self._lanes[priority] = deque(entry for entry in lane if not entry.flags & WAITS_NO_MORE)
        self._stale = 0

    def _open(self, priority: int) -> deque[Entry]:
        lane = self._lanes[priority] = deque()
        insort(self._priorities, -priority)
        return lane
