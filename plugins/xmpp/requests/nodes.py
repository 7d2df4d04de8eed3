"""What an owner does with a node. Source: XEP-0060 8.

A node is a topic: creating one gives the topic settings of its own, by which it is remembered; topics
without any come and go with what is published to them.
"""

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

from plugins.xmpp.delivery.client import Client
from plugins.xmpp.forms import notifications
from plugins.xmpp.forms.data_forms import NODE_CONFIG, submitted
from plugins.xmpp.forms.node_settings import NodeSettings
from plugins.xmpp.forms.paging import Page
from plugins.xmpp.forms.stanzas import StanzaError, failure, result
from plugins.xmpp.known.identities import bare_of
from plugins.xmpp.known.registry import NodeSubscription, read_subscription
from plugins.xmpp.requests.publishing import node_of
from plugins.xmpp.requests.subscribing import affiliation_of, page_of
from plugins.xmpp.wire.namespaces import PUBSUB, PUBSUB_OWNER

if TYPE_CHECKING:
    from plugins.xmpp.service import Service


def _check_owner(client: Client, node: str) -> None:
    if not client.session.allows("administer", node):
        raise StanzaError("forbidden", "auth", f"{client.session.account} may not administer {node}")


async def _apply(client: Client, node: str, old: NodeSettings | None, new: NodeSettings) -> None:
    session = client.session
    if old is None or new.mode != old.mode:
        await client.ask(session.set_delivery, node, new.mode)
    if new.timeout_s != (old.timeout_s if old is not None else None):
        await client.ask(session.set_timeout, node, new.timeout_s)


async def create(service: "Service", client: Client, iq: Element, pubsub: Element, action: Element) -> None:
    """`<create/>`, with or without `<configure/>`."""
    if not action.get("node"):
        raise StanzaError("not-acceptable", "modify", "a node has a name", pubsub="nodeid-required")
    node = node_of(action)
    _check_owner(client, node)
    topic = client.session.topic(node)
    if topic is not None and (topic.delivery is not None or topic.timeout_s is not None):
        raise StanzaError("conflict", "cancel", f"{node} is there already")
    if topic is None:
        service.check_room_for_node()
    settings = NodeSettings()
    configure_element = pubsub.find(f"{{{PUBSUB}}}configure")
    if configure_element is not None:
        if configure_element.get("node", node) != node:
            raise StanzaError("bad-request", "modify", "the configuration of another node")
        settings = settings.changed(submitted(configure_element, NODE_CONFIG) or {})
    await _apply(client, node, None, settings)
    answer = Element(f"{{{PUBSUB}}}pubsub")
    SubElement(answer, f"{{{PUBSUB}}}create", {"node": node})
    await service.answer(result(iq, answer))


def _known(client: Client, action: Element) -> tuple[str, NodeSettings]:
    node = node_of(action)
    _check_owner(client, node)
    topic = client.session.topic(node)
    if topic is None:
        raise StanzaError("item-not-found", "cancel", f"no node {node}")
    return node, NodeSettings.of(topic)


async def configuration(
    service: "Service", client: Client, iq: Element, pubsub: Element, action: Element
) -> None:
    """The form of a node's configuration."""
    node, settings = _known(client, action)
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    SubElement(answer, f"{{{PUBSUB_OWNER}}}configure", {"node": node}).append(settings.form())
    await service.answer(result(iq, answer))


async def configure(
    service: "Service", client: Client, iq: Element, pubsub: Element, action: Element
) -> None:
    """A filled-in form; what is not in it stays as it was."""
    node, old = _known(client, action)
    values = submitted(action, NODE_CONFIG)
    if values is not None:
        await _apply(client, node, old, old.changed(values))
    await service.answer(result(iq))


async def default_configuration(
    service: "Service", client: Client, iq: Element, pubsub: Element, action: Element
) -> None:
    """The form of a node that is about to be made."""
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    SubElement(answer, f"{{{PUBSUB_OWNER}}}default").append(NodeSettings().form())
    await service.answer(result(iq, answer))


async def delete(service: "Service", client: Client, iq: Element, pubsub: Element, action: Element) -> None:
    """The node, its items and all subscriptions to it."""
    node, _ = _known(client, action)
    told = service.registry.of_node(node)
    for subscription in told:
        if (subscriber := service.clients.get(subscription.jid)) is not None:
            subscriber.leave(subscription)
        service.registry.remove(subscription.jid, node)
    # a large node takes a while; its subscribers get nothing of it any more
    await client.ask(client.session.delete_topic, node)
    await service.answer(result(iq))
    await _tell(service, told, notifications.about_node("delete", node))


async def purge(service: "Service", client: Client, iq: Element, pubsub: Element, action: Element) -> None:
    """All items of the node."""
    node, _ = _known(client, action)
    await client.ask(client.session.purge, node)
    await service.answer(result(iq))
    await _tell(service, service.registry.of_node(node), notifications.about_node("purge", node))


async def _tell(service: "Service", subscriptions: list[NodeSubscription], event: Element) -> None:
    """Also those that are not there at the moment: their server may keep it for them."""
    for subscription in subscriptions:
        await service.notify(subscription.jid, event)


async def owner_subscriptions(
    service: "Service", client: Client, iq: Element, pubsub: Element, action: Element
) -> None:
    """Who subscribes to the node over XMPP, a page at a time."""
    node, _ = _known(client, action)
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    listed = SubElement(answer, f"{{{PUBSUB_OWNER}}}subscriptions", {"node": node})
    found = [read_subscription(info) for info in client.session.subscriptions(node)]
    there = [each for each in found if each is not None and not each.leaving]
    page, end = page_of(service, there, Page.read(pubsub))
    for subscription in page:
        attributes = {
            "jid": subscription.jid,
            "subid": subscription.subid,
            "subscription": "subscribed",
        }
        SubElement(listed, f"{{{PUBSUB_OWNER}}}subscription", attributes)
    answer.extend(end)
    await service.answer(result(iq, answer))


async def manage_subscriptions(
    service: "Service", client: Client, iq: Element, pubsub: Element, action: Element
) -> None:
    """An owner ends subscriptions; only their subscribers can begin them."""
    node, _ = _known(client, action)
    refused = []
    for each in action.findall(f"{{{PUBSUB_OWNER}}}subscription"):
        jid, wanted = each.get("jid", ""), each.get("subscription", "")
        subscription = service.registry.find(jid, node)
        state = "none" if subscription is None or subscription.leaving else "subscribed"
        if subscription is not None and wanted == "none" and state == "subscribed":
            await service.client(jid).end(subscription)
        elif wanted not in ("", state):
            attributes = {"jid": jid, "subscription": state}
            refused.append(Element(f"{{{PUBSUB_OWNER}}}subscription", attributes))
    if not refused:
        await service.answer(result(iq))
        return
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    SubElement(answer, f"{{{PUBSUB_OWNER}}}subscriptions", {"node": node}).extend(refused)
    await service.answer(failure(iq, StanzaError("not-acceptable", "modify", children=(answer,))))


async def owner_affiliations(
    service: "Service", client: Client, iq: Element, pubsub: Element, action: Element
) -> None:
    """Those of the asker and of the subscribers; others' are in the site's accounts."""
    node, _ = _known(client, action)
    answer = Element(f"{{{PUBSUB_OWNER}}}pubsub")
    listed = SubElement(answer, f"{{{PUBSUB_OWNER}}}affiliations", {"node": node})
    known = {bare_of(client.jid): affiliation_of(client.session, node)}
    for subscription in service.registry.of_node(node):
        subscriber = service.clients.get(subscription.jid)
        if subscriber is not None:
            known.setdefault(bare_of(subscription.jid), affiliation_of(subscriber.session, node))
    for jid, affiliation in known.items():
        attributes = {"jid": jid, "affiliation": affiliation}
        SubElement(listed, f"{{{PUBSUB_OWNER}}}affiliation", attributes)
    await service.answer(result(iq, answer))
