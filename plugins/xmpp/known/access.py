"""Who may do what with a node: what its owners say, and never more than the rights of the JID's account.

An affiliation is what both allow. Who is on no list has what the account's rights amount to; of a node whose
access model is `whitelist` those to publish and to administer it, but not to read it. XMPP's owners say
nothing about what comes by other protocols, which know the rights alone. Source: XEP-0060 4.1, 4.5.
"""

from collections.abc import Set
from typing import Final, Literal

from daemon.frontend import Right, Site
from plugins.xmpp.forms.node_record import Affiliation, NodeRecord
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.identities import AccountRules
from plugins.xmpp.known.registry import Registry

Admission = Literal["admitted", "to be asked", "not listed", "forbidden", "closed"]

_MAY: Final[dict[Affiliation, frozenset[Right]]] = {
    "owner": frozenset({"administer", "publish", "subscribe"}),
    "publisher": frozenset({"publish", "subscribe"}),
    "publish-only": frozenset({"publish"}),
    "member": frozenset({"subscribe"}),
    "none": frozenset(),
    "outcast": frozenset(),
}
_RIGHTS: Final[tuple[Right, ...]] = ("administer", "publish", "subscribe")


def amounts_to(rights: Set[Right]) -> Affiliation:
    """What rights amount to."""
    if "administer" in rights:
        return "owner"
    if "publish" in rights:
        return "publisher" if "subscribe" in rights else "publish-only"
    return "member" if "subscribe" in rights else "outcast"


class Access:
    """Of all nodes of the service."""

    def __init__(self, site: Site, rules: AccountRules, registry: Registry) -> None:
        self._site = site
        self._rules = rules
        self._registry = registry

    def subscribes(self, bare_jid: str, node: str) -> bool:
        """Whether a JID, or one of its resources, subscribes."""
        return any(not each.leaving for each in self._registry.of_bare_to(bare_jid, node))

    def affiliation(self, bare_jid: str, node: str, record: NodeRecord) -> Affiliation:
        """The affiliation of a bare JID, which may have no account."""
        permitted = self._permitted(bare_jid, node, record)
        if permitted:
            return amounts_to(permitted)
        blocked = record.affiliations.get(bare_jid) == "outcast" or not self._rights(bare_jid, node)
        return "outcast" if blocked else "none"

    def _rights(self, bare_jid: str, node: str) -> frozenset[Right]:
        account = self._rules.account_of(bare_jid)
        if account is None:
            return frozenset()
        return frozenset(right for right in _RIGHTS if self._site.allows(account, right, node))

    def _permitted(self, bare_jid: str, node: str, record: NodeRecord) -> frozenset[Right]:
        rights, listed = self._rights(bare_jid, node), record.affiliations.get(bare_jid)
        if listed is not None:
            return rights & _MAY[listed]
        if record.options.access_model == "whitelist" and "administer" not in rights:
            return rights - {"subscribe"}
        return rights

    def owners(self, node: str, record: NodeRecord) -> list[str]:
        """Bare JIDs that are told of what happens to a node: who made it, and who was made its owner."""
        known = {record.creator, *record.affiliations} - {""}
        return sorted(jid for jid in known if self.affiliation(jid, node, record) == "owner")

    def check_owner(self, bare_jid: str, node: str, record: NodeRecord) -> None:
        """Raises StanzaError."""
        if self.affiliation(bare_jid, node, record) != "owner":
            raise StanzaError("forbidden", "auth", f"{bare_jid} is no owner of {node}")

    def check_publisher(self, bare_jid: str, node: str, record: NodeRecord) -> None:
        """Raises StanzaError where a node's owners do not let a JID publish; rights are the broker's."""
        listed, model = record.affiliations.get(bare_jid), record.options.publish_model
        if listed is None:
            if model != "subscribers" or self.affiliation(bare_jid, node, record) == "owner":
                return
        elif "publish" in _MAY[listed] or (model == "open" and listed != "outcast"):
            return
        if model == "subscribers" and listed != "outcast" and self.subscribes(bare_jid, node):
            return
        raise StanzaError("forbidden", "auth", f"the owners of {node} do not let {bare_jid} publish")

    def may_receive(self, bare_jid: str, node: str, record: NodeRecord) -> bool:
        """Whether a JID that subscribes may go on."""
        return "subscribe" in self._permitted(bare_jid, node, record)

    def admission(self, bare_jid: str, node: str, record: NodeRecord) -> Admission:
        """Whether a JID may subscribe. Source: XEP-0060 6.1.3."""
        permitted = self._permitted(bare_jid, node, record)
        if "subscribe" not in permitted:
            if self.affiliation(bare_jid, node, record) == "outcast":
                return "forbidden"
            return "not listed" if record.options.access_model == "whitelist" else "closed"
        if "administer" in permitted:
            return "admitted"
        if not record.options.subscribe:
            return "closed"
        if record.options.access_model == "authorize" and bare_jid not in record.affiliations:
            return "to be asked"
        return "admitted"

    def check_may_subscribe(self, bare_jid: str, node: str, record: NodeRecord) -> Admission:
        """Whether it has to ask. Raises StanzaError where that is of no use. Source: XEP-0060 6.1.3."""
        admission = self.admission(bare_jid, node, record)
        text = f"{bare_jid} may not subscribe to {node}"
        if admission == "forbidden":
            raise StanzaError("forbidden", "auth", text)
        if admission in ("not listed", "closed"):
            raise StanzaError("not-allowed", "cancel", text, pubsub="closed-node")
        return admission

    def check_may_retrieve(self, bare_jid: str, node: str, record: NodeRecord) -> None:
        """Check that it may see what the node holds. Raises StanzaError. Source: XEP-0060 6.5.9."""
        if not self.may_receive(bare_jid, node, record):
            self.check_may_subscribe(bare_jid, node, record)
        elif self.admission(bare_jid, node, record) == "to be asked" and not self.subscribes(bare_jid, node):
            text = f"{node} is for those whom an owner has let subscribe"
            raise StanzaError("not-authorized", "auth", text, pubsub="not-subscribed")
