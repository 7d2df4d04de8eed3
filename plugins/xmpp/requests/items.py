"""What a node holds, a page at a time. Source: XEP-0060 6.5, XEP-0059.

Shown are items that wait for a subscriber and items that are kept for later ones. Those that are locked
are shown to their holder only: nobody else can do anything with them. Looking locks nothing.
"""

from typing import Final, NamedTuple

from daemon.frontend import HeldMessage, TopicInfo
from plugins.xmpp.forms.node_record import record_of
from plugins.xmpp.forms.node_settings import NodeSettings
from plugins.xmpp.forms.paging import Page, page_end, read_max
from plugins.xmpp.forms.payload import headers_text, item_id, item_text
from plugins.xmpp.forms.stanzas import StanzaError, unsupported
from plugins.xmpp.known.identities import publisher_of
from plugins.xmpp.requests import records
from plugins.xmpp.requests.request import Request
from plugins.xmpp.wire.namespaces import PUBSUB
from plugins.xmpp.wire.serializer import UnsendableError, escape_attribute, serialize

SELECTED_MAX: Final = 20
"""Items that may be asked for by their ids at a time."""

READ_AT_A_TIME: Final = 200
LOOKED_AT_MAX: Final = 1_000
"""For a page, of items that may be with somebody else: what is behind so many is on the next one."""


class FoundItems(NamedTuple):
    """What a page may show, oldest first, and how far it goes.

    Attributes:
        reached: the message that was looked at last, where not all were looked at and there is room on the
            page for more: the next page goes on there. None otherwise.
    """

    held: list[HeldMessage]
    reached: int | None


Listed = tuple[str, str]
"""An item, and its headers, which stand outside it."""


async def items(request: Request) -> None:
    """Answer `<items/>`: all, the newest, a page, or those that are named."""
    node = request.node
    topic = request.client.session.topic(node)
    request.service.access.check_may_retrieve(request.asker, node, record_of(topic))
    if topic is None:
        raise StanzaError("item-not-found", "cancel", f"no node {node}")
    named = [child.get("id", "") for child in request.action.findall(f"{{{PUBSUB}}}item")]
    if named:
        await request.answer_text(_content(node, await _named(request, node, named)))
        return
    page = Page.read(request.parent, backwards=True)
    if most := request.action.get("max_items"):
        page.max = min(page.max, read_max(most))
        if not page.after and page.before is None:
            page.before = ""
    if page.before is None:
        found = await read_on(request, node, topic, number_of(page.after), page.max, page.index or 0)
        listed, shown = _fitting(request, node, found.held)
        places = places_of(shown, found)
    else:
        before = number_of(page.before) if page.before else None
        found = await _read_back(request, node, topic, before, page.max)
        listed, shown = _fitting(request, node, found.held[::-1])
        listed.reverse()
        places = places_of(shown, found)[::-1]
    first, last = (str(places[0]), str(places[-1])) if places else ("", "")
    end = serialize(page_end(first, last, topic.messages, page.index), PUBSUB)
    await request.answer_text(_content(node, listed, end))


def places_of(shown: list[int], found: FoundItems) -> list[int]:
    """The places of what is shown of a page, in the order in which it was read, and where the next begins."""
    is_whole = len(shown) == len(found.held)
    return [*shown, found.reached] if is_whole and found.reached is not None else shown


def number_of(place: str) -> int:
    """The message that a place in a result set is about; 0 for none. Raises StanzaError."""
    if place and not (place.isascii() and place.isdecimal() and len(place) < 20):
        raise StanzaError("item-not-found", "cancel", "no such place in the node")
    return int(place or 0)


async def _named(request: Request, node: str, ids: list[str]) -> list[Listed]:
    if len(ids) > SELECTED_MAX:
        raise unsupported("retrieve-items")
    listed: list[Listed] = []
    for id in ids:
        held = await request.service.index.find(request.client.session, node, id)
        if held is not None and _visible(request, node, held):
            listed.append(_text(request, node, held))
    return listed


async def _read_back(
    request: Request, node: str, topic: TopicInfo, before: int | None, count: int
) -> FoundItems:
    """As `read_on`, the last so many in front of the message `before`, or of the end of the node."""
    passed_over = await _passed_over(request, node, topic)
    found: list[HeldMessage] = []
    at_a_time, looked_at = count, 0
    while len(found) < count:
        page = await request.service.index.last(request.client.session, node, before, at_a_time)
        found = [held for held in await _shown(request, node, page) if held.message_id > passed_over] + found
        looked_at += len(page)
        if len(page) < at_a_time or page[0].message_id <= passed_over:
            break
        before, at_a_time = page[0].message_id, min(READ_AT_A_TIME, LOOKED_AT_MAX - looked_at)
        if not at_a_time and len(found) < count:
            return FoundItems(found, before)
    return FoundItems(found[-count:] if count else [], None)


async def read_on(
    request: Request, node: str, topic: TopicInfo, after: int, count: int, index: int = 0
) -> FoundItems:
    """So many of the items that the client may see, oldest first, behind the message `after`.

    Those that it may not see take no place on a page: they are passed over. So are the first `index` that it
    may see (XEP-0059 2.6). At most `LOOKED_AT_MAX` are looked at, and `index` more.
    """
    after = max(after, await _passed_over(request, node, topic))
    found: list[HeldMessage] = []
    at_a_time, looked_at, most = READ_AT_A_TIME if index else count, 0, LOOKED_AT_MAX + index
    while len(found) < count:
        page = await request.client.session.browse(node, after, at_a_time)
        visible = await _shown(request, node, page)
        found += visible[index:]
        index = max(index - len(visible), 0)
        looked_at += len(page)
        if len(page) < at_a_time:
            break
        after, at_a_time = page[-1].message_id, min(READ_AT_A_TIME, most - looked_at)
        if not at_a_time and len(found) < count:
            return FoundItems(found, after)
    return FoundItems(found[:count], None)


async def _shown(request: Request, node: str, page: list[HeldMessage]) -> list[HeldMessage]:
    """Those that the client may see, and that no newer one has replaced."""
    replaced = await _replaced(request, node, page)
    return [held for held in page if held.message_id not in replaced and _visible(request, node, held)]


async def _passed_over(request: Request, node: str, topic: TopicInfo) -> int:
    """The number of the newest item that has made room for others, where nobody has removed it yet; or 0."""
    items_max, session = record_of(topic).options.max_items, request.client.session
    if items_max is None or topic.messages <= items_max:
        return 0
    over = topic.messages - items_max
    if over < items_max:
        passed_over = await request.service.index.surplus(session, node, items_max, over)
        return passed_over[-1].message_id if passed_over else 0
    kept = await request.service.index.last(session, node, None, items_max)
    return kept[0].message_id - 1 if len(kept) == items_max else 0


def _fitting(request: Request, node: str, found: list[HeldMessage]) -> tuple[list[Listed], list[int]]:
    """Those that fit into an answer, from the first; and their numbers, with those of what fits into none."""
    listed: list[Listed] = []
    shown: list[int] = []
    most = room = request.service.settings.send_bytes_max // 2
    for held in found:
        try:
            item = _text(request, node, held)
        except UnsendableError:
            item = ("", "")
        size = sum(len(part.encode()) for part in item)
        if room < size <= most:
            break
        if size and size <= most:
            listed.append(item)
            room -= size
        shown.append(held.message_id)
    return listed, shown


def _text(request: Request, node: str, held: HeldMessage) -> Listed:
    message = held.stored.message
    named = records.record(request.client.session, node).options.publisher
    item = item_text(message, PUBSUB, publisher_of(message) if named else "")
    of_it = f" item='{escape_attribute(item_id(message))}'"
    return item, headers_text(message, of_it, created=True)


def _content(node: str, listed: list[Listed], end: str = "") -> str:
    items = f"<items node='{escape_attribute(node)}'>{''.join(item for item, _ in listed)}</items>"
    headers = "".join(headers for _, headers in listed)
    return f"<pubsub xmlns='{PUBSUB}'>{items}{headers}{end}</pubsub>"


def _visible(request: Request, node: str, held: HeldMessage) -> bool:
    if not held.locked:
        return True
    item = item_id(held.stored.message)
    return request.service.holders.held_by(node, item, request.client.jid) is not None


async def _replaced(request: Request, node: str, found: list[HeldMessage]) -> set[int]:
    """Items of a queue are as many as were published, whatever their ids."""
    if NodeSettings.of(request.client.session.topic(node)).is_queue:
        return set()
    return await request.service.index.replaced(request.client.session, node, found)
