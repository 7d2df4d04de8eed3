"""Collections: a node whose name is a pattern holds all nodes whose names match. Source: XEP-0248.

It is there without being made, and nobody has it: what an owner does with a node, and what is done with its
items, is refused by name. Which of its nodes somebody sees is decided for each of them.
"""

from typing import Final
from xml.etree.ElementTree import Element

from slixmpp.plugins.xep_0030.stanza.info import DiscoInfo

from plugins.xmpp.forms.data_forms import META_DATA, result_form
from plugins.xmpp.forms.stanzas import StanzaError, unsupported
from plugins.xmpp.requests.request import AskingClient
from plugins.xmpp.wire.namespaces import DISCO_INFO, DISCO_ITEMS, PUBSUB, PUBSUB_OWNER, QUEUEING
from routing.patterns import is_pattern, is_pattern_of_topics

_PUBSUB: Final = f"{{{PUBSUB}}}"
_OWNER: Final = f"{{{PUBSUB_OWNER}}}"

_UNSUPPORTED: Final = {
    _PUBSUB + "publish": "publish",
    _PUBSUB + "retract": "delete-items",
    f"{{{QUEUEING}}}unlock": "delete-items",
    _PUBSUB + "items": "retrieve-items",
    _OWNER + "purge": "purge-nodes",
    _OWNER + "subscriptions": "manage-subscriptions",
    _OWNER + "affiliations": "modify-affiliations",
}
_NOT_ALLOWED: Final = {
    _PUBSUB + "create": "is there without being made",
    _OWNER + "configure": "has no configuration",
    _OWNER + "delete": "cannot be deleted",
}
_ASSOCIATE: Final = _OWNER + "collection"


def check(action: Element) -> None:
    """Check that the node that is named can be asked this. Raises StanzaError where no collection can."""
    node = action.get("node", "")
    if action.tag == _ASSOCIATE:
        text = "which nodes a collection holds is said by its name, and by theirs"
        raise StanzaError("feature-not-implemented", "cancel", text)
    if action.tag in _UNSUPPORTED:
        check_leaf(node, _UNSUPPORTED[action.tag])
    elif action.tag in _NOT_ALLOWED and _is_collection(node):
        raise StanzaError(
            "not-allowed", "cancel", f"{node} is a collection, which {_NOT_ALLOWED[action.tag]}"
        )


def check_leaf(node: str, feature: str) -> None:
    """Raises StanzaError for a collection, of which the feature is not to be had."""
    if _is_collection(node):
        raise unsupported(feature)


def _is_collection(node: str) -> bool:
    """What is no pattern is refused by its own error."""
    return is_pattern(node) and is_pattern_of_topics(node)


def check_there(client: AskingClient, collection: str) -> None:
    """Raises StanzaError where the asker may have no node of it."""
    if not client.session.may_follow(collection):
        raise StanzaError("item-not-found", "cancel", f"no node {collection}")


def described(client: AskingClient, collection: str) -> Element:
    """What is known of it. Raises StanzaError where the asker may have no node of it."""
    check_there(client, collection)
    answer = DiscoInfo()
    answer["node"] = collection
    answer.add_identity("pubsub", "collection")
    for feature in (DISCO_INFO, DISCO_ITEMS, PUBSUB):
        answer.add_feature(feature)
    known = {
        "pubsub#node_type": "collection",
        "pubsub#description": f"All nodes whose names match {collection}",
    }
    answer.xml.append(result_form(META_DATA, known))
    element: Element = answer.xml
    return element
