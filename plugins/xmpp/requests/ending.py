"""Subscriptions end for others than their subscribers: for an owner, or as these may not receive any more."""

from contextlib import suppress

from daemon.frontend import Session, SubscriptionInfo
from plugins.xmpp.forms import notifications
from plugins.xmpp.known.identities import channel_of
from plugins.xmpp.known.registry import NodeSubscription
from plugins.xmpp.requests.request import Request, ServicePort
from routing.errors import Refusal


async def end_each(request: Request, node: str, subscriptions: list[NodeSubscription]) -> None:
    """End these, to one node that the asker administers, and tell their subscribers.

    Nothing comes by them any more, however busy a subscriber is, and whether or not it could log in now. One
    that has ended meanwhile, or that another has replaced, is passed over. Raises Refusal.
    """
    service, session, ended = request.service, request.client.session, list[NodeSubscription]()
    known = session.subscriptions(node) if subscriptions else []
    try:
        for each in subscriptions:
            if service.registry.knows(each):
                _end(service, session, each, known)
                ended.append(each)
        if ended:
            # answered once all before it is on disk
            await request.client.ask(session.commit, [])
    finally:
        for each in ended:
            await service.notify(each.jid, notifications.unsubscribed(node, each.subscriber))


def _end(
    service: ServicePort, session: Session, subscription: NodeSubscription, known: list[SubscriptionInfo]
) -> None:
    """Have the broker end it, and forget it at once; `known` are all to its node. Raises Refusal."""
    subscriber = service.clients.get(subscription.jid)
    if subscriber is not None:
        with suppress(Refusal):  # its session has just ended
            subscriber.drop(subscription)
            return
    for each in known:
        if (each.name, each.channel) == (subscription.name, channel_of(subscription.jid)):
            session.end_subscription(each)
    service.registry.remove(subscription)
