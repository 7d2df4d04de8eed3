"""A site at a glance."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from routing.traffic import Traffic


@dataclass(slots=True, init=False)
class Totals(Traffic):
    """Since the start of the site; see `routing.traffic.Traffic`."""


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """Something to see to.

    Attributes:
        level: `error` where something does not work, or is not as its files say.
        about: what it is about, in a word, such as `links`.
    """

    level: Literal["error", "warning"]
    about: str
    text: str


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The whole site.

    Attributes:
        started_at: Unix time, seconds.
        up_s: seconds since then.
        listening: `smqp 127.0.0.1:7720` each.
        sessions: that are logged in; connections also before that.
        topics: without system topics.
        held: all messages, with a guarantee or without; `held_guaranteed` are those with one, and the others
            are in memory alone; `held_bytes` are of the bodies of all.
        unguaranteed_bytes: in memory, of messages that are never on disk.
        unfinished_bytes: in memory, of what is no message yet.
        dead_letters: held on dead-letter topics.
        in_per_s, out_per_s: messages, lately.
        memory_bytes: of the process; 0 where it cannot be known.
        store_bytes: of the database; `disk_free_bytes` where it is.
        store_failed: why the last transaction failed; "" where it did not.
        links, links_up: peers, and those that there is a link with.
        errors: of smqpd's own since the start; the log has them.
        damaged: rows of the store that could not be read since the start, or not all of them; likewise.
        warnings: the gravest first.
    """

    server: str
    version: str
    started_at: float
    up_s: float
    draining: bool
    listening: tuple[str, ...]
    connections: int
    sessions: int
    topics: int
    subscriptions: int
    held: int
    held_guaranteed: int
    held_bytes: int
    unguaranteed_bytes: int
    unfinished_bytes: int
    dead_letters: int
    in_per_s: float
    out_per_s: float
    totals: Totals
    memory_bytes: int
    store_bytes: int
    disk_free_bytes: int
    disk_full: bool
    store_failed: str
    links: int
    links_up: int
    errors: int
    damaged: int
    warnings: tuple[Warned, ...]
