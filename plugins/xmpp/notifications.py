"""What the service tells a subscriber. Source: XEP-0060 7.1.2, XEP-0254 2.2 to 2.4."""

from typing import Final
from xml.etree.ElementTree import Element, SubElement

from daemon.frontend import Delivered
from plugins.xmpp.namespaces import PUBSUB_EVENT, QUEUEING
from plugins.xmpp.payload import delay, write_item
from plugins.xmpp.stanzas import MESSAGE

_EVENT: Final = f"{{{PUBSUB_EVENT}}}event"
_ITEMS: Final = f"{{{PUBSUB_EVENT}}}items"
_NO_STORE: Final = "{urn:xmpp:hints}no-store"


def message(sender: str, jid: str, id: str) -> Element:
    """An empty notification. It has no type: a headline would be dropped in silence."""
    return Element(MESSAGE, {"from": sender, "to": jid, "id": id})


def published(sender: str, jid: str, delivered: Delivered, *, queue: bool) -> Element:
    """An item. The id ends in the number of the delivery, so that an error can be told whose it is."""
    content = delivered.stored.message
    stanza = message(sender, jid, f"i{delivered.message_id:x}.{delivered.number}")
    event = SubElement(stanza, _EVENT)
    items = SubElement(event, _ITEMS, {"node": delivered.topic})
    items.append(write_item(content, PUBSUB_EVENT, deliveries=delivered.attempt))
    if content.created:
        stanza.append(delay(content))
    if queue:
        # an item that waits in the server's offline storage is locked for nothing
        SubElement(stanza, _NO_STORE)
    return stanza


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


def about_node(what: str, node: str) -> Element:
    """`purge`, `delete` or another event of the whole node."""
    event = Element(_EVENT)
    SubElement(event, f"{{{PUBSUB_EVENT}}}{what}", {"node": node})
    return event
