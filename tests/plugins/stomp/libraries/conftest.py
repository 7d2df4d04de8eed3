"""A daemon as a process, for client libraries that others wrote."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plugins.stomp.codec import Decoder, encode
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.process import ROOT
from tests.support.stomp import WIDE
from tests.support.stomp_site import make_stomp_site, stomp_environment


class StompDaemon:
    """The ports of a running daemon; guest may log in with the password guest."""

    def __init__(self, directory: Path) -> None:
        self.port, self.websocket_port, self.tls_port = free_port(), free_port(), free_port()
        config = make_stomp_site(directory, self.port, self.websocket_port, self.tls_port)
        self.certificate = directory / "keys" / "tls.crt"
        self._log = (directory / "log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "daemon", str(config)],
            env=stomp_environment(directory),
            cwd=ROOT,
            stdout=self._log,
            stderr=self._log,
        )
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, (directory / "log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.websocket_port), 1).close()
            except OSError:
                continue
            return
        raise AssertionError("the daemon does not listen\n" + (directory / "log").read_text())

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._log.close()

    def hear(self, queue: str) -> bytes:
        """The body of the next message of a queue, by a client of our own."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as client:
            client.sendall(
                encode("CONNECT", {"accept-version": "1.2", "login": "guest", "passcode": "guest"})
            )
            client.sendall(encode("SUBSCRIBE", {"id": "0", "destination": queue}))
            decoder = Decoder(WIDE)
            while True:
                while (frame := decoder.next_frame()) is not None:
                    if frame.command == "MESSAGE":
                        return frame.body
                    assert frame.command == "CONNECTED", frame
                data = client.recv(65_536)
                assert data, "the server closed the connection"
                decoder.feed(data)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    daemon = StompDaemon(tmp_path_factory.mktemp("stomp") / "site")
    yield daemon
    daemon.stop()
