"""Ports for servers of the tests.

None is among those that the system gives to outgoing connections: a dialler that tries again and again until
the server listens would sooner or later be given the server's own port, be connected to itself, and keep the
server from listening.
"""

import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

FIRST: Final = 10_240
_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that were free a moment ago, each another one."""
    with ExitStack() as stack:
        taken = [stack.enter_context(_listener()) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in taken]


def free_port() -> int:
    """A port of loopback that was free a moment ago."""
    return free_ports(1)[0]


def _listener() -> socket.socket:
    outgoing = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else 32_768
    while True:
        try:
            return socket.create_server(("127.0.0.1", random.randrange(FIRST, outgoing)))
        except OSError:
            continue
