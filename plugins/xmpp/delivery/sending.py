"""What is with one JID: how it is sent, when it is finished, and whose it is until then.

How a delivery ends depends on how it was sent and on what the node is:

                    queue                                  every subscriber
    plain           retracted by the client                the server has read the notification
    acknowledged    retracted by the client                the client has answered
    assured         received when the client says so,      received likewise,
                    retracted by the client                committed once <deliver/> is answered
"""

from collections.abc import Iterable
from functools import partial
from typing import Final, Protocol

import trio

from daemon.frontend import Answer, Delivered, Session
from plugins.xmpp.delivery.attention import SEEN_S, HeldItem
from plugins.xmpp.delivery.calls import Calls, Done
from plugins.xmpp.delivery.finishing import Finishing
from plugins.xmpp.forms import notifications
from plugins.xmpp.forms.node_record import read_record
from plugins.xmpp.known.identities import publisher_of
from plugins.xmpp.known.queueing import ItemHolder, ItemHolders
from plugins.xmpp.known.registry import NodeSubscription, Registry
from plugins.xmpp.known.transfers import Transfer, Transfers, carrier, deliver
from plugins.xmpp.wire.component import Component, StanzaTooLargeError
from plugins.xmpp.wire.serializer import UnsendableError
from routing.errors import Refusal
from routing.message import text_bytes

NO_ROOM_S: Final = 2.0
"""Until an item is offered again that there was no room to hold until it is answered."""

FINISHED_MAX: Final = 32
"""What the server has read is finished so many at a time, or after a moment."""


WITHHELD: Final = "as its node is configured, it is not for this subscription"
"""Why what is not sent comes back, in the hop log."""


class SendingPort(Protocol):
    """What all clients share, to send with; see `service.Service`."""

    name: str
    holders: ItemHolders
    registry: Registry
    transfers: Transfers
    finishing: Finishing

    @property
    def component(self) -> Component: ...

    def next_id(self, kind: str) -> str: ...

    async def begin_transfer(self, transfer: Transfer) -> None: ...

    def memory_of(self, jid: str) -> int: ...


class Sending(Calls):
    """See the module.

    Attributes:
        held: the deliveries that are with the client, by number.
        seen_at: when the last sign of life came from it.
    """

    def __init__(self, port: SendingPort, jid: str, session: Session, unanswered_max: int) -> None:
        super().__init__(session, unanswered_max)
        self.jid = jid
        self.held: dict[int, HeldItem] = {}
        self.seen_at = trio.current_time()
        self._port = port
        self._read: list[int] = []
        self._carries = False
        """Whether anything was sent by a request of urn:xmpp:qos, which counts in the account's memory."""

    @property
    def in_hand(self) -> set[str]:
        """See `requests.request.AskingClient`."""
        return {held.msg_id for held in self.held.values()}

    async def send(self, held: HeldItem, delivered: Delivered) -> None:
        """Send it as its subscription says."""
        port, subscription, number = self._port, held.subscription, held.number
        held.sent_at = trio.current_time()
        try:
            if delivered.received and subscription.level == "assured":
                # it has the message since before; a second copy would be a second delivery
                await self._deliver(held)
                return
            options = read_record(self.session.annotation(delivered.topic)).options
            if not (options.deliver_notifications or subscription.is_queue):
                self._withhold(held)
                return
            publisher = publisher_of(delivered.stored.message) if options.publisher else ""
            content = notifications.content(
                delivered, publisher, queue=subscription.is_queue, payload=options.deliver_payloads
            )
            if subscription.level == "plain" or not delivered.acknowledge:
                kind = options.notification_type
                stanza = notifications.published(port.name, self.jid, delivered, content, kind)
                settled = partial(self._settled, number) if delivered.acknowledge else None
                await port.component.send(stanza, settled=settled)
            else:
                await self._carry(held, content)
        except (UnsendableError, StanzaTooLargeError) as error:
            if delivered.acknowledge:
                self.quietly(self.session.give_back, [number], str(error))
                self._let_go(held)

    def _disregard(self, held: Iterable[HeldItem]) -> None:
        """What was sent well after the last sign of life has reached nobody, as far as anybody can know."""
        unseen = [each.number for each in held if each.sent_at > self.seen_at + SEEN_S]
        if unseen:
            self.quietly(self.session.reached_nobody, unseen)

    async def _carry(self, held: HeldItem, content: str) -> None:
        port = self._port
        level = held.subscription.level
        assert level != "plain"
        id = port.next_id("q")
        stanza = carrier(port.name, self.jid, id, level, content, held.msg_id)
        try:
            self.session.hold_now(port.memory_of(self.jid) + text_bytes(stanza))
        except Refusal as refusal:
            self.quietly(self.session.give_back, [held.number], refusal.text, NO_ROOM_S, outcome="released")
            self._let_go(held)
            return
        self._carries = True
        await port.begin_transfer(Transfer(id, self.jid, held.number, level, stanza, 0.0))

    async def _deliver(self, held: HeldItem) -> None:
        port = self._port
        id = port.next_id("q")
        stanza = deliver(port.name, self.jid, id, held.msg_id)
        await port.begin_transfer(Transfer(id, self.jid, held.number, "deliver", stanza, 0.0))

    def _settled(self, number: int, read: bool) -> None:
        """The server has read a plain notification, or the stream broke before that was known."""
        held = self.held.get(number)
        if held is None:
            return
        if not read:
            self.quietly(self.session.reached_nobody, [number])
            self.quietly(self.session.give_back, [number], "the stream to the XMPP server broke")
            self._let_go(held)
        elif not held.subscription.is_queue:
            if not self._read:
                self._port.finishing.soon(self)
            self._read.append(number)
            if len(self._read) >= FINISHED_MAX:
                self.finish()
            self._let_go(held)

    def _withhold(self, held: HeldItem) -> None:
        """What its node says is not for the subscription: nobody was sent it, and it does not come again."""
        if held.number in self.held:
            self.quietly(self.session.give_back, [held.number], WITHHELD, outcome="withheld")
            self._let_go(held)

    def finish(self) -> None:
        """Tell the broker what the server has read."""
        read, self._read = self._read, []
        if read:
            self.quietly(self.session.commit, read)

    def transferred(self, transfer: Transfer) -> None:
        """Go on with a transfer of urn:xmpp:qos that the client has answered."""
        held = self.held.get(transfer.number)
        try:
            if held is not None and transfer.phase == "assured":
                self.request(self.session.received, [held.number], done=partial(self._received, held))
            elif held is not None and not held.subscription.is_queue:
                self.session.commit([held.number])
                self._let_go(held)
        except Refusal:
            # it comes due again, and is answered again: the client is there
            transfer.unanswered = 0
            return
        self._port.transfers.forget(self.jid, transfer.number)

    async def _received(self, held: HeldItem, answer: Answer) -> None:
        """On disk: from now on nobody else gets it, so the client may begin."""
        if answer.error is not None:
            self._let_go(held)
        elif held.number in self.held:
            await self._deliver(held)

    def _let_go(self, held: HeldItem, *, finished: bool = False) -> None:
        """Hold an item no more, of which the broker has been told; its subscription may end with that."""
        self._forget(held, finished=finished)
        self._leave_if_free(held.subscription)

    def _forget(self, held: HeldItem, *, finished: bool = False) -> None:
        port = self._port
        if self.held.pop(held.number, None) is None:
            return
        port.transfers.forget(self.jid, held.number)
        if self._carries:
            self.quietly(self.session.hold_now, port.memory_of(self.jid))
        if held.subscription.is_queue:
            change = port.holders.finished if finished else port.holders.unlocked
            change(held.subscription.node, held.item, ItemHolder(self.jid, held.number))

    def holds(self, subscription: NodeSubscription) -> bool:
        """Whether any item of the subscription is with the client."""
        return any(held.subscription is subscription for held in self.held.values())

    def replace(self, previous: NodeSubscription | None, subscription: NodeSubscription) -> None:
        """Have a subscription hold what the one before it to the node held; None: there was none."""
        for held in self.held.values():
            if held.subscription is previous:
                held.subscription = subscription

    def release(self, subscription: NodeSubscription) -> None:
        """Let go of what a subscription holds; the broker knows already, or is about to."""
        released = [each for each in self.held.values() if each.subscription is subscription]
        self.finish()
        self._disregard(released)
        for held in released:
            self._forget(held)

    def drop(self, subscription: NodeSubscription, done: Done | None = None) -> None:
        """Have the broker end a subscription, and forget it; `done` is awaited with the answer.

        Nothing is awaited here. Raises Refusal: it goes on.
        """

        def end(request: object = None) -> None:
            # first: what has reached nobody is no failure as long as it is locked
            self.release(subscription)
            self.session.unsubscribe(subscription.node, subscription.name, request)

        if done is None:
            end()
        else:
            self.request(end, done=done)
        self._port.registry.remove(subscription)

    def _leave_if_free(self, subscription: NodeSubscription) -> None:
        """End a subscription that was only to go on until nothing is held by it."""
        if subscription.leaving and self._port.registry.knows(subscription) and not self.holds(subscription):
            self.quietly(self.drop, subscription)
