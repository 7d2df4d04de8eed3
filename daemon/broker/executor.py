"""From decisions to rows and effects, and back again when a transaction fails.

`prepare` turns the router's decisions into a `Batch` for the store and a list of effects; the broker
commits the one and then has `release` carry out the other. If the commit fails, `take_apart` refuses the
new messages and keeps all other decisions for the next `prepare`, which takes those of half as many inputs:
what finds room goes through, and gives back more. `set_aside` does so with single decisions that cannot be
stored, which `find_faults` finds. See `daemon.broker.taking_apart`; what is recorded is made by
`daemon.broker.recording`, and what sessions are told by `daemon.broker.telling`.
"""

import sqlite3
from collections.abc import Callable, Mapping
from itertools import chain, islice
from typing import Any

import msgspec

from daemon import frontend
from daemon.broker.bodies import Bodies, Stored
from daemon.broker.burials import Burials
from daemon.broker.inputs import ends_of_inputs
from daemon.broker.reading import Reading
from daemon.broker.recording import Recording
from daemon.broker.taking_apart import Fault, Kept, TakingApart, whom
from daemon.broker.telling import Telling
from daemon.hops.writer import HopLog
from daemon.metrics import Metrics
from daemon.store.batch import Batch
from daemon.store.changes import Surroundings
from daemon.store.store import Store
from daemon.system.clock import Clock
from daemon.system.mishaps import OWN_ERROR, Mishaps
from routing import decisions
from routing.copy_states import is_on_offer
from routing.decisions import INPUT_END, Bury, Decision
from routing.errors import Refusal
from routing.frames import encode_message
from routing.peering.copies import Arrival
from routing.queue import GUARANTEED
from routing.router import Router


class Prepared(msgspec.Struct):
    """One round of decisions: what is to be stored, and what is to be done after that."""

    decisions: list[Decision]
    batch: Batch
    effects: list[Decision]
    buried: set[int]
    """Identities of `Bury` and `RouteDelayed` that have been carried out: other decisions came of them."""

    faults: list[Fault]
    """Decisions that could not be prepared: the batch is without them, and is not to be stored."""

    came_at: list[float]
    """When the messages were accepted that are stored."""

    newest_id: int = 0
    """Of those messages."""


class Executor:
    """Owned by the broker's one task."""

    def __init__(
        self,
        router: Router,
        bodies: Bodies,
        hops: HopLog,
        clock: Clock,
        store: Store,
        reading: Reading,
        link_effects: Mapping[type, Callable[[Any], None]],
        mishaps: Mishaps,
        end_link: Callable[[str, str], None],
        metrics: Metrics,
        put_back: Callable[[list[Arrival]], None],
    ) -> None:
        """Carry out what the router decides.

        Args:
            link_effects: how each decision that is for a peer is released.
            end_link: ends the link with a peer, for a reason.
            put_back: keeps copies that were taken, and for the first of which there was no room on the disk.
        """
        self._router = router
        copies = router.federation.outlook.copies
        surroundings = Surroundings(router.server, clock.now, lambda: store.stopped_s, clock.wall_us, copies)
        self._bodies = bodies
        self._hops = hops
        self._clock = clock
        self._store = store
        self._kept: list[Decision] = []
        self._inputs_max: int | None = None  # in the next transaction
        self._reading = reading
        self._mishaps = mishaps
        self._telling = Telling(bodies, clock, metrics, mishaps, router.view.last_id)
        self._end_link = end_link
        self._put_back = put_back
        self._burials = Burials(lambda bury: bury.entry.smuid(router.server), clock.now)
        self._taking_apart = TakingApart(router, end_link, self._telling.refuse, self._telling.unpublish)
        self._batch = Batch(surroundings)
        self._prepared = Prepared([], self._batch, [], set(), [], [])
        self._effects = self._prepared.effects
        rows: dict[type, Callable[[Any], None]] = {
            decisions.StoreMessage: self._store_message,
            decisions.DiscardMessage: self._discard_message,
            **self._batch.handlers,
        }
        self._row_handlers = set(rows.values())
        self._handlers: dict[type, Callable[[Any], None]] = {
            **rows,
            decisions.KeepMessage: self._keep_message,
            **Recording(router.server, hops, clock, metrics).handlers,
            Bury: self._bury,
            decisions.RouteDelayed: self._route_delayed,
            decisions.Together: lambda d: None,
            decisions.InputEnd: lambda d: None,
            decisions.OwnError: _fail,
        }
        self._releases: dict[type, Callable[[Any], None]] = {
            **self._telling.handlers,
            decisions.DiscardMessage: self._forget_body,
            **link_effects,
        }
        for kind in self._releases:
            self._handlers.setdefault(kind, self._hold)

    def prepare(self) -> Prepared:
        """Take the router's decisions; what they record is appended to the hop log, not yet flushed."""
        taken, self._kept = self._kept + self._router.take(), []
        taken += self._burials.release(self._clock.now())
        if self._inputs_max is not None:
            end = next(islice(ends_of_inputs(taken), self._inputs_max - 1, None), len(taken))
            taken, self._kept = taken[:end], taken[end:]
        prepared = self._prepared = Prepared([], self._batch, [], set(), [], [])
        self._effects = prepared.effects
        handlers = self._handlers
        while taken:
            prepared.decisions += taken
            for decision in taken:
                try:
                    handlers[type(decision)](decision)
                except Exception as error:  # of ours: the others are to be stored
                    self._cannot(Fault(decision, error))
            # what burials and delays that ended have brought about
            taken = self._router.take()
            if self._kept:  # which were decided before
                self._kept += taken
                break
        if self._hops.owes_heartbeat and not (self._kept or prepared.faults):
            self._hops.beat(self._router.view.guaranteed)
        return prepared

    def _cannot(self, fault: Fault) -> None:
        if isinstance(fault.decision, (decisions.Record, decisions.Refused)):
            self._hops.skip()  # what it tells of is true all the same
            self._mishaps.note(fault.what, fault.error)
        else:
            self._prepared.faults.append(fault)

    def release(self, prepared: Prepared) -> None:
        """Carry out the effects of a batch that is on disk, or was empty.

        Where one cannot be, by an error of ours, the session or link that it is for ends: so what was with it
        goes to others, or comes again.
        """
        releases, stored_at = self._releases, self._clock.now()
        for effect in prepared.effects:
            try:
                releases[type(effect)](effect)
            except Exception as error:
                self._mishaps.note(Fault(effect, error).what, error)
                handle, peer = whom(effect)
                if handle is not None:
                    handle.end(frontend.Ending("failed", OWN_ERROR))
                if peer:
                    self._end_link(peer, OWN_ERROR)
        self._telling.measure(prepared.came_at, prepared.newest_id, stored_at)
        self._telling.hand_on()

    def committed(self) -> None:
        """Let go of a batch that is on disk, and is not to be tried again."""
        if self._inputs_max is not None:
            self._inputs_max = 2 * self._inputs_max if self._kept else None
        self._clear()

    def _clear(self) -> None:
        self._batch.clear()
        self._prepared = Prepared([], self._batch, [], set(), [], [])

    def keep_all(self) -> None:
        """Keep all of a batch that could not be stored, for nothing in it, for the next `prepare`."""
        prepared = self._prepared
        self._kept = [d for d in prepared.decisions if id(d) not in prepared.buried] + self._kept
        self._clear()

    def take_apart(self, refusal: Refusal, now: float) -> bool:
        """Refuse the new messages of a batch that could not be stored, and keep the rest for next time.

        Whether that will be less, or something else. If it was of one input alone, what comes true together
        is refused, too, where messages are in it; a dead letter and a peer's copy give way.
        """
        inputs = sum(1 for _ in ends_of_inputs(self._prepared.decisions))
        self._inputs_max = max(inputs // 2, 1)
        alone = self._prepared.decisions if inputs <= 1 else []
        kept = self._taking_apart.refuse_new(self._every(), self._prepared.buried, refusal, now, alone)
        self._keep(kept)
        if kept.burials:
            self._burials.hold(kept.burials, now)
        if kept.arrivals:
            self._put_back(kept.arrivals)
        return bool(self._inputs_max < inputs or kept.burials or kept.arrivals)

    def set_aside(self, faults: list[Fault], now: float) -> None:
        """Set aside decisions that cannot be prepared or stored, and keep all others for next time."""
        for fault in faults:
            self._mishaps.note(fault.what, fault.error)
        self._keep(self._taking_apart.set_aside(self._every(), self._prepared.buried, faults, now))

    def find_faults(self) -> list[Fault]:
        """The decisions that cannot be stored, each tried by itself in a transaction that is rolled back.

        Raises sqlite3.OperationalError where it is the store that fails.
        """
        faults = []
        with self._store.trial() as attempt:
            for decision in self._prepared.decisions:
                handler = self._handlers[type(decision)]
                if handler not in self._row_handlers:
                    continue
                self._batch.clear()
                self._effects = []
                try:
                    handler(decision)
                    attempt(self._batch)
                except sqlite3.OperationalError:
                    raise
                except Exception as error:  # whatever it is, the others are to be stored
                    faults.append(Fault(decision, error))
        return faults

    @property
    def again_at(self) -> float:
        """Site time from which on burials are tried again that found no room; `inf` where there are none."""
        return self._burials.again_at

    @property
    def backlog(self) -> int:
        """Decisions that wait to be tried again."""
        return len(self._kept)

    def unstored(self) -> list[int]:
        """The ids of new messages that wait so."""
        return [d.entry.id for d in self._kept if type(d) is decisions.StoreMessage]

    def _every(self) -> list[Decision]:
        return self._prepared.decisions + self._kept + self._router.take()

    def _keep(self, kept: Kept) -> None:
        before_each = chain([INPUT_END], kept.decisions)
        self._kept = [
            d
            for d, before in zip(kept.decisions, before_each, strict=False)
            if d is not INPUT_END or before is not INPUT_END
        ]
        self._clear()
        for failed in kept.failed:
            self._bodies.discard(failed)

    # -- to the store -----------------------------------------------------------------------------

    def _store_message(self, d: decisions.StoreMessage) -> None:
        stored = Stored(message=d.message, wire=encode_message(d.message, d.head))
        self._batch.begin_message(d, stored.wire)
        self._prepared.came_at.append(d.came_at)
        self._prepared.newest_id = d.entry.id
        self._bodies.add(d.entry.id, stored)

    def _keep_message(self, d: decisions.KeepMessage) -> None:
        self._bodies.keep(d.entry.id, Stored(message=d.message))

    def _discard_message(self, d: decisions.DiscardMessage) -> None:
        if d.entry.flags & GUARANTEED:
            self._batch.end_message(d.entry)
        # a delivery that is released before this has to find it
        self._effects.append(d)

    def _bury(self, d: Bury) -> None:
        self._prepared.buried.add(id(d))
        if not self._burials.carry_out(d) or not is_on_offer(d.entry):
            return  # it waits, or has ended while it did
        stored = self._bodies.find(d.entry.id) or self._reading.load_now(d.entry)
        if stored is not None:
            self._router.buried(d, stored.message, self._clock.now())

    def _route_delayed(self, d: decisions.RouteDelayed) -> None:
        stored = self._bodies.find(d.entry.id) or self._reading.load_now(d.entry)
        self._prepared.buried.add(id(d))
        if stored is not None:
            self._router.route_delayed(d.entry, stored.message, self._clock.now())

    # -- effects ----------------------------------------------------------------------------------

    def _forget_body(self, d: decisions.DiscardMessage) -> None:
        self._bodies.discard(d.entry.id)

    def _hold(self, d: Decision) -> None:
        self._effects.append(d)


def _fail(d: decisions.OwnError) -> None:
    raise d.error
