"""XMPP server, daemon and clients as processes, each killed in the middle of work and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.configuration.discovery import Installed
from daemon.site.directory import make_site
from plugins.xmpp.wire.namespaces import PUBSUB, QOS
from tests.support.patience import PATIENCE_S
from tests.support.process import ROOT, daemon
from tests.support.xmpp_real import make_xmpp_site, python_path
from tests.support.xmpp_servers import COMPONENT_NAME, RealClient, RealServer
from tests.support.xmpp_worker import LOG_IN_AGAIN_S, NODE, Journal, read_journal

pytestmark = pytest.mark.kill

KILLED = ("daemon", "worker 0", "server", "worker 1", "server and daemon")
ITEMS = 12
"""Published before each kill."""

LOST = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, trio.EndOfChannel)


class WorkerProcess:
    """See `tests.support.xmpp_worker`."""

    def __init__(self, port: int, number: int, directory: Path) -> None:
        self.journal = directory / f"journal-{number}"
        self._log = directory / f"worker-{number}.log"
        self._command = [sys.executable, "-m", "tests.support.xmpp_worker", str(port), f"w{number}"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*self._command, str(self.journal)], cwd=ROOT, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def read(self) -> Journal:
        return read_journal(self.journal)


class Publisher:
    """Sends each item assured, repeats each step until it is answered, and connects again."""

    def __init__(self, port: int) -> None:
        self.published: list[str] = []
        self.wanted = 0
        self._port = port
        self._client: RealClient | None = None

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                if len(self.published) == self.wanted:
                    await trio.sleep(0.01)
                    continue
                item = f"item-{len(self.published)}"
                content = f"<publish node='{NODE}'><item id='{item}'><a xmlns='urn:a'/></item></publish>"
                message = (
                    f"<message xmlns='jabber:client'><pubsub xmlns='{PUBSUB}'>{content}</pubsub></message>"
                )
                for step, text in (
                    ("a", f"<assured xmlns='{QOS}' msgId='{item}'>{message}</assured>"),
                    ("d", f"<deliver xmlns='{QOS}' msgId='{item}'/>"),
                ):
                    iq = f"<iq type='set' id='{step}-{item}' to='{COMPONENT_NAME}'>{text}</iq>"
                    while not await self._answered(nursery, iq, f"{step}-{item}"):
                        await trio.sleep(0.1)
                self.published.append(item)

    async def _answered(self, nursery: trio.Nursery, iq: str, id: str) -> bool:
        try:
            if self._client is None:
                client = RealClient(await trio.open_tcp_stream("127.0.0.1", self._port))
                with trio.fail_after(LOG_IN_AGAIN_S):
                    await client.log_in("ada", "p")
                nursery.start_soon(client.run)
                self._client = client
            await self._client.send(iq)
            with trio.move_on_after(1):
                return (await self._client.answer(id)).get("type") == "result"
        except (*LOST, AssertionError):
            self._client = None
        return False


async def until(what: Callable[..., Any]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not what():
            await trio.sleep(0.02)


async def test_no_item_is_lost_and_none_worked_on_twice_whoever_is_killed(
    server: RealServer, tmp_path: Path
) -> None:
    config, path = make_xmpp_site(tmp_path / "site", server), python_path(tmp_path)
    workers = [WorkerProcess(server.c2s, number, tmp_path) for number in range(2)]
    publisher = Publisher(server.c2s)
    held_at_kill = []
    try:
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            running = await stack.enter_async_context(daemon(config, PYTHONPATH=path))
            for worker in workers:
                worker.start()
            nursery.start_soon(publisher.run)
            for killed in KILLED:
                publisher.wanted += ITEMS
                # in the middle: of what is published there is more to come, and to be done
                await until(lambda: len(publisher.published) > publisher.wanted - ITEMS // 2)
                if killed.startswith("worker"):
                    worker = workers[int(killed[-1])]
                    await until(lambda worker=worker: worker.journal.exists() and worker.read().received)
                    worker.kill()
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
            await until(lambda: len(publisher.published) == publisher.wanted)
            await until(lambda: sum(len(worker.read().retracted) for worker in workers) >= publisher.wanted)
            nursery.cancel_scope.cancel()
    finally:
        for worker in workers:
            worker.kill()
    worked = [item for worker in workers for item in worker.read().worked]
    assert sorted(worked) == sorted(publisher.published)
    assert any(held_at_kill)


def test_a_bad_table_is_said_in_one_line(tmp_path: Path) -> None:
    config = make_site(tmp_path / "site", "smqp.example", 0, Installed({})).config
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
