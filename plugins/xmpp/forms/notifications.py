"""What the service tells a subscriber. Source: XEP-0060 7.1.2, XEP-0254 2.2 to 2.4, XEP-0248 5.3."""

from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element, SubElement

import msgspec

from daemon.frontend import Delivered
from plugins.xmpp.forms.data_forms import NODE_CONFIG, result_form
from plugins.xmpp.forms.payload import delay_text, headers_text, item_start, item_text
from plugins.xmpp.forms.stanzas import MESSAGE, address_text
from plugins.xmpp.wire.namespaces import PUBSUB_EVENT, QUEUEING, SHIM, SMQP
from plugins.xmpp.wire.serializer import escape_attribute, escape_text

_EVENT: Final = f"{{{PUBSUB_EVENT}}}event"
_ITEMS: Final = f"{{{PUBSUB_EVENT}}}items"
_NO_STORE: Final = "<no-store xmlns='urn:xmpp:hints'/>"
_COLLECTION: Final = "Collection"
_HEADERS_BEGIN: Final = f"<headers xmlns='{SHIM}'>"


def message(sender: str, jid: str, id: str) -> Element:
    """An empty notification. It has no type: a headline would be dropped in silence."""
    return Element(MESSAGE, {"from": sender, "to": jid, "id": id})


class _Shared(msgspec.Struct):
    """What `StoredMessage.shared` holds once this front end has written the message.

    Attributes:
        publisher: the JID that it names; its node may have been told otherwise since.
        payload: whether the item has its own; likewise.
        headers: between the others; "" for none.
    """

    publisher: str
    payload: bool
    event: str
    headers: str
    rest: str


def content(delivered: Delivered, publisher: str = "", *, queue: bool, payload: bool = True) -> str:
    """What the notification of an item contains; written once for all subscribers. Raises UnsendableError.

    Args:
        publisher: the JID to name; "" for none.
        payload: whether the item has its own, or only its id.
    """
    stored = delivered.stored
    written = stored.shared
    if (
        delivered.attempt > 1
        or not isinstance(written, _Shared)
        or (written.publisher, written.payload) != (publisher, payload)
    ):
        written = _content(delivered, publisher, payload=payload)
        if delivered.attempt == 1:
            stored.shared = written
    headers = written.headers
    if delivered.pattern:
        collection = f"<header name='{_COLLECTION}'>{escape_text(delivered.pattern)}</header>"
        headers = f"{_HEADERS_BEGIN}{collection}{headers.removeprefix(_HEADERS_BEGIN) or '</headers>'}"
    # an item that waits in the server's offline storage is locked for nothing
    return f"{written.event}{headers}{written.rest}{_NO_STORE if queue else ''}"


def _content(delivered: Delivered, publisher: str, *, payload: bool) -> _Shared:
    message = delivered.stored.message
    if payload:
        item = item_text(message, PUBSUB_EVENT, publisher)
    else:
        item = f"{item_start(message, publisher)}</item>"
    node = escape_attribute(delivered.topic)
    created = delay_text(message) if message.created else ""
    again = f"<delivery xmlns='{SMQP}' count='{delivered.attempt}'/>" if delivered.attempt > 1 else ""
    event = f"<event xmlns='{PUBSUB_EVENT}'><items node='{node}'>{item}</items></event>"
    return _Shared(publisher, payload, event, headers_text(message), f"{again}{created}")


def published(sender: str, jid: str, delivered: Delivered, content: str, kind: str) -> str:
    """An item. The id ends in the number of the delivery, so that an error can be told whose it is."""
    id = f"i{delivered.message_id:x}.{delivered.number}"
    kind_text = "" if kind == "normal" else f" type='{kind}'"
    return f"<message{address_text(sender, jid, id)}{kind_text}>{content}</message>"


def delivery_number(id: str) -> int | None:
    """The number in an id that `published` made; None for any other."""
    head, dot, number = id.rpartition(".")
    return int(number) if head[:1] == "i" and dot and number.isdecimal() and len(number) < 20 else None


def by_collection(collection: str) -> Element:
    """The header of a notification that came by a collection. Source: XEP-0248 5.3.1."""
    headers = Element(f"{{{SHIM}}}headers")
    SubElement(headers, f"{{{SHIM}}}header", {"name": _COLLECTION}).text = collection
    return headers


def retracted(node: str, item: str) -> Element:
    """The notification that an item is gone for good."""
    event = Element(_EVENT)
    SubElement(SubElement(event, _ITEMS, {"node": node}), f"{{{PUBSUB_EVENT}}}retract", {"id": item})
    return event


def unlocked(node: str, item: str) -> Element:
    """The notification that an item is no longer the subscriber's."""
    event = Element(_EVENT)
    SubElement(SubElement(event, _ITEMS, {"node": node}), f"{{{QUEUEING}}}unlock", {"id": item})
    return event


def unsubscribed(node: str, jid: str) -> Element:
    """The notification that a subscription was ended by somebody else than its subscriber."""
    return subscription(node, jid, "none")


def subscription(node: str, jid: str, state: str) -> Element:
    """The notification that a JID subscribes, or does no longer."""
    event = Element(_EVENT)
    attributes = {"node": node, "jid": jid, "subscription": state}
    SubElement(event, f"{{{PUBSUB_EVENT}}}subscription", attributes)
    return event


def configured(node: str, values: Mapping[str, str] | None) -> Element:
    """The notification of another configuration, without it for None. Source: XEP-0060 8.2.5."""
    event = Element(_EVENT)
    configuration = SubElement(event, f"{{{PUBSUB_EVENT}}}configuration", {"node": node})
    if values is not None:
        configuration.append(result_form(NODE_CONFIG, values))
    return event


def about_node(what: str, node: str) -> Element:
    """`purge`, `delete` or another event of the whole node."""
    event = Element(_EVENT)
    SubElement(event, f"{{{PUBSUB_EVENT}}}{what}", {"node": node})
    return event
