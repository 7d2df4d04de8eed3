"""What an owner does with a node. Source: XEP-0060 8.

A node is a topic: creating one keeps a record with it, by which it is remembered; topics without one, and
without settings, come and go with what is published to them.
"""

import uuid
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

import msgspec

from daemon.frontend import Accepts
from plugins.xmpp.forms import notifications
from plugins.xmpp.forms.data_forms import NODE_CONFIG, result_form, submitted
from plugins.xmpp.forms.node_record import FRONT_END, NodeRecord, record_of
from plugins.xmpp.forms.node_settings import NodeSettings
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.identities import bare_of
from plugins.xmpp.known.registry import NodeSubscription
from plugins.xmpp.requests import publishing, records
from plugins.xmpp.requests.ending import end_now, tell_ended
from plugins.xmpp.requests.request import AskingClient, Request, ServicePort
from plugins.xmpp.wire.namespaces import PUBSUB, PUBSUB_OWNER


async def create(request: Request) -> None:
    """Carry out `<create/>`, with or without `<configure/>`."""
    node = request.node if request.action.get("node") else _instant_node(request.client)
    session = request.client.session
    request.service.access.check_owner(request.asker, node, NodeRecord())
    topic = session.topic(node)
    if topic is not None and (
        topic.delivery is not None or topic.timeout_s is not None or FRONT_END in topic.annotations
    ):
        raise StanzaError("conflict", "cancel", f"{node} is there already")
    if topic is None:
        request.service.check_room_for_node()
    settings, refused = NodeSettings(), list[str]()
    configure_element = request.parent.find(f"{{{PUBSUB}}}configure")
    if configure_element is not None:
        if configure_element.get("node", node) != node:
            raise StanzaError("bad-request", "modify", "the configuration of another node")
        settings, refused = settings.created(submitted(configure_element, NODE_CONFIG) or {})
    record = records.begun(settings.options, request.client.jid)
    await records.change(request.client, node, lambda _: record, settings=settings)
    answer = Element(f"{{{PUBSUB}}}pubsub")
    SubElement(answer, f"{{{PUBSUB}}}create", {"node": node})
    if refused:
        # what holds in place of what was asked for, by name
        holds = settings.values()
        told = {field: holds.get(field, "") for field in refused}
        configured = SubElement(answer, f"{{{PUBSUB}}}configure", {"node": node})
        configured.append(result_form(NODE_CONFIG, told))
    await request.answer(answer)


def _instant_node(client: AskingClient) -> str:
    """A name that nobody has, below the account's own where it may have no other. Source: XEP-0060 8.1.2."""
    name = f"instant.{uuid.uuid4().hex}"
    own = f"{client.session.account}.{name}"
    return name if client.session.allows("administer", name) else own


def known(request: Request) -> tuple[str, NodeRecord, NodeSettings]:
    """The node that is named, for one of its owners. Raises StanzaError, Refusal."""
    node = request.node
    topic = request.client.session.topic(node)
    record = record_of(topic)
    request.service.access.check_owner(request.asker, node, record)
    if topic is None:
        raise StanzaError("item-not-found", "cancel", f"no node {node}")
    return node, record, NodeSettings.of(topic)


async def configuration(request: Request) -> None:
    """Answer with the form of a node's configuration."""
    node, _, settings = known(request)
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    SubElement(answer, f"{{{PUBSUB_OWNER}}}configure", {"node": node}).append(settings.form())
    await request.answer(answer)


async def configure(request: Request) -> None:
    """Carry out a filled-in form; what is not in it stays as it was."""
    node, kept, old = known(request)
    values = submitted(request.action, NODE_CONFIG)
    if values is not None:
        session, new = request.client.session, old.changed(values)
        unserved = _unserved(old, new)
        # of a record that could not be read, nothing but what is chosen is left
        requests = {jid: waits for jid, waits in kept.requests.items() if waits.accepts != unserved}
        record = msgspec.structs.replace(kept, options=new.options, requests=requests)
        dropped, ended = kept.requests.keys() - requests.keys(), list[NodeSubscription]()

        def go_along() -> None:
            for jid in dropped:
                request.service.registry.remove_pending(jid, node)
            every = request.service.registry.of_node(node)
            # whoever takes only what the node gives no longer subscribes anew, rather than getting nothing
            may_not = [*unlisted(request, node), *(one for one in every if one.accepts == unserved)]
            ended.extend(end_now(request, node, may_not))

        try:
            await records.change(request.client, node, lambda _: record, go_along, settings=new)
        finally:
            await tell_ended(request, node, ended)
        for jid in sorted(dropped):
            await request.service.notify(jid, notifications.unsubscribed(node, jid))
        items_max = new.options.max_items
        if items_max != old.options.max_items and session.allows("remove", node):
            await publishing.keep_newest(request.service, request.client, node, items_max)
        if new.options.notify_config:
            event = notifications.configured(node, new.values() if new.options.deliver_payloads else None)
            await _tell(request.service, request.service.registry.of_node(node), event)
    await request.answer()


def unlisted(request: Request, node: str) -> Iterator[NodeSubscription]:
    """The subscriptions of whoever may not receive any more: they end. Source: XEP-0060 8.9.2."""
    access, kept = request.service.access, records.record(request.client.session, node)
    for each in request.service.registry.of_node(node):
        if not access.may_receive(bare_of(each.jid), node, kept):
            yield each


def _unserved(old: NodeSettings, new: NodeSettings) -> Accepts | None:
    """What somebody takes who gets nothing any more, as the node is another than it was; None for nobody."""
    if new.is_queue is old.is_queue:
        return None
    return "ALL" if new.is_queue else "ONE"


async def default_configuration(request: Request) -> None:
    """Answer with the form of a node that is about to be made."""
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    SubElement(answer, f"{{{PUBSUB_OWNER}}}default").append(NodeSettings().form())
    await request.answer(answer)


async def delete(request: Request) -> None:
    """Delete the node, its items and all subscriptions to it."""
    node, record, _ = known(request)
    service, session = request.service, request.client.session
    told = service.registry.of_node(node)

    def end(request: int) -> None:
        session.commit([])  # refused where the node could not be deleted: then all stays as it is
        # a large node takes a while; its subscribers get nothing of it any more
        for subscription in told:
            if (subscriber := service.clients.get(subscription.jid)) is not None:
                subscriber.leave(subscription)
            service.registry.remove(subscription)
        for jid in record.requests:
            service.registry.remove_pending(jid, node)
        session.delete_topic(node, request)

    await request.client.ask(end)
    await request.answer()
    if record.options.notify_delete:
        await _tell(service, told, notifications.about_node("delete", node))


async def purge(request: Request) -> None:
    """Remove all items of the node."""
    node, record, _ = known(request)
    await request.client.ask(request.client.session.purge, node)
    await request.answer()
    if record.options.notify_retract:
        event, registry = notifications.about_node("purge", node), request.service.registry
        told = registry.of_node(node)
        await _tell(request.service, told, event)
        jids = {subscription.jid for subscription in told}
        for subscription in registry.of_collections(node):
            admission = request.service.access.admission(bare_of(subscription.jid), node, record)
            if subscription.jid not in jids and admission == "admitted":
                jids.add(subscription.jid)
                await request.service.notify(subscription.jid, event, collection=subscription.node)


async def _tell(service: ServicePort, subscriptions: list[NodeSubscription], event: Element) -> None:
    """Also those that are not there at the moment: their server may keep it for them."""
    for subscription in subscriptions:
        await service.notify(subscription.jid, event)
