"""What comes by collections, for one JID: whether it is for it is decided for each node.

The broker asks the account's rights; what the owners of a node say, who know nothing of its collections, is
asked here. Of what was kept before the subscription began only the last item of each node is for it, as for
whoever subscribes to the node itself. Source: XEP-0248 5.3.1, XEP-0060 6.1.7.
"""

from typing import Final

from daemon.frontend import Delivered, Session
from plugins.xmpp.forms.node_record import read_record
from plugins.xmpp.known.access import Access
from plugins.xmpp.known.identities import bare_of
from plugins.xmpp.known.registry import NodeSubscription
from routing.errors import Refusal

NODES_MAX: Final = 10_000
"""Whose last item is remembered; it is asked for anew of others."""


def is_kept(delivered: Delivered) -> bool:
    """Whether it stays after its subscribers have it."""
    return delivered.expires_in_s is not None or delivered.ends_in_s == float("inf")


class Collecting:
    """Of one JID."""

    def __init__(self, jid: str, session: Session, access: Access) -> None:
        self._bare = bare_of(jid)
        self._session = session
        self._access = access

    def may_have(self, node: str) -> bool:
        """Whether the owners of a node let the JID have what comes to it."""
        record = read_record(self._session.annotation(node))
        return self._access.admission(self._bare, node, record) == "admitted"

    def is_for(self, delivered: Delivered, subscription: NodeSubscription) -> bool:
        """Whether the JID is to be told of an item that came by its subscription to a collection."""
        if delivered.received:
            # by urn:xmpp:qos: it has the item, and waits to be told to work on it
            return True
        if not self.may_have(delivered.topic):
            return False
        if not (delivered.late and is_kept(delivered)):
            return True
        options = read_record(self._session.annotation(delivered.topic)).options
        if options.send_last_published_item == "never":
            return False
        try:
            return delivered.message_id >= self._last_kept(delivered.topic, subscription.last_kept)
        except Refusal:  # its rights have just been withdrawn
            return False

    def _last_kept(self, node: str, known: dict[str, int]) -> int:
        """The number of the item that was its last one when this was asked for the first time."""
        last = known.get(node)
        if last is None:
            kept = self._session.kept(node, count=1, backwards=True)
            if len(known) >= NODES_MAX:
                known.clear()
            last = known[node] = kept[-1] if kept else 0
        return last
