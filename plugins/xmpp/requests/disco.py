"""What the service is, which nodes there are, and what is known of one. Source: XEP-0030, XEP-0060 5."""

from typing import Final
from xml.etree.ElementTree import Element

from slixmpp.jid import JID
from slixmpp.plugins.xep_0030.stanza.info import DiscoInfo
from slixmpp.plugins.xep_0030.stanza.items import DiscoItems

from daemon.frontend import HeldMessage
from plugins.xmpp.forms.data_forms import META_DATA, result_form
from plugins.xmpp.forms.node_record import NodeRecord, record_of
from plugins.xmpp.forms.node_settings import NodeSettings
from plugins.xmpp.forms.paging import Page, page_end
from plugins.xmpp.forms.payload import item_id
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.identities import channel_of, local_of
from plugins.xmpp.requests import collections, commands
from plugins.xmpp.requests.items import ItemPage, Listed, number_of, read_into
from plugins.xmpp.requests.request import OpenRequest, Request, ServicePort
from plugins.xmpp.requests.subscribing import topics_of
from plugins.xmpp.wire.namespaces import (
    COMMANDS,
    DELAY,
    DISCO_INFO,
    DISCO_ITEMS,
    PING,
    PUBSUB,
    QOS,
    QUEUEING,
    RESULT_SET,
    SHIM,
    SMQP,
)
from plugins.xmpp.wire.serializer import is_sendable
from routing.names import check_topic, make_address
from routing.patterns import check_wanted, is_pattern

PUBSUB_FEATURES: Final = (
    "access-authorize",
    "access-open",
    "access-whitelist",
    "auto-create",
    "collections",
    "config-node",
    "config-node-max",
    "create-and-configure",
    "create-nodes",
    "delete-items",
    "delete-nodes",
    "get-pending",
    "instant-nodes",
    "item-ids",
    "last-published",
    "multi-collections",
    "multi-items",
    "manage-subscriptions",
    "member-affiliation",
    "meta-data",
    "modify-affiliations",
    "outcast-affiliation",
    "persistent-items",
    "publish",
    "publish-only-affiliation",
    "publish-options",
    "publisher-affiliation",
    "purge-nodes",
    "retract-items",
    "retrieve-affiliations",
    "retrieve-default",
    "retrieve-default-sub",
    "retrieve-items",
    "retrieve-subscriptions",
    "rsm",
    "subscribe",
    "subscription-options",
)
FEATURES: Final = (
    DISCO_INFO,
    DISCO_ITEMS,
    PUBSUB,
    *(f"{PUBSUB}#{name}" for name in PUBSUB_FEATURES),
    COMMANDS,
    QUEUEING,
    QOS,
    SHIM,
    SMQP,
    DELAY,
    PING,
    RESULT_SET,
)


async def info(asked: OpenRequest) -> None:
    """Answer disco#info of the service, or of a node."""
    service, node = asked.service, asked.action.get("node") or local_of(asked.stanza.get("to", ""))
    answer = DiscoInfo()
    if not node:
        answer.add_identity("pubsub", "service", name=service.site.server_ident)
        for feature in FEATURES:
            answer.add_feature(feature)
        account = service.rules.account_of(asked.asker)
        if account is not None:
            # the node where its receipts arrive, and replies to what it publishes
            address = make_address(account, channel_of(asked.jid), service.site.server_name)
            answer.xml.append(result_form(SMQP, {"account": address}))
        await asked.answer(answer.xml)
        return
    client = service.clients.of(asked.jid)
    if commands.are_at(node):
        await asked.answer(commands.described(node))
        return
    if is_pattern(node):
        await asked.answer(collections.described(client, check_wanted(node)))
        return
    topic = client.session.topic(check_topic(node))
    if topic is None:
        raise StanzaError("item-not-found", "cancel", f"no node {node}")
    settings, record = NodeSettings.of(topic), record_of(topic)
    answer["node"] = node
    answer.add_identity("pubsub", "leaf")
    features = (DISCO_INFO, DISCO_ITEMS, PUBSUB, QOS, *((QUEUEING,) if settings.is_queue else ()))
    for feature in features:
        answer.add_feature(feature)
    known = {
        **settings.values(),
        **_history(service, node, record),
        "pubsub#num_subscribers": str(topic.subscriptions),
        f"{{{SMQP}}}items": str(topic.messages),
        f"{{{SMQP}}}bytes": str(topic.bytes),
    }
    answer.xml.append(result_form(META_DATA, known))
    await asked.answer(answer.xml)


def _history(service: ServicePort, node: str, record: NodeRecord) -> dict[str, str]:
    """The fields of a form that tell who made a node, and who has to do with it. Source: XEP-0060 5.4."""
    owners = service.access.owners(node, record)
    told = {
        "pubsub#creator": record.creator,
        "pubsub#creation_date": record.created,
        "pubsub#owner": owners[0] if owners else "",
    }
    return {field: value for field, value in told.items() if value}


def _name(held: HeldMessage) -> Listed:
    name = item_id(held.stored.message)
    return (name if is_sendable(name) else "", "")


async def things(request: Request) -> None:
    """Answer disco#items: nodes that the asker has rights on, or a collection's; a node's items; commands."""
    answer = DiscoItems()
    node = request.action.get("node")
    page = Page.read(request.action)
    if node and commands.are_at(node):
        await request.answer(commands.listed(node, request.service.name))
        return
    pattern = check_wanted(node) if node and is_pattern(node) else ""
    if pattern:
        answer["node"] = pattern
        collections.check_there(request.client, pattern)
    elif node:
        answer["node"] = node
        topic = request.client.session.topic(check_topic(node))
        if topic is None:
            raise StanzaError("item-not-found", "cancel", f"no node {node}")
        request.service.access.check_may_retrieve(request.asker, node, record_of(topic))
        if page.index is not None:
            raise StanzaError("feature-not-implemented", "cancel", "by index at <items/> only")
        shown = ItemPage(page.max, request.service.settings.send_bytes_max // 2, _name)
        await read_into(shown, request, node, topic, number_of(page.after))
        for name, _ in dict.fromkeys(shown.listed):
            # slixmpp takes items of one node for one item
            attributes = {"jid": request.service.name, "name": name}
            answer.xml.append(Element(f"{{{DISCO_ITEMS}}}item", attributes))
        if shown.places:
            answer.xml.append(page_end(str(shown.places[0]), str(shown.places[-1])))
        await request.answer(answer.xml)
        return
    topics = await topics_of(request.client.session, page, pattern)
    for topic in topics:
        if is_sendable(topic.name):
            answer.add_item(JID(request.service.name), node=topic.name)
    names = [topic.name for topic in topics]
    if names:
        # how many there are in all is not for those who may see some
        answer.xml.append(page_end(names[0], names[-1], index=page.index))
    await request.answer(answer.xml)
