"""How many files the process may have open, of which each connection is one."""

import resource
from typing import Final

OWN_FILES: Final = 256
"""Beside the connections of clients: the store, the hop log, links, commands, logs."""


def allow(connections_max: int) -> int | None:
    """Let the process have so many connections, as far as its user may; how many those are where it may not.

    A shell lets a process have 1,024 files until it asks for more, of which it may have up to a hard limit.
    """
    wanted = connections_max + OWN_FILES
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now == resource.RLIM_INFINITY or now >= wanted:
        return None
    given = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (given, most))
    return None if given == wanted else max(given - OWN_FILES, 0)
