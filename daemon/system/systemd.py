"""What systemd gives to a service and wants to hear from it: sd_notify(3), sd_listen_fds(3).

Both are small and stable protocols of environment variables, one datagram socket and file descriptors
from 3 on. Outside systemd everything here does nothing.
"""

import os
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Final

import trio

FIRST_FD: Final = 3


class Notifier:
    """Tells the service manager how the daemon is."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Takes NOTIFY_SOCKET and the watchdog's time out of `environment`, so that no child has them."""
        self._address = environment.pop("NOTIFY_SOCKET", "")
        watchdog_us = environment.pop("WATCHDOG_USEC", "")
        watchdog_pid = environment.pop("WATCHDOG_PID", str(os.getpid()))
        mine = watchdog_pid == str(os.getpid()) and watchdog_us.isdigit()
        self.watchdog_s = int(watchdog_us) / 1e6 if mine else 0.0
        """Silence after which the manager kills the daemon, in seconds; 0 for no watchdog."""

    def ready(self, status: str) -> None:
        """Tell that the site has started, or has done with reloading."""
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        self._send(f"STATUS={status}")

    def reloading(self) -> None:
        """Must be followed by `ready`, also where the reload failed."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, status: str) -> None:
        self._send(f"STOPPING=1\nSTATUS={status}")

    async def watchdog(self, alive: Callable[[], Awaitable[object]]) -> None:
        """Send a sign of life at half the watchdog's time, each after `alive` has returned.

        `alive` goes the way that the work goes, so that a loop that is stuck is noticed.
        """
        while self.watchdog_s > 0:
            await alive()
            self._send("WATCHDOG=1")
            await trio.sleep(self.watchdog_s / 2)

    def _send(self, state: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            try:
                sender.connect(address)
                sender.send(state.encode())
            except OSError:
                # A manager that does not listen, or does not read what is there, must not stop the
                # daemon; without a sign of life it acts on its own.
                return


def passed_sockets(environment: MutableMapping[str, str]) -> dict[str, list[socket.socket]]:
    """The listening sockets of socket units, by FileDescriptorName; takes them out of `environment`."""
    pid = environment.pop("LISTEN_PID", "")
    count = environment.pop("LISTEN_FDS", "")
    names = environment.pop("LISTEN_FDNAMES", "").split(":")
    sockets: dict[str, list[socket.socket]] = {}
    if pid != str(os.getpid()) or not count.isdigit():
        return sockets
    for number in range(int(count)):
        descriptor = FIRST_FD + number
        os.set_inheritable(descriptor, False)
        name = names[number] if number < len(names) else ""
        sockets.setdefault(name, []).append(socket.socket(fileno=descriptor))
    return sockets
