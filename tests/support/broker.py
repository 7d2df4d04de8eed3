"""A broker with its own store and hop log on virtual time, and clients that use it as front ends do."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from daemon import frontend
from daemon.accounts.accounts import Accounts
from daemon.broker.broker import Broker
from daemon.broker.lifetime import opened_broker
from daemon.hops.reader import HopLogReader
from daemon.hops.writer import HopLog
from daemon.settings import Limits, QueueSettings, Settings, SiteSettings, StoreSettings
from daemon.store.store import Store
from routing.hops import HopRecord
from routing.message import Message, Section
from routing.quotas import Quotas
from tests.support.new_store import put_store

SERVER = "a.example"
_HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$c2FsdHNhbHRzYWx0c2FsdHNhbHRzYWx0c2FsdHNhbHQ"
_ACCOUNTS = "\n".join(
    f'[accounts.{name}]\npassword = "{_HASH}"\n[accounts.{name}.rights]\n'
    + "\n".join(f'{right} = ["#"]' for right in ("publish", "subscribe", "remove", "administer"))
    for name in ("ada", "bob", "eva")
)


class VirtualClock:
    """Site time and wall time follow trio's clock, so much on from the mark of the start before."""

    def __init__(self, mark: tuple[float, float, str, float], stopped_s: float = 1.0) -> None:
        self._offset = mark[0] + stopped_s - trio.current_time()

    def now(self) -> float:
        return trio.current_time() + self._offset

    def wall_ms(self) -> int:
        return 1_795_000_000_000 + int(self.now() * 1e3)

    def wall_us(self) -> int:
        return self.wall_ms() * 1_000

    def created(self) -> str:
        return "2026-11-21T10:00:00.000Z"

    def mark(self) -> tuple[float, float, str, float]:
        return (self.now(), 0.0, "", 0.0)

    def suspend_machine(self, seconds: float) -> None:
        """Let so much time pass of which trio's clock, which stands still meanwhile, knows nothing."""
        self._offset += seconds


class SessionClient:
    """One session; `events` are those that it has taken and no method has looked for yet."""

    def __init__(self, broker: Broker, account: str, channel: str) -> None:
        self.session = broker.open_session(
            frontend.Identity(account), channel, protocol="test", remote="192.0.2.1:1"
        )
        self.events: list[frontend.SessionEvent] = []
        self._requests = 0

    def request(self) -> int:
        self._requests += 1
        return self._requests

    async def answer(self, request: int) -> frontend.Answer:
        """Wait for the answer; raises its error."""
        while True:
            for event in self.events:
                if isinstance(event, frontend.Answer) and event.request == request:
                    self.events.remove(event)
                    if event.error is not None:
                        raise event.error
                    return event
            self.events += await self.session.events()

    async def delivered(self, count: int = 1) -> list[frontend.Delivered]:
        """Wait for so many deliveries, and take them all."""
        while True:
            got = [event for event in self.events if isinstance(event, frontend.Delivered)]
            if len(got) >= count:
                self.events = [event for event in self.events if not isinstance(event, frontend.Delivered)]
                return got
            self.events += await self.session.events()

    def send(self, topic: str, body: bytes = b"", **headers: Any) -> int:
        """Publish without waiting; the request."""
        request = self.request()
        self.session.publish(topic, Message(sections=(Section("text/plain", body),), **headers), request)
        return request

    async def publish(self, topic: str, body: bytes = b"", **headers: Any) -> str:
        return (await self.answer(self.send(topic, body, **headers))).smuid

    async def subscribe(self, topic: str, **options: Any) -> "SessionClient":
        request = self.request()
        self.session.subscribe(topic, frontend.SubscribeOptions(**options), request)
        await self.answer(request)
        return self

    async def set_timeout(self, topic: str, timeout_s: float | None) -> None:
        request = self.request()
        self.session.set_timeout(topic, timeout_s, request)
        await self.answer(request)

    async def received(self, *numbers: int) -> None:
        request = self.request()
        self.session.received(numbers, request)
        await self.answer(request)

    async def commit(self, *numbers: int) -> None:
        request = self.request()
        self.session.commit(numbers, request)
        await self.answer(request)


class VirtualSite:
    """A broker whose tasks run."""

    def __init__(self, directory: Path, broker: Broker, store: Store, hops: HopLog) -> None:
        self.directory = directory
        self.broker = broker
        self.store = store
        self.hops = hops

    def login(self, account: str, channel: str = "desk") -> SessionClient:
        return SessionClient(self.broker, account, channel)

    def image(self, directory: Path) -> Path:
        """What a kill at this moment would leave on the disk."""
        while True:
            try:
                return shutil.copytree(self.directory, directory, ignore=shutil.ignore_patterns("*-shm"))
            except shutil.Error as error:
                if any(Path(source).exists() for source, _, _ in error.args[0]):
                    raise
                # A thread has closed and so renamed a file of the hop log since it was listed.
                shutil.rmtree(directory)

    def records(self, *, heartbeats: bool = False) -> list[HopRecord]:
        """The hop log, of heartbeats only where they are asked for."""
        found = HopLogReader(self.directory / "hops").records()
        return [record for record in found if heartbeats or record.event != "heartbeat"]


@asynccontextmanager
async def virtual_site(
    directory: Path,
    *,
    chores: Iterable[Callable[[], None]] = (),
    server: str = SERVER,
    quotas: Quotas | None = None,
    stopped_s: float = 1.0,
    **settings: Any,
) -> AsyncIterator[VirtualSite]:
    """A site in a directory, started again if it was there, which does the `chores` each minute.

    `stopped_s`: since the start before ended.
    `settings` are of queues, limits and store.
    """
    accounts_file = directory / "accounts.toml"
    accounts_file.write_text(_ACCOUNTS)
    accounts_file.chmod(0o600)

    def chosen(kind: Any) -> Any:
        return kind(**{name: settings[name] for name in kind.__struct_fields__ if name in settings})

    every = Settings(
        site=SiteSettings(server_name=server, accounts_file=accounts_file, state_directory=directory),
        queues=chosen(QueueSettings),
        limits=chosen(Limits),
        store=chosen(StoreSettings),
        quotas=quotas or Quotas(),
    )
    accounts = Accounts(accounts_file, server)
    put_store(directory)
    # no gathering: these clocks move when a test says so
    clock = partial(VirtualClock, stopped_s=stopped_s)
    async with opened_broker(every, accounts, clock=clock, gather_max_s=0.0) as opened:
        await opened.start(*chores)
        yield VirtualSite(directory, opened.broker, opened.store, opened.hops)
