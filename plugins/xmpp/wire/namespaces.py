"""The XML namespaces that this front end speaks, and the names of elements in them.

Elements are named in ElementTree's way, `{namespace}local`.
"""

from typing import Final

STREAM: Final = "http://etherx.jabber.org/streams"
COMPONENT: Final = "jabber:component:accept"
CLIENT: Final = "jabber:client"
XML: Final = "http://www.w3.org/XML/1998/namespace"
STANZA_ERRORS: Final = "urn:ietf:params:xml:ns:xmpp-stanzas"
STREAM_ERRORS: Final = "urn:ietf:params:xml:ns:xmpp-streams"

COMMANDS: Final = "http://jabber.org/protocol/commands"
DATA_FORM: Final = "jabber:x:data"
DELAY: Final = "urn:xmpp:delay"
DISCO_INFO: Final = "http://jabber.org/protocol/disco#info"
DISCO_ITEMS: Final = "http://jabber.org/protocol/disco#items"
EVENT_LOG: Final = "urn:xmpp:eventlog"
PING: Final = "urn:xmpp:ping"
PUBSUB: Final = "http://jabber.org/protocol/pubsub"
PUBSUB_ERRORS: Final = "http://jabber.org/protocol/pubsub#errors"
PUBSUB_EVENT: Final = "http://jabber.org/protocol/pubsub#event"
PUBSUB_OWNER: Final = "http://jabber.org/protocol/pubsub#owner"
QOS: Final = "urn:xmpp:qos"
QUEUEING: Final = "urn:xmpp:pubsub:queueing:0"
RESULT_SET: Final = "http://jabber.org/protocol/rsm"
SHIM: Final = "http://jabber.org/protocol/shim"
SMQP: Final = "urn:smqp:xmpp:0"
"""Our own: SMQP's headers and content that is not XML. Documented in README.md."""

ANNOTATIONS: Final = frozenset(
    {
        DELAY,
        "http://jabber.org/protocol/chatstates",
        "http://jabber.org/protocol/nick",
        "jabber:x:delay",
        "jabber:x:event",
        "urn:xmpp:carbons:2",
        "urn:xmpp:chat-markers:0",
        "urn:xmpp:hints",
        "urn:xmpp:receipts",
        "urn:xmpp:sid:0",
    }
)
"""What chat clients and servers say about a message, or in one of its own, and not with it.

Source: XEP-0022, 0085, 0091, 0172, 0184, 0203, 0280, 0333, 0334, 0359.
"""


def local_name(tag: str) -> str:
    """The name without its namespace."""
    return tag.rpartition("}")[2]


def namespace_of(tag: str) -> str:
    """The namespace alone; "" for none."""
    return tag[1:].rpartition("}")[0]
