"""What peers have not got yet, as `smqpd peers` shows it: also what waits on disk for a link that is down.

The links know only what has been given to them, a window at a time. What each peer has not acknowledged is
counted when somebody asks, in steps: a site may hold a million copies.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import trio

from daemon.operating.federation import LinkStatus
from routing.names import birth_ms
from routing.peering.copies import Copy
from routing.queue import GONE

COUNTED_AT_A_TIME: Final = 5_000
"""A few milliseconds."""


class _Unacknowledged(msgspec.Struct):
    """What one peer has not answered for; `born_ms`: of the copy that has been here for longest."""

    copies: int
    born_ms: int


async def with_unacknowledged(
    links: Callable[[], list[LinkStatus]], copies: Mapping[int, Copy], now_ms: int
) -> list[LinkStatus]:
    """The links with all that waits for them.

    `copies` as `routing.federation.forwarding` holds them; `now_ms` by the wall clock.
    """
    found = await _count(copies)
    return [_with(status, found.get(status.peer), now_ms) for status in links()]


async def _count(copies: Mapping[int, Copy]) -> dict[str, _Unacknowledged]:
    found: dict[str, _Unacknowledged] = {}
    for position, copy in enumerate(list(copies.values())):
        if position % COUNTED_AT_A_TIME == 0:
            await trio.lowlevel.checkpoint()
        for peer, forward in copy.forwards.items():
            if not forward.unacknowledged or copy.entry.flags & GONE:
                continue
            if (known := found.get(peer)) is not None:
                known.copies += 1
            else:
                found[peer] = _Unacknowledged(1, birth_ms(copy.smuid))
    return found


def _with(status: LinkStatus, unacknowledged: _Unacknowledged | None, now_ms: int) -> LinkStatus:
    if unacknowledged is None:
        return status
    return msgspec.structs.replace(
        status,
        messages=unacknowledged.copies,
        waiting=max(unacknowledged.copies - status.in_flight, status.waiting),
        lag_s=max((now_ms - unacknowledged.born_ms) / 1000, status.lag_s or 0.0),
    )
