"""Whose an item of a queue node is: the answers of XEP-0254 to a subscriber that retracts or unlocks one.

    the item does not exist                                          item-not-found
    it is with the asker                                             done
    it is with another; the asker subscribes, or had it before       conflict
    it is with nobody; the asker had it before                       unexpected-request
    else                                                             forbidden

The XEP lets `forbidden` and `conflict` overlap; this is the reading under which each has a case of its
own. An item's holder is asked before anything else, so that a subscriber that unsubscribed first can
still unlock what it has (XEP-0254 4). Who had an item before is remembered for a bounded number of items.
"""

from collections import OrderedDict
from typing import Final, Literal

import msgspec

FORMER_ITEMS_MAX: Final = 50_000
FORMER_HOLDERS_MAX: Final = 100
"""Of one item: it is a dead letter long before."""

RetractOutcome = Literal["held", "item-not-found", "conflict", "unexpected-request", "forbidden"]


class ItemHolder(msgspec.Struct, frozen=True):
    """An item that is with a subscriber.

    Attributes:
        number: of the delivery within the subscriber's session.
    """

    jid: str
    number: int


class ItemHolders:
    """Which full JID has which item of which node."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, str], list[ItemHolder]] = {}
        self._former: OrderedDict[tuple[str, str], set[str]] = OrderedDict()

    def assigned(self, node: str, item: str, holder: ItemHolder) -> None:
        """Note that an item has been given to a subscriber."""
        self._holders.setdefault((node, item), []).append(holder)

    def unlocked(self, node: str, item: str, holder: ItemHolder) -> None:
        """Note that an item is a subscriber's no longer, and lives on."""
        self._drop(node, item, holder)
        former = self._former.setdefault((node, item), set())
        if len(former) < FORMER_HOLDERS_MAX:
            former.add(holder.jid)
        self._former.move_to_end((node, item))
        if len(self._former) > FORMER_ITEMS_MAX:
            self._former.popitem(last=False)

    def finished(self, node: str, item: str, holder: ItemHolder) -> None:
        """Forget an item that is gone for good."""
        self._drop(node, item, holder)
        self._former.pop((node, item), None)

    def _drop(self, node: str, item: str, holder: ItemHolder) -> None:
        holders = self._holders.get((node, item), [])
        if holder in holders:
            holders.remove(holder)
        if not holders:
            self._holders.pop((node, item), None)

    def held_by(self, node: str, item: str, jid: str) -> ItemHolder | None:
        """The holder that is the asker's own, the oldest where two items have one id."""
        for holder in self._holders.get((node, item), ()):
            if holder.jid == jid:
                return holder
        return None

    def is_held(self, node: str, item: str) -> bool:
        """Whether any XMPP subscriber has it."""
        return (node, item) in self._holders

    def judge(
        self, node: str, item: str, jid: str, *, subscribed: bool, exists: bool, locked: bool
    ) -> RetractOutcome:
        """What is answered to `jid`; `exists` and `locked` (by anyone) as the broker sees the item."""
        if self.held_by(node, item, jid) is not None:
            return "held"
        locked = locked or self.is_held(node, item)
        if not exists and not locked:
            return "item-not-found"
        before = jid in self._former.get((node, item), ())
        if locked:
            return "conflict" if subscribed or before else "forbidden"
        return "unexpected-request" if before else "forbidden"
