"""What a node holds, a page at a time. Source: XEP-0060 6.5, XEP-0059.

Shown are items that wait for a subscriber and items that are kept for later ones. Those that are locked
are shown to their holder only: nobody else can do anything with them. Looking locks nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, takewhile
from operator import not_
from typing import Final

import trio

from daemon.frontend import HeldEntry, HeldMessage, TopicInfo
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


Listed = tuple[str, str]
"""An item, and its headers, which stand outside it; two empty ones for what is not shown."""


class ItemPage:
    """What an answer shows of a node, in the order in which it is read.

    Of what is read only this is held on to: items may be very large, and an answer may not.

    Attributes:
        places: messages, also those that are too large for any answer, and that which was looked at last
            where not all were looked at: the next page goes on there.

    Args:
        most: items on it.
        bytes_max: of what is written of them.
        write: an item; may raise UnsendableError.
    """

    def __init__(self, most: int, bytes_max: int, write: Callable[[HeldMessage], Listed]) -> None:
        self.most = most
        self.listed: list[Listed] = []
        self.places: list[int] = []
        self.is_full = not most
        self._bytes_max = self._room = bytes_max
        self._write = write

    def add(self, found: Iterable[HeldMessage]) -> None:
        """Show those for which there is room, from the first."""
        for held in found:
            if self.is_full:
                return
            try:
                item = self._write(held)
            except UnsendableError:
                item = ("", "")
            size = sum(len(part.encode()) for part in item)
            if self._room < size <= self._bytes_max:
                self.is_full = True
                return
            if 0 < size <= self._bytes_max:
                self.listed.append(item)
                self._room -= size
            self.places.append(held.message_id)
            self.is_full = len(self.places) == self.most


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
    shown = _page(request, node, page.max)
    if page.before is None:
        await read_into(shown, request, node, topic, number_of(page.after), index=page.index or 0)
    else:
        await read_into(shown, request, node, topic, number_of(page.before), backwards=True)
        shown.listed.reverse()
        shown.places.reverse()
    first, last = (str(shown.places[0]), str(shown.places[-1])) if shown.places else ("", "")
    end = serialize(page_end(first, last, topic.messages, page.index), PUBSUB)
    await request.answer_text(_content(node, shown.listed, end))


def number_of(place: str) -> int:
    """The message that a place in a result set is about; 0 where none is given. Raises StanzaError."""
    if place and not (place.isascii() and place.isdecimal() and len(place) < 20 and int(place)):
        raise StanzaError("item-not-found", "cancel", "no such place in the node")
    return int(place or 0)


async def _named(request: Request, node: str, ids: list[str]) -> list[Listed]:
    if len(ids) > SELECTED_MAX:
        raise unsupported("retrieve-items")
    listed: list[Listed] = []
    room = request.service.settings.send_bytes_max
    for id in ids:
        held = await request.service.index.read(request.client.session, node, id)
        if held is not None and all(_seen(request, node, [held], 0)):
            item = _text(request, node, held)
            listed.append(item)
            room -= sum(map(len, item))
        if room < 0:
            # the answer is too large already: it is refused as it is sent
            break
    return listed


async def read_into(
    page: ItemPage,
    request: Request,
    node: str,
    topic: TopicInfo,
    after: int,
    *,
    index: int = 0,
    backwards: bool = False,
) -> None:
    """Fill a page with items that the client may see, oldest first, behind the message `after`.

    With `backwards` the newest first, those in front of it; 0 is the beginning, or the end. Those that it may
    not see take no place on a page: they are passed over, and not read. So are the first `index` that it may
    see (XEP-0059 2.6), which are read. At most `LOOKED_AT_MAX` are looked at, and `index` more.
    """
    session, passed_over = request.client.session, await _passed_over(request, node, topic)
    begin = passed_over if _keeps_all(session.topic(node)) else 0
    after = after if backwards else max(after, begin)
    looked_at, most = 0, LOOKED_AT_MAX + index
    last: Sequence[HeldEntry]
    while not page.is_full:
        entries = session.entries(
            node, after, max(min(READ_AT_A_TIME, most - looked_at), 1), backwards=backwards
        )
        if not entries or entries[0].message_id <= begin:
            return
        if looked_at >= most:
            page.places.append(after)
            return
        seen = _seen(request, node, entries, passed_over)
        if seen[0]:
            run = sum(1 for _ in takewhile(bool, seen))
            found = await session.browse(
                node, after, run if index else min(run, page.most), backwards=backwards
            )
            if not found.held:  # nothing is stored yet
                return
            last, shown = found.held, await _shown(request, node, found.held, passed_over)
            page.add(shown[index:])
            index = max(index - len(shown), 0)
        else:
            await trio.lowlevel.checkpoint()
            last = entries[: sum(1 for _ in takewhile(not_, seen))]
        looked_at += len(last)
        after = last[-1].message_id


def _keeps_all(topic: TopicInfo | None) -> bool:
    """Whether all that a node holds is kept, so that nothing else is where some of that is passed over."""
    return topic is not None and topic.kept == topic.messages


def _seen(request: Request, node: str, entries: Sequence[HeldEntry], passed_over: int) -> list[bool]:
    """Which of them the client may see: not what is with others, nor what is kept and has made room."""
    session = request.client.session
    in_hand = request.client.in_hand if any(held.locked for held in entries) else set[str]()
    old = [held.message_id for held in entries if held.message_id <= passed_over]
    hidden = set(session.kept_among(node, old))
    return [held.message_id not in hidden and (not held.locked or held.smuid in in_hand) for held in entries]


async def _shown(request: Request, node: str, page: list[HeldMessage], passed_over: int) -> list[HeldMessage]:
    """Those that the client may see, and that no newer one has replaced."""
    replaced = await _replaced(request, node, page)
    seen = _seen(request, node, page, passed_over)
    return [held for held in compress(page, seen) if held.message_id not in replaced]


async def _passed_over(request: Request, node: str, topic: TopicInfo) -> int:
    """The number of the newest item that has made room for others, where nobody has removed it yet; or 0."""
    items_max = record_of(topic).options.max_items
    if items_max is None:
        return 0
    return await request.service.index.passed_over(request.client.session, node, items_max)


def _page(request: Request, node: str, most: int) -> ItemPage:
    """An answer to `<items/>`, of so many."""
    bytes_max = request.service.settings.send_bytes_max // 2

    def write(held: HeldMessage) -> Listed:
        # no item is shorter than what is in it
        return _text(request, node, held) if held.stored.message.size_bytes <= bytes_max else ("", "")

    return ItemPage(most, bytes_max, write)


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


async def _replaced(request: Request, node: str, found: list[HeldMessage]) -> set[int]:
    """Items of a queue are as many as were published, whatever their ids."""
    if NodeSettings.of(request.client.session.topic(node)).is_queue:
        return set()
    return await request.service.index.hidden(request.client.session, node, found)
