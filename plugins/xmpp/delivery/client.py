"""One JID at work: its session with the broker, and its coming and going.

`run` turns the session's events into stanzas; a server that does not read makes it wait.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Protocol
from xml.etree.ElementTree import Element

import trio

from daemon.frontend import Answer, Delivered, Detached, Ending, Retracted, Session, Site, Withdrawn
from plugins.xmpp.delivery.attention import Attention, Availability, HeldItem
from plugins.xmpp.delivery.calls import Done, SessionEnded
from plugins.xmpp.delivery.collecting import Collecting, is_kept
from plugins.xmpp.delivery.sending import WITHHELD, Sending, SendingPort
from plugins.xmpp.forms import notifications
from plugins.xmpp.forms.node_record import read_record
from plugins.xmpp.forms.payload import item_id
from plugins.xmpp.known.access import Access
from plugins.xmpp.known.assured import Assured
from plugins.xmpp.known.item_index import ItemIndex
from plugins.xmpp.known.queueing import ItemHolder
from plugins.xmpp.known.registry import NodeSubscription
from plugins.xmpp.known.transfers import Transfer
from routing.errors import Refusal


class ClientPort(SendingPort, Protocol):
    """What all clients share; see `service.Service`."""

    site: Site
    access: Access
    index: ItemIndex
    assured: Assured

    async def is_there(self, jid: str) -> Availability: ...

    def ask_later(self, jid: str) -> None: ...

    async def notify(self, jid: str, event: Element, *, kind: str = "", collection: str = "") -> None: ...

    def start(self, task: Callable[[], Awaitable[object]]) -> None: ...


class Client(Sending):
    """See the module.

    Attributes:
        mute: it answers questions (XEP-0030) as if it was not there; what it is asked means nothing.
    """

    def __init__(self, service: ClientPort, jid: str, session: Session) -> None:
        super().__init__(service, jid, session, service.site.limits.unanswered_per_session_max)
        self.mute = False
        self.tasks = 0
        self.assured_known = False
        """Whether what was held for the JID before this session has been read."""
        self._service = service
        self.attention = Attention(self, service)
        self._collecting = Collecting(jid, session, service.access)
        self._in_doubt: dict[str, None] = {}  # ids of transfers

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost with the session."""
        attached = any(each.attached for each in self._service.registry.of(self.jid))
        assured = self._service.assured.holds(self.jid)
        return not (self.held or self._read or self.unanswered or self.tasks or attached or assured)

    async def run(self) -> None:
        """Carry out what the session tells, until it ends."""
        why = ""
        try:
            while events := await self.session.events():
                for event in events:
                    if isinstance(event, Delivered):
                        await self._delivered(event)
                    elif isinstance(event, Answer):
                        await self.answered(event)
                    elif isinstance(event, Withdrawn):
                        await self._withdrawn(event)
                    elif isinstance(event, Retracted):
                        await self._retracted(event)
                    elif isinstance(event, Detached):
                        await self._detached(event)
                    elif isinstance(event, Ending):
                        return
        except Exception:
            why = "an error of smqpd; the log says more"
            raise
        finally:
            self.close(why)

    def close(self, why: str) -> None:
        """End the session; what is held goes on to others, or waits for the JID to come back.

        `why` is for the log, "" where the session itself knows.
        """
        self.finish()
        self._disregard(self.held.values())
        self.session.close(why=why)
        for held in list(self.held.values()):
            self._forget(held)
        for done in self.give_up():
            self._service.start(partial(done, Answer(request=None, error=SessionEnded())))

    # -- to the client ----------------------------------------------------------------------------

    async def _delivered(self, delivered: Delivered) -> None:
        service, number, name = self._service, delivered.number, delivered.pattern or delivered.topic
        is_wanted = not delivered.pattern or self._is_for_collection(delivered)
        subscription = service.registry.find(self.jid, name)
        if subscription is not None and subscription.detaching:
            return
        if subscription is None or subscription.name != delivered.subscription:
            if delivered.acknowledge:
                self.quietly(self.session.give_back, [number], "unsubscribed", outcome="released")
            # one that nobody knows would be offered the same for ever, and gather what comes
            self.quietly(self.session.unsubscribe, name, delivered.subscription)
            return
        message = delivered.stored.message
        if is_kept(delivered):
            self._note(delivered, item_id(message))
        if delivered.message_id < subscription.history_to or not is_wanted:
            if delivered.acknowledge:
                self.quietly(self.session.give_back, [number], WITHHELD, outcome="withheld")
            return
        held = HeldItem(number, item_id(message), message.smuid, subscription)
        if delivered.acknowledge:
            self.held[number] = held
            if subscription.is_queue:
                service.holders.assigned(delivered.topic, held.item, ItemHolder(self.jid, number))
                if subscription.level == "plain":
                    await self.attention.send(held, delivered)
                    return
        await self.send(held, delivered)

    def _is_for_collection(self, delivered: Delivered) -> bool:
        subscription = self._service.registry.find(self.jid, delivered.pattern)
        return subscription is not None and self._collecting.is_for(delivered, subscription)

    def _note(self, delivered: Delivered, id: str) -> None:
        """Remember the id of an item that is kept: should it be retracted, that is told by its id."""
        index, node = self._service.index, delivered.topic
        if index.note(node, delivered.message_id, id, begin=bool(delivered.pattern)):
            self._service.start(partial(self._renew, node))

    async def _renew(self, node: str) -> None:
        with suppress(Refusal):  # its rights have just been withdrawn
            await self._service.index.renew(self.session, node)

    # -- the end of a delivery --------------------------------------------------------------------

    def settle(self, numbers: list[int], done: Done, *, finished: bool) -> None:
        """Finish items of a queue, or give back those that the client cannot work on. Raises Refusal."""
        held = [self.held[number] for number in numbers]
        settled = partial(self._items_settled, held, done, finished)
        if finished:
            self.request(self.session.commit, numbers, done=settled)
            return
        self.request(self.session.give_back, numbers, "unlocked", done=settled)
        for each in held:
            # at once: the next delivery of it may come before the answer
            self._let_go(each)

    async def _items_settled(self, held: list[HeldItem], done: Done, finished: bool, answer: Answer) -> None:
        for each in held:
            self._let_go(each, finished=finished and answer.error is None)
        await done(answer)

    def give_back(self, number: int, reason: str) -> None:
        """Give back an item that the client cannot be given."""
        if (held := self.held.get(number)) is not None:
            self.quietly(self.session.give_back, [number], reason)
            self._let_go(held)

    def refused(self, transfer: Transfer, *, as_if_gone: bool) -> None:
        """Take an error to a request of urn:xmpp:qos; `as_if_gone`: one that a server has for who is gone.

        Clients have the same ones, so it is asked whether it is there.
        """
        if as_if_gone and self.mute:
            self.gone()
        elif as_if_gone:
            self._in_doubt[transfer.id] = None
            self.attention.look()
        elif transfer.phase == "deliver":
            # it may have been worked on at an earlier asking: asked again, it goes to nobody else
            transfer.unanswered = 0
        else:
            self.give_back(transfer.number, "the client refused it")

    def there(self) -> None:
        """Note that it has answered whether it is there: what came back as if it was gone it has refused."""
        self.seen_at = trio.current_time()
        in_doubt, self._in_doubt = self._in_doubt, {}
        for id in in_doubt:
            transfer = self._service.transfers.find(id, self.jid)
            if transfer is not None:
                self.refused(transfer, as_if_gone=False)

    def bounced(self, number: int) -> None:
        """Note that a notification came back: nobody is there. If it counted as read, it is not finished."""
        if number in self._read:
            self._read.remove(number)
            self.quietly(self.session.reached_nobody, [number])
        elif (held := self.held.get(number)) is not None:
            held.sent_at = float("inf")
        self.gone()

    def change(self, subscription: NodeSubscription, done: Done) -> None:
        """Have the broker know what a subscription wants by now; where its JID is away it stays stopped.

        `done` is awaited with the answer. Raises Refusal.
        """
        self.request(self.session.subscribe, subscription.node, subscription.options, done=done)
        if not subscription.attached:
            self._stop(subscription)

    def leave(self, subscription: NodeSubscription) -> None:
        """Stop a subscription that is about to end: nothing more comes by it."""
        self.release(subscription)
        if subscription.attached:
            self.quietly(self.session.detach, subscription.node, subscription.name)

    async def _withdrawn(self, withdrawn: Withdrawn) -> None:
        held = self.held.get(withdrawn.number)
        if held is None:
            return
        lives_on = withdrawn.reason == "lock-timeout"
        if lives_on and held.subscription.level == "plain" and held.sent_at > self.seen_at:
            if self.mute:
                self._let_go(held)
                self.gone()
                return
            self.attention.look()
        self._let_go(held, finished=not lives_on)
        if held.subscription.is_queue:
            make = notifications.unlocked if lives_on else notifications.retracted
            # who is not there any more does not want to read of it later: no server keeps a headline
            kind = "headline" if lives_on else ""
            await self._service.notify(self.jid, make(held.subscription.node, held.item), kind=kind)

    async def _retracted(self, removed: Retracted) -> None:
        """An item is retracted, here or at another site, by whatever protocol. Source: XEP-0060 7.2."""
        subscription = self._service.registry.find(self.jid, removed.pattern or removed.topic)
        if subscription is None or subscription.name != removed.subscription:
            return
        if removed.pattern and not self._collecting.may_have(removed.topic):
            return
        if read_record(self.session.annotation(removed.topic)).options.notify_retract:
            with suppress(Refusal):  # its rights have just been withdrawn
                id = await self._service.index.removed(self.session, removed.topic, removed.message_id)
                if id is not None:
                    event = notifications.retracted(removed.topic, id)
                    await self._service.notify(self.jid, event, collection=removed.pattern)

    async def _detached(self, detached: Detached) -> None:
        subscription = self._service.registry.find(self.jid, detached.topic)
        if subscription is None or subscription.name != detached.name:
            return
        self.release(subscription)
        if detached.reason == "replaced":
            self._service.registry.detached(subscription)
            return
        self._service.registry.remove(subscription)
        await self.notify(notifications.unsubscribed(detached.topic, subscription.subscriber))

    async def notify(self, event: Element) -> None:
        """Send an `<event/>` that nobody answers."""
        await self._service.notify(self.jid, event)

    # -- coming and going -------------------------------------------------------------------------

    def gone(self) -> None:
        """Stop the subscriptions of a JID that is there no more; end those that do not outlive that.

        Source: XEP-0254 4.
        """
        self.finish()
        self._in_doubt.clear()
        for subscription in self._service.registry.of(self.jid):
            if not subscription.attached:
                continue
            # what was received by urn:xmpp:qos is for nobody else, also when its subscriber was leaving
            if subscription.level == "assured" or (
                subscription.outlives_absence and not subscription.leaving
            ):
                self._stop(subscription)
            else:
                self.quietly(self.drop, subscription)
        self._service.ask_later(self.jid)

    def away(self) -> None:
        """Stop the subscriptions of a JID that cannot be reached: what is held goes to others, or waits."""
        self.finish()
        for subscription in self._service.registry.of(self.jid):
            if subscription.attached:
                self._stop(subscription)
        self._service.ask_later(self.jid)

    def _stop(self, subscription: NodeSubscription) -> None:
        self.release(subscription)
        self._service.registry.detached(subscription)

        async def detached(_: Answer) -> None:
            subscription.detaching -= 1
            await trio.lowlevel.checkpoint()

        subscription.detaching += 1
        try:
            self.request(self.session.detach, subscription.node, subscription.name, done=detached)
        except Refusal:
            subscription.detaching -= 1

    def back(self) -> None:
        """Send a JID that is there what waits for it."""
        for subscription in self._service.registry.present(self.jid):
            if not self._begin_again(subscription):
                continue
            if not (subscription.is_queue or subscription.is_collection):
                self._service.start(partial(self._know, subscription.node))
            if subscription.leaving:
                # answered after what it had received has come again: that is all that keeps it
                self.quietly(self.request, self.session.commit, [], done=partial(self._left, subscription))

    def _begin_again(self, subscription: NodeSubscription) -> bool:
        """Receive by a subscription again; one that ended while its JID was away is told to have."""
        node = subscription.node
        # the broker tells who is not attached of no end, and would begin it, and make its node, anew
        if subscription.is_collection or self.session.topic(node) is not None:
            try:
                self.session.subscribe(node, subscription.options)
                return True
            except Refusal as refusal:
                if refusal.code != Refusal.FORBIDDEN:  # it stands, and is tried again
                    self._service.registry.detached(subscription)
                    self._service.ask_later(self.jid)
                    return False
        self._service.registry.remove(subscription)
        self.quietly(self.session.unsubscribe, node, subscription.name)
        if not subscription.leaving:
            event = notifications.unsubscribed(node, subscription.subscriber)
            self._service.start(partial(self.notify, event))
        return False

    async def _know(self, node: str) -> None:
        with suppress(Refusal):
            await self._service.index.know(self.session, node)

    async def _left(self, subscription: NodeSubscription, _: Answer) -> None:
        self._leave_if_free(subscription)
        await trio.lowlevel.checkpoint()
