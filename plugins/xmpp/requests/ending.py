"""Subscriptions end for others than their subscribers: for an owner, or as these may not receive any more."""

from collections import defaultdict
from collections.abc import Iterable

from daemon.frontend import SubscriptionInfo
from plugins.xmpp.forms import notifications
from plugins.xmpp.known.identities import channel_of
from plugins.xmpp.known.registry import NodeSubscription
from plugins.xmpp.requests.request import AskingClient, Request
from routing.errors import Refusal


async def end_each(request: Request, node: str, subscriptions: Iterable[NodeSubscription]) -> None:
    """End these, to one node that the asker administers, and tell their subscribers. Raises Refusal."""
    await tell_ended(request, node, end_now(request, node, subscriptions))


def end_now(request: Request, node: str, subscriptions: Iterable[NodeSubscription]) -> list[NodeSubscription]:
    """End these, with nothing awaited, so that no session ends in between; `tell_ended` does the rest.

    Nothing comes by them any more, however busy a subscriber is, and whether or not it could log in now.
    Returns them without those that had ended before, or that others have replaced. Raises Refusal: all go on.
    """
    registry, clients = request.service.registry, request.service.clients
    ended = list({each.jid: each for each in subscriptions if registry.knows(each)}.values())
    if not ended:
        return []
    at_the_broker = _at_the_broker(request, node)
    for each in ended:
        if not _ends_itself(clients.get(each.jid), each):
            for info in at_the_broker[each.name, channel_of(each.jid)]:
                request.client.session.end_subscription(info)
            registry.remove(each)
    return ended


async def tell_ended(request: Request, node: str, ended: list[NodeSubscription]) -> None:
    """Tell subscribers that their subscriptions have ended, once that is on disk. Raises Refusal."""
    try:
        if ended:
            await request.client.ask(request.client.session.commit, [])
    finally:
        for each in ended:
            await request.service.notify(each.jid, notifications.unsubscribed(node, each.subscriber))


def _at_the_broker(request: Request, node: str) -> dict[tuple[str, str], list[SubscriptionInfo]]:
    """What the broker has of a node by name and channel, whatever account the rules gave the JID then.

    Not what takes the node by a pattern: a collection's name and channel are those of its JID's nodes.
    """
    found = defaultdict(list)
    for info in request.client.session.subscriptions(node):
        if info.topic == node:
            found[info.name, info.channel].append(info)
    return found


def _ends_itself(subscriber: AskingClient | None, subscription: NodeSubscription) -> bool:
    """Whether a subscriber's own session has ended it, where there is one."""
    if subscriber is None:
        return False
    try:
        subscriber.drop(subscription)
    except Refusal:  # the session has just ended
        return False
    return True
