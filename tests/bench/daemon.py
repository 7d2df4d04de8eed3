"""A daemon to be measured: started as an operator would, watched through /proc."""

import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import free_port

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
SMQPD = [sys.executable, "-c", "from daemon.cli.main import main; main()"]


def cpu_s(pid: int) -> float:
    """CPU that a process has used, user and system, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


class Measured:
    """A running daemon of a fresh site.

    Attributes:
        port: of its SMQP front end, on 127.0.0.1.
        account, password: of its administrator.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        init = [*SMQPD, "init", str(directory), "--server-name", "bench.example", "--port", str(self.port)]
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL)
        login = tomllib.loads((directory / "keys" / "admin.toml").read_text())
        self.account, self.password = login["account"], login["password"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        log = (self.directory / "log").open("ab")
        with log:
            command = [*SMQPD, "run", "--config", str(self.directory / "smqpd.toml")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        while True:
            if self._process.poll() is not None:
                raise SystemExit((self.directory / "log").read_text())
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                continue
            return

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    def cpu_s(self) -> float:
        """See `cpu_s`."""
        return cpu_s(self.pid)

    def resident_mb(self) -> float:
        """Memory that it holds now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()


@contextmanager
def measured() -> Iterator[Measured]:
    """A site in a directory that is deleted afterwards, its daemon started."""
    with TemporaryDirectory(prefix="smqpd-bench-") as directory:
        daemon = Measured(Path(directory) / "site")
        daemon.start()
        try:
            yield daemon
        finally:
            daemon.stop()
