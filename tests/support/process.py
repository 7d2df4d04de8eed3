"""Real daemons: `smqpd run` as a process of its own."""

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from daemon.system.version import VERSION
from tests.support.forked import Forked
from tests.support.patience import PATIENCE_S

ROOT: Final = Path(__file__).parent.parent.parent
PRETENCES: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""What has a pipe pass for a terminal: of the tests of who runs them, not of what they test."""


def inherited() -> dict[str, str]:
    """The environment of these tests, for the processes that they run."""
    return {name: value for name, value in os.environ.items() if name not in PRETENCES}


def environment(directory: Path, **more: str) -> dict[str, str]:
    """For a process that runs this checkout as if installed, with the front ends `smqp` and `echo` only."""
    installed = directory / "installed" / f"smqpd-{VERSION}.dist-info"
    installed.mkdir(parents=True, exist_ok=True)
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: smqpd\nVersion: {VERSION}\n")
    (installed / "entry_points.txt").write_text(
        "[smqpd.plugins]\nsmqp = plugins.smqp.plugin:plugin\necho = tests.support.echo:plugin\n"
    )
    return {**inherited(), "PYTHONPATH": f"{ROOT}:{installed.parent}", **more}


class Daemon:
    """A running daemon; `told` is what it has sent to the service manager."""

    def __init__(self, process: trio.Process | Forked, manager: socket.socket, log_file: Path) -> None:
        self.process = process
        self.told: list[str] = []
        self._manager = manager
        self._log_file = log_file

    @property
    def log(self) -> str:
        return self._log_file.read_text()

    def __repr__(self) -> str:
        return f"the daemon logged\n{self.log[-8000:]}"

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def tells(self, word: str) -> str:
        """Wait until the service manager is told something with `word` in it, which an ended one does not."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._give_up, nursery.cancel_scope)
            with trio.move_on_after(PATIENCE_S):
                while not self._has_told(word):
                    await trio.lowlevel.wait_readable(self._manager)
            nursery.cancel_scope.cancel()
        if self._has_told(word):
            return self.told[-1]
        raise AssertionError(f"the daemon did not tell {word}; it told {self.told} and logged\n{self.log}")

    def _has_told(self, word: str) -> bool:
        """Read what has come, up to the next with `word` in it."""
        while not (self.told and word in self.told[-1]):
            try:
                self.told.append(self._manager.recv(4096).decode())
            except BlockingIOError:
                return False
        return True

    async def _give_up(self, waiting: trio.CancelScope) -> None:
        await self.process.wait()
        waiting.cancel()

    async def exit_code(self) -> int:
        """Wait for the end."""
        with trio.move_on_after(PATIENCE_S):
            return await self.process.wait()
        raise AssertionError(f"the daemon did not end; it logged\n{self.log}")


SMQPD_RUN: Final = ("-c", "from daemon.cli.main import main; main()", "run", "--config")
BECOMES: Final = ("-m", "daemon")
"""What `smqpd run` becomes; starts in half the time."""
KNOWS_NO_DESTINATIONS: Final = (
    "-c",
    "from daemon.site import links; from daemon.__main__ import main; links.IN_NEWS = (); main()",
)
"""The same, without destinations: as a site of an earlier version."""


@asynccontextmanager
async def daemon(
    config: Path,
    *,
    ready: bool = True,
    start: tuple[str, ...] = BECOMES,
    within: tuple[str, ...] = (),
    namespace: Path | None = None,
    forked: bool = True,
    **more: str,
) -> AsyncIterator[Daemon]:
    """Run a site, `within` another command if there is one; killed at the end where it runs still.

    `namespace`: of its network, None for ours.
    `forked`: by a process that has loaded it before, where there is no other command.
    """
    directory = config.parent
    address = str(directory / "notify")
    Path(address).unlink(missing_ok=True)
    log_file = directory / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, log_file.open("ab") as log:
        manager.bind(address)
        manager.setblocking(False)
        arguments = [*start, str(config)]
        env = environment(directory, NOTIFY_SOCKET=address, **more)
        process: trio.Process | Forked
        if forked and not within:
            process = Forked.start(
                arguments, env=env, stdin=0, stdout=1, stderr=log.fileno(), namespace=namespace
            )
        else:
            if namespace is not None:
                within = ("nsenter", f"--net={namespace}", "--", *within)
            process = await trio.lowlevel.open_process(
                [*within, sys.executable, *arguments], env=env, cwd=ROOT, stdin=None, stderr=log.fileno()
            )
        try:
            running = Daemon(process, manager, log_file)
            if ready:
                await running.tells("READY=1")
            yield running
        finally:
            if process.poll() is None:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
