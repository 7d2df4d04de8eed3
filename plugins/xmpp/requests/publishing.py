"""Publishing items. Source: XEP-0060 7.1, XEP-0254 2.2."""

import uuid
from contextlib import suppress
from functools import partial
from typing import Any, Final
from xml.etree.ElementTree import Element

import msgspec

from daemon.frontend import Answer, Limits, Session, TopicInfo
from plugins.xmpp.delivery.calls import Done
from plugins.xmpp.forms.data_forms import PUBLISH_OPTIONS, submitted
from plugins.xmpp.forms.node_options import NodeOptions, same_value
from plugins.xmpp.forms.node_record import NodeRecord, record_of, written
from plugins.xmpp.forms.node_settings import NodeSettings, wanted_of_new
from plugins.xmpp.forms.payload import (
    ITEM_ID,
    PUBLISHER,
    TEXT_TYPE,
    Item,
    check_bounds,
    read_item,
    xml_section,
)
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.identities import local_of
from plugins.xmpp.requests import collections, records
from plugins.xmpp.requests.records import NodeState
from plugins.xmpp.requests.request import AskingClient, Request, ServicePort, node_of
from plugins.xmpp.wire.namespaces import (
    ANNOTATIONS,
    CLIENT,
    COMPONENT,
    PUBSUB,
    SHIM,
    local_name,
    namespace_of,
)
from plugins.xmpp.wire.serializer import escape_attribute
from routing.errors import Refusal
from routing.message import INFINITE, Message, Section
from routing.names import check_topic, owner_of

ITEMS_MAX: Final = 100
"""Of one publication."""

_OF_STANZAS: Final = frozenset({CLIENT, COMPONENT})
_THREADS: Final = frozenset(f"{{{namespace}}}thread" for namespace in _OF_STANZAS)
_ITEM: Final = f"{{{PUBSUB}}}item"
_PUBLISH: Final = f"{{{PUBSUB}}}publish"
_OPTIONS: Final = f"{{{PUBSUB}}}publish-options"


class Publication(msgspec.Struct):
    """A message and where it goes."""

    node: str
    item: Item


def _read_publish(
    parent: Element, publish: Element, items_max: int, limits: Limits
) -> tuple[str, list[Item]]:
    node = node_of(publish)
    items = publish.findall(_ITEM)
    if not items:
        raise StanzaError("bad-request", "modify", pubsub="item-required")
    if len(items) > items_max:
        text = f"{items_max} at a time"
        raise StanzaError("not-allowed", "cancel", text, pubsub="max-items-exceeded")
    beside = parent.find(f"{{{SHIM}}}headers")
    return node, [read_item(item, limits, beside) for item in items]


def timeout_of(message: Message, topic: TopicInfo | None) -> float | None:
    """Seconds that an item is kept, by its own word or its node's; None where neither says."""
    return message.timeout_s if message.timeout_s is not None or topic is None else topic.timeout_s


def settle_mode(message: Message, topic: TopicInfo | None) -> Message:
    """Have an item queue unless it or its node says otherwise, or it is kept for everyone."""
    told = message.delivery is not None or (topic is not None and topic.delivery is not None)
    if told or timeout_of(message, topic) == INFINITE:
        return message
    return msgspec.structs.replace(message, delivery="ONE")


def _signed(message: Message, jid: str, options: NodeOptions) -> Message:
    """With the JID that publishes it, where the node's items say that."""
    if not options.publisher:
        return message
    return msgspec.structs.replace(message, others=(*message.others, (PUBLISHER, jid)))


def check_may_publish(request: Request, node: str) -> tuple[TopicInfo | None, NodeOptions]:
    """The node's topic and options, where its owners let the client publish. Raises StanzaError."""
    service, client = request.service, request.client
    topic = client.session.topic(node)
    record = record_of(topic)
    if topic is None:
        own = owner_of(node, service.site.server_name) is not None
        if not (own or service.settings.create_on_publish) and client.session.allows("publish", node):
            raise StanzaError("item-not-found", "cancel", f"no node {node}")
        service.check_room_for_node()
    else:
        service.access.check_publisher(request.asker, node, record)
    return topic, record.options


async def give(
    request: Request, publication: Publication, done: Done, *, instead_of: tuple[str, str] | None = None
) -> None:
    """Give the broker a publication; `done` is awaited with its answer, at once if it is not guaranteed.

    A guaranteed message is the broker's when this returns; nothing is awaited until then. Raises Refusal and
    StanzaError: nothing was published, and `done` is not called.

    Args:
        instead_of: topic and Smuid of another message, which goes when this one comes, whatever happens.
    """
    node, item = publication.node, publication.item
    service, client = request.service, request.client
    topic, options = check_may_publish(request, node)
    message = _signed(settle_mode(item.message, topic), client.jid, options)
    service.finishing.now()
    if message.guarantee:
        client.session.check_room(message.memory_bytes)
        if (replacing := _replacing(topic, options, [item])) is not None:
            done = partial(_published, service, node, replacing, done)
        if instead_of is None:
            client.request(client.session.publish, node, message, done=done)
        else:
            client.request(_exchange, client.session, node, message, *instead_of, done=done)
    else:
        client.session.publish(node, message)
        await done(Answer(request=None))


def _exchange(session: Session, node: str, message: Message, topic: str, smuid: str, *, request: Any) -> None:
    # also where the store fails: it is not refused then, but tried again
    with session.transaction(request):
        session.publish(node, message)
        session.remove(topic, smuid)


def _replacing(topic: TopicInfo | None, options: NodeOptions, items: list[Item]) -> list[str] | None:
    """The ids of which an item may have to go when these come; None where nothing has to.

    A persistent item replaces the one that had its id. Source: XEP-0060 7.1.2.
    """
    replacing = [item.id for item in items if item.id and timeout_of(item.message, topic) == INFINITE]
    return replacing if replacing or options.max_items is not None else None


async def _published(
    service: ServicePort, node: str, replacing: list[str], done: Done, answer: Answer
) -> None:
    # one task sees to a node, however many items are published to it at a time
    if answer.error is None and service.replaced.note(node, replacing):
        service.start(partial(_tidy, service, node))
    await done(answer)


async def publish(request: Request) -> None:
    """Carry out `<publish/>`; answered once all of its items are on disk, or none is."""
    node, items = _read_publish(request.parent, request.action, ITEMS_MAX, request.service.site.limits)
    options, new = request.parent.find(_OPTIONS), None
    if options is not None:
        values = submitted(options, PUBLISH_OPTIONS) or {}
        topic = request.client.session.topic(node)
        if topic is not None:
            _check_options(values, NodeSettings.of(topic))
        else:
            new = _wanted(values)
    if len(items) > 1 or new is not None:
        await _publish_all(request, node, items, new)
        return
    [item] = items

    @request.unless_refused
    async def done(answer: Answer) -> None:
        await request.answer_text(_published_items(node, [item.id or answer.smuid]))

    await give(request, Publication(node, item), done)


async def _publish_all(request: Request, node: str, items: list[Item], new: NodeSettings | None) -> None:
    """Publish several items, or those that make a node: together, or nothing of it comes true."""
    service, client = request.service, request.client
    topic, options = check_may_publish(request, node)
    made = None
    if new is not None:
        # one that is created, with its first item; the broker lets anybody annotate it
        service.access.check_owner(request.asker, node, NodeRecord())
        made = _kept_of_new(new, client.jid)
        topic, options = TopicInfo(node, made.mode, made.timeout_s, 0, 0, 0, 0, {}), new.options
    for item in items:
        if not item.message.guarantee and len(items) > 1:
            raise StanzaError("bad-request", "modify", "items without a guarantee go one at a time")
        if not item.id:
            # one answer names them all
            item.id = uuid.uuid4().hex
            others = (*item.message.others, (ITEM_ID, item.id))
            item.message = msgspec.structs.replace(item.message, others=others)
    messages = [_signed(settle_mode(item.message, topic), client.jid, options) for item in items]

    @request.unless_refused
    async def done(_: Answer) -> None:
        await request.answer_text(_published_items(node, [item.id for item in items]))

    if (replacing := _replacing(topic, options, items)) is not None:
        done = partial(_published, service, node, replacing, done)
    if made is not None:
        done = partial(_made, client.session, node, made, done)
    service.finishing.now()
    client.session.check_room(sum(message.memory_bytes for message in messages))
    client.request(_together, client.session, node, messages, made, done=done)


def _together(
    session: Session, node: str, messages: list[Message], made: NodeState | None, *, request: Any
) -> None:
    with session.transaction(request):
        if made is not None:
            records.put(session, node, made, NodeState())
        for message in messages:
            session.publish(node, message)


def _published_items(node: str, ids: list[str]) -> str:
    items = "".join([f"<item id='{escape_attribute(id)}'/>" for id in ids if id])
    publish = f"<publish node='{escape_attribute(node)}'>{items}</publish>"
    return f"<pubsub xmlns='{PUBSUB}'>{publish}</pubsub>"


async def _tidy(service: ServicePort, node: str) -> None:
    """The newest item of an id is the item, whoever published it.

    The others are removed by who may do so. Where nobody is there who may, they stay, and are shown to
    nobody, until something is published once more.
    """
    try:
        while (ids := service.replaced.take(node)) is not None:
            client = service.clients.allowed(node, "subscribe", "remove")
            if client is None:
                continue
            with suppress(Refusal):  # the session has ended: the next one that is published sees to it
                for id in ids:
                    for held in await service.index.outdated(client.session, node, id):
                        await client.ask(client.session.remove, node, held.smuid)
                items_max = records.record(client.session, node).options.max_items
                await keep_newest(service, client, node, items_max)
    finally:
        service.replaced.done(node)


async def keep_newest(service: ServicePort, client: AskingClient, node: str, items_max: int | None) -> None:
    """Remove items until a node keeps no more than it is to; None keeps all. Raises Refusal."""
    while items_max is not None:
        oldest = await service.index.surplus(client.session, node, items_max, ITEMS_MAX)
        for held in oldest:
            await client.ask(client.session.remove, node, held.smuid)
        if len(oldest) < ITEMS_MAX:
            return


def _precondition_not_met(text: str) -> StanzaError:
    return StanzaError("conflict", "cancel", text, pubsub="precondition-not-met")


def _check_options(values: dict[str, str], settings: NodeSettings) -> None:
    """Preconditions: what the publisher takes the node to be. Source: XEP-0060 7.1.5."""
    holds = settings.values()
    for field, value in values.items():
        if field not in holds:
            raise _precondition_not_met(f"{field[:100]} is not known")
        if not same_value(value, holds[field]):
            raise _precondition_not_met(f"{field} is different")


def _wanted(values: dict[str, str]) -> NodeSettings | None:
    """What a node is that its first item makes: what the publisher takes it to be. Source: XEP-0060 7.1.5.

    None where that is what any would be. Raises StanzaError.
    """
    try:
        settings = NodeSettings().changed(wanted_of_new(values))
    except StanzaError as error:
        raise _precondition_not_met(error.text) from None
    _check_options(values, settings)
    return None if settings == NodeSettings() else settings


def _kept_of_new(settings: NodeSettings, creator: str) -> NodeState:
    text = None
    if settings.options != NodeOptions():
        text = written(records.begun(settings.options, creator))
    return NodeState(settings.mode, settings.timeout_s, text)


async def _made(session: Session, node: str, made: NodeState, done: Done, answer: Answer) -> None:
    # a node that was made for what is refused goes again; whoever has to do with it meanwhile keeps it
    if answer.error is not None and not _is_used(session, node):
        records.put_back(session, node, NodeState(), made)
    await done(answer)


def _is_used(session: Session, node: str) -> bool:
    try:
        subscribed = any(each.topic == node for each in session.subscriptions(node))
    except Refusal:  # the session has ended: nobody can know
        return True
    topic = session.topic(node)
    return subscribed or (topic is not None and topic.messages > 0)


# -- messages -------------------------------------------------------------------------------------


def read_message(message: Element, to: str, limits: Limits) -> Publication | None:
    """What a message publishes: the `<publish/>` in it, or itself to the topic that it is addressed to.

    Itself is without what chat clients annotate it with. None where it publishes nothing. Raises StanzaError,
    Refusal.
    """
    pubsub = message.find(f"{{{PUBSUB}}}pubsub")
    if pubsub is not None:
        action = pubsub.find(_PUBLISH)
        if action is None:
            raise StanzaError("bad-request", "modify")
        collections.check(action)
        node, [item] = _read_publish(message, action, 1, limits)
        return Publication(node, item)
    topic = local_of(to)
    if not topic:
        return None
    collections.check_leaf(topic, "publish")
    body, sections = "", []
    for child in message:
        namespace = namespace_of(child.tag)
        if namespace in _OF_STANZAS:
            body = child.text or "" if local_name(child.tag) == "body" else body
        elif namespace not in ANNOTATIONS:
            sections.append(xml_section(child))
    if body:
        sections.insert(0, Section(TEXT_TYPE, body.encode()))
    if not sections:
        return None
    check_bounds([], sections, limits)
    return Publication(check_topic(topic), Item("", Message(sections=tuple(sections))))


def only_annotates(message: Element) -> bool:
    """Whether a message says nothing but that somebody types, has read another, and the like."""
    namespaces = [namespace_of(child.tag) for child in message if child.tag not in _THREADS]
    return bool(namespaces) and ANNOTATIONS.issuperset(namespaces)


async def publish_message(request: Request, publication: Publication) -> None:
    """Publish what came by a message; only a refusal is answered."""

    @request.unless_refused
    async def done(_: Answer) -> None:
        return

    await give(request, publication, done)
