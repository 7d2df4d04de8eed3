"""What an owner does with those who have to do with a node. Source: XEP-0060 8.8, 8.9."""

from typing import Any, Final, get_args
from xml.etree.ElementTree import Element, SubElement

import msgspec

from plugins.xmpp.forms.node_record import AFFILIATIONS_MAX, ListedAffiliation, NodeRecord
from plugins.xmpp.forms.paging import Page, page_of
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.identities import bare_of, read_jid
from plugins.xmpp.known.registry import NodeSubscription, read_subscription
from plugins.xmpp.requests import authorizing, records
from plugins.xmpp.requests.ending import end_each, end_now, tell_ended
from plugins.xmpp.requests.nodes import known, unlisted
from plugins.xmpp.requests.request import Request
from plugins.xmpp.requests.subscribing import ListedSubscription, by_subid, room_for_list
from plugins.xmpp.wire.namespaces import PUBSUB, PUBSUB_OWNER

_SUBSCRIPTION: Final = f"{{{PUBSUB_OWNER}}}subscription"
_AFFILIATION: Final = f"{{{PUBSUB_OWNER}}}affiliation"
_LISTED: Final = get_args(ListedAffiliation)

CHANGES_MAX: Final = AFFILIATIONS_MAX
"""Of a node's lists, in one request."""


async def subscriptions(request: Request) -> None:
    """Answer with who subscribes to the node over XMPP, a page at a time, and who waits to be let."""
    node, record, _ = known(request)
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    listed = SubElement(answer, f"{{{PUBSUB_OWNER}}}subscriptions", {"node": node})
    found = [read_subscription(info) for info in request.client.session.subscriptions(node)]
    there = [each for each in found if each is not None and each.node == node and not each.leaving]
    entries = by_subid(
        [ListedSubscription(node, jid, "pending") for jid in record.requests],
        [ListedSubscription(node, each.subscriber) for each in there],
    )

    def write(each: ListedSubscription) -> Element:
        return Element(_SUBSCRIPTION, each.attributes)

    elements, end = page_of(entries, Page.read(request.parent), write, room_for_list(request))
    listed.extend(elements)
    answer.extend(end)
    await request.answer(answer)


async def manage_subscriptions(request: Request) -> None:
    """End subscriptions, or let those begin that wait, for an owner.

    Others only their subscribers can begin.
    A bare JID stands for all its resources. What could not be done is sent back as it stands.
    Source: XEP-0060 8.8.2.
    """
    node, record, _ = known(request)
    registry, refused = request.service.registry, []
    ended, settled = list[NodeSubscription](), list[tuple[str, bool]]()
    for each in _changes(request, _SUBSCRIPTION):
        jid, wanted, subid = each.get("jid", ""), each.get("subscription", ""), each.get("subid")
        if jid in record.requests and wanted in ("subscribed", "none"):
            settled.append((jid, wanted == "subscribed"))
            continue
        found = registry.of_subscriber(jid, node) or registry.of_bare_to(jid, node)
        meant = [one for one in found if not one.leaving]
        named = [one for one in meant if subid in (None, one.subid)]
        if wanted == "none" and named:
            ended += named
        elif wanted != "subscribed" or not named:
            state = "subscribed" if meant else "pending" if jid in record.requests else "none"
            refused.append(Element(_SUBSCRIPTION, {"jid": jid, "subscription": state}))
    await end_each(request, node, ended)
    for jid, allow in settled:
        await authorizing.settle(request, node, jid, allow=allow)
    await _answer(request, "subscriptions", node, refused)


async def affiliations(request: Request) -> None:
    """Answer with those that owners have given; of who made the node, the asker, subscribers. By pages."""
    node, record, _ = known(request)
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    listed = SubElement(answer, f"{{{PUBSUB_OWNER}}}affiliations", {"node": node})
    subscribers = (bare_of(each.jid) for each in request.service.registry.of_node(node))
    there = {request.asker, *record.affiliations, *subscribers} | ({record.creator} - {""})

    def write(jid: str) -> Element:
        return Element(_AFFILIATION, {"jid": jid, "affiliation": _held(request, node, jid, record)})

    page = Page.read(request.parent)
    elements, end = page_of({jid: jid for jid in there}, page, write, room_for_list(request))
    listed.extend(elements)
    answer.extend(end)
    await request.answer(answer)


def _held(request: Request, node: str, jid: str, record: NodeRecord) -> str:
    return request.service.access.affiliation(jid, node, record)


async def modify_affiliations(request: Request) -> None:
    """Set those that can be, as far as the rights of the JIDs' accounts go; send the others back.

    Nobody takes a node from itself, so that each has an owner. Source: XEP-0060 8.9.2.
    """
    node, old, _ = known(request)
    known_jids = {request.asker, *old.affiliations, *map(bare_of, old.requests)}
    known_jids |= {bare_of(each.jid) for each in request.service.registry.of_node(node)}
    wanted = dict(_wanted(each, known_jids) for each in _changes(request, _AFFILIATION))
    refused, ended = list[Element](), list[NodeSubscription]()

    def edit(record: NodeRecord) -> NodeRecord:
        listed: dict[str, Any] = dict(record.affiliations)
        for jid, affiliation in wanted.items():
            tried = {**listed, jid: affiliation}
            if affiliation == "none":
                tried.pop(jid)
            new = msgspec.structs.replace(record, affiliations=tried)
            own = jid == request.asker and _held(request, node, jid, new) != "owner"
            if own or affiliation not in ("none", _held(request, node, jid, new)):
                attributes = {"jid": jid, "affiliation": _held(request, node, jid, record)}
                refused.append(Element(_AFFILIATION, attributes))
            else:
                listed = tried
        if len(listed) > AFFILIATIONS_MAX:
            text = f"a node has at most {AFFILIATIONS_MAX} affiliations"
            raise StanzaError("resource-constraint", "wait", text)
        return msgspec.structs.replace(record, affiliations=listed)

    def go_along() -> None:
        ended.extend(end_now(request, node, unlisted(request, node)))

    try:
        new = await records.change(request.client, node, edit, go_along)
    finally:
        await tell_ended(request, node, ended)
    for jid in wanted:
        if old.affiliations.get(jid) != new.affiliations.get(jid):
            told = Element(f"{{{PUBSUB}}}pubsub")
            listed = SubElement(told, f"{{{PUBSUB}}}affiliations", {"node": node})
            attributes = {"jid": jid, "affiliation": _held(request, node, jid, new)}
            SubElement(listed, f"{{{PUBSUB}}}affiliation", attributes)
            await request.service.notify(jid, told)
    await _answer(request, "affiliations", node, refused)


def _changes(request: Request, tag: str) -> list[Element]:
    changes = request.action.findall(tag)
    if len(changes) > CHANGES_MAX:
        raise StanzaError("policy-violation", "modify", f"at most {CHANGES_MAX} in one request")
    return changes


def _wanted(element: Element, known_jids: set[str]) -> tuple[str, str]:
    affiliation = element.get("affiliation", "")
    jid = read_jid(bare_of(element.get("jid", "")), known_jids)
    if not jid or affiliation not in (*_LISTED, "none"):
        raise StanzaError("bad-request", "modify", "a JID, and an affiliation of XEP-0060 4.1")
    return jid, affiliation


async def _answer(request: Request, what: str, node: str, refused: list[Element]) -> None:
    if not refused:
        await request.answer()
        return
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    SubElement(answer, f"{{{PUBSUB_OWNER}}}{what}", {"node": node}).extend(refused)
    raise StanzaError("not-acceptable", "modify", children=(answer,))
