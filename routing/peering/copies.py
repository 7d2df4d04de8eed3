"""What a site remembers of a copy that came from, or may go to, another site."""

from typing import Final

import msgspec

from routing.copy_events import is_for_others
from routing.link.units import TransferOutcome
from routing.message import DEPTH_UNLIMITED, DeliveryMode, Message
from routing.queue import Entry

FOREVER: Final = 10 * 366 * 86_400.0
"""Seconds for which the Smuid of a state message is remembered."""


UNKNOWN: Final = ""
"""Stands among the destinations of a copy for those that a damaged store does not tell: to be found anew."""


class PeerRules(msgspec.Struct, frozen=True, kw_only=True):
    """What may cross a link; patterns as in `routing.patterns`.

    Attributes:
        depth_max: a copy that may still go further is taken with this depth; -1 for no limit.
        flood: everything within depth goes there, wanted or not.
    """

    allow_in: tuple[str, ...] = ("#",)
    allow_out: tuple[str, ...] = ("#",)
    depth_max: int = DEPTH_UNLIMITED
    flood: bool = False


class Forward(msgspec.Struct):
    """A copy on its way to one peer.

    Attributes:
        depth: hops it may go from the peer on, as it was last sent; 0 where it went to destinations alone.
        query: what the peer is asked for the receipt; 0 for nothing.
        unacknowledged: transfers of it that the peer has not answered.
        attempts: transfers of it, answered or not.
        earlier: questions of unanswered transfers that one with more depth, or for others, has followed.
        earlier_for: the destinations that each of these was for; none for wherever it is wanted.
        settled: destinations of questions, of unanswered transfers, that have it as somebody has told.
        is_wide: the last question was for wherever it is wanted.
        asked_for: the destinations that it was for.
    """

    depth: int
    query: int = 0
    unacknowledged: int = 0
    attempts: int = 0
    earlier: list[int] = []
    earlier_for: list[tuple[str, ...]] = []
    settled: tuple[str, ...] = ()
    is_wide: bool = False
    asked_for: tuple[str, ...] = ()


class Answered(msgspec.Struct, frozen=True):
    """A peer's answer to a transfer; times in UTC microseconds.

    Attributes:
        sent_us, acknowledged_us: by this site's clock: the transfer left, its answer came.
        peer_received_us, peer_sent_us: by the peer's: the transfer came, its answer left.
    """

    outcome: TransferOutcome
    attempt: int = 0
    sent_us: int = 0
    peer_received_us: int = 0
    peer_sent_us: int = 0
    acknowledged_us: int = 0


class Open(msgspec.Struct, gc=False):
    """A destination of a copy of which this site does not know that it has one.

    Attributes:
        via: the peer that is to see to it; "" while there is no way.
        asked_by: peers that have asked this site to.
        asked: peers that this site has asked to, `via` the last.
        refused: of these, those that would not, or could not, and are not to be asked again yet.
        refusals: how often that has been so.
        waited: minutes for which `via` has left the copy unanswered, as far as they were looked at.
        is_late: no receipt waits for it: it has come to want the message later, or nobody asks for one.
        still_asked: the peer that was asked last whether it still sees to it, until it says that it holds no
            copy; nothing is known of that after a start.
        asked_again: of `asked_by`, those that have asked again since: their word that they ask no more may be
            older than that, as controls and copies overtake each other; not known after a start, either.
    """

    via: str = ""
    asked_by: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    refusals: int = 0
    waited: int = 0
    is_late: bool = False
    still_asked: str = ""
    asked_again: tuple[str, ...] = ()


class Copy(msgspec.Struct):
    """A message that crosses links.

    Attributes:
        depth: the greatest that this site has seen it with; -1 for no limit.
        hops: the servers that sent it on, before this one.
        source: the peer that it first came from; "" for one of our own.
        forwards: by peer.
        custody_to: mode ONE: the peer it is being handed to; "" while it is ours alone.
        denied_by: peers that would not have it, or hold it no more, and have not been offered it again yet;
            of mode ALL, those of copies with destinations.
        destinations: by site, those that this site is to see to and that are not known to have it.
        seen_to: all that it ever was to see to; None where the copy goes wherever it is wanted.
        uncounted: of these, those that nobody was asked to count for a receipt, as far as is known.
        sent_to: peers that were sent it for destinations with the depth that it has, and hold it once they
            have answered, with the `Topology.graph` of that time; nothing is known of that after a start.
        kept_back: by peer, the question of each transfer that has not gone, since its link is down or it is
            not its turn; 0 of one that asks nothing. Not of those of before a start.
        is_stale: more has arrived than is stored of it.
        reserved: bytes that are counted for its destinations, see `Crossing`.
    """

    entry: Entry
    smuid: str
    depth: int
    hops: tuple[str, ...]
    source: str
    forwards: dict[str, Forward] = {}
    custody_to: str = ""
    denied_by: set[str] = set()
    destinations: dict[str, Open] = {}
    seen_to: frozenset[str] | None = None
    uncounted: frozenset[str] = frozenset()
    sent_to: dict[str, int] = {}
    kept_back: dict[str, list[int]] = {}
    is_stale: bool = False
    reserved: int = 0

    def unanswered(self, peer: str) -> Forward | None:
        """What was sent to a peer that it has not answered yet; None where there is nothing."""
        forward = self.forwards.get(peer)
        return forward if forward is not None and forward.unacknowledged else None

    def via(self, peer: str) -> list[str]:
        """The destinations that a peer is to see to."""
        return [site for site, open in self.destinations.items() if open.via == peer]

    @property
    def is_passed_on(self) -> bool:
        """Whether this site is but one more source of it: peers have taken it for all to whom it is due.

        Others may still be to answer, too, whom it went to before.
        """
        if self.seen_to is None:
            return False
        destinations = self.destinations
        unanswered = {peer for peer, forward in self.forwards.items() if forward.unacknowledged}
        if is_for_others(self.entry, len(unanswered), len(destinations)):
            return False
        has_taken = self.forwards.keys() - self.denied_by - unanswered
        return all(not has_taken.isdisjoint(open.asked) for open in destinations.values())


class Seen(msgspec.Struct):
    """The memory of a Smuid, which outlives the copy.

    Attributes:
        entry_id: of the copy that it began here.
        depth: the greatest with which it was to go wherever it is wanted; 0 where it had destinations.
        custody: mode ONE: how many hands it had passed through when it was here last.
        until: site time at which no copy of it can be on its way any more.
        due, have: what was counted here for its receipt, once no more can have it here; 0 where nothing was.
    """

    entry_id: int
    depth: int
    custody: int
    until: float
    due: int = 0
    have: int = 0


class UnitId(msgspec.Struct, frozen=True):
    """Names what a peer has sent, for the acknowledgement: the number of the connection, and that in it."""

    connection: int
    number: int


class Arrival(msgspec.Struct, kw_only=True):
    """A copy as a peer sent it.

    Attributes:
        unit: None for an unguaranteed one, which is not acknowledged.
        attempt: of the peer, from 1.
        depth: hops that it may still go from here on.
        hops: the servers that sent it on, the peer last.
        timeout_left_s: None where none was stated.
        query: the peer's question for the receipt; 0 for none.
        earlier: its questions with transfers that this one repeats, and that may not have come.
        destinations: the sites that this one is to see to; none where it is to go wherever it is wanted.
    """

    peer: str
    unit: UnitId | None
    topic: str
    message: Message
    mode: DeliveryMode
    depth: int
    hops: tuple[str, ...]
    timeout_left_s: float | None
    query: int
    earlier: tuple[int, ...] = ()
    attempt: int = 1
    destinations: tuple[str, ...] = ()


def wider(a: int, b: int) -> bool:
    """Whether depth `a` reaches further than depth `b`."""
    return b != DEPTH_UNLIMITED and (a == DEPTH_UNLIMITED or a > b)


def onward(depth: int) -> int | None:
    """The depth that a copy of depth `depth` has at the next site; None if it may not go there."""
    if depth == DEPTH_UNLIMITED:
        return depth
    return depth - 1 if depth > 0 else None


def within(distance: int, depth: int) -> bool:
    """Whether a copy of that depth reaches a site at that distance."""
    return depth == DEPTH_UNLIMITED or distance <= depth


def capped(depth: int, depth_max: int) -> int:
    """A depth, as far as the rules of a link allow."""
    return depth_max if wider(depth, depth_max) else depth
