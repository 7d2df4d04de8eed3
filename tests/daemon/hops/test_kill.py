"""The log of a real daemon that is killed under load: it says what came true, and nothing else."""

import random
import signal
import sqlite3
import tomllib
from collections import Counter, deque
from pathlib import Path

import pytest
import trio

from daemon.hops.reader import HopLogReader, Unread
from daemon.site_directory import make_site
from plugins.smqp.client import Client, Publication, connect
from plugins.smqp.connection import ConnectionLost
from routing.message import Message, Section
from tests.support.installed import checkout_plugins
from tests.support.process import daemon, free_port

ROUNDS = 5
OUTSTANDING = 300
MESSAGE = Message(sections=(Section("text/plain", b"x" * 100),))


class Load:
    """A publisher and a subscriber, and what they were told."""

    def __init__(self, directory: Path) -> None:
        login = tomllib.loads((directory / "keys" / "admin.toml").read_text())
        self._port = int(login["server"].rpartition(":")[2])
        self._password = login["password"]
        self.published: list[str] = []
        self.committed: list[str] = []

    async def run(self, enough: trio.Event, count: int) -> None:
        """Until the site is gone; `enough` is set once so many more were published and committed."""
        until = len(self.published) + count, len(self.committed) + count // 2

        async def publish(client: Client) -> None:
            on_their_way: deque[Publication] = deque()
            while True:
                on_their_way.append(await client.publish_soon("load", MESSAGE))
                if len(on_their_way) >= OUTSTANDING:
                    self.published.append((await on_their_way.popleft().wait())["smuid"])

        async def subscribe(client: Client) -> None:
            await client.subscribe("load")
            while True:
                taken = await client.take()
                await client.commit(taken)
                self.committed += [delivery.message.smuid for delivery in taken]
                if (len(self.published), len(self.committed)) >= until:
                    enough.set()

        async with trio.open_nursery() as nursery:
            for task in (publish, subscribe):
                nursery.start_soon(self._connected, task)

    async def _connected(self, task) -> None:
        try:
            async with connect(
                "127.0.0.1", self._port, "admin", self._password, channel=task.__name__
            ) as client:
                await task(client)
        except ConnectionLost:
            return


@pytest.fixture
def config(tmp_path: Path) -> Path:
    config = make_site(tmp_path / "site", "a.example", free_port(), checkout_plugins()).config
    config.write_text(config.read_text().replace("[hops]\n", "[hops]\nfile_s = 1.0\n"))
    return config


async def test_after_kills_under_load_the_log_tells_of_what_was_promised_and_the_balance_closes(
    config: Path,
) -> None:
    load = Load(config.parent)
    chance = random.Random(7)
    for _ in range(ROUNDS):
        async with daemon(config) as running, trio.open_nursery() as nursery:
            enough = trio.Event()
            nursery.start_soon(load.run, enough, chance.randrange(300, 1_500))
            await enough.wait()
            await trio.sleep(chance.uniform(0, 0.02))  # a moment like any other, not one after an answer
            running.signal(signal.SIGKILL)
            await running.exit_code()
    async with daemon(config) as running:
        running.signal(signal.SIGTERM)
        assert await running.exit_code() == 0

    reader = HopLogReader(config.parent / "state" / "hops")
    records = list(reader.records())
    assert reader.unread == Unread()
    assert not any(file.is_open for file in reader.files())
    assert [record.record for record in records] == list(range(1, len(records) + 1))
    first_of_boot = {record.boot: record for record in reversed(records)}
    assert {record.record for record in first_of_boot.values()} == {
        record.previous + 1 for record in records if record.previous or record.record == 1
    }

    begun = Counter(record.smuid for record in records if record.event == "published")
    ended = Counter(record.smuid for record in records if record.final)
    assert set(begun.values()) == set(ended.values()) == {1}
    assert set(load.published) <= set(begun)
    assert set(load.committed) <= set(ended)
    with sqlite3.connect(config.parent / "state" / "smqpd.db") as store:
        (held,) = store.execute("SELECT count(*) FROM message").fetchone()
    store.close()
    assert len(begun) - len(ended) == held
