"""What the service tells a subscriber. Source: XEP-0060 7.1.2, XEP-0254 2.2 to 2.4."""

from typing import Final
from xml.etree.ElementTree import Element, SubElement

import msgspec

from daemon.frontend import Delivered
from plugins.xmpp.forms.payload import delay_text, item_text
from plugins.xmpp.forms.stanzas import MESSAGE, address_text
from plugins.xmpp.wire.namespaces import PUBSUB_EVENT, QUEUEING
from plugins.xmpp.wire.serializer import escape_attribute

_EVENT: Final = f"{{{PUBSUB_EVENT}}}event"
_ITEMS: Final = f"{{{PUBSUB_EVENT}}}items"
_NO_STORE: Final = "<no-store xmlns='urn:xmpp:hints'/>"


def message(sender: str, jid: str, id: str) -> Element:
    """An empty notification. It has no type: a headline would be dropped in silence."""
    return Element(MESSAGE, {"from": sender, "to": jid, "id": id})


class _Shared(msgspec.Struct):
    """What `StoredMessage.shared` holds once this front end has written the message."""

    text: str


def content(delivered: Delivered, *, queue: bool) -> str:
    """What the notification of an item contains; written once for all subscribers. Raises UnsendableError."""
    stored = delivered.stored
    if delivered.attempt > 1:
        text = _content(delivered)
    elif isinstance(stored.shared, _Shared):
        text = stored.shared.text
    else:
        text = _content(delivered)
        stored.shared = _Shared(text)
    # an item that waits in the server's offline storage is locked for nothing
    return text + _NO_STORE if queue else text


def _content(delivered: Delivered) -> str:
    message = delivered.stored.message
    item = item_text(message, PUBSUB_EVENT, deliveries=delivered.attempt)
    node = escape_attribute(delivered.topic)
    created = delay_text(message) if message.created else ""
    return f"<event xmlns='{PUBSUB_EVENT}'><items node='{node}'>{item}</items></event>{created}"


def published(sender: str, jid: str, delivered: Delivered, content: str) -> str:
    """An item. The id ends in the number of the delivery, so that an error can be told whose it is."""
    id = f"i{delivered.message_id:x}.{delivered.number}"
    return f"<message{address_text(sender, jid, id)}>{content}</message>"


def delivery_number(id: str) -> int | None:
    """The number in an id that `published` made; None for any other."""
    head, dot, number = id.rpartition(".")
    return int(number) if head[:1] == "i" and dot and number.isdecimal() and len(number) < 20 else None


def retracted(node: str, item: str) -> Element:
    """An item is gone for good."""
    event = Element(_EVENT)
    SubElement(SubElement(event, _ITEMS, {"node": node}), f"{{{PUBSUB_EVENT}}}retract", {"id": item})
    return event


def unlocked(node: str, item: str) -> Element:
    """An item is no longer the subscriber's."""
    event = Element(_EVENT)
    SubElement(SubElement(event, _ITEMS, {"node": node}), f"{{{QUEUEING}}}unlock", {"id": item})
    return event


def unsubscribed(node: str, jid: str) -> Element:
    """A subscription was ended by somebody else than its subscriber."""
    event = Element(_EVENT)
    attributes = {"node": node, "jid": jid, "subscription": "none"}
    SubElement(event, f"{{{PUBSUB_EVENT}}}subscription", attributes)
    return event


def about_node(what: str, node: str) -> Element:
    """`purge`, `delete` or another event of the whole node."""
    event = Element(_EVENT)
    SubElement(event, f"{{{PUBSUB_EVENT}}}{what}", {"node": node})
    return event
