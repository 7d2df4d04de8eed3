"""Python that has loaded this checkout, and forks: `python -m tests.support.fork_server`.

Most of what a short command costs is the start of its interpreter and its imports. What is forked here, for
`tests.support.forked`, is as if `python` had been started with the same arguments, directory, environment and
streams. The socket that is this process's stdin brings what is wanted. This process ends when nobody can want
more; what it has forked ends with whoever wanted it.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import sys
import termios
import threading
import time
import types
from dataclasses import dataclass
from typing import Any, Final

from tests.support.networks import enter

LOADED: Final = (
    "daemon",
    "routing",
    "plugins.smqp",
    "plugins.stomp",
    "plugins.xmpp",
    "pydantic.type_adapter",
    "rich.table",
    "typer._adapters",
    "typer.rich_utils",
)
NOT_LOADED: Final = ("daemon.__main__", "routing.trace")
"""What is read anew by each process, and what wants a Spark."""

NUMBER: Final = struct.Struct("i")


@dataclass(frozen=True)
class Wanted:
    """A process; `report` is told its number, and how it has ended."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]
    terminal: bool
    namespace: str | None
    report: socket.socket
    streams: list[int]


class ForkServer:
    """`serve` returns in each process that it forks with what this is to be, and in its own with None."""

    def __init__(self, wants: socket.socket) -> None:
        self._wants = wants
        self._reports: dict[int, socket.socket] = {}
        self._ended, self._end = socket.socketpair()
        self._end.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(wants, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)

    def serve(self) -> Wanted | None:
        # an interrupt of all that is at a terminal ends this process with the one that wants processes
        handlers = {
            number: signal.signal(number, handler)
            for number, handler in ((signal.SIGINT, signal.SIG_IGN), (signal.SIGCHLD, lambda *_: None))
        }
        signal.set_wakeup_fd(self._end.fileno())
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._wants:
                    if (wanted := self._next()) is None:
                        return None
                    if (process := os.fork()) == 0:
                        signal.set_wakeup_fd(-1)
                        for number, handler in handlers.items():
                            signal.signal(number, handler)
                        self._let_go(wanted)
                        return wanted
                    self._forked(process, wanted)
                elif key.fileobj is self._ended:
                    self._ended.recv(4096)
                    self._tell_of_ends()
                elif isinstance(process := key.data, int):
                    self._forget(process)

    def _let_go(self, wanted: Wanted) -> None:
        """In what was forked: what has a descriptor here has none there."""
        self._selector.close()
        for ours in (self._wants, self._ended, self._end, wanted.report, *self._reports.values()):
            os.close(ours.detach())

    def _next(self) -> Wanted | None:
        size, descriptors, _, _ = socket.recv_fds(self._wants, NUMBER.size, 4)
        if not size:
            return None
        (length,) = NUMBER.unpack(size)
        wanted = json.loads(self._wants.recv(length, socket.MSG_WAITALL))
        return Wanted(**wanted, report=socket.socket(fileno=descriptors[0]), streams=descriptors[1:])

    def _forked(self, process: int, wanted: Wanted) -> None:
        for stream in wanted.streams:
            os.close(stream)
        wanted.report.sendall(NUMBER.pack(process))
        self._reports[process] = wanted.report
        self._selector.register(wanted.report, selectors.EVENT_READ, process)

    def _tell_of_ends(self) -> None:
        """Those stay zombies until whoever wanted them knows: their numbers are nobody else's."""
        for process, report in self._reports.items():
            ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                report.setblocking(False)  # it may be told again, of which nobody reads more than the first
                with contextlib.suppress(OSError):  # nobody may want to know
                    report.send(NUMBER.pack(code))

    def _forget(self, process: int) -> None:
        """Whoever wanted it knows of its end, or has ended."""
        report = self._reports.pop(process)
        self._selector.unregister(report)
        report.close()
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def load() -> None:
    """What processes need, once for all."""
    for name in LOADED:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(getattr(package, "__path__", ()), name + "."):
            if not module.name.startswith(NOT_LOADED):
                importlib.import_module(module.name)


def become(wanted: Wanted, own_path: list[str]) -> None:
    """Have everything that a process finds at its start be as it is wanted."""
    for stream, descriptor in enumerate(wanted.streams):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    if wanted.namespace is not None:
        with open(wanted.namespace) as namespace:
            enter(namespace.fileno())
    if wanted.terminal:
        for number in (signal.SIGHUP, signal.SIGQUIT):  # which a nohup above us has ignored
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        fcntl.ioctl(1, termios.TIOCSCTTY, 0)
    os.chdir(wanted.directory)
    os.environ.clear()
    os.environ.update(wanted.environment)
    time.tzset()
    added = wanted.environment.get("PYTHONPATH", "")
    sys.path[:] = [*filter(None, added.split(":")), *own_path]
    for name, mode in (("stdin", "rb"), ("stdout", "wb"), ("stderr", "wb")):
        before = getattr(sys, name)
        unbuffered = before.write_through
        buffer = open(before.fileno(), mode, 0 if unbuffered else -1, closefd=False)  # noqa: SIM115 # to the end
        text = io.TextIOWrapper(
            buffer,
            before.encoding,
            before.errors,
            newline="\n",
            line_buffering=not unbuffered and (name == "stderr" or buffer.isatty()),
            write_through=unbuffered,
        )
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def interpret(arguments: list[str]) -> None:
    """As `python ARGUMENTS` does, with the options `-P`, `-c` and `-m`."""
    safe = arguments[0] == "-P"
    option, what, *words = arguments[safe:]
    if not safe:
        sys.path.insert(0, "" if option == "-c" else os.getcwd())
    sys.argv = [option, *words]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), vars(main))


def end(code: int) -> None:
    """As an interpreter ends, but for taking apart what was loaded before it was forked.

    Of the 50 ms of CPU that a process costs which does nothing else, that would be 44. Returns where what it
    printed cannot be written: the interpreter tells that.
    """
    threading._shutdown()  # type: ignore[attr-defined] # waits for all threads but daemons
    atexit._run_exitfuncs()
    gc.collect()  # what was not awaited or closed is told
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    own_path = [place for place in sys.path[1:] if place]
    load()
    gc.collect()
    gc.freeze()
    wanted = ForkServer(socket.socket(fileno=os.dup(0))).serve()
    if wanted is not None:
        become(wanted, own_path)
        code: Any = None
        try:
            interpret(wanted.arguments)
        except SystemExit as ended:
            code = ended.code
        if code is None or isinstance(code, int):
            end(code or 0)
        sys.exit(code)


if __name__ == "__main__":
    main()
