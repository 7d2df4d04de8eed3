"""From decisions about links to rows: the part of `daemon.broker.carrier` that is idle without peers."""

from collections.abc import Callable
from typing import Any

from daemon.store.link_batch import LinkBatch
from daemon.system.clock import Clock
from routing.federation import decisions
from routing.federation.outlook import Outlook
from routing.queue import CROSSES, Entry


class LinkRows:
    """Fills `batch`, which the carrier puts there for each transaction."""

    def __init__(self, outlook: Outlook, clock: Clock) -> None:
        self.batch = LinkBatch()
        self._copies = outlook.copies
        self._clock = clock
        self.handlers: dict[type, Callable[[Any], None]] = {
            decisions.StoreCopy: self._store_copy,
            decisions.StoreSeen: self._store_seen,
            decisions.StoreRemoval: self._store_removal,
            decisions.DiscardRemoval: self._discard_removal,
            decisions.StoreInterest: self._store_interest,
            decisions.StoreReceipt: self._store_receipt,
            decisions.DiscardReceipt: self._discard_receipt,
            decisions.StoreAnswer: self._store_answer,
            decisions.DiscardAnswer: self._discard_answer,
        }

    def begin(self, entry: Entry) -> None:
        """A new message is stored: with it how far it may go, where it may go anywhere."""
        if entry.flags & CROSSES and (copy := self._copies.get(entry.id)) is not None:
            self.batch.copies[copy.entry.id] = copy

    def end(self, entry: Entry) -> None:
        """A message has ended."""
        if entry.flags & CROSSES:
            self.batch.copies[entry.id] = None

    def _store_copy(self, d: decisions.StoreCopy) -> None:
        # one that has ended since is deleted by what follows
        if (copy := self._copies.get(d.entry_id)) is not None:
            self.batch.copies[copy.entry.id] = copy

    def _store_seen(self, d: decisions.StoreSeen) -> None:
        self.batch.put_seen(d.smuid, d.seen, self._clock.now())

    def _store_removal(self, d: decisions.StoreRemoval) -> None:
        self.batch.removals.append((d.smuid, d.topic, self._clock.now()))

    def _discard_removal(self, d: decisions.DiscardRemoval) -> None:
        self.batch.dropped_removals.append((d.smuid,))

    def _store_interest(self, d: decisions.StoreInterest) -> None:
        self.batch.put_interest(d)

    def _store_receipt(self, d: decisions.StoreReceipt) -> None:
        self.batch.receipts[d.entry.id] = d.receipt

    def _discard_receipt(self, d: decisions.DiscardReceipt) -> None:
        self.batch.receipts[d.entry_id] = None

    def _store_answer(self, d: decisions.StoreAnswer) -> None:
        self.batch.answers[d.peer, d.query] = (d.peer, d.query, d.due, d.have)

    def _discard_answer(self, d: decisions.DiscardAnswer) -> None:
        self.batch.answers[d.peer, d.query] = None
