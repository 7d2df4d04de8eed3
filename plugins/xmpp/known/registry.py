"""Who subscribes to which node, and also those that are not there at the moment.

A subscription is the broker's, durable, and named so that all that XMPP adds can be read from it again
after a restart:

    xmpp/<level of delivery>/<JID>              of this JID; a bare one is notified at its bare JID
    xmpp/<level of delivery>-bare/<full JID>    what this resource takes of its bare JID's subscription

To a queue a bare JID subscribes with each of its resources that asks: an item is locked by one of them. They
are told of, listed and ended as one subscription, that of the bare JID. Source: XEP-0060 6.1, 12.2.

A node whose name is a pattern is a collection; who subscribes to it is found by the nodes in it, too.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from daemon.frontend import Accepts, SubscribeOptions, SubscriptionInfo
from plugins.xmpp.known.identities import bare_of
from plugins.xmpp.known.transfers import LEVELS, QosLevel
from routing.patterns import PatternTree, is_pattern

NAME_PREFIX: Final = "xmpp/"
_OF_BARE: Final = "-bare"


def subid_of(node: str, subscriber: str) -> str:
    """The same for the same JID and node, after any restart."""
    return hashlib.sha256(f"{node}\0{subscriber}".encode()).hexdigest()[:40]


class NodeSubscription(msgspec.Struct):
    """One JID's subscription to one node, or to a collection.

    Attributes:
        of_bare: a full JID's part in the subscription of its bare JID.
        credit: queue_requests.
        lock_s: until an item that is not answered goes to the next; None for the site's own.
        history_to: the number of the message that was the node's last one when it began: those before it
            are not sent (XEP-0060 6.1.7), as far as this process remembers.
        last_kept: the same by node, of a collection, for nodes where it was asked for.
        attached: False while the JID is not there, and nothing is sent to it.
        detaching: how often the broker has been asked to detach it, and has not answered yet: what comes
            until then has been taken back already.
        leaving: unsubscribed, but still with items locked; it gets no new ones.
    """

    node: str
    jid: str
    accepts: Accepts
    credit: int
    level: QosLevel
    lock_s: float | None = None
    of_bare: bool = False
    history_to: int = 0
    last_kept: dict[str, int] = {}
    attached: bool = True
    detaching: int = 0
    leaving: bool = False

    @property
    def name(self) -> str:
        """Of the broker's subscription."""
        return f"{NAME_PREFIX}{self.level}{_OF_BARE if self.of_bare else ''}/{self.jid}"

    @property
    def subscriber(self) -> str:
        """The JID that subscribes, as everybody is told."""
        return bare_of(self.jid) if self.of_bare else self.jid

    @property
    def is_collection(self) -> bool:
        """Whether it is to many nodes."""
        return is_pattern(self.node)

    @property
    def is_queue(self) -> bool:
        """Whether its items are locked and have to be retracted."""
        return self.accepts != "ALL"

    @property
    def outlives_absence(self) -> bool:
        """Items of a queue go to others when their subscriber leaves, unless nobody else may have them."""
        return not self.is_queue or self.level == "assured"

    @property
    def subid(self) -> str:
        """See `subid_of`."""
        return subid_of(self.node, self.subscriber)

    @property
    def options(self) -> SubscribeOptions:
        """For the broker."""
        credit = 0 if self.leaving else self.credit
        return SubscribeOptions(
            credit=credit,
            accepts=self.accepts,
            durable=True,
            lock_s=self.lock_s,
            acknowledges_all=self.is_queue,
            tells_removals=not self.is_queue,
            name=self.name,
        )


def read_subscription(info: SubscriptionInfo) -> NodeSubscription | None:
    """A subscription of the broker's, as this front end once made it; None for another's."""
    level, slash, jid = info.name.removeprefix(NAME_PREFIX).partition("/")
    of_bare = level.endswith(_OF_BARE)
    for known in LEVELS:
        if level.removesuffix(_OF_BARE) == known and slash and jid:
            # without credit is one that was leaving
            return NodeSubscription(
                info.topic,
                jid,
                info.accepts,
                max(info.credit, 1),
                known,
                lock_s=info.lock_s,
                of_bare=of_bare,
                attached=False,
                leaving=not info.credit,
            )
    return None


class Registry:
    """All subscriptions.

    Attributes:
        absent: JIDs with subscriptions by which nothing is sent to them at the moment.
    """

    def __init__(self) -> None:
        self.absent: set[str] = set()
        self._by_jid: dict[str, dict[str, NodeSubscription]] = {}
        self._left_over: dict[str, list[NodeSubscription]] = {}
        self._pending: dict[str, set[tuple[str, str]]] = {}  # by bare JID, of nodes and JIDs
        self._by_bare: dict[str, set[str]] = {}
        self._by_node: dict[str, set[str]] = {}
        self._collections: PatternTree[str] = PatternTree()

    def add(self, subscription: NodeSubscription) -> None:
        """Remember one; what the JID had to the node, unless it was removed, is left over."""
        jid, node = subscription.jid, subscription.node
        replaced = self.find(jid, node)
        if replaced is not None and replaced.name != subscription.name:
            self._left_over.setdefault(jid, []).append(replaced)
        self._by_jid.setdefault(jid, {})[node] = subscription
        self._by_bare.setdefault(bare_of(jid), set()).add(jid)
        if is_pattern(node) and node not in self._by_node:
            self._collections.put(node, node)
        self._by_node.setdefault(node, set()).add(jid)
        if not subscription.attached:
            self.absent.add(jid)

    def take_left_over(self, jid: str) -> list[NodeSubscription]:
        """What the broker may still have of a JID though another has taken its place: to be ended there.

        So it is where the daemon ended between the two.
        """
        return self._left_over.pop(jid, [])

    def detached(self, subscription: NodeSubscription) -> None:
        """Note that nothing is sent by a subscription until its JID is `present`."""
        subscription.attached = False
        if self.knows(subscription):
            self.absent.add(subscription.jid)

    def present(self, jid: str) -> list[NodeSubscription]:
        """The JID is there: its subscriptions by which nothing was sent, and now something is."""
        self.absent.discard(jid)
        back = [each for each in self.of(jid) if not each.attached]
        for each in back:
            each.attached = True
        return back

    def remove(self, subscription: NodeSubscription) -> None:
        """Forget one, unless that is done, or another has taken its place."""
        if not self.knows(subscription):
            return
        jid, node = subscription.jid, subscription.node
        nodes = self._by_jid[jid]
        del nodes[node]
        jids = self._by_node[node]
        jids.discard(jid)
        if not jids:
            del self._by_node[node]
            if is_pattern(node):
                self._collections.discard(node)
        if not nodes:
            self.absent.discard(jid)
            del self._by_jid[jid]
            resources = self._by_bare[bare_of(jid)]
            resources.discard(jid)
            if not resources:
                del self._by_bare[bare_of(jid)]

    def find(self, jid: str, node: str) -> NodeSubscription | None:
        """The JID's subscription to the node."""
        return self._by_jid.get(jid, {}).get(node)

    def knows(self, subscription: NodeSubscription) -> bool:
        """Whether it is still there, and no other has taken its place."""
        return self.find(subscription.jid, subscription.node) is subscription

    def of_subscriber(self, jid: str, node: str) -> list[NodeSubscription]:
        """The subscription of a JID as it was written, which is several where it is a bare one to a queue."""
        if (own := self.find(jid, node)) is not None:
            return [own]
        return [each for each in self.of_bare_to(jid, node) if each.of_bare]

    def of(self, jid: str) -> list[NodeSubscription]:
        """All of a JID."""
        return list(self._by_jid.get(jid, {}).values())

    def of_bare(self, bare: str) -> list[NodeSubscription]:
        """All of a bare JID and of its resources."""
        return [each for jid in sorted(self._by_bare.get(bare, ())) for each in self.of(jid)]

    def of_bare_to(self, bare: str, node: str) -> list[NodeSubscription]:
        """Those to one node of a bare JID and of its resources."""
        jids = self._by_bare.get(bare, set()) & self._by_node.get(node, set())
        return [self._by_jid[jid][node] for jid in sorted(jids)]

    def count_of_bare(self, bare: str) -> int:
        """How many a bare JID and its resources have."""
        return sum(len(self._by_jid[jid]) for jid in self._by_bare.get(bare, ()))

    def of_node(self, node: str) -> list[NodeSubscription]:
        """All to a node."""
        return [self._by_jid[jid][node] for jid in sorted(self._by_node.get(node, ()))]

    def of_collections(self, node: str) -> list[NodeSubscription]:
        """All to the collections that a node is in."""
        return [each for name in self._collections.match(node) for each in self.of_node(name)]

    def add_pending(self, jid: str, node: str) -> None:
        """Note that a JID waits for the owners of a node; the node's record says what it asked for."""
        self._pending.setdefault(bare_of(jid), set()).add((node, jid))

    def remove_pending(self, jid: str, node: str) -> None:
        """Note that a request to subscribe is settled, or taken back."""
        waiting = self._pending.get(bare_of(jid), set())
        waiting.discard((node, jid))
        if not waiting:
            self._pending.pop(bare_of(jid), None)

    def waiting(self, bare: str, node: str) -> set[str]:
        """Of a bare JID and its resources, those that wait for the owners of a node."""
        return {jid for waits_at, jid in self._pending.get(bare, ()) if waits_at == node}

    def pending_of(self, bare: str) -> list[str]:
        """Nodes whose owners a bare JID, or a resource of it, may wait for: their records say who does."""
        return sorted({node for node, _ in self._pending.get(bare, ())})

    def pending(self) -> list[str]:
        """Nodes whose owners anybody may wait for."""
        return sorted({node for waiting in self._pending.values() for node, _ in waiting})

    def jids(self) -> Iterator[str]:
        """Every JID that subscribes to something."""
        return iter(list(self._by_jid))
