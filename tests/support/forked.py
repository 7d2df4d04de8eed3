"""Python processes that cost little to start: forked by one that has loaded this checkout.

For commands and daemons whose start is not what is tested. There is a `tests.support.fork_server` for each
environment in which the interpreter starts, or a library is loaded, otherwise.
"""

import atexit
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

import trio

from tests.support.fork_server import NUMBER

_ROOT: Final = Path(__file__).parent.parent.parent

SEEN_LATER: Final = ("SMQPD_", "PYTEST_", "NOTIFY_", "WATCHDOG_", "PYTHONPATH", "TERM", "COLUMNS", "NO_COLOR")
"""Variables that begin so are not read before a command or daemon runs."""


class Forked:
    """A process, with what tests use of `trio.Process`."""

    def __init__(self, pid: int, report: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._report = report
        self._waits = trio.Lock()

    @classmethod
    def start(
        cls,
        arguments: list[str],
        *,
        env: dict[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        cwd: Path = _ROOT,
        terminal: bool = False,
        namespace: Path | None = None,
    ) -> Self:
        """As `python ARGUMENTS`, with these descriptors.

        `terminal`: its stdout is that of its session. `namespace`: of its network, None for ours.
        """
        report, told = socket.socketpair()
        with told:
            wanted = {
                "arguments": arguments,
                "directory": str(cwd),
                "environment": env,
                "terminal": terminal,
                "namespace": namespace and str(namespace),
            }
            text = json.dumps(wanted).encode()
            server = _server_for(env)
            socket.send_fds(server, [NUMBER.pack(len(text))], [told.fileno(), stdin, stdout, stderr])
            server.sendall(text)
        (pid,) = NUMBER.unpack(report.recv(NUMBER.size))
        return cls(pid, report)

    def poll(self) -> int | None:
        """How it has ended, if it has: its exit code, or the number of a signal below zero."""
        if self.returncode is None:
            try:
                (self.returncode,) = NUMBER.unpack(self._report.recv(NUMBER.size, socket.MSG_DONTWAIT))
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise
            else:
                self._report.close()
        return self.returncode

    async def wait(self) -> int:
        async with self._waits:
            while (code := self.poll()) is None:
                await trio.lowlevel.wait_readable(self._report)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def forget(self) -> None:
        """Want it no longer: it is killed."""
        self._report.close()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def run(
    arguments: list[str],
    *,
    env: dict[str, str],
    stdin: bytes = b"",
    stdout: int | None = None,
    cwd: Path = _ROOT,
) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end; what it prints is returned, unless `stdout` takes that."""
    pipes = [os.pipe() for _ in range(3)]
    (its_input, writes), (out, its_output), (error, its_error) = pipes
    process = Forked.start(
        arguments,
        env=env,
        stdin=its_input,
        stdout=its_output if stdout is None else stdout,
        stderr=its_error,
        cwd=cwd,
    )
    for descriptor in (its_input, its_output, its_error):
        os.close(descriptor)
    printed: dict[int, bytes] = {}

    async def write() -> None:
        async with trio.lowlevel.FdStream(writes) as stream:
            with contextlib.suppress(trio.BrokenResourceError):  # it need not read to the end
                await stream.send_all(stdin)

    async def read(descriptor: int) -> None:
        async with trio.lowlevel.FdStream(descriptor) as stream:
            printed[descriptor] = b"".join([bytes(part) async for part in stream])

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            nursery.start_soon(read, out)
            nursery.start_soon(read, error)
            code = await process.wait()
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, code, printed[out], printed[error])


_servers: dict[tuple[int, frozenset[tuple[str, str]]], socket.socket] = {}


def _server_for(env: dict[str, str]) -> socket.socket:
    """Where processes of such an environment, as nice as this one, are to be had until these tests end."""
    seen = {name: value for name, value in env.items() if not name.startswith(SEEN_LATER)}
    key = os.getpriority(os.PRIO_PROCESS, 0), frozenset(seen.items())
    if key not in _servers:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.support.fork_server"]
            process = subprocess.Popen(command, cwd=_ROOT, env=seen, stdin=theirs.fileno())
        atexit.register(_end, ours, process)
        _servers[key] = ours
    return _servers[key]


def _end(server: socket.socket, process: subprocess.Popen[bytes]) -> None:
    server.close()
    process.wait()
