"""A subscription begins: asked for by its subscriber, or let begin by an owner."""

from daemon.frontend import Answer
from plugins.xmpp.delivery.calls import Done
from plugins.xmpp.forms import notifications
from plugins.xmpp.known.registry import NodeSubscription
from plugins.xmpp.requests import records
from plugins.xmpp.requests.request import Request, ServicePort
from routing.errors import Refusal


async def begin(service: ServicePort, subscription: NodeSubscription, written: str, done: Done) -> None:
    """Begin a subscription in the place of what the JID, as it is `written`, had before.

    `done` is awaited with the answer.
    Raises StanzaError and Refusal: `done` is not called.
    """
    node, jid = subscription.node, subscription.jid
    target = service.clients.of(jid)
    previous = service.registry.find(jid, node)
    replaced = [
        each
        for each in service.registry.of_subscriber(written, node)
        if each.name != subscription.name and (each is previous or each.of_bare != subscription.of_bare)
    ]
    if previous is not None and previous.name != subscription.name and previous not in replaced:
        replaced.append(previous)

    async def answered(answer: Answer) -> None:
        if answer.error is not None:
            service.registry.remove(jid, node)
        await done(answer)

    if previous is None and subscription.accepts == "ALL" and not subscription.is_collection:
        # of what is kept, only the last item is for who subscribes now. Source: XEP-0060 6.1.7
        kept = await service.index.last(target.session, node, None, 1)
        is_sent = records.record(target.session, node).options.send_last_published_item == "on_sub"
        subscription.history_to = kept[-1].message_id + (not is_sent) if kept else 0
    for each in replaced:
        former = service.clients.of(each.jid)
        former.release(each)
        service.registry.remove(each.jid, node)
        await former.ask(former.session.unsubscribe, node, each.name)
    # known before the broker is asked: the first items may come with its answer
    service.registry.add(subscription)
    try:
        target.request(target.session.subscribe, node, subscription.options, done=answered)
    except Refusal:
        service.registry.remove(jid, node)
        raise
    target.replace(previous, subscription)


async def tell_owners(request: Request, node: str, jid: str, state: str) -> None:
    """Tell a node's owners, where they want to know, who subscribes, or no longer. Source: XEP-0060 7.3.1."""
    record = records.record(request.client.session, node)
    if record.options.notify_sub:
        for owner in request.service.access.owners(node, record):
            await request.service.notify(owner, notifications.subscription(node, jid, state))
