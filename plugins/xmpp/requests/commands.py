"""Which commands there are: what disco tells of them. Source: XEP-0050 2.1 to 2.3."""

from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element

from slixmpp.jid import JID
from slixmpp.plugins.xep_0030.stanza.info import DiscoInfo
from slixmpp.plugins.xep_0030.stanza.items import DiscoItems

from plugins.xmpp.requests.authorizing import GET_PENDING
from plugins.xmpp.wire.namespaces import COMMANDS, DATA_FORM

_NAMES: Final[Mapping[str, str]] = {GET_PENDING: "Requests to subscribe that wait for you"}


def are_at(node: str) -> bool:
    """Whether a node of disco is about commands."""
    return node == COMMANDS or node in _NAMES


def described(node: str) -> Element:
    """What disco#info tells of the list of commands, or of one of them."""
    answer = DiscoInfo()
    answer["node"] = node
    if node == COMMANDS:
        answer.add_identity("automation", "command-list", name="Commands")
    else:
        answer.add_identity("automation", "command-node", name=_NAMES[node])
        answer.add_feature(COMMANDS)
        answer.add_feature(DATA_FORM)
    element: Element = answer.xml
    return element


def listed(node: str, service: str) -> Element:
    """What disco#items tells of the list of commands; one of them has nothing in it."""
    answer = DiscoItems()
    answer["node"] = node
    if node == COMMANDS:
        for command, name in _NAMES.items():
            answer.add_item(JID(service), node=command, name=name)
    element: Element = answer.xml
    return element
