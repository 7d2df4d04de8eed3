"""No error of ours in one of its tasks ends a site."""

import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio
import trio.testing
from trio.testing import MockClock

from daemon.connections.conversation import Conversation
from daemon.connections.transport import StreamTransport
from daemon.hops import service
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings
from daemon.system.mishaps import AGAIN_S, Mishaps
from plugins.smqp import plugin as smqp
from routing.link.units import Probe
from tests.support.broker import virtual_site
from tests.support.site import running_site

TRIES = 3


def fails_at_first(done: list[float]) -> Callable[[], Awaitable[None]]:
    async def task() -> None:
        done.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        if len(done) < TRIES:
            raise TypeError("a task that is broken")
        await trio.sleep_forever()

    return task


async def test_a_task_that_fails_begins_anew_a_moment_later(autojump_clock: MockClock) -> None:
    mishaps, done = Mishaps(), list[float]()
    with trio.move_on_after(100):
        await mishaps.keep_going("a task", fails_at_first(done))
    assert [later - done[0] for later in done] == [AGAIN_S * number for number in range(TRIES)]
    assert mishaps.count == TRIES - 1


async def test_a_task_that_returns_or_is_cancelled_does_not(autojump_clock: MockClock) -> None:
    mishaps = Mishaps()
    await mishaps.keep_going("a task", trio.lowlevel.checkpoint)
    with trio.move_on_after(1) as scope:
        await mishaps.keep_going("a task", trio.sleep_forever)
    assert scope.cancelled_caught
    assert not mishaps.count


async def test_what_follows_a_transaction_fails_and_the_next_one_is_carried_out(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        links: Any = object()  # which can answer no probe
        site.broker.federating.links = links
        site.broker.federating.probe_arrived("beta.example", Probe(1, 1))
        for _ in range(2):
            assert await eva.publish("jobs", delivery="ONE")
        assert site.broker.mishaps.count == 1


async def test_what_peers_are_told_fails_and_all_else_is_carried_out(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        telling: Any = site.broker._router.federation.telling
        telling.link_up("beta.example")
        telling._links["beta.example"].stale = {"no want at all"}
        eva = site.login("eva")
        for _ in range(2):
            assert await eva.publish("jobs", delivery="ONE")
        assert site.broker.mishaps.count


async def test_a_transaction_that_cannot_be_prepared_is_tried_again_whole(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        request = eva.send("jobs", b"work", delivery="ONE")
        broken: Any = "no decision at all"
        site.broker._router._state.out.append(broken)
        other = eva.send("jobs", b"more", delivery="ONE")
        for sent in (request, other):
            await eva.answer(sent)
        assert site.broker.held == 2
        assert site.broker.mishaps.count


async def test_what_cannot_be_set_aside_ends_all_the_same(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        await eva.publish("jobs", b"work", delivery="ONE")
        [entry] = site.broker._router._state.entries.values()
        topic: Any = entry.topic
        topic.shared = None
        site.broker.door.set_aside(entry, "it cannot be read")
        site.broker.wake()
        assert await eva.publish("other", b"more", delivery="ONE")
        assert site.broker.held == 1
        assert len(site.store.quarantined()) == 1


async def test_the_hop_log_goes_on_whatever_its_keeping_meets(tmp_path: Path, mock_clock: MockClock) -> None:
    mishaps = Mishaps()
    log = HopLog.open(
        tmp_path,
        server="a.example",
        boot=1,
        committed_record=0,
        settings=HopSettings(),
        mishap=mishaps.note,
    )
    held: list[int] = [1]

    def count() -> int:
        return held[0]

    async with trio.open_nursery() as nursery:

        async def keep(task_status: trio.TaskStatus[None]) -> None:
            await service.keep(
                log, tmp_path, HopSettings(), held=count, idle=lambda: True, task_status=task_status
            )

        await nursery.start(keep)
        held.clear()
        mock_clock.jump(61)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert mishaps.count == 1
        held.append(2)
        mock_clock.jump(61)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert mishaps.count == 1
        nursery.cancel_scope.cancel()
    assert log.last_record == 2


async def test_a_client_that_cannot_be_told_goodbye_keeps_it_from_no_other(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    async with running_site(tmp_path) as site:
        connections = smqp.connections(site)  # type: ignore[arg-type] # what it needs of a site is there
        begin = connections._begin

        def begin_anyhow(remote: str) -> Conversation:
            conversation: Any = begin(remote)
            if remote.startswith("broken"):
                conversation.end = None
            return conversation  # type: ignore[no-any-return]

        connections._begin = begin_anyhow
        clients = []
        for number in range(8):
            client, server = trio.testing.memory_stream_pair()
            remote = f"{'broken' if number % 2 else 'client'}:{number}"
            nursery.start_soon(connections.serve, StreamTransport(server), remote, math.inf)
            clients.append(client)
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.start_soon(site.keep_going, "the goodbye to clients", connections.drain)
        site.draining.set()
        await trio.testing.wait_all_tasks_blocked(0.01)
        for client in clients[::2]:
            assert b"BYE draining" in await client.receive_some()
        assert site.broker.mishaps.count == len(clients) // 2
        nursery.cancel_scope.cancel()
