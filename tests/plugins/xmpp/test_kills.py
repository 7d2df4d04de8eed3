"""XMPP server, daemon and clients as processes, each killed in the middle of work and started again."""

import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.support.made_site import made_site
from tests.support.patience import PATIENCE_S, until
from tests.support.process import ROOT, daemon
from tests.support.xmpp_real import make_xmpp_site, python_path
from tests.support.xmpp_servers import RealServer
from tests.support.xmpp_trial import ITEMS, AssuredPublisher, WorkerProcess, two_sites

pytestmark = pytest.mark.kill

KILLED = ("daemon", "worker 0", "server", "worker 1", "server and daemon")


def gets_work(worker: WorkerProcess, publisher: AssuredPublisher) -> bool:
    """Whether it has something to work on; there is more of it as long as the other takes it all."""
    if worker.journal.exists() and worker.read().received:
        return True
    publisher.wanted += len(publisher.published) == publisher.wanted
    return False


async def test_no_item_is_lost_and_none_worked_on_twice_whoever_is_killed(
    server: RealServer, tmp_path: Path
) -> None:
    config, path = make_xmpp_site(tmp_path / "site", server), python_path(tmp_path)
    workers = [WorkerProcess(server.c2s, number, tmp_path) for number in range(2)]
    publisher = AssuredPublisher(server.c2s)
    held_at_kill = []
    try:
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            running = await stack.enter_async_context(daemon(config, PYTHONPATH=path))
            witnesses = (publisher, *workers, running, server)
            for worker in workers:
                worker.start()
            nursery.start_soon(publisher.run)
            for killed in KILLED:
                publisher.wanted += ITEMS
                # in the middle: of what is published there is more to come, and to be done
                await until(lambda: len(publisher.published) > publisher.wanted - ITEMS // 2, *witnesses)
                if killed.startswith("worker"):
                    worker = workers[int(killed[-1])]
                    await until(partial(gets_work, worker, publisher), *witnesses)
                    await worker.kill()
                    held_at_kill.append(len(worker.read().received))
                    worker.start()
                if "server" in killed:
                    server.kill()
                if "daemon" in killed:
                    running.signal(signal.SIGKILL)
                    await running.exit_code()
                    running = await stack.enter_async_context(daemon(config, PYTHONPATH=path))
                if "server" in killed:
                    await server.start()
                    await server.register()
            await until(lambda: len(publisher.published) == publisher.wanted, *witnesses)
            await until(
                lambda: sum(len(worker.read().retracted) for worker in workers) >= publisher.wanted,
                *witnesses,
            )
            nursery.cancel_scope.cancel()
    finally:
        for worker in workers:
            await worker.kill()
    worked = [item for worker in workers for item in worker.read().worked]
    assert sorted(worked) == sorted(publisher.published)
    assert any(held_at_kill)


async def test_two_sites_share_a_queue_while_everything_is_killed(server: RealServer, tmp_path: Path) -> None:
    other = RealServer(server.name, tmp_path / "other-server")
    try:
        await other.start()
        await other.register()
        items, crossed = await two_sites([server, other], tmp_path, rounds=2)
    finally:
        other.kill()
    assert 0 < crossed < items


def test_a_bad_table_is_said_in_one_line(tmp_path: Path) -> None:
    config = made_site(tmp_path / "site", "smqp.example", 0, is_bare=True).config
    with config.open("a") as file:
        file.write("\n[plugins.xmpp]\n")
    environment = {**os.environ, "PYTHONPATH": python_path(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "daemon", str(config)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode != 0
    assert "[plugins.xmpp]: component: is required" in done.stderr
    assert "Traceback" not in done.stderr
