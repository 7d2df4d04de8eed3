"""Where the items of nodes are, by their ids.

The broker knows messages by numbers that rise in the order of arrival, and does not know item ids. So the
first question about a node reads all that it holds, a page at a time, and each later one only what has come
since. What is found is looked at again, since it may have gone meanwhile; what has gone is forgotten when
it is come across, and the whole index of a node once it is much longer than what the node holds.

What is shown does not only follow the numbers: a message for everyone without a timeout is shown only while a
subscriber has it, and one for a single subscriber whose handover to another site was denied comes back under
its old number. An item that was not shown when its number was read over is not found by its id, though a page
of the node shows it.
"""

from bisect import bisect_left
from collections import OrderedDict
from math import inf
from typing import Final

import trio

from daemon.frontend import HeldEntry, HeldMessage, Session
from plugins.xmpp.forms.payload import item_id

NODES_MAX: Final = 1_000
PAGE: Final = 200
SLACK: Final = 1_000
"""Items that have gone and may still be in a node's index, besides as many as it holds."""


class _Node:
    """One node's items.

    Attributes:
        numbers: of the messages that have an id, oldest first.
        ids: by number, also of messages that have gone: what is told of them is told by their ids.
        repeated: ids that more than one of them has.
        read_to: the number of the newest message that has been read.
        renewing: another is being made in its place.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = {}
        self.repeated: set[str] = set()
        self.ids: dict[int, str] = {}
        self.size = 0
        self.read_to = 0
        self.renewing = False
        self.reading = trio.Lock()

    async def read_on(self, session: Session, node: str) -> None:
        async with self.reading:
            while True:
                page = await session.browse(node, self.read_to, PAGE)
                for held in page.held:
                    id = item_id(held.stored.message)
                    numbers = self.numbers.setdefault(id, [])
                    numbers.append(held.message_id)
                    self.ids[held.message_id] = id
                    if len(numbers) > 1:
                        self.repeated.add(id)
                    self.read_to = held.message_id
                self.size += len(page.held)
                if not page.more:
                    return

    async def held(self, session: Session, node: str, id: str, at_least: float = inf) -> list[HeldEntry]:
        """So many of an id, the newest first, and perhaps some more; what has gone is forgotten.

        They are looked at some at a time, between which others run: there may be any number.
        """
        found = list[HeldEntry]()
        before, at_once = inf, 1
        while len(found) < at_least:
            numbers = self.numbers.get(id, [])
            end = bisect_left(numbers, before)
            some = numbers[max(end - at_once, 0) : end]
            if not some:
                break
            there = session.entries_among(node, some)
            if len(there) < len(some):
                self._leave(id, end - len(some), end, [held.message_id for held in there])
            found += reversed(there)
            before, at_once = some[0], min(2 * at_once, PAGE)
            if len(some) == PAGE:
                await trio.lowlevel.checkpoint()
        return found

    def _leave(self, id: str, begin: int, end: int, there: list[int]) -> None:
        """Of the messages of an id in these places there are only some left."""
        numbers = self.numbers[id]
        numbers[begin:end] = there
        self.size -= end - begin - len(there)
        if len(numbers) < 2:
            self.repeated.discard(id)
        if not numbers:
            del self.numbers[id]

    async def find(self, session: Session, node: str, id: str) -> HeldEntry | None:
        """The newest of an id."""
        found = await self.held(session, node, id, at_least=1)
        return found[0] if found else None

    async def is_hidden(self, session: Session, node: str, held: HeldMessage) -> bool:
        """Whether a newer one of the same id is shown."""
        id, number = item_id(held.stored.message), held.message_id
        if self.numbers.get(id, [0])[-1] <= number:
            return False
        newest = await self.find(session, node, id)
        return newest is not None and newest.message_id > number

    async def forget_repeated(self, session: Session, node: str) -> None:
        """Forget what has gone of the ids that are repeated, some at a time: others run meanwhile."""
        looked_at = 0
        for id in list(self.repeated):
            numbers = self.numbers.get(id, [])
            looked_at += len(numbers)
            if len(session.kept_among(node, numbers)) < len(numbers):
                await self.held(session, node, id)
            if looked_at >= PAGE:
                await trio.lowlevel.checkpoint()
                looked_at = 0

    def replaced(self, session: Session, node: str) -> set[int]:
        """What is kept though something newer is kept of the same id."""
        found = set[int]()
        for id in self.repeated:
            found.update(session.kept_among(node, self.numbers[id])[:-1])
        return found


class ItemIndex:
    """Of the nodes that were asked about last."""

    def __init__(self) -> None:
        self._nodes: OrderedDict[str, _Node] = OrderedDict()

    async def find(self, session: Session, node: str, id: str) -> HeldEntry | None:
        """The newest item of this id that waits, is locked or is kept. Raises Refusal (forbidden)."""
        index = self._index(session, node)
        await index.read_on(session, node)
        return await index.find(session, node, id)

    async def find_all(self, session: Session, node: str, id: str) -> list[HeldEntry]:
        """All of this id, oldest first; of a queue there may be any number. Raises Refusal (forbidden)."""
        index = self._index(session, node)
        await index.read_on(session, node)
        return (await index.held(session, node, id))[::-1]

    async def outdated(self, session: Session, node: str, id: str) -> list[HeldEntry]:
        """Those of this id that a newer one, which is kept, has replaced. Raises Refusal (forbidden)."""
        found = await self.find_all(session, node, id)
        newest = max(session.kept_among(node, [held.message_id for held in found]), default=0)
        return [held for held in found if held.message_id < newest]

    async def read(self, session: Session, node: str, id: str) -> HeldMessage | None:
        """The message of the item that `find` finds. Raises Refusal (forbidden)."""
        while (found := await self.find(session, node, id)) is not None:
            held, _ = await session.browse(node, found.message_id - 1, 1)
            if held and held[0].message_id == found.message_id:
                return held[0]
        return None

    async def hidden(self, session: Session, node: str, held: list[HeldMessage]) -> set[int]:
        """Those of some items in whose place a newer one of the id is shown, by number. Raises Refusal."""
        index = self._index(session, node)
        await index.read_on(session, node)
        return {each.message_id for each in held if await index.is_hidden(session, node, each)}

    def note(self, node: str, held_id: int, id: str, *, begin: bool = False) -> bool:
        """A message of a node that is known has come by, and may be gone before anybody reads the node.

        With `begin` the node is known from now on, by what is noted of it. True where so much has been noted
        that it should be read anew: see `renew`.
        """
        index = self._nodes.get(node)
        if index is None and begin:
            index = self._nodes[node] = _Node()
            self._make_room()
        if index is None:
            return False
        index.ids[held_id] = id
        if index.renewing or len(index.ids) <= 2 * index.size + SLACK:
            return False
        index.renewing = True
        return True

    async def renew(self, session: Session, node: str) -> None:
        """Read a node anew, and forget what has gone. Raises Refusal (forbidden): somebody else is to."""
        before, fresh = self._nodes.get(node) or _Node(), _Node()
        noted_to = max(before.ids, default=0)
        try:
            await fresh.read_on(session, node)
        finally:
            before.renewing = False
        if (noted := self._nodes.get(node)) is not None:
            noted_to = max(noted_to, fresh.read_to)
            fresh.ids |= {number: id for number, id in noted.ids.items() if number > noted_to}
            self._nodes[node] = fresh

    async def know(self, session: Session, node: str) -> None:
        """Read a node whose items' removal is to be told. Raises Refusal (forbidden)."""
        await self._index(session, node).read_on(session, node)

    async def removed(self, session: Session, node: str, held_id: int) -> str | None:
        """The id of an item that is no more; None where a newer one has it, or where it was never read."""
        index = self._nodes.get(node)
        id = None if index is None else index.ids.get(held_id)
        if index is None or id is None:
            return None
        await index.read_on(session, node)
        return None if index.numbers.get(id, [0])[-1] > held_id else id

    async def surplus(self, session: Session, node: str, items_max: int, count: int) -> list[HeldEntry]:
        """The oldest items that a node keeps beyond so many, `count` at most; replaced ones are no items.

        Nor is what only waits for subscribers, or for one of them to work on it. Raises Refusal (forbidden).
        """
        over, replaced, _ = await self._surplus(session, node, items_max)
        wanted = min(over, count)
        oldest = session.kept(node, 0, wanted + len(replaced)) if wanted else []
        return session.entries_among(node, [number for number in oldest if number not in replaced][:wanted])

    async def passed_over(self, session: Session, node: str, items_max: int) -> int:
        """The number of the newest of all that are surplus; 0 for none. Raises Refusal (forbidden)."""
        over, replaced, read_to = await self._surplus(session, node, items_max)
        if not over:
            return 0
        if over < items_max:
            found, place = session.kept(node, 0, over + len(replaced)), over - 1
        else:
            wanted = items_max + len(replaced) + 1
            found, place = session.kept(node, read_to + 1, wanted, backwards=True), items_max
        return [number for number in found if number not in replaced][place]

    async def _surplus(self, session: Session, node: str, items_max: int) -> tuple[int, set[int], int]:
        """How many items are surplus; what has been replaced; and the newest of all that was looked at.

        These are of one moment: nothing is awaited from the last look on. What comes meanwhile, and may have
        the id of another one, does not count until it has been read.
        """
        topic = session.topic(node)
        if topic is None or topic.kept <= items_max:
            return 0, set(), 0
        index = self._index(session, node)
        await index.read_on(session, node)
        await index.forget_repeated(session, node)
        replaced, topic = index.replaced(session, node), session.topic(node)
        kept = 0 if topic is None else topic.kept
        unread = len(session.kept(node, index.read_to, kept))
        return max(kept - unread - len(replaced) - items_max, 0), replaced, index.read_to

    def _index(self, session: Session, node: str) -> _Node:
        topic = session.topic(node)
        index = self._nodes.get(node)
        most = 2 * (topic.messages if topic is not None else 0) + SLACK
        if index is None or index.size > most:
            index = self._nodes[node] = _Node()
        self._nodes.move_to_end(node)
        self._make_room()
        return index

    def _make_room(self) -> None:
        if len(self._nodes) > NODES_MAX:
            self._nodes.popitem(last=False)
