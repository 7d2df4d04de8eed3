"""Subscriptions that an owner has to allow: asked for, shown to owners, allowed or not.

Who is let in is a member of the node from then on, or its publisher if it was that, so that a worker that was
away need not ask again. What waits is kept with the node. Source: XEP-0060 6.1.3.5, 8.6, 8.7.
"""

import uuid
from typing import Final
from xml.etree.ElementTree import Element, SubElement

import msgspec

from plugins.xmpp.delivery.calls import Reply
from plugins.xmpp.forms import notifications
from plugins.xmpp.forms.data_forms import Field, form, submitted
from plugins.xmpp.forms.node_record import AFFILIATIONS_MAX, REQUESTS_MAX, NodeRecord, SubscriptionRequest
from plugins.xmpp.forms.stanzas import MESSAGE, StanzaError
from plugins.xmpp.known.identities import bare_of
from plugins.xmpp.known.registry import NodeSubscription, subid_of
from plugins.xmpp.requests import beginning, records
from plugins.xmpp.requests.ending import end_each
from plugins.xmpp.requests.request import Request
from plugins.xmpp.wire.namespaces import COMMANDS, PUBSUB
from routing.names import check_topic

AUTHORIZATION: Final = f"{PUBSUB}#subscribe_authorization"
GET_PENDING: Final = f"{PUBSUB}#get-pending"
_COMMAND: Final = f"{{{COMMANDS}}}command"
_PAGE: Final = 1_000

REQUESTS_OF_ONE_MAX: Final = 10
"""Of a bare JID, at one node: others want to ask, too."""

_NODE, _JID, _ALLOW, _SUBID = "pubsub#node", "pubsub#subscriber_jid", "pubsub#allow", "pubsub#subid"


async def ask(request: Request, subscription: NodeSubscription, written: str) -> None:
    """Note that a JID asks to subscribe, and tell the owners."""
    node, service = subscription.node, request.service
    waits = SubscriptionRequest(
        jid=subscription.jid,
        accepts=subscription.accepts,
        credit=subscription.credit,
        level=subscription.level,
        lock_s=subscription.lock_s,
        of_bare=subscription.of_bare,
    )

    def edit(record: NodeRecord) -> NodeRecord:
        if written in record.requests:
            raise StanzaError("not-authorized", "auth", pubsub="pending-subscription")
        if sum(bare_of(jid) == request.asker for jid in record.requests) >= REQUESTS_OF_ONE_MAX:
            raise StanzaError(
                "resource-constraint", "wait", f"{REQUESTS_OF_ONE_MAX} of yours wait for {node}"
            )
        requests = {**record.requests, written: waits}
        if len(requests) > REQUESTS_MAX:
            raise StanzaError("resource-constraint", "wait", f"{REQUESTS_MAX} wait for the owners of {node}")
        return msgspec.structs.replace(record, requests=requests)

    record = await records.change(
        request.client, node, edit, lambda: service.registry.add_pending(written, node)
    )
    answer = Element(f"{{{PUBSUB}}}pubsub")
    attributes = {"node": node, "jid": written, "subid": subscription.subid, "subscription": "pending"}
    SubElement(answer, f"{{{PUBSUB}}}subscription", attributes)
    await request.answer(answer)
    for owner in service.access.owners(node, record):
        await _send_form(request, owner, node, written)


async def _send_form(request: Request, owner: str, node: str, jid: str) -> None:
    service = request.service
    fields = [
        Field(_SUBID, "hidden", "", subid_of(node, jid)),
        Field(_NODE, "text-single", "Node", node),
        Field(_JID, "jid-single", "Who asks to subscribe", jid),
        Field(_ALLOW, "boolean", "Let it subscribe?", "0"),
    ]
    stanza = Element(MESSAGE, {"from": service.name, "to": owner, "id": service.next_id("e")})
    stanza.append(form(AUTHORIZATION, fields))
    await service.answer(stanza)


async def settle(request: Request, node: str, jid: str, *, allow: bool) -> None:
    """Let somebody subscribe, or not, for an owner; who is not let in has no subscription there either.

    Raises StanzaError where nobody asks (any more); StanzaError and Refusal where the subscription cannot
    begin now, or may not, or one that is there cannot be ended: then the request waits on.
    """
    service = request.service
    waits = _waiting(records.record(request.client.session, node), node, jid)
    subscription = NodeSubscription(
        node, waits.jid, waits.accepts, waits.credit, waits.level, waits.lock_s, waits.of_bare
    )
    reply = Reply()
    ended = [] if allow else service.registry.of_subscriber(jid, node)
    if allow:
        await beginning.leave_out_history(service, subscription)
    await end_each(request, node, ended)

    def edit(record: NodeRecord) -> NodeRecord:
        if _waiting(record, node, jid) != waits:
            raise StanzaError("conflict", "cancel", f"{jid[:100]} asks for something else by now")
        requests, affiliations = dict(record.requests), dict(record.affiliations)
        del requests[jid]
        if allow:
            bare = bare_of(jid)
            held = service.access.affiliation(bare, node, record)
            # who is listed has what the list says: it may publish as before
            affiliations.setdefault(bare, "publisher" if held == "publisher" else "member")
        new = msgspec.structs.replace(record, requests=requests, affiliations=affiliations)
        if allow:
            _check_may_be_let(request, node, jid, new)
        return new

    def go_along() -> None:
        if allow:
            beginning.begin(service, subscription, jid, reply.done)
        service.registry.remove_pending(jid, node)

    await records.change(request.client, node, edit, go_along)
    if allow:
        await reply.wait()
    if not ended:  # else it has been told
        state = "subscribed" if allow else "none"
        await service.notify(jid, notifications.subscription(node, jid, state))


def _waiting(record: NodeRecord, node: str, jid: str) -> SubscriptionRequest:
    """What a JID asks for. Raises StanzaError where it does not (any more)."""
    if jid not in record.requests:
        raise StanzaError("item-not-found", "cancel", f"{jid[:100]} does not ask for {node}")
    return record.requests[jid]


def _check_may_be_let(request: Request, node: str, jid: str, record: NodeRecord) -> None:
    """Check that it can be a member, and is no outcast. Raises StanzaError."""
    if len(record.affiliations) > AFFILIATIONS_MAX:
        text = f"a node has at most {AFFILIATIONS_MAX} affiliations"
        raise StanzaError("resource-constraint", "wait", text)
    if not request.service.access.may_receive(bare_of(jid), node, record):
        raise StanzaError("not-allowed", "cancel", f"{jid[:100]} may not have what {node} holds")


async def take_back(request: Request, node: str, jid: str) -> bool:
    """Take back a request to subscribe; returns whether there was one."""

    def edit(record: NodeRecord) -> NodeRecord:
        requests = {each: waits for each, waits in record.requests.items() if each != jid}
        return msgspec.structs.replace(record, requests=requests)

    if jid not in records.record(request.client.session, node).requests:
        return False
    registry = request.service.registry
    await records.change(request.client, node, edit, lambda: registry.remove_pending(jid, node))
    return True


# -- what owners say ------------------------------------------------------------------------------


def read_answer(message: Element) -> dict[str, str] | None:
    """The form that an owner has filled in; None where there is none. Source: XEP-0060 8.6."""
    try:
        values = submitted(message, AUTHORIZATION)
    except StanzaError:
        return None
    return values if values and _JID in values else None


async def answered(request: Request, values: dict[str, str]) -> None:
    """Carry out an owner's decision. Raises StanzaError, Refusal."""
    node = check_topic(values.get(_NODE, ""))
    request.service.access.check_owner(request.asker, node, records.record(request.client.session, node))
    await settle(request, node, values[_JID], allow=values.get(_ALLOW, "") in ("1", "true"))


async def get_pending(request: Request) -> None:
    """Send what waits once more: the command for that. Source: XEP-0060 8.7, XEP-0050."""
    command = request.parent
    if command.get("node") != GET_PENDING:
        raise StanzaError("item-not-found", "cancel", "no such command")
    action = command.get("action", "execute")
    if action not in ("cancel", "complete", "execute", "next"):
        raise StanzaError("bad-request", "modify", "no such action")
    attributes = {"node": GET_PENDING, "sessionid": command.get("sessionid") or uuid.uuid4().hex}
    if action == "cancel":
        # nothing is kept of a command between its stages
        await request.answer(Element(_COMMAND, {**attributes, "status": "canceled"}))
        return
    values = submitted(command, AUTHORIZATION)
    if values is None:
        nodes = {node: node for node in await _nodes_with_requests(request)}
        answer = Element(_COMMAND, {**attributes, "status": "executing" if nodes else "completed"})
        SubElement(
            SubElement(answer, f"{{{COMMANDS}}}actions", {"execute": "complete"}), f"{{{COMMANDS}}}complete"
        )
        field = Field(_NODE, "list-single", "Node whose requests to see", None, nodes)
        answer.append(form(AUTHORIZATION, [field]))
        await request.answer(answer)
        return
    node = check_topic(values.get(_NODE, ""))
    record = records.record(request.client.session, node)
    request.service.access.check_owner(request.asker, node, record)
    await request.answer(Element(_COMMAND, {**attributes, "status": "completed"}))
    for jid in record.requests:
        await _send_form(request, request.client.jid, node, jid)


async def _nodes_with_requests(request: Request) -> list[str]:
    found = []
    for node in request.service.registry.pending():
        record = records.record(request.client.session, node)
        if record.requests and request.service.access.affiliation(request.asker, node, record) == "owner":
            found.append(node)
    return found[:_PAGE]
