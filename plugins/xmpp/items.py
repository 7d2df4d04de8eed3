"""What a node holds, a page at a time. Source: XEP-0060 6.5, XEP-0059.

Shown are items that wait for a subscriber and items that are kept for later ones. Those that are locked
are shown to their holder only: nobody else can do anything with them. Looking locks nothing.
"""

from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement

import msgspec

from plugins.xmpp.client import Client
from plugins.xmpp.namespaces import PUBSUB, RESULT_SET
from plugins.xmpp.payload import item_id, item_text
from plugins.xmpp.publishing import node_of
from plugins.xmpp.serializer import UnsendableError, escape_attribute, serialize
from plugins.xmpp.stanzas import StanzaError, result_text, unsupported

if TYPE_CHECKING:
    from plugins.xmpp.service import Service

PAGE_MAX: Final = 100
"""Items of one answer, whatever is asked for."""

SELECTED_MAX: Final = 20
"""Items that may be asked for by their ids at a time."""

_SET: Final = f"{{{RESULT_SET}}}set"


class Page(msgspec.Struct):
    """What of a result set is asked for; `after` is "" for its beginning."""

    max: int
    after: str

    @classmethod
    def read(cls, parent: Element, max_items: str | None = None) -> "Page":
        """Raises StanzaError."""
        asked = parent.find(_SET)
        most, after = max_items, ""
        if asked is not None:
            if asked.find(f"{{{RESULT_SET}}}before") is not None:
                raise StanzaError("feature-not-implemented", "cancel", "only forwards")
            most = asked.findtext(f"{{{RESULT_SET}}}max", most or "")
            after = asked.findtext(f"{{{RESULT_SET}}}after") or ""
        if not most:
            return cls(PAGE_MAX, after)
        if not (most.isascii() and most.isdecimal()):
            raise StanzaError("bad-request", "modify", "not a number of items")
        # a number of a million digits is a large number too
        return cls(min(int(most[:10]), PAGE_MAX), after)


def page_end(first: str, last: str, count: int) -> Element:
    """What is told of the page that was given."""
    end = Element(_SET)
    if first:
        SubElement(end, f"{{{RESULT_SET}}}first").text = first
        SubElement(end, f"{{{RESULT_SET}}}last").text = last
    SubElement(end, f"{{{RESULT_SET}}}count").text = str(count)
    return end


async def items(service: "Service", client: Client, iq: Element, pubsub: Element, action: Element) -> None:
    """`<items/>`: all, a page, or those that are named."""
    node = node_of(action)
    if not client.session.allows("subscribe", node):
        raise StanzaError("forbidden", "auth", f"{client.session.account} may not subscribe {node}")
    topic = client.session.topic(node)
    if topic is None:
        raise StanzaError("item-not-found", "cancel", f"no node {node}")
    listed: list[str] = []
    named = [child.get("id", "") for child in action.findall(f"{{{PUBSUB}}}item")]
    if named:
        if len(named) > SELECTED_MAX:
            raise unsupported("retrieve-items")
        for id in named:
            held = await service.index.find(client.session, node, id)
            if held is not None and _visible(service, client, node, id, locked=held.locked):
                listed.append(item_text(held.stored.message, PUBSUB, created=True))
        await service.answer(_answer(iq, node, listed))
        return
    page = Page.read(pubsub, action.get("max_items"))
    if page.after and not (page.after.isascii() and page.after.isdecimal() and len(page.after) < 20):
        raise StanzaError("item-not-found", "cancel", "no such place in the node")
    first, last = "", page.after
    room = service.settings.send_bytes_max // 2
    for held in await client.session.browse(node, int(page.after or 0), page.max) if page.max else ():
        id = item_id(held.stored.message)
        if _visible(service, client, node, id, locked=held.locked):
            try:
                item = item_text(held.stored.message, PUBSUB, created=True)
                room -= len(item.encode())
            except UnsendableError:
                continue
            if room < 0 and listed:
                break
            if room >= 0:
                listed.append(item)
        first = first or str(held.message_id)
        last = str(held.message_id)
    end = serialize(page_end(first, last, topic.messages), PUBSUB)
    await service.answer(_answer(iq, node, listed, end))


def _answer(iq: Element, node: str, items: list[str], end: str = "") -> str:
    listed = f"<items node='{escape_attribute(node)}'>{''.join(items)}</items>"
    return result_text(iq, f"<pubsub xmlns='{PUBSUB}'>{listed}{end}</pubsub>")


def _visible(service: "Service", client: Client, node: str, id: str, *, locked: bool) -> bool:
    return not locked or service.assignments.held_by(node, id, client.jid) is not None
