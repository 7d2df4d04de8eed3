"""A receipt: how many of the subscriptions that a message was due to have it. Source: SMQP RECEIPT."""

from typing import Final, Literal

import msgspec

from routing.peering.counts import SiteCounts
from routing.queue import ONE, Entry

COUNT_MAX: Final = 1_000_000_000
"""Subscriptions that one receipt counts, in all sites together: above those of any real federation."""


class Receipt(msgspec.Struct):
    """A receipt of which not all has been told yet.

    Attributes:
        due: Y of this site.
        have: X of this site.
        open: subscriptions of `due` that may still come to have it.
        parent: the peer that the message came from and that is told; "" where the publisher is here.
        query: the parent's number for what it asks; 0 while it has not asked.
        children: (Y, X) by the number of each of our own questions, as the peer last answered.
        waiting: those of them that are not answered for good.
        asked: sites that have been asked, see `routing.federation.counting`.
        sites: what they have said of themselves alone.
        told: what the parent was told last.
        stored: the store knows it by itself, not only by its message.
    """

    entry: Entry
    mode: Literal["ONE", "ALL"]
    publisher: str
    cmuid: str
    due: int
    have: int
    open: int
    parent: str = ""
    query: int = 0
    children: dict[int, tuple[int, int]] = {}
    waiting: set[int] = set()
    asked: set[str] = set()
    sites: dict[str, SiteCounts] = {}
    told: tuple[int, int] = (0, 0)
    stored: bool = False

    @property
    def is_unasked(self) -> bool:
        """The message came for others, or for those who came later; it may still be asked about."""
        return bool(self.parent) and not self.query

    @property
    def counts(self) -> tuple[int, int]:
        """(Y, X) of this site and all that it was sent on to; X is at most Y, and Y at most `COUNT_MAX`."""
        due = self.due + sum(due for due, _ in self.children.values())
        have = self.have + sum(have for _, have in self.children.values())
        if self.sites:
            due = max(due, self.due + sum(site.due for site in self.sites.values()))
            have = max(have, self.have + sum(site.have for site in self.sites.values()))
        due = min(due, 1 if self.entry.flags & ONE else COUNT_MAX)
        return due, min(have, due)

    @property
    def text(self) -> str:
        """`X/Y`, as the publisher is told."""
        due, have = self.counts
        return f"{have}/{due}"
