"""A disk that is really full, and a daemon as a process: no messages are taken, what is held is finished."""

import os
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import trio

from daemon.hops.reader import HopLogReader
from daemon.store.reserve import DISK_SHARE, LAST_SHARE, RESERVE
from plugins.smqp.client import Client
from plugins.smqp.connecting import connect
from routing.errors import Refusal
from routing.message import Message, Section
from tests.support.made_site import made_site
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.process import daemon
from tests.support.required import may_skip

DISK_MB: Final = 64
BODY: Final = bytes(10_000)
HELD: Final = 300
AT_ONCE: Final = 50


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", path], check=False, capture_output=True
    )
    if mounted.returncode and may_skip("mount", False):
        pytest.skip("a file system cannot be mounted here")
    assert not mounted.returncode
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def fill(disk: Path) -> None:
    """Nothing more fits, not a byte, as when others write to the disk, too."""
    descriptor = os.open(disk / "others", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    size = 2**20
    while size:
        try:
            os.write(descriptor, bytes(size))
        except OSError:
            size //= 2
    os.close(descriptor)


class Site:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = made_site(directory, "a.example", free_port()).config
        login = tomllib.loads((directory / "keys" / "admin.toml").read_text())
        self._port = int(login["server"].rpartition(":")[2])
        self._password = login["password"]

    @property
    def reserve(self) -> Path:
        return self.directory / "state" / RESERVE

    def client(self, channel: str):  # type: ignore[no-untyped-def]  # a context manager
        return connect("127.0.0.1", self._port, "admin", self._password, channel=channel)

    async def hold(self, count: int) -> None:
        async with self.client("pub") as client:
            for _ in range(count):
                await publish(client)

    async def fill(self) -> int:
        """Publish until no more is taken; how many were."""
        held = 0

        async def publish_on() -> None:
            nonlocal held
            with suppress(Refusal):
                while True:
                    await publish(client)
                    held += 1

        async with self.client("pub") as client, trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(publish_on)
        return held

    async def drain(self, count: int = HELD) -> int:
        """Take and finish so many messages; how many there were."""
        taken = 0
        async with self.client("sub") as client:
            await client.subscribe("jobs")
            with trio.move_on_after(PATIENCE_S):
                while taken < count:
                    deliveries = await client.take()
                    await client.commit(deliveries)
                    taken += len(deliveries)
        return taken


async def publish(client: Client) -> str:
    message = Message(delivery="ONE", sections=(Section("text/plain", BODY),))
    return await client.publish("jobs", message)


async def refused_for_want_of_room(site: Site) -> int:
    """How many were taken before: the write-ahead log keeps its length, and has room of its own at first."""
    taken = 0
    async with site.client("pub") as client:
        while (code := await refused_with(client)) is None:
            taken += 1
    assert code == Refusal.STORE_FAILED
    return taken


async def refused_with(client: Client) -> str | None:
    """Publish one; None where it was taken."""
    try:
        await publish(client)
    except Refusal as refusal:
        return refusal.code
    return None


async def log_is_empty(site: Site) -> None:
    """What the write-ahead log held twice has been given back."""
    with trio.fail_after(PATIENCE_S):
        while (site.directory / "state" / "smqpd.db-wal").stat().st_size:
            await trio.sleep(0.05)


async def taken_again(site: Site) -> None:
    with trio.fail_after(PATIENCE_S):
        while True:
            try:
                await site.hold(1)
                return
            except Refusal:
                await trio.sleep(0.2)


@pytest.mark.kill
async def test_on_a_full_disk_what_is_held_is_drained_and_then_messages_are_taken_again(disk: Path) -> None:
    site = Site(disk / "site")
    async with daemon(site.config) as running:
        assert site.reserve.stat().st_size == DISK_MB * 2**20 // DISK_SHARE
        await site.hold(HELD)
        fill(disk)
        held = HELD + await refused_for_want_of_room(site)
        assert site.reserve.stat().st_size == DISK_MB * 2**20 // DISK_SHARE // LAST_SHARE
        assert await site.drain(held) == held
        (disk / "others").unlink()
        await taken_again(site)
        assert site.reserve.stat().st_size == DISK_MB * 2**20 // DISK_SHARE
        assert "records were lost" not in running.log
        assert "records are lost" not in running.log
        running.process.terminate()
        assert await running.exit_code() == 0
    records = list(HopLogReader(site.directory / "state" / "hops").records())
    assert [r.record for r in records] == list(range(1, len(records) + 1))
    assert sum(record.final for record in records) == held


@pytest.mark.kill
@pytest.mark.parametrize("ends", ["stop", "kill"])
async def test_a_start_on_a_full_disk_drains_too(disk: Path, ends: str) -> None:
    site = Site(disk / "site")
    async with daemon(site.config) as running:
        await site.hold(HELD)
        if ends == "stop":
            running.process.terminate()
            assert await running.exit_code() == 0
    fill(disk)
    async with daemon(site.config) as running:
        assert await refused_for_want_of_room(site) == 0
        assert await site.drain() == HELD
        assert "the disk is full" in running.log


@pytest.mark.kill
@pytest.mark.parametrize("ends", ["stop", "kill"])
async def test_a_start_has_room_of_its_own_where_the_site_has_used_the_reserve(disk: Path, ends: str) -> None:
    site = Site(disk / "site")
    async with daemon(site.config) as running:
        await site.hold(HELD)
        fill(disk)
        held = HELD + await refused_for_want_of_room(site)
        await log_is_empty(site)
        fill(disk)
        if ends == "stop":
            running.process.terminate()
            assert await running.exit_code() == 0
    fill(disk)
    async with daemon(site.config):
        held += await refused_for_want_of_room(site)
        assert await site.drain(held) == held


@pytest.mark.kill
async def test_a_start_for_which_there_is_no_room_says_how_much_it_needs(disk: Path) -> None:
    site = Site(disk / "site")
    async with daemon(site.config):
        await site.hold(1)
    site.reserve.unlink()
    fill(disk)
    async with daemon(site.config, ready=False) as running:
        assert await running.exit_code() == 1
        assert "to start, the site needs 1 MiB of room" in running.log


@pytest.mark.kill
async def test_a_site_that_has_filled_the_disk_itself_is_drained_and_takes_messages_again(disk: Path) -> None:
    site = Site(disk / "site")
    async with daemon(site.config) as running:
        held = await site.fill() + await refused_for_want_of_room(site)
        assert await site.drain(held) == held
        await taken_again(site)
        assert site.reserve.stat().st_size == DISK_MB * 2**20 // DISK_SHARE
        assert "cannot be moved" not in running.log
