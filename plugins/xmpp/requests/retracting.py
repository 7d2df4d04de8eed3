"""Ending items, and unlocking them: what is asked for by `<retract/>` and `<unlock/>`.

Both are the same for the subscriber that has the items; they differ in what becomes of the items, and in
what those may do who do not have them. Source: XEP-0060 7.2, XEP-0254 2.3 and 2.4.
"""

from typing import Final
from xml.etree.ElementTree import Element

from daemon.frontend import Answer, HeldEntry
from plugins.xmpp.forms import notifications
from plugins.xmpp.forms.node_settings import NodeSettings
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.requests import records
from plugins.xmpp.requests.request import Request
from plugins.xmpp.wire.namespaces import PUBSUB, QUEUEING

ITEMS_MAX: Final = 1_000
"""That may be retracted or unlocked at a time; XEP-0060 has one."""

_ITEM: Final = f"{{{PUBSUB}}}item"
_QUEUE_ITEM: Final = f"{{{QUEUEING}}}item"

_ERRORS: Final = {
    "item-not-found": ("item-not-found", "cancel"),
    "conflict": ("conflict", "cancel"),
    "unexpected-request": ("unexpected-request", "wait"),
    "forbidden": ("forbidden", "auth"),
}


async def retract(request: Request) -> None:
    """Carry out `<retract/>`: by the subscriber that has the items, or by whoever may remove them."""
    await _settle(request, finished=True)


async def unlock(request: Request) -> None:
    """Carry out `<unlock/>`: the items go to the next subscriber."""
    await _settle(request, finished=False)


async def _settle(request: Request, *, finished: bool) -> None:
    node, ids = request.node, _item_ids(request.action)
    numbers = _held_numbers(request, node, ids)
    if numbers is None:
        without = _retract_others if finished else _refuse
        request.start(without(request, node, ids))
        return
    made = notifications.retracted if finished else notifications.unlocked

    @request.unless_refused
    async def done(_: Answer) -> None:
        await request.answer()
        for id in ids:
            await request.client.notify(made(node, id))

    request.client.settle(numbers, done, finished=finished)


def _item_ids(action: Element) -> list[str]:
    ids = [child.get("id", "") for child in action if child.tag in (_ITEM, _QUEUE_ITEM)]
    if not ids or not all(ids):
        raise StanzaError("bad-request", "modify", pubsub="item-required")
    if len(ids) > ITEMS_MAX:
        raise StanzaError("not-allowed", "cancel", f"at most {ITEMS_MAX}", pubsub="max-items-exceeded")
    return list(dict.fromkeys(ids))


def _held_numbers(request: Request, node: str, ids: list[str]) -> list[int] | None:
    numbers = []
    for id in ids:
        holding = request.service.holders.held_by(node, id, request.client.jid)
        if holding is None or holding.number in numbers:
            return None
        numbers.append(holding.number)
    return numbers


async def _verdict(request: Request, node: str, id: str) -> tuple[str, HeldEntry | None]:
    service, client = request.service, request.client
    found = None
    if not service.holders.is_held(node, id):
        found = await service.index.find(client.session, node, id)
    verdict = service.holders.judge(
        node,
        id,
        client.jid,
        subscribed=service.registry.find(client.jid, node) is not None,
        exists=found is not None,
        locked=found is not None and found.locked,
    )
    return verdict, found


def _error(request: Request, verdict: str) -> StanzaError:
    condition, kind = _ERRORS.get(verdict, _ERRORS["unexpected-request"])
    # with the request, as the listings of XEP-0254 have it
    return StanzaError(condition, kind, children=tuple(request.stanza) if verdict in _ERRORS else ())


async def _refuse(request: Request, node: str, ids: list[str]) -> None:
    verdict = "held"
    for id in ids:
        verdict, _ = await _verdict(request, node, id)
        if verdict in _ERRORS:
            break
    raise _error(request, verdict)


async def _retract_others(request: Request, node: str, ids: list[str]) -> None:
    """Items that are not all the asker's: those who may remove items may do so while nobody has them."""
    service, client = request.service, request.client
    found: list[HeldEntry] = []
    queue = NodeSettings.of(client.session.topic(node)).is_queue
    record = records.record(client.session, node)
    if not service.access.may_receive(request.asker, node, record):
        # nor does it learn which items there are
        service.access.check_publisher(request.asker, node, record)
    may_remove, has_some = client.session.allows("remove", node), False
    for id in ids:
        verdict, held = await _verdict(request, node, id)
        if verdict == "forbidden" and held is not None and not held.locked and may_remove:
            found += [held] if queue else await service.index.find_all(client.session, node, id)
        elif verdict in _ERRORS:
            raise _error(request, verdict)
        else:
            has_some = True
    if has_some:
        raise _error(request, "held")
    service.access.check_publisher(request.asker, node, records.record(client.session, node))
    for held in found:
        await client.ask(client.session.remove, node, held.smuid)
    await request.answer()
