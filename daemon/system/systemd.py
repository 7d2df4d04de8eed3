"""What systemd gives to a service and wants to hear from it: sd_notify(3), sd_listen_fds(3).

Both are small and stable protocols of environment variables, one datagram socket and file descriptors
from 3 on. Outside systemd everything here does nothing.
"""

import os
import socket
import stat
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Final

import trio

from daemon.system.outlasting import OutlastingMemory

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
        """Tell that a reload has begun; `ready` must follow, also where the reload failed."""
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

    def outlasting(self, name: str, kept: MutableMapping[str, list[int]]) -> OutlastingMemory | None:
        """The memory of this name that an earlier process of the service had, out of `kept`; else new memory.

        The manager keeps it as long as the service starts again by itself or by `systemctl restart`, where
        the unit says FileDescriptorStoreMax. None where there is no manager, or no memory to be had.
        """
        if not self._address:
            return None
        try:
            if found := kept.pop(name, None):
                return OutlastingMemory(found[0])
            memory = OutlastingMemory.create()
        except OSError:
            return None
        self._send(f"FDSTORE=1\nFDNAME={name}", [memory.descriptor])
        return memory

    def _send(self, state: str, descriptors: Sequence[int] = ()) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            try:
                sender.connect(address)
                socket.send_fds(sender, [state.encode()], descriptors)
            except OSError:
                # A manager that does not listen, or does not read what is there, must not stop the
                # daemon; without a sign of life it acts on its own.
                return


class Passed:
    """What the service manager passed on.

    Attributes:
        sockets: the listening sockets of socket units, by FileDescriptorName.
        kept: what an earlier process of the service gave it to keep, by name.
    """

    def __init__(self) -> None:
        self.sockets: dict[str, list[socket.socket]] = {}
        self.kept: dict[str, list[int]] = {}


def passed(environment: MutableMapping[str, str]) -> Passed:
    """What was passed on to this process; takes it out of `environment`."""
    pid = environment.pop("LISTEN_PID", "")
    count = environment.pop("LISTEN_FDS", "")
    names = environment.pop("LISTEN_FDNAMES", "").split(":")
    found = Passed()
    if pid != str(os.getpid()) or not count.isdigit():
        return found
    for number in range(int(count)):
        descriptor = FIRST_FD + number
        os.set_inheritable(descriptor, False)
        name = names[number] if number < len(names) else ""
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            found.sockets.setdefault(name, []).append(socket.socket(fileno=descriptor))
        else:
            found.kept.setdefault(name, []).append(descriptor)
    return found
