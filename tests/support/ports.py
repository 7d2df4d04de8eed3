"""Ports for servers of the tests.

None is among those that the system gives to outgoing connections: a dialler that tries again and again until
the server listens would sooner or later be given the server's own port, be connected to itself, and keep the
server from listening.

None is had twice, either: each process of tests has a block of ports for itself, and goes through it in turn.
A port that is drawn by chance is free, and its server listens a moment later: of thousands of servers some
would meet.
"""

import os
import random
import socket
from functools import cache
from pathlib import Path
from typing import Final

FIRST: Final = 10_240
BLOCK: Final = 250
"""More than one test has servers."""
_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class _Block:
    """Ports that no other process of tests takes, as long as this one holds the first of them."""

    def __init__(self) -> None:
        outgoing = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else 32_768
        firsts = list(range(FIRST, outgoing - BLOCK, BLOCK))
        random.shuffle(firsts)
        for first in firsts:
            if holder := _bound(first):
                self._holder = holder
                self._last = first
                self._ports = range(first + 1, first + BLOCK)
                return
        raise OSError(f"no {BLOCK} ports from {FIRST} to {outgoing} are left")

    def take(self) -> int:
        """The next one that is free."""
        for _ in self._ports:
            self._last = self._last + 1 if self._last + 1 in self._ports else self._ports[0]
            if free := _bound(self._last):
                free.close()
                return self._last
        raise OSError(f"none of the ports {self._ports[0]} to {self._ports[-1]} is free")


def _bound(port: int) -> socket.socket | None:
    """A socket that has the port of loopback, if no other has."""
    taken = socket.socket()
    try:
        taken.bind(("127.0.0.1", port))
    except OSError:
        taken.close()
        return None
    return taken


@cache
def _block_of(process: int) -> _Block:
    return _Block()


def free_port() -> int:
    """A port of loopback that nobody has."""
    return _block_of(os.getpid()).take()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has, each another one."""
    return [free_port() for _ in range(count)]
