"""What an owner does with a node. Source: XEP-0060 8.

A node is a topic: creating one gives the topic settings of its own, by which it is remembered; topics
without any come and go with what is published to them.
"""

import uuid
from xml.etree.ElementTree import Element, SubElement

from plugins.xmpp.forms import notifications
from plugins.xmpp.forms.data_forms import NODE_CONFIG, result_form, submitted
from plugins.xmpp.forms.node_settings import NodeSettings
from plugins.xmpp.forms.paging import Page
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.identities import bare_of
from plugins.xmpp.known.registry import NodeSubscription, read_subscription
from plugins.xmpp.requests.request import Asker, Request, ServicePort
from plugins.xmpp.requests.subscribing import affiliation_of, page_of
from plugins.xmpp.wire.namespaces import PUBSUB, PUBSUB_OWNER


def _check_owner(client: Asker, node: str) -> None:
    if not client.session.allows("administer", node):
        raise StanzaError("forbidden", "auth", f"{client.session.account} may not administer {node}")


async def _apply(client: Asker, node: str, old: NodeSettings | None, new: NodeSettings) -> None:
    session = client.session
    if old is None or new.mode != old.mode:
        await client.ask(session.set_delivery, node, new.mode)
    if new.timeout_s != (old.timeout_s if old is not None else None):
        await client.ask(session.set_timeout, node, new.timeout_s)


async def create(request: Request) -> None:
    """`<create/>`, with or without `<configure/>`."""
    node = request.node if request.action.get("node") else _instant_node(request.client)
    _check_owner(request.client, node)
    topic = request.client.session.topic(node)
    if topic is not None and (topic.delivery is not None or topic.timeout_s is not None):
        raise StanzaError("conflict", "cancel", f"{node} is there already")
    if topic is None:
        request.service.check_room_for_node()
    settings, refused = NodeSettings(), list[str]()
    configure_element = request.parent.find(f"{{{PUBSUB}}}configure")
    if configure_element is not None:
        if configure_element.get("node", node) != node:
            raise StanzaError("bad-request", "modify", "the configuration of another node")
        settings, refused = settings.created(submitted(configure_element, NODE_CONFIG) or {})
    if settings.mode is None and settings.timeout_s is None:
        text = "a topic without delivery and expiry of its own is there only while it holds something"
        raise StanzaError("not-acceptable", "modify", text)
    await _apply(request.client, node, None, settings)
    answer = Element(f"{{{PUBSUB}}}pubsub")
    SubElement(answer, f"{{{PUBSUB}}}create", {"node": node})
    if refused:
        # what holds in place of what was asked for, by name
        holds = settings.values()
        told = {field: holds.get(field, "") for field in refused}
        configured = SubElement(answer, f"{{{PUBSUB}}}configure", {"node": node})
        configured.append(result_form(NODE_CONFIG, told))
    await request.answer(answer)


def _instant_node(client: Asker) -> str:
    """A name that nobody has, below the account's own where it may have no other. Source: XEP-0060 8.1.2."""
    name = f"instant.{uuid.uuid4().hex}"
    own = f"{client.session.account}.{name}"
    return name if client.session.allows("administer", name) else own


def _known(request: Request) -> tuple[str, NodeSettings]:
    node, client = request.node, request.client
    _check_owner(client, node)
    topic = client.session.topic(node)
    if topic is None:
        raise StanzaError("item-not-found", "cancel", f"no node {node}")
    return node, NodeSettings.of(topic)


async def configuration(request: Request) -> None:
    """The form of a node's configuration."""
    node, settings = _known(request)
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    SubElement(answer, f"{{{PUBSUB_OWNER}}}configure", {"node": node}).append(settings.form())
    await request.answer(answer)


async def configure(request: Request) -> None:
    """A filled-in form; what is not in it stays as it was."""
    node, old = _known(request)
    values = submitted(request.action, NODE_CONFIG)
    if values is not None:
        new = old.changed(values)
        await _apply(request.client, node, old, new)
        if new.is_queue is not old.is_queue:
            await _end_unserved(request, node, queue=new.is_queue)
    await request.answer()


async def _end_unserved(request: Request, node: str, *, queue: bool) -> None:
    """Whoever takes only what the node gives no longer is told to subscribe anew, rather than nothing."""
    silent = "ALL" if queue else "ONE"
    for subscription in request.service.registry.of_node(node):
        if subscription.accepts == silent:
            await request.service.client(subscription.jid).end(subscription)


async def default_configuration(request: Request) -> None:
    """The form of a node that is about to be made."""
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    SubElement(answer, f"{{{PUBSUB_OWNER}}}default").append(NodeSettings().form())
    await request.answer(answer)


async def delete(request: Request) -> None:
    """The node, its items and all subscriptions to it."""
    node, _ = _known(request)
    told = request.service.registry.of_node(node)
    for subscription in told:
        if (subscriber := request.service.find_client(subscription.jid)) is not None:
            subscriber.leave(subscription)
        request.service.registry.remove(subscription.jid, node)
    # a large node takes a while; its subscribers get nothing of it any more
    await request.client.ask(request.client.session.delete_topic, node)
    await request.answer()
    await _tell(request.service, told, notifications.about_node("delete", node))


async def purge(request: Request) -> None:
    """All items of the node."""
    node, _ = _known(request)
    await request.client.ask(request.client.session.purge, node)
    await request.answer()
    await _tell(
        request.service, request.service.registry.of_node(node), notifications.about_node("purge", node)
    )


async def _tell(service: ServicePort, subscriptions: list[NodeSubscription], event: Element) -> None:
    """Also those that are not there at the moment: their server may keep it for them."""
    for subscription in subscriptions:
        await service.notify(subscription.jid, event)


async def owner_subscriptions(request: Request) -> None:
    """Who subscribes to the node over XMPP, a page at a time."""
    node, _ = _known(request)
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    listed = SubElement(answer, f"{{{PUBSUB_OWNER}}}subscriptions", {"node": node})
    found = [read_subscription(info) for info in request.client.session.subscriptions(node)]
    there = [each for each in found if each is not None and not each.leaving]
    page, end = page_of(request.service, there, Page.read(request.parent))
    for subscription in page:
        attributes = {
            "jid": subscription.subscriber,
            "subid": subscription.subid,
            "subscription": "subscribed",
        }
        SubElement(listed, f"{{{PUBSUB_OWNER}}}subscription", attributes)
    answer.extend(end)
    await request.answer(answer)


async def manage_subscriptions(request: Request) -> None:
    """An owner ends subscriptions; only their subscribers can begin them. Source: XEP-0060 8.8.2.

    A bare JID stands for all its resources. What could not be done is sent back as it stands.
    """
    node, _ = _known(request)
    registry, refused = request.service.registry, []
    for each in request.action.findall(f"{{{PUBSUB_OWNER}}}subscription"):
        jid, wanted, subid = each.get("jid", ""), each.get("subscription", ""), each.get("subid")
        found = registry.of_subscriber(jid, node) or registry.of_bare(jid)
        meant = [one for one in found if one.node == node and not one.leaving]
        named = [one for one in meant if subid in (None, one.subid)]
        state = "subscribed" if meant else "none"
        if wanted == "none" and named:
            for subscription in named:
                await request.service.client(subscription.jid).end(subscription)
        elif wanted != "subscribed" or not named:
            attributes = {"jid": jid, "subscription": state}
            refused.append(Element(f"{{{PUBSUB_OWNER}}}subscription", attributes))
    if not refused:
        await request.answer()
        return
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    SubElement(answer, f"{{{PUBSUB_OWNER}}}subscriptions", {"node": node}).extend(refused)
    raise StanzaError("not-acceptable", "modify", children=(answer,))


async def owner_affiliations(request: Request) -> None:
    """Those of the asker and of the subscribers; others' are in the site's accounts."""
    node, _ = _known(request)
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    listed = SubElement(answer, f"{{{PUBSUB_OWNER}}}affiliations", {"node": node})
    known = {bare_of(request.client.jid): affiliation_of(request.client.session, node)}
    for subscription in request.service.registry.of_node(node):
        subscriber = request.service.find_client(subscription.jid)
        if subscriber is not None:
            known.setdefault(bare_of(subscription.jid), affiliation_of(subscriber.session, node))
    for jid, affiliation in known.items():
        attributes = {"jid": jid, "affiliation": affiliation}
        SubElement(listed, f"{{{PUBSUB_OWNER}}}affiliation", attributes)
    await request.answer(answer)
