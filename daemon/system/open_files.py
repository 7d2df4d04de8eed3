"""How many files the process may have open, of which each connection is one."""

import resource
from typing import Final

OWN_FILES: Final = 256
"""Beside the connections of clients: the store, the hop log, links, commands, logs."""


def allow(connections_max: int) -> str | None:
    """Let the process have so many connections, as far as its user may; what to say where it may not.

    A shell lets a process have 1,024 files until it asks for more, of which it may have up to a hard limit.
    """
    wanted = connections_max + OWN_FILES
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now == resource.RLIM_INFINITY or now >= wanted:
        return None
    given = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (given, most))
    except (OSError, ValueError):  # a sandbox forbids it, or the system has a bound of its own
        given = now
    if given == wanted:
        return None
    return (
        f"connections_max is {connections_max}, but the limit of open files leaves room for"
        f" {max(given - OWN_FILES, 0)}: raise LimitNOFILE= of the unit, or `ulimit -n`, or lower"
        " connections_max"
    )
