"""Subscriptions and their options, and what a client may do. Source: XEP-0060 5.6, 5.7, 6; XEP-0254 2.1."""

from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, SubElement

from daemon.frontend import Accepts, Answer, Session, TopicInfo
from plugins.xmpp.delivery.calls import Done, Reply
from plugins.xmpp.forms.data_forms import SUBSCRIBE_OPTIONS, result_form, submitted
from plugins.xmpp.forms.node_record import record_of
from plugins.xmpp.forms.node_settings import NodeSettings
from plugins.xmpp.forms.paging import Page, page_end, page_of
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.access import Admission
from plugins.xmpp.known.identities import bare_of, read_jid
from plugins.xmpp.known.registry import NodeSubscription, subid_of
from plugins.xmpp.requests import authorizing, beginning, records
from plugins.xmpp.requests.request import AskingClient, Request
from plugins.xmpp.requests.subscription_options import (
    COLLECTION_OPTIONS,
    QOS_FIELD,
    REQUESTS_FIELD,
    Options,
    invalid_options,
    level_name,
    options_form,
)
from plugins.xmpp.wire.namespaces import PUBSUB
from plugins.xmpp.wire.serializer import is_sendable
from routing.errors import Refusal
from routing.names import owner_of
from routing.patterns import is_pattern

PLAIN_CREDIT: Final = 100
"""For a node without queueing: what may be on its way to the server and back."""


class ListedSubscription(NamedTuple):
    """A JID, as it is told, at a node: it subscribes, or waits for an owner."""

    node: str
    jid: str
    state: str = "subscribed"

    @property
    def attributes(self) -> dict[str, str]:
        """As they are listed; without the node."""
        return {"jid": self.jid, "subid": subid_of(self.node, self.jid), "subscription": self.state}


def _subscriber(request: Request, another: StanzaError) -> str:
    """The JID that is meant. Raises StanzaError, which is `another` where it is not of the sender."""
    named, registry = request.action.get("jid", ""), request.service.registry
    subscribed = (each.jid for each in registry.of_bare(request.asker))
    waiting = registry.waiting(request.asker, request.wanted)
    jid = read_jid(named, {request.jid, request.asker, *subscribed, *waiting})
    if not jid:
        raise StanzaError("bad-request", "modify", pubsub="invalid-jid")
    if bare_of(jid) != request.asker:
        raise another
    return jid


async def subscribe(request: Request) -> None:
    """Carry out `<subscribe/>` with or without `<options/>`."""
    node, service = request.wanted, request.service
    if not request.action.get("jid"):
        raise StanzaError("bad-request", "modify", pubsub="invalid-jid")
    written = _subscriber(request, StanzaError("bad-request", "modify", pubsub="invalid-jid"))
    admission, of_collection = _check_may_subscribe(request, node, written), is_pattern(node)
    values, is_queue = _options_of(request), _is_queue(request, node)
    options = Options.read(values, service.site.limits.credit_max, of_collection=of_collection)
    accepts = options.accepts or ("ONE" if is_queue else "ALL")
    if accepts != "ALL" and options.queue_requests is None:
        raise _configuration_required(node, request.action.get("jid", ""))
    subscription = await _new(request, written, accepts, options)
    if admission == "admitted":
        await beginning.leave_out_history(service, subscription)
    # that took a while, in which owners may have changed what holds; from here on nothing is awaited
    admission = _check_may_subscribe(request, node, written)
    if options.accepts is None and _is_queue(request, node) is not is_queue:
        text = f"{node} has been given another configuration meanwhile: subscribe again"
        raise StanzaError("unexpected-request", "wait", text)
    if admission == "to be asked":
        await authorizing.ask(request, subscription, written)
        return
    answer = _subscribed(subscription, written, with_options=values is not None)

    @request.unless_refused
    async def done(_: Answer) -> None:
        await request.answer(answer)
        await beginning.tell_owners(request, node, written, "subscribed")

    beginning.begin(service, subscription, written, done)


def _check_may_subscribe(request: Request, node: str, written: str) -> Admission:
    """Whether it has to ask, as things are now. Raises StanzaError where it may not subscribe at all."""
    session, access, asker = request.client.session, request.service.access, request.asker
    admission: Admission = "admitted"
    if is_pattern(node):
        if not session.may_follow(node):
            raise StanzaError("forbidden", "auth", f"{asker} may subscribe to no node of {node}")
    else:
        topic = session.topic(node)
        admission = access.check_may_subscribe(asker, node, record_of(topic))
        if topic is None:
            _check_may_begin(request, node)
        if access.subscribes(asker, node):
            admission = "admitted"
    _check_count(request, written)
    return admission


def _is_queue(request: Request, node: str) -> bool:
    return not is_pattern(node) and NodeSettings.of(request.client.session.topic(node)).is_queue


def _check_may_begin(request: Request, node: str) -> None:
    """Of a node that is not there. Raises StanzaError. Source: XEP-0060 6.1.3.12."""
    service = request.service
    own = owner_of(node, service.site.server_name) is not None
    if not (own or service.settings.create_on_subscribe):
        raise StanzaError("item-not-found", "cancel", f"no node {node}")
    service.check_room_for_node()


def _check_count(request: Request, written: str) -> None:
    """One more, of a JID whose server lets it have any number of resources. Raises StanzaError."""
    registry, most = request.service.registry, request.service.site.limits.subscriptions_per_session_max
    if registry.count_of_bare(request.asker) >= most and not registry.of_subscriber(written, request.wanted):
        text = f"{request.asker} has {most} subscriptions, over all of its resources"
        raise StanzaError("policy-violation", "wait", text, pubsub="too-many-subscriptions")


def _options_of(request: Request) -> dict[str, str] | None:
    """What is filled in. Raises StanzaError."""
    action, element = request.action, request.parent.find(f"{{{PUBSUB}}}options")
    if element is None:
        return None
    if any(element.get(name, action.get(name)) != action.get(name) for name in ("node", "jid")):
        # XEP-0254 has both attributes where XEP-0060 6.3.7 has none
        raise StanzaError("bad-request", "modify", "options of another subscription")
    return submitted(element, SUBSCRIBE_OPTIONS)


async def _new(request: Request, written: str, accepts: Accepts, options: Options) -> NodeSubscription:
    """What a JID subscribes to: a bare one with its address, or to a queue with the resource that asks."""
    service, client = request.service, request.client
    level, of_bare = options.level, False
    if "/" not in written and written != client.jid:
        of_bare = accepts != "ALL"
        if not of_bare and level not in (None, "plain"):
            raise invalid_options(f"{QOS_FIELD} is none for a bare JID: its items are for all its resources")
    if "/" not in written and written != client.jid and not of_bare:
        jid, level = written, "plain"
    else:
        jid = client.jid if of_bare else written
        target = client if jid == client.jid else service.clients.of(jid)
        if level is None or accepts != "ALL":
            speaks_qos = await service.look_at(target, is_there=target is client)
            level = level or ("assured" if speaks_qos else "plain")
    credit = options.queue_requests or min(PLAIN_CREDIT, service.site.limits.credit_max)
    return NodeSubscription(request.wanted, jid, accepts, credit, level, options.lock_s, of_bare)


def _configuration_required(node: str, jid: str) -> StanzaError:
    pubsub = Element(f"{{{PUBSUB}}}pubsub")
    SubElement(pubsub, f"{{{PUBSUB}}}subscribe", {"jid": jid, "node": node})
    options = SubElement(pubsub, f"{{{PUBSUB}}}options", {"jid": jid, "node": node})
    options.append(options_form(None, queue=True))
    return StanzaError("not-acceptable", "modify", pubsub="configuration-required", children=(pubsub,))


def _subscribed(subscription: NodeSubscription, jid: str, *, with_options: bool) -> Element:
    pubsub = Element(f"{{{PUBSUB}}}pubsub")
    pubsub.append(_subscription(ListedSubscription(subscription.node, jid)))
    if with_options:
        values = {QOS_FIELD: level_name(subscription)}
        if subscription.is_collection:
            values |= COLLECTION_OPTIONS
        else:
            values[REQUESTS_FIELD] = str(subscription.credit)
        # libraries expect what the schema requires. Source: XEP-0060 16.1
        attributes = {"node": subscription.node, "jid": jid, "subid": subscription.subid}
        options = SubElement(pubsub, f"{{{PUBSUB}}}options", attributes)
        options.append(result_form(SUBSCRIBE_OPTIONS, values))
    return pubsub


def _subscription(listed: ListedSubscription) -> Element:
    return Element(f"{{{PUBSUB}}}subscription", {"node": listed.node, **listed.attributes})


def _of_asker(request: Request) -> str:
    """Whose subscription, or request for one, is meant. Raises StanzaError. Source: XEP-0060 6.2.3."""
    if not request.action.get("jid"):
        raise StanzaError("bad-request", "modify", pubsub="jid-required")
    return _subscriber(request, StanzaError("forbidden", "auth", "the JID is not yours"))


def _find(request: Request, *, kind: str) -> tuple[list[NodeSubscription], str]:
    """The subscription that is meant, and its JID. `kind`: of the error where there is none.

    That of a bare JID to a queue is what the asking resource has of it; all, where that has nothing.
    Source: XEP-0060 6.2.3, 6.3.4.
    """
    node, action, jid = request.wanted, request.action, _of_asker(request)
    found = [each for each in request.service.registry.of_subscriber(jid, node) if not each.leaving]
    if not found:
        if not is_pattern(node) and request.client.session.topic(node) is None:
            raise StanzaError("item-not-found", "cancel", f"no node {node}")
        raise StanzaError("unexpected-request", kind, pubsub="not-subscribed")
    if action.get("subid", found[0].subid) != found[0].subid:
        raise StanzaError("not-acceptable", "modify", pubsub="invalid-subid")
    return [each for each in found if each.jid == request.client.jid] or found, jid


async def unsubscribe(request: Request) -> None:
    """Carry out `<unsubscribe/>`; items that are locked stay so until they are retracted or unlocked."""
    node = request.wanted
    if await authorizing.take_back(request, node, _of_asker(request)):
        await request.answer()
        return
    found, jid = _find(request, kind="cancel")
    await _leave(request, found)
    answer = Element(f"{{{PUBSUB}}}pubsub")
    answer.append(_subscription(ListedSubscription(found[0].node, jid, "none")))
    await request.answer(answer)
    await beginning.tell_owners(request, node, jid, "none")


async def _leave(request: Request, found: list[NodeSubscription]) -> None:
    replies = []
    # all at once: what begins anew meanwhile is none of them
    for subscription in found:
        target = request.service.clients.of(subscription.jid)
        replies.append(reply := Reply())
        if target.holds(subscription):
            _leave_later(target, subscription, reply.done)
        else:
            target.drop(subscription, reply.done)
    for reply in replies:
        await reply.wait()


def _leave_later(target: AskingClient, subscription: NodeSubscription, done: Done) -> None:
    """Have a subscription end once nothing is locked by it; where that is refused, it goes on."""

    async def answered(answer: Answer) -> None:
        if answer.error is not None:
            subscription.leaving = False
        await done(answer)

    subscription.leaving = True
    try:
        target.change(subscription, answered)
    except Refusal:
        subscription.leaving = False
        raise


async def get_options(request: Request) -> None:
    """Answer with the form of a subscription's options."""
    [subscription, *_], jid = _find(request, kind="modify")
    answer = Element(f"{{{PUBSUB}}}pubsub")
    attributes = {"node": subscription.node, "jid": jid, "subid": subscription.subid}
    options = SubElement(answer, f"{{{PUBSUB}}}options", attributes)
    options.append(
        options_form(subscription, queue=subscription.is_queue, of_collection=subscription.is_collection)
    )
    await request.answer(answer)


async def set_options(request: Request) -> None:
    """Carry out a filled-in form; what is not in it stays as it was."""
    found, _ = _find(request, kind="modify")
    values = submitted(request.action, SUBSCRIBE_OPTIONS)
    of_collection = found[0].is_collection
    options = Options.read(values, request.service.site.limits.credit_max, of_collection=of_collection)
    for subscription in found:
        changes_kind = (options.level or subscription.level, options.accepts or subscription.accepts)
        if changes_kind != (subscription.level, subscription.accepts):
            raise invalid_options("unsubscribe first to change how, or which, items are sent")
    for subscription in found:
        if not request.service.registry.knows(subscription):
            # it has ended while the one before it was changed: it must not begin anew
            continue
        target, reply = request.service.clients.of(subscription.jid), Reply()
        before = subscription.credit, subscription.lock_s
        if options.queue_requests is not None:
            subscription.credit = options.queue_requests
        if options.lock_s is not None:
            subscription.lock_s = options.lock_s
        try:
            target.change(subscription, reply.done)
            await reply.wait()
        except Refusal:
            subscription.credit, subscription.lock_s = before
            raise
    await request.answer()


async def default_options(request: Request) -> None:
    """Answer with the form of options before anything is filled in."""
    node = request.wanted if request.action.get("node") else ""
    of_collection = is_pattern(node)
    topic = request.client.session.topic(node) if node and not of_collection else None
    queue = not of_collection and NodeSettings.of(topic).is_queue
    answer = Element(f"{{{PUBSUB}}}pubsub")
    default = SubElement(answer, f"{{{PUBSUB}}}default", {"node": node} if node else {})
    default.append(options_form(None, queue=queue, of_collection=of_collection))
    await request.answer(answer)


async def subscriptions(request: Request) -> None:
    """Answer with those of all resources of the asker, a page at a time."""
    node = request.action.get("node")
    answer = Element(f"{{{PUBSUB}}}pubsub")
    listed = SubElement(answer, f"{{{PUBSUB}}}subscriptions", {"node": node} if node else {})
    registry, session = request.service.registry, request.client.session
    found = [
        ListedSubscription(each.node, each.subscriber)
        for each in registry.of_bare(request.asker)
        if not each.leaving and node in (None, "", each.node)
    ]
    waiting = [
        ListedSubscription(waits_at, jid, "pending")
        for waits_at in registry.pending_of(request.asker)
        if node in (None, "", waits_at)
        for jid in records.record(session, waits_at).requests
        if bare_of(jid) == request.asker
    ]
    room, page = room_for_list(request), Page.read(request.parent)
    elements, end = page_of(by_subid(waiting, found), page, _subscription, room)
    listed.extend(elements)
    answer.extend(end)
    await request.answer(answer)


def by_subid(
    waiting: list[ListedSubscription], found: list[ListedSubscription]
) -> dict[str, ListedSubscription]:
    """Both, each JID once at a node: who subscribes to it does not wait for it."""
    return {each.attributes["subid"]: each for each in (*waiting, *found)}


def room_for_list(request: Request) -> int:
    """Bytes of an answer that its list may fill; the rest is for all else."""
    return request.service.settings.send_bytes_max // 2


async def topics_of(session: Session, page: Page, pattern: str = "") -> list[TopicInfo]:
    """A page of those that may be seen, or of those of a pattern."""
    if page.index is None:
        return await session.topics(page.after, page.max, pattern) if page.max else []
    return (await session.topics("", page.index + page.max, pattern))[page.index :]


async def affiliations(request: Request) -> None:
    """Answer with the asker's own; of all nodes, a page at a time."""
    answer = Element(f"{{{PUBSUB}}}pubsub")
    node, session = request.action.get("node"), request.client.session
    listed = SubElement(answer, f"{{{PUBSUB}}}affiliations", {"node": node} if node else {})
    page = Page.read(request.parent)
    found = [] if node else await topics_of(session, page)
    records_of = {topic.name: record_of(topic) for topic in found}
    if node and is_pattern(request.wanted):
        affiliation = "member" if session.may_follow(node) else "outcast"
        SubElement(listed, f"{{{PUBSUB}}}affiliation", {"node": node, "affiliation": affiliation})
    elif node:
        records_of[request.node] = records.record(session, request.node)
    for each, record in records_of.items():
        if is_sendable(each):
            held = request.service.access.affiliation(request.asker, each, record)
            attributes = {"node": each, "affiliation": held}
            SubElement(listed, f"{{{PUBSUB}}}affiliation", attributes)
    if len(found) == page.max or page.after or page.index:
        names = [topic.name for topic in found]
        first, last = (names[0], names[-1]) if names else ("", "")
        answer.append(page_end(first, last, index=page.index))
    await request.answer(answer)
