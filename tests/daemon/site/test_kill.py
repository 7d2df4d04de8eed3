"""A real daemon that is killed under load, judged by what it had promised: to publishers, to subscribers,
and in its hop log."""

import random
import signal
import sqlite3
import tomllib
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.hops.reader import HopLogReader, Skipped
from plugins.smqp.client import Client
from plugins.smqp.connecting import connect
from plugins.smqp.connection import ConnectionLost
from tests.support.made_site import made_site
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.process import daemon
from tests.support.witnesses import PublishingWitness, SubscribedWitness

pytestmark = pytest.mark.kill

SEED = 7
ROUNDS = 20

Task = Callable[[Client], Awaitable[None]]


class Site:
    """A site, and the witnesses of what it says."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.config = made_site(directory, "a.example", free_port()).config
        # Files of the hop log are closed within a round, too.
        self.config.write_text(self.config.read_text().replace("[hops]\n", "[hops]\nfile_s = 1.0\n"))
        login = tomllib.loads((directory / "keys" / "admin.toml").read_text())
        self._port = int(login["server"].rpartition(":")[2])
        self._password = login["password"]
        competing: dict[str, str] = {}
        self.publishers = [
            PublishingWitness("to-all", "all", "ALL", chance),
            PublishingWitness("to-one", "one", "ONE", chance),
        ]
        self.subscribers = [
            SubscribedWitness("every-1", "all", {}, chance),
            SubscribedWitness("every-2", "all", {}, chance),
            SubscribedWitness("some-1", "one", competing, chance),
            SubscribedWitness("some-2", "one", competing, chance),
        ]

    async def subscribe_all(self) -> None:
        for subscriber in self.subscribers:
            await self.connected(subscriber.name, methodcaller("subscribe", subscriber.topic))

    async def load(self, told: Callable[[], None]) -> None:
        """Until the site is gone."""
        async with trio.open_nursery() as nursery:
            witnesses: list[Any] = [*self.publishers, *self.subscribers]
            for witness in witnesses:
                nursery.start_soon(self.connected, witness.name, partial(witness.run, told=told))

    async def finish(self) -> None:
        """Have every answer, and everything that is due."""
        async with trio.open_nursery() as publishing:
            for publisher in self.publishers:
                task = partial(publisher.run, told=lambda: None, only_unanswered=True)
                publishing.start_soon(self.connected, publisher.name, task)
        finished = trio.Event()
        if self.all_is_finished():
            finished.set()

        def told() -> None:
            if self.all_is_finished():
                finished.set()

        async with trio.open_nursery() as nursery:
            for subscriber in self.subscribers:
                task = partial(subscriber.run, told=told, all_at_once=True)
                nursery.start_soon(self.connected, subscriber.name, task)
            with trio.fail_after(PATIENCE_S):
                await finished.wait()
            nursery.cancel_scope.cancel()

    def all_is_finished(self) -> bool:
        return not any(subscriber.owed for subscriber in self.subscribers) and not any(self.missing())

    def missing(self) -> list[set[str]]:
        """For each that is to have all messages of its topic, the answered ones that it has not finished.

        A COMMIT without an answer counts: where it did not come true, the message comes again.
        """
        to_all, to_one = (set(publisher.answered.values()) for publisher in self.publishers)
        first, second, *competing = (
            subscriber.committed | subscriber.commit_unanswered for subscriber in self.subscribers
        )
        return [to_all - first, to_all - second, to_one - competing[0] - competing[1]]

    async def connected(self, name: str, task: Task) -> None:
        """Run as a client, until it is done or the site is gone."""
        try:
            async with connect("127.0.0.1", self._port, "admin", self._password, channel=name) as client:
                await task(client)
        except ConnectionLost:
            return


@pytest.fixture
def chance() -> random.Random:
    return random.Random(SEED)


@pytest.fixture
def site(tmp_path: Path, chance: random.Random) -> Site:
    return Site(tmp_path / "site", chance)


async def kill_under_load(site: Site, chance: random.Random) -> None:
    """Once this many things were told: at once, when it may not yet be true, or a moment later."""
    left = chance.randrange(20, 400)
    pause_s = chance.choice([0.0, chance.uniform(0, 0.02)])
    enough = trio.Event()

    async with daemon(site.config) as running, trio.open_nursery() as nursery:

        def told() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                enough.set()
                if not pause_s:
                    running.signal(signal.SIGKILL)

        nursery.start_soon(site.load, told)
        with trio.fail_after(PATIENCE_S):
            await enough.wait()
        if pause_s:
            await trio.sleep(pause_s)  # the moment of the kill is what is drawn
            running.signal(signal.SIGKILL)
        await running.exit_code()


async def test_what_was_promised_holds_through_20_kills_under_load(site: Site, chance: random.Random) -> None:
    async with daemon(site.config):
        await site.subscribe_all()
    for _ in range(ROUNDS):
        await kill_under_load(site, chance)
    async with daemon(site.config) as running:
        await site.finish()
        running.signal(signal.SIGTERM)
        assert await running.exit_code() == 0

    # To the publishers: all that was answered is there, and each Cmuid was routed once.
    assert site.all_is_finished()
    assert not any(publisher.unanswered for publisher in site.publishers)
    answered = {cmuid: smuid for publisher in site.publishers for cmuid, smuid in publisher.answered.items()}
    for subscriber in site.subscribers:
        assert all(smuids == {answered[cmuid]} for cmuid, smuids in subscriber.smuids.items())
    # To the subscribers: judged at each delivery. It did happen that something came again, and a lost answer.
    assert sum(subscriber.came_again for subscriber in site.subscribers) > ROUNDS
    assert sum(publisher.came_though_unanswered for publisher in site.publishers) > 0

    judge_hop_log(site, set(answered.values()))


async def test_each_boot_is_on_record_however_soon_it_was_killed(site: Site) -> None:
    for _ in range(3):
        async with daemon(site.config) as running:
            running.signal(signal.SIGKILL)
            await running.exit_code()
    async with daemon(site.config):
        pass
    records = HopLogReader(site.config.parent / "state" / "hops").records()
    assert {record.boot for record in records} == {1, 2, 3, 4}


def judge_hop_log(site: Site, published: set[str]) -> None:
    """It says what came true and nothing else, and each copy that has ended has one end."""
    state = site.config.parent / "state"
    reader = HopLogReader(state / "hops")
    records = list(reader.records())
    assert reader.unread == Skipped()
    assert not any(file.is_open for file in reader.files())
    assert [record.record for record in records] == list(range(1, len(records) + 1))
    first_of_boot = {record.boot: record for record in reversed(records)}
    assert len(first_of_boot) == ROUNDS + 2
    assert [record.previous for record in first_of_boot.values()] == [
        record.record - 1 for record in first_of_boot.values()
    ]

    begun = Counter(record.smuid for record in records if record.event == "published")
    ended = Counter(record.smuid for record in records if record.final)
    committed = Counter(
        (record.smuid, record.subscription) for record in records if record.event == "committed"
    )
    assert begun.keys() == published
    assert set(begun.values()) == set(ended.values()) == set(committed.values()) == {1}
    for subscriber in site.subscribers:
        owner = f"admin:{subscriber.name}@a.example"
        said = {smuid for smuid, subscription in committed if subscription == owner}
        assert subscriber.committed <= said <= subscriber.committed | subscriber.commit_unanswered
    with closing(sqlite3.connect(state / "smqpd.db")) as store:
        (held,) = store.execute("SELECT count(*) FROM message").fetchone()
    assert len(begun) == len(ended) + held
