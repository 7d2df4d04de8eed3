"""The copies that are held here and may cross links: by id, by topic, and how many came from whom.

What a copy remembers of each open destination counts as bytes of its topic, and of what its peer has sent.
One that peers have taken for all who are still to have it (`Copy.is_passed_on`) counts on no account any
more, as where it had ended. In its topic, and for its peer, so many do not count as would fill a topic.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from routing.names import parse_smuid
from routing.patterns import TopicTree
from routing.peering.copies import Copy, Open
from routing.queue import CROSSES, PASSED_ON, PASSING, Entry

DESTINATION_BYTES: Final = 256
"""Of an open destination, in memory and in the store, about."""


class Held(msgspec.Struct):
    """Copies with something in common."""

    messages: int = 0
    bytes: int = 0
    passed_on_messages: int = 0
    passed_on_bytes: int = 0

    def note(self, copy: Copy, change: int) -> None:
        """Count what `Crossing.weigh` has found of a copy, or, with -1, do so no more."""
        self.bytes += change * copy.reserved
        if copy.entry.flags & PASSED_ON:
            self.passed_on_messages += change
            self.passed_on_bytes += change * (copy.entry.size + copy.reserved)

    def counted(self, messages_max: int, bytes_max: int) -> tuple[int, int]:
        """Messages and bytes, less those that are passed on, which may be so many besides."""
        return (
            self.messages - min(self.passed_on_messages, messages_max),
            self.bytes - min(self.passed_on_bytes, bytes_max),
        )


class Crossing:
    """Part of `SiteState`, so that a copy that ends is forgotten here too.

    Attributes:
        by_id: by entry id.
        by_topic: the same by topic, for interest that comes later.
        topics: those that have any, for interest in patterns.
        destined: by entry id, those that have destinations, or had.
        besides: by topic, of copies with open destinations, or that are passed on, what counts besides
            messages and their bodies.
        leaving: by Smuid, ids of the copies of mode ONE that are being handed over: more than one where the
            message has come back before the peer has answered.
        followed: by topic and destination, the copy of those which are open that a peer was asked last to
            see to: what comes after it is to go the same way, while that is as short as any.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Copy] = {}
        self.by_topic: dict[str, dict[int, Copy]] = {}
        self.topics = TopicTree()
        self.destined: dict[int, Copy] = {}
        self._held_from: dict[tuple[str, str], Held] = {}
        self.besides: dict[str, Held] = {}
        self.leaving: dict[str, list[int]] = {}
        self.followed: dict[str, dict[str, Copy]] = {}

    def begin(self, copy: Copy) -> None:
        """Enter a copy that may cross links and is held."""
        entry = copy.entry
        entry.flags |= CROSSES
        self.by_id[entry.id] = copy
        of_topic = self.by_topic.get(entry.topic.name)
        if of_topic is None:
            of_topic = self.by_topic[entry.topic.name] = {}
            self.topics.add(entry.topic.name)
        of_topic[entry.id] = copy
        if copy.source:
            held = self._held_from.setdefault((copy.source, entry.topic.name), Held())
            held.messages += 1
            held.bytes += entry.size

    def forget(self, entry: Entry) -> None:
        """Forget a copy that is no longer held; one that crosses no links changes nothing."""
        copy = self.by_id.pop(entry.id, None)
        if copy is None:
            return
        if copy.custody_to:
            self.stay(copy)
        if self.destined.pop(entry.id, None) is not None:
            self._note(copy, -1)
            entry.flags &= ~PASSED_ON
            for site in copy.destinations:
                self._follow_no_more(copy, site)
        of_topic = self.by_topic[entry.topic.name]
        del of_topic[entry.id]
        if not of_topic:
            del self.by_topic[entry.topic.name]
            self.topics.discard(entry.topic.name)
        if copy.source:
            held = self._held_from[copy.source, entry.topic.name]
            held.messages -= 1
            held.bytes -= entry.size
            if not held.messages:
                del self._held_from[copy.source, entry.topic.name]

    def leave(self, copy: Copy, peer: str) -> None:
        """Note that a copy of mode ONE is being handed to a peer."""
        copy.custody_to = peer
        self.leaving.setdefault(copy.smuid, []).append(copy.entry.id)

    def stay(self, copy: Copy) -> None:
        """Note that it is so no more: the peer has answered, or the copy has ended otherwise."""
        copy.custody_to = ""
        ids = self.leaving[copy.smuid]
        ids.remove(copy.entry.id)
        if not ids:
            del self.leaving[copy.smuid]

    def is_leaving_to(self, smuid: str, peer: str) -> bool:
        """Whether a message is being handed to a peer, as a copy that may have been here before."""
        return any(self.by_id[id].custody_to == peer for id in self.leaving.get(smuid, ()))

    def follow(self, copy: Copy, site: str, *, in_turn: bool) -> None:
        """Let what comes after this copy follow it to a destination that a peer sees to.

        `in_turn`: so do others that came before it, else it may be one among many.
        """
        followed = self.followed.setdefault(copy.entry.topic.name, {})
        last = followed.get(site)
        if last is None or in_turn or last.entry.id <= copy.entry.id:
            followed[site] = copy

    def followed_by(self, topic: str, sites: Iterable[str], besides: Copy) -> dict[str, str]:
        """The peers that see to the last copy of a topic, by destination, if one does, but for `besides`."""
        followed = self.followed.get(topic)
        if not followed:
            return {}
        found = {}
        for site in sites:
            last = followed.get(site)
            if last is not None and last is not besides and (via := last.destinations[site].via):
                found[site] = via
        return found

    def settle(self, copy: Copy, site: str) -> Open | None:
        """See to a destination of a copy no more; returns it if it was open."""
        open = copy.destinations.pop(site, None)
        if open is not None:
            self._follow_no_more(copy, site)
        return open

    def _follow_no_more(self, copy: Copy, site: str) -> None:
        topic = copy.entry.topic.name
        followed = self.followed.get(topic)
        if followed is not None and followed.get(site) is copy:
            del followed[site]
            if not followed:
                del self.followed[topic]

    def weigh(self, entry: Entry) -> None:
        """Count what a copy takes: to be called when its destinations have changed, or to whom it is due."""
        copy = self.destined.get(entry.id)
        if copy is None:
            return
        reserved = DESTINATION_BYTES * len(copy.destinations)
        is_passed_on = copy.is_passed_on
        if reserved == copy.reserved and is_passed_on == bool(entry.flags & PASSED_ON):
            return
        self._note(copy, -1)
        copy.reserved = reserved
        entry.flags = entry.flags | PASSED_ON if is_passed_on else entry.flags & ~PASSED_ON
        self._note(copy, 1)

    def _note(self, copy: Copy, change: int) -> None:
        entry = copy.entry
        if not copy.reserved and not entry.flags & PASSED_ON:
            return
        besides = self.besides.setdefault(entry.topic.name, Held())
        besides.note(copy, change)
        if not besides.bytes and not besides.passed_on_messages:
            del self.besides[entry.topic.name]
        if copy.source:
            self._held_from[copy.source, entry.topic.name].note(copy, change)
        if (share := entry.share) is not None and entry.flags & PASSED_ON:
            share.messages -= change
            share.bytes -= change * entry.size

    def held_from(self, peer: str, topic: str, messages_max: int, bytes_max: int) -> tuple[int, int]:
        """Messages and bytes of a topic that count for the peer that they first came from.

        The bounds are those of its topic.
        """
        held = self._held_from.get((peer, topic))
        return held.counted(messages_max, bytes_max) if held is not None else (0, 0)


def in_order(copies: list[Copy]) -> list[Copy]:
    """Those of one site in the order in which they began there: some may have ended here, and come again."""
    if not any(copy.entry.flags & PASSING for copy in copies):
        return copies
    parts = [parse_smuid(copy.smuid) for copy in copies]
    by_server: dict[str, list[tuple[int, int, int]]] = {}
    for position, part in enumerate(parts):
        by_server.setdefault(part.server, []).append((part.boot, part.counter, position))
    ordered = {server: iter(sorted(found)) for server, found in by_server.items()}
    return [copies[next(ordered[part.server])[2]] for part in parts]
