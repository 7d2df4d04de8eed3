"""What the demonstration stands on: sites and their daemons, commands that are shown, links that can be cut.

Nothing here knows the inside of smqpd: it runs the command `smqpd`, and relays bytes between two ports.
"""

import contextlib
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

SMQPD: Final = str(Path(sys.executable).with_name("smqpd"))
PATIENCE_S: Final = 600
"""Until it is given up: a machine that has other work to do may take long."""

LOOK_EVERY_S: Final = 0.05
"""At what other processes bring about, and tell nobody of."""

COLUMNS: Final = 110
QUIET_S: Final = 2
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1"
"""The logs are small: code that is compiled quickly is done sooner than code that is compiled well."""


class BrokenPromise(Exception):
    """What the demo is there to find."""


def say(text: str) -> None:
    """Narrate."""
    print(text, flush=True)


def promise(kept: bool, text: str) -> None:
    """Say that a promise was kept, or end."""
    if not kept:
        raise BrokenPromise(text)
    say(f"  kept: {text}")


def quote(output: str) -> None:
    """What a command has printed, set in."""
    say("".join(f"    {line.rstrip()}\n" for line in output.splitlines()).rstrip())


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for something that comes by itself; `what` is to be said where it does not."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise BrokenPromise(what)
        time.sleep(LOOK_EVERY_S)


def free_port() -> int:
    """A port of loopback that nobody uses, and that was not given before.

    None of those that outgoing connections are given: a site that dials a peer which does not listen yet
    could be connected to itself, and keep the peer from listening.
    """
    while True:
        port = random.randrange(10_240, 32_768)
        if port in _given:
            continue
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        _given.add(port)
        return port


_given: Final[set[int]] = set()


def accepts(port: int) -> bool:
    """Whether somebody listens."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Cable:
    """A way to a port that can be cut and mended: relays what comes to a port of its own."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._ends: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.mend()

    def mend(self) -> None:
        """Let connections through."""
        listener = self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        assert self._listener is not None
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = listener.accept()
                try:
                    there = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    here.close()
                    continue
                self._ends += (here, there)
                for end in (here, there):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink in ((here, there), (there, here)):
                    threading.Thread(target=self._relay, args=(source, sink), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Site:
    """One site: its directory below that of the demo, and its daemon."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.server = f"{name}.example"
        self.directory = directory / name
        self.port = free_port()
        self.link_port = free_port()
        self.daemon: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What the daemon says."""
        return self.directory.with_suffix(".log")

    def start(self) -> None:
        """Start the daemon, and wait until it accepts connections."""
        with self.log.open("ab") as log:
            config = str(self.directory / "smqpd.toml")
            self.daemon = subprocess.Popen([SMQPD, "run", "--config", config], stdout=log, stderr=log)
        daemon = self.daemon

        def runs() -> bool:
            if daemon.poll() is not None:
                raise BrokenPromise(f"{self.server} does not start: {self.log.read_text()}")
            return accepts(self.port)

        until(runs, f"{self.server} does not start")

    def kill(self) -> None:
        """End the daemon as a power cut would."""
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()

    def stop(self) -> int:
        """Have it drain and end; its exit code."""
        assert self.daemon is not None
        self.daemon.terminate()
        return self.daemon.wait(PATIENCE_S)


class Stage:
    """All sites, the people who use them, and what they run."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        self.directory = directory
        self.sites = {name: Site(directory, name) for name in names}
        self._beside: list[subprocess.Popen[str]] = []

    def site(self, name: str) -> Site:
        """One of them."""
        return self.sites[name]

    def _command(self, arguments: Sequence[str], who: str | None) -> list[str]:
        """A command; as `who`, at the first site, where it is given."""
        if who is None:
            return [SMQPD, *arguments]
        server = f"127.0.0.1:{next(iter(self.sites.values())).port}"
        login = ["--server", server, "--account", who, "--password-file", who]
        return [SMQPD, *arguments, *login]

    def begin(
        self, *arguments: str, who: str | None = None, quiet: bool = False, out: Path | None = None
    ) -> "subprocess.Popen[str]":
        """Show a command, and start it; `finish` gives what it wrote, unless that goes to the file `out`."""
        if not quiet:
            say(f"  $ smqpd {shlex.join(arguments)}" + (f"   (as {who})" if who else ""))
        with contextlib.ExitStack() as opened:
            process = subprocess.Popen(
                self._command(arguments, who),
                cwd=self.directory,
                env=os.environ | {"COLUMNS": str(COLUMNS), "JDK_JAVA_OPTIONS": JAVA_OPTIONS},
                stdin=subprocess.DEVNULL,
                stdout=opened.enter_context(out.open("wb")) if out is not None else subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self._beside.append(process)
        return process

    def finish(self, process: "subprocess.Popen[str]", *codes: int) -> str:
        """What a command has written to stdout, once it has ended, with one of these exit codes; none: 0."""
        assert isinstance(process.args, list)
        shown = shlex.join(process.args[1:])
        try:
            out, error = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise BrokenPromise(f"smqpd {shown} does not end") from None
        if process.returncode not in (codes or (0,)):
            raise BrokenPromise(f"smqpd {shown} ended with {process.returncode}: {error.strip()}")
        return out if not codes or 0 in codes else out + error

    def smqpd(self, *arguments: str, who: str | None = None, code: int = 0, quiet: bool = False) -> str:
        """Show a command and run it to its end; what it wrote."""
        return self.finish(self.begin(*arguments, who=who, quiet=quiet), code)

    def together(self, *commands: Sequence[str]) -> None:
        """Show commands and run them at the same time."""
        for process in [self.begin(*command) for command in commands]:
            self.finish(process)

    def asked(self, *arguments: str) -> Any:
        """What a command says with --json; not shown. It ends with 1 where a link is down."""
        return json.loads(self.finish(self.begin(*arguments, "--json", quiet=True), 0, 1))

    def read(self, topic: str, due: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
        """So many messages that wait at the desks of sites, read at the same time by their administrators.

        Where none is due it is waited for some seconds whether one comes.
        """
        readers = {}
        for name, count in due.items():
            bounds = ("--count", str(count), "--timeout", "30") if count else ("--timeout", str(QUIET_S))
            readers[name] = self.begin("sub", topic, "--site", name, "--channel", "desk", *bounds, "--json")
        return {
            name: [json.loads(line) for line in self.finish(reader).splitlines()]
            for name, reader in readers.items()
        }

    def settled(self, *names: str) -> None:
        """Wait until every link of these sites is up, and nothing is on its way over them."""
        self.linked(*names)
        for name in names:
            question = ("peers", "--site", name)
            until(
                lambda question=question: (
                    not any(link["waiting"] + link["in_flight"] for link in self.asked(*question))
                ),
                f"{name} does not get rid of its messages",
            )

    def linked(self, *names: str) -> None:
        """Wait until every link of these sites is up."""
        for name in names:
            question = ("peers", "--only-down", "--site", name)
            until(lambda question=question: not self.asked(*question), f"not all links of {name} come up")

    def wanted(self, topic: str, count: int, *, delivery: str = "ALL") -> None:
        """Wait until the first site knows so many subscriptions of a topic, wherever they are."""
        first = next(iter(self.sites))
        # `topic` is said, since some of the topics are called like commands of the group.
        question = ("trace", "topic", topic, "--site", first, "--delivery", delivery)
        until(
            lambda: self.asked(*question)["subscriptions"] == count,
            f"the subscriptions to {topic} are not known at {first}",
        )

    def close(self) -> None:
        """Leave nothing running."""
        daemons = [site.daemon for site in self.sites.values() if site.daemon is not None]
        for process in (*self._beside, *daemons):
            if process.poll() is None:
                process.kill()
                process.wait()


def text(message: dict[str, Any]) -> str:
    """The body of a message of one section of text."""
    body: str = message["sections"][0]["text"]
    return body


def show(messages: Sequence[dict[str, Any]]) -> None:
    """What arrived, a line each."""
    for message in messages:
        say(f"    {message.get('priority', '-'):>2}  {message['topic']:<14} {text(message)}")
