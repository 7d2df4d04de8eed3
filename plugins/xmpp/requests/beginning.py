"""A subscription begins: asked for by its subscriber, or let begin by an owner."""

from contextlib import suppress

from daemon.frontend import Answer
from plugins.xmpp.delivery.calls import Done, SessionEnded
from plugins.xmpp.forms import notifications
from plugins.xmpp.known.registry import NodeSubscription
from plugins.xmpp.requests import records
from plugins.xmpp.requests.request import Request, ServicePort
from routing.errors import SUBSCRIPTIONS, Refusal


async def leave_out_history(service: ServicePort, subscription: NodeSubscription) -> None:
    """Of what is kept, leave only the last item for who subscribes now. Source: XEP-0060 6.1.7.

    Raises StanzaError, Refusal.
    """
    if subscription.accepts != "ALL" or subscription.is_collection:
        return
    session, node = service.clients.of(subscription.jid).session, subscription.node
    await service.index.know(session, node)  # from now on it is told what of it is removed
    kept = session.kept(node, count=1, backwards=True)
    is_sent = records.record(session, node).options.send_last_published_item == "on_sub"
    subscription.history_to = kept[-1] + (not is_sent) if kept else 0


def begin(service: ServicePort, subscription: NodeSubscription, written: str, done: Done) -> None:
    """Begin a subscription in the place of what the JID, as it is `written`, had before.

    Nothing is awaited, so that none begins, or ends, between what is looked up and what is done; `done` is
    awaited later, with the answer. Raises StanzaError and Refusal: nothing was done, and `done` is not
    called.
    """
    node, jid, registry = subscription.node, subscription.jid, service.registry
    target = service.clients.of(jid)
    previous = registry.find(jid, node)
    replaced = [
        each
        for each in registry.of_subscriber(written, node)
        if each.name != subscription.name and (each is previous or each.of_bare != subscription.of_bare)
    ]
    if previous is not None and previous.name != subscription.name and previous not in replaced:
        replaced.append(previous)
    formers = [(service.clients.of(each.jid), each) for each in replaced]

    async def answered(answer: Answer) -> None:
        if answer.error is not None and not isinstance(answer.error, SessionEnded):
            # else the broker may have it, and would keep for nobody what comes
            registry.remove(subscription)
        await done(answer)

    def ask() -> None:
        target.request(target.session.subscribe, node, subscription.options, done=answered)

    try:
        ask()
    except Refusal as refusal:
        if refusal.subject != SUBSCRIPTIONS or previous not in replaced:
            raise
        # of all that it has this one makes room: nothing else is in the way of the new one
        target.drop(previous)
        formers = [(former, each) for former, each in formers if each is not previous]
        ask()
    for former, each in formers:
        with suppress(Refusal):  # its session has just ended
            former.drop(each)
    if previous is not None:
        # what came since it began, and has not been sent yet, is no history
        subscription.history_to, subscription.last_kept = previous.history_to, previous.last_kept
    registry.add(subscription)
    target.replace(previous, subscription)


async def tell_owners(request: Request, node: str, jid: str, state: str) -> None:
    """Tell a node's owners, where they want to know, who subscribes, or no longer. Source: XEP-0060 7.3.1."""
    record = records.record(request.client.session, node)
    if record.options.notify_sub:
        for owner in request.service.access.owners(node, record):
            await request.service.notify(owner, notifications.subscription(node, jid, state))
