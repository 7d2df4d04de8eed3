"""What this site says of itself, and how often: its links and what it wants, numbered and signed."""

import math
from collections.abc import Mapping
from typing import Final

from routing.federation.allowance import Allowance
from routing.federation.interest_peer import EVERYTHING
from routing.federation.own_leaves import OwnLeaves
from routing.federation.peer import Peer
from routing.numbers import NUMBER_MAX
from routing.peering.leaves import Hashes, NumberedBucket, bucket_of
from routing.peering.news import (
    ATTACHED,
    KnownNews,
    LinkNews,
    Notary,
    SignedNews,
    SiteNews,
    Version,
    write_statement,
)
from routing.peering.wants import Said, Want
from routing.state import SiteState

EVERY_S: Final = 3_600.0
"""Between two pieces of news of a site of which nothing changes."""

SPACING_S: Final = 2.0
"""Between two of one site, whatever changes: a link that comes and goes all the time costs no more."""

PIECE_BYTES: Final = 4_096
"""What is longer counts as several: who has a thousand links says less often that they have changed."""

WANTS_SPACING_S: Final = 0.05
WANTS_PER_S: Final = 0.25
WANTS_AT_ONCE: Final = 50.0
"""Pieces that are said of wants as they change, beside those of every `SPACING_S`."""

WANTS_BYTES_PER_S: Final = 2.0**15
WANTS_BYTES_AT_ONCE: Final = 2.0**21
"""Of the buckets in which wants have changed: a single one that comes or goes has its whole bucket told."""

NEVER: Final = -math.inf


class Saying:
    """Part of `Spreading`, which tells it.

    Attributes:
        due_at: site time at which `tick` has something to do; `inf` for none.
        hashes: of the buckets, as they were said.
    """

    def __init__(self, state: SiteState, peers: Mapping[str, Peer]) -> None:
        self.due_at = math.inf
        self.hashes: Hashes = {}
        self._told: Hashes = {}
        self._state = state
        self._peers = peers
        self._notary: Notary | None = None
        self._features: tuple[str, ...] = ()
        self._leaves = OwnLeaves()
        self._can_sign = True
        self._put_off: set[Said] = set()
        self._kept_back: frozenset[int] = frozenset()
        self._changed: set[Said] | None = set()
        self._said: SiteNews | None = None
        self._last: Version = (state.boot, 0)  # as far as it knows
        self._said_at = NEVER
        self._quiet_until = self._wants_quiet_until = self._bytes_quiet_until = NEVER
        self._allowance = Allowance(WANTS_PER_S, WANTS_AT_ONCE)
        self._bytes_allowance = Allowance(WANTS_BYTES_PER_S, WANTS_BYTES_AT_ONCE)
        self._is_stale = False  # it is to say its news anew, whether or not anything has changed

    # -- what changes -----------------------------------------------------------------------------

    def set_notary(self, notary: Notary, features: tuple[str, ...]) -> None:
        """Sign by this one; its certificate may be another one."""
        self._notary, self._features = notary, features
        self._can_sign, self._changed = True, None
        self._leaves.set_secret(notary.secret)
        self._is_stale = True
        self.note_links()

    def restore(self, said: SiteNews) -> None:
        """Go on after what this site said last, before a start."""
        self._said = said
        self._last = max(self._last, said.version)

    def pass_by(self, version: Version) -> None:
        """Have what is said next be later than this, which the site has said and does not know of."""
        self._last = max(self._last, version)
        self._is_stale = True
        self.note_links()

    def note_links(self) -> None:
        """Say soon which links this site has: one, or a peer, has come or gone, or has other rules."""
        self._look()

    def note_want(self, said: Said, wanted: bool) -> None:
        """Say soon whether this site wants something, or whether somebody is attached to what it wants."""
        self._leaves.set_want(said, wanted)
        self._look()

    def _look(self) -> None:
        """Find out at once when it can be said."""
        if self._notary is not None:
            self.due_at = NEVER
            self._state.wake_at = min(self._state.wake_at, self.due_at)

    def says(self, want: Want) -> bool:
        """Whether news says, or is to say in a moment, that this site wants something, which it does."""
        if not self.is_heard or want in self._put_off:
            return False
        return want[0] == "SERVER" or bucket_of(want[1]) not in self._kept_back

    @property
    def is_heard(self) -> bool:
        """Whether there is news of this site, or is to be in a moment."""
        return self._notary is not None and self._can_sign

    @property
    def tells_attached(self) -> bool:
        """Whether news says to what somebody is attached."""
        return self.is_heard and ATTACHED in self._features

    def still_says(self, topic: str) -> bool:
        """Whether news says that this site takes messages of mode ONE of a topic by what is not so any more.

        It does not want it, or nobody is attached to what wants it.
        """
        return self._leaves.is_gone(topic)

    def take_changed(self) -> set[Said] | None:
        """The wants of which `says` has another answer than when this was asked before; None for all."""
        changed, self._changed = self._changed, set()
        return changed

    # -- what is said -----------------------------------------------------------------------------

    def bucket(self, index: int) -> NumberedBucket:
        """One of the leaves that were said last."""
        return self._leaves.bucket(index)

    def tick(self, now: float) -> KnownNews | None:
        """What is due to be said; None if nothing is."""
        if now < self.due_at:
            return None
        self.due_at = now + EVERY_S
        if self._notary is None or not any(peer.up for peer in self._peers.values()):
            return None  # the first link that comes up makes it due again
        links = tuple(link_news(peer) for _, peer in sorted(self._peers.items()))
        self._leaves.set_rules({name: peer.rules for name, peer in self._peers.items()})
        due_at = NEVER
        if self._said is not None and not self._is_stale:
            due_at = self._said_at + EVERY_S
            if self._said.links != links or self._leaves.has_new_rules:
                due_at = min(due_at, self._quiet_until)
            if self._leaves.is_changed:
                due_at = min(due_at, self._wants_quiet_until)
        news = None
        if due_at > now:
            self.due_at = due_at
        else:
            news = self._say(now, self._notary, links)
            if self._leaves.is_changed:
                self.due_at = min(self.due_at, self._wants_quiet_until)
        self._put_off_unsealed()
        return news

    def _put_off_unsealed(self) -> None:
        before, self._put_off = self._put_off, set(self._leaves.unsealed)
        kept_back, self._kept_back = self._kept_back, self._leaves.kept_back
        if self._changed is not None:
            self._changed |= before ^ self._put_off
            for index in kept_back ^ self._kept_back:
                self._changed.update(self._leaves.wants_in(index))

    def _say(self, now: float, notary: Notary, links: tuple[LinkNews, ...]) -> KnownNews | None:
        is_sealed = self._is_stale or self._leaves.has_new_rules or now >= self._bytes_quiet_until
        self._said_at, self._is_stale = now, False
        boot, number = self._last
        number = max(number + 1, int(now * 1_000))
        if number > NUMBER_MAX:
            boot, number = boot + 1, 1
        if boot > NUMBER_MAX:  # whoever had its key has said the last that can be said
            return None
        self._last = boot, number
        if is_sealed and self._changed is not None:
            self._changed |= self._leaves.gone
        digest = self._leaves.seal() if is_sealed or self._said is None else self._said.wants
        statement = SiteNews(self._state.server, boot, number, links, digest, self._features)
        signed = notary.sign(write_statement(statement))
        if (signed is not None) != self._can_sign:
            self._can_sign, self._changed = signed is not None, None
        if signed is None:
            return None
        self._said = statement
        self.hashes = self._leaves.hashes
        owed_s = self._bytes_allowance.spend(now, self._bytes_changed())
        self._bytes_quiet_until = now + owed_s
        count = pieces(signed)
        self._quiet_until = now + SPACING_S * count
        may_go_on = self._allowance.take(now, count)
        spaced = now + WANTS_SPACING_S if may_go_on else self._quiet_until
        self._wants_quiet_until = max(spaced, self._bytes_quiet_until)
        return KnownNews(statement, signed, now, "")

    def _bytes_changed(self) -> int:
        """Of the buckets that are told now and were not, or were others."""
        before = self._told
        sizes = {index: len(self.bucket(index).data) for index in self.hashes}
        self._told = {index: self.hashes[index] for index, size in sizes.items() if size}
        return sum(sizes[index] for index, hash in self._told.items() if before.get(index) != hash)


def pieces(signed: SignedNews) -> float:
    """The number of pieces as which news counts."""
    return max(signed.size / PIECE_BYTES, 1.0)


def link_news(peer: Peer) -> LinkNews:
    """What this site says of its link with a peer."""
    rules = peer.rules
    return LinkNews(
        peer.name,
        peer.up,
        rules.depth_max,
        rules.flood,
        limits_in=rules.allow_in != EVERYTHING,
        limits_out=rules.allow_out != EVERYTHING,
    )
