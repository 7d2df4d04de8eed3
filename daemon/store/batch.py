"""What one transaction of the store holds: what it does to each stored thing, in a fixed order.

A new thing that is stored is a file in `daemon.store.tables` and a line here.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from typing import Any

from daemon.store.changes import Changes, Statement, Surroundings
from daemon.store.tables.annotations import AnnotationChanges
from daemon.store.tables.answers import AnswerChanges
from daemon.store.tables.copies import CopyChanges
from daemon.store.tables.interest import InterestChanges
from daemon.store.tables.marks import MarkChanges
from daemon.store.tables.messages import MessageChanges
from daemon.store.tables.news import NewsChanges
from daemon.store.tables.publications import PublicationChanges
from daemon.store.tables.quarantine import QuarantineChanges
from daemon.store.tables.receipts import ReceiptChanges
from daemon.store.tables.removals import RemovalChanges
from daemon.store.tables.seen import SeenChanges
from daemon.store.tables.subscriptions import SubscriptionChanges
from daemon.store.tables.topics import TopicChanges
from daemon.store.tables.wants import WantsChanges
from routing.decisions import StoreMessage
from routing.queue import CROSSES, Entry

RELEASED_PAGES = 1_000
"""Given back to the file system at a time: 4 MB, a few milliseconds."""


class Batch:
    """Filled by the executor for each transaction, and emptied for the next.

    Attributes:
        handlers: what takes each kind of decision that is for the store alone.
        returned_pages: how many free pages to give back to the file system.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        now, stopped_s = surroundings.now, surroundings.stopped_s
        self._messages = MessageChanges()
        self._marks = MarkChanges()
        self._quarantine = QuarantineChanges(surroundings.server, surroundings.wall_us)
        self._copies = CopyChanges(surroundings.copies)
        self._publications = PublicationChanges(now, stopped_s)
        self._seen = SeenChanges(now, stopped_s)
        self._removals = RemovalChanges(now)
        subscriptions = SubscriptionChanges(stopped_s)
        topics, annotations = TopicChanges(), AnnotationChanges()
        interest, receipts, answers = InterestChanges(), ReceiptChanges(), AnswerChanges()
        news, wants = NewsChanges(), WantsChanges()
        order: tuple[tuple[Changes, Callable[[], Iterator[Statement]]], ...] = (
            (self._messages, self._messages.statements),
            (self._publications, self._publications.statements),
            (self._marks, self._marks.statements),
            (self._quarantine, self._quarantine.statements),
            (self._marks, self._marks.endings),
            (self._messages, self._messages.endings),
            (subscriptions, subscriptions.statements),
            (topics, topics.statements),
            (annotations, annotations.statements),
            (self._copies, self._copies.statements),
            (self._seen, self._seen.statements),
            (self._removals, self._removals.statements),
            (interest, interest.statements),
            (receipts, receipts.statements),
            (answers, answers.statements),
            (news, news.statements),
            (wants, wants.statements),
        )
        self._every: tuple[Changes, ...] = tuple(dict.fromkeys(changes for changes, _ in order))
        self.handlers: dict[type, Callable[[Any], None]] = {
            kind: handler for changes in self._every for kind, handler in changes.handlers.items()
        }
        self._statements = tuple(statements for _, statements in order)
        self._of_statements = tuple(changes for changes, _ in order)
        # most of them are empty in each transaction: looked at without a step of the interpreter for each
        gathered = [(rows, changes) for changes in self._every for rows in changes.gathered]
        self._rows = tuple(rows for rows, _ in gathered)
        self._of_rows = tuple(changes for _, changes in gathered)
        self.returned_pages = 0

    def __bool__(self) -> bool:
        return bool(self._filled() or self.returned_pages)

    def _filled(self) -> set[Changes]:
        return set(compress(self._of_rows, self._rows))

    @property
    def new_bytes(self) -> int:
        """Of messages that are new."""
        return self._messages.new_bytes

    @property
    def ended_bytes(self) -> int:
        """Of messages that have ended."""
        return self._messages.ended_bytes

    def clear(self) -> None:
        """Begin the next transaction."""
        self.returned_pages = 0
        for changes in self._filled():
            changes.clear()

    def begin_message(self, d: StoreMessage, wire: bytes) -> None:
        """Store a new message, encoded as `wire`."""
        self._messages.begin(d, wire)
        if d.entry.flags & CROSSES:
            self._copies.begin(d.entry)

    def end_message(self, entry: Entry) -> None:
        """Delete a message that has ended, with all that hangs on it."""
        is_stored = self._messages.end(entry.id, entry.size, is_copied=self._quarantine.takes(entry.id))
        if is_stored or self._marks.some_are_new:
            self._marks.discard(entry.id)
        if entry.flags & CROSSES:
            self._copies.end(entry)

    @property
    def seen(self) -> Iterable[str]:
        """The Smuids of which something new is remembered."""
        return self._seen.smuids

    def forget(self, publications_until: float, removals_from: float) -> None:
        """Delete the Cmuids and removals that are older, in site time, and what has expired."""
        self._publications.expire(publications_until)
        self._seen.expire()
        self._removals.expire(removals_from)
        self.returned_pages = RELEASED_PAGES

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order; some have no rows."""
        is_filled = map(self._filled().__contains__, self._of_statements)
        for statements in compress(self._statements, is_filled):
            yield from statements()
