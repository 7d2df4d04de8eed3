"""What is forked is as what is started: see `tests.support.forked`."""

import os
import signal
import socket
import subprocess
import sys

import pytest
import trio

from tests.support.forked import Forked, run
from tests.support.networks import cut_network, may_make_namespaces
from tests.support.process import ROOT, inherited

FOUND = """
import locale, os, signal, sys
streams = sys.stdin, sys.stdout, sys.stderr
print([(s.encoding, s.errors, s.newlines, s.line_buffering, s.fileno()) for s in streams])
print(list(dict.fromkeys(sys.path)), sys.argv, os.getcwd(), sorted(os.environ.items()))
print(sorted(os.listdir("/dev/fd")), __name__)
print([str(signal.getsignal(number)) for number in signal.valid_signals()])
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.set_wakeup_fd(-1))
print(locale.setlocale(locale.LC_ALL), os.umask(0), os.getpgrp(), os.getsid(0), os.nice(0))
print(sys.stdin.read())
sys.exit(7)
"""


@pytest.mark.parametrize("option", [(), ("-P",)])
@pytest.mark.parametrize("more", [{}, {"LC_ALL": "POSIX", "PYTHONIOENCODING": "latin-1"}])
async def test_it_finds_what_it_would_find(option: tuple[str, ...], more: dict[str, str]) -> None:
    arguments = [*option, "-c", FOUND, "a word"]
    env = {**inherited(), "PYTHONPATH": str(ROOT), **more}
    started = await trio.run_process(
        [sys.executable, *arguments], stdin=b"typed", env=env, cwd=ROOT, capture_stdout=True, check=False
    )
    forked = await run(arguments, env=env, stdin=b"typed")
    assert forked.stdout.decode("latin-1").splitlines() == started.stdout.decode("latin-1").splitlines()
    assert forked.returncode == started.returncode == 7


@pytest.mark.parametrize(
    "program",
    [
        "import threading, time; threading.Timer(0.01, print, ['later']).start()",
        "import atexit; atexit.register(print, 'at last'); print('first')",
        "async def f(): pass\ncoroutine = f()\ndel coroutine",
        "class Kept:\n    def __del__(self): print('kept no more')\nit = Kept()\nit.it = it\ndel it",
        "import sys; sys.stdout = open('/dev/full', 'w'); print('lost')",
        "import sys; sys.stdout.close(); sys.exit('why')",
    ],
)
async def test_it_ends_as_it_would_end(program: str) -> None:
    started = await trio.run_process(
        [sys.executable, "-c", program],
        env=inherited(),
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    forked = await run(["-c", program], env=inherited())
    assert (forked.returncode, forked.stdout) == (started.returncode, started.stdout)
    assert forked.stderr == started.stderr


def test_it_is_as_nice_as_who_wants_it_is_by_then() -> None:
    program = """
import os, trio
from tests.support.forked import run
from tests.support.process import inherited
for _ in range(2):
    done = trio.run(lambda: run(["-c", "import os; print(os.nice(0))"], env=inherited()))
    print(int(done.stdout) - os.nice(0))
    os.nice(1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "0"]


async def test_a_module_is_run() -> None:
    done = await run(["-m", "daemon"], env=inherited())
    assert (done.returncode, done.stderr) == (2, b"smqpd: usage: python -m daemon FILE\n")


async def test_it_can_be_killed_and_ends_with_whoever_wanted_it() -> None:
    waits = "import os, socket; os.write(1, b'x'); pair = socket.socketpair(); pair[0].recv(1)"
    ours, theirs = socket.socketpair()
    with ours:
        killed, left = (
            Forked.start(["-c", waits], env=inherited(), stdin=0, stdout=theirs.fileno(), stderr=2)
            for _ in range(2)
        )
        theirs.close()
        assert killed.poll() is None
        killed.kill()
        assert await killed.wait() == -signal.SIGKILL
        left.forget()
        while await trio.to_thread.run_sync(ours.recv, 1):
            pass  # its stream is open as long as it lives


def test_without_one_that_wants_more_it_ends() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "tests.support.fork_server"]
        server = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stdin=theirs.fileno())
    ours.close()
    assert server.wait() == 0


@pytest.mark.skipif(not may_make_namespaces(), reason="may not make network namespaces")
async def test_it_is_in_the_network_namespace_where_it_is_wanted() -> None:
    async with cut_network(["a", "b"], [("a", "b")], namespaces=True) as network:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = Forked.start(
                ["-c", "import socket; print(*sorted(name for _, name in socket.if_nameindex()))"],
                env=inherited(),
                stdin=0,
                stdout=theirs.fileno(),
                stderr=2,
                namespace=network.namespace("a"),
            )
            assert await process.wait() == 0
            assert {"lo", "w0"} <= set(ours.recv(4096).decode().split())
