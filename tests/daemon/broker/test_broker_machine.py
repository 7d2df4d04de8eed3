"""The promises of one site over its real store, executor and hop log, with transactions that fail."""

import math
import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio
from hypothesis import settings
from hypothesis.stateful import rule
from trio.testing import MockClock

from daemon.broker.bodies import Bodies
from daemon.broker.carrying_out import CarryingOut
from daemon.broker.committing import Commits
from daemon.broker.executor import Executor, Prepared
from daemon.broker.reading import Reading
from daemon.broker.waking import Waking
from daemon.frontend import SessionEvent
from daemon.hops.reader import HopLogReader
from daemon.hops.writer import HopLog
from daemon.metrics import Metrics
from daemon.settings import HopSettings
from daemon.store.disk_room import DiskRoom
from daemon.store.health import StoreHealth
from daemon.store.store import Store
from daemon.store.write_ahead_log import WriteAheadLog
from daemon.system.mishaps import Mishaps
from routing import decisions as d
from routing.door import Door
from routing.errors import Refusal
from tests.support.examples import examples
from tests.support.new_store import put_store
from tests.support.router_machine import RouterMachine
from tests.support.router_promises import SERVER, SETTINGS, Backing, ObservedClient, ObservedRouter


class StandingClock:
    """Stands until the machine moves it."""

    site_time = 0.0

    def now(self) -> float:
        return self.site_time

    def wall_ms(self) -> int:
        return int(self.site_time * 1_000)

    def wall_us(self) -> int:
        return int(self.site_time * 1_000_000)

    def created(self) -> str:
        return "2026-11-21T10:00:00.000Z"

    def mark(self) -> tuple[float, float, str, float]:
        return (self.site_time, 0.0, "", 0.0)


class FailingStore(Store):
    """A store whose disk takes nothing while there is someone to be told `fails`."""

    fails: Callable[[], None] | None = None

    def commit(self) -> None:
        if self.fails is not None:
            self.fails()
            raise sqlite3.OperationalError("disk I/O error")
        super().commit()


class Disk(Backing):
    """The daemon's own parts, as the broker puts them together."""

    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.path = Path(self.directory.name)
        self.clock = StandingClock()
        self.loop_clock = MockClock(autojump_threshold=0)
        self.mishaps = Mishaps()

    def start(self, boot: int, now: float) -> ObservedRouter:
        self.clock.site_time = now
        put_store(self.path)
        self.store = FailingStore(self.path / "smqpd.db")
        site = self.store.site
        self.hops = HopLog.open(
            self.path / "hops",
            server=SERVER,
            boot=site.boot,
            committed_record=site.last_record,
            settings=HopSettings(),
            now_us=self.clock.wall_us,
        )
        self.router = ObservedRouter(SERVER, site.boot, SETTINGS, lambda: 0)
        self.bodies = Bodies()
        door = Door(self.router, self.clock.now, lambda: None, lambda: None)
        reading = Reading(door, self.store)
        metrics = Metrics()
        self.executor = Executor(
            self.router,
            self.bodies,
            self.hops,
            self.clock,
            self.store,
            reading,
            {},
            self.mishaps,
            lambda peer, reason: None,
            metrics,
            lambda arrivals: None,
        )
        disk = DiskRoom(None)
        waking = Waking(self.router, self.clock, lambda: 0.0)
        self.carrying_out = CarryingOut(
            self.executor,
            self.store,
            self.hops,
            Commits(self.store, metrics.commit_s, trio.to_thread.run_sync, in_place_s=math.inf),
            WriteAheadLog(self.store, disk, reading.lock, waking.wake),
            disk,
            StoreHealth(),
            self.bodies,
            waking,
            door.view,
            self.clock,
            self.mishaps,
            lambda: SETTINGS.dedupe_window_s,
        )
        self.store.restore_into(self.router.restore(now), now, SETTINGS.dedupe_window_s)
        return self.router

    def commit(self, now: float) -> list[d.Decision]:
        effects: list[d.Decision] = []
        while True:
            prepared = self._transact(now)
            assert prepared is not None
            effects += prepared.effects
            if not (self.router._state.out or self.executor.backlog):
                return effects

    def fail(self, now: float, fails: Callable[[], None]) -> None:
        """`fails` is called when all is decided that is not stored, and nothing is undone yet."""
        self.store.fails = fails
        assert self._transact(now, commits=True) is None
        self.store.fails = None

    def _transact(self, now: float, *, commits: bool = False) -> Prepared | None:
        self.clock.site_time = now
        prepared = trio.run(partial(self.carrying_out.transact, commits=commits), clock=self.loop_clock)
        assert self.mishaps.count == 0
        return prepared

    def crash(self) -> None:
        """What the kernel does for a process that is killed."""
        self.store.roll_back()
        self.store.close()
        if self.hops._file.descriptor is not None:
            os.close(self.hops._file.descriptor)

    def stored(self) -> set[int]:
        connection = sqlite3.connect(self.path / "smqpd.db")
        try:
            return {id for (id,) in connection.execute("SELECT id FROM message")}
        finally:
            connection.close()

    def put_off(self) -> list[d.Bury]:
        return [held.bury for held in self.executor._burials._held]

    def close(self) -> None:
        self.hops.close()
        self.store.close()
        self.directory.cleanup()


class OneSiteOnDisk(RouterMachine):
    backing_type = Disk
    backing: Disk

    def put(self, client: ObservedClient, event: SessionEvent) -> None:
        """What the executor tells at once: that a message was refused."""
        assert event.error.code == Refusal.STORE_FAILED  # type: ignore[union-attr]
        self.unanswered.pop(event.request)  # type: ignore[union-attr]

    @rule()
    def store_fails(self) -> None:
        """The transaction that would be committed now is not."""
        answered = {
            x.entry.id for x in self.state.out if isinstance(x, d.AnswerRequest) and x.entry is not None
        }

        def fails() -> None:
            for message_id in answered:
                self.oracle.refused(message_id)

        self.backing.fail(self.now, fails)
        self._observe()
        refused = {id for id, sent in self.oracle.messages.items() if sent.refused}
        assert not refused & set(self.state.entries)

    def teardown(self) -> None:
        try:
            self._drain()
            self._judge_hop_log()
        finally:
            self.backing.close()

    def _judge_hop_log(self) -> None:
        self.backing.hops.settle(self.backing.hops.flush())
        records = list(HopLogReader(self.backing.path / "hops").records())
        numbers = [record.record for record in records]
        assert numbers == list(range(1, len(numbers) + 1)), "gaps"
        finals = Counter(record.smuid for record in records if record.final)
        assert set(finals.values()) <= {1}
        ended: set[str] = set()
        begun: set[str] = set()
        for record in records:
            if not record.smuid:
                continue
            assert record.smuid not in ended, "a record after the final one"
            if record.event == "published":
                assert record.smuid not in begun
                begun.add(record.smuid)
            assert record.smuid in begun, "a record before the first"
            if record.final:
                ended.add(record.smuid)
        held = {entry.smuid(SERVER) for entry in self.state.entries.values()}
        lost_by_crash = {
            r.smuid for r in records if not r.guarantee and r.boot < self.backing.store.site.boot
        }
        assert begun - ended - lost_by_crash == held


TestOneSiteOnDisk = OneSiteOnDisk.TestCase
TestOneSiteOnDisk.settings = settings(
    max_examples=examples(50), stateful_step_count=50, deadline=None, report_multiple_bugs=False
)
