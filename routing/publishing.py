"""A message is accepted: it gets an identity, a mode and a timeout, and is offered to those it is due to.

Who those are is in `routing.matching`; how long it is held for them, in `routing.lifecycle`.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from routing.copy_states import due_at_first, state_of
from routing.decisions import (
    AnswerRequest,
    Bury,
    MarkDue,
    MarkRouted,
    Record,
    Refused,
    StoreAnnotation,
    StorePublication,
    StoreTopic,
    message_of,
)
from routing.delivery import Deliveries
from routing.errors import Refusal
from routing.federation.federation import Federation
from routing.headers import write_created
from routing.lifecycle import Lifecycle
from routing.message import DeliveryMode, Message, Section
from routing.names import SERVER_ACCOUNT, dead_letter_topic, make_address, make_smuid
from routing.peering.decisions import StoreCopy
from routing.queue import CROSSES, DELAYED, GUARANTEED, ONE, RECEIPT, TOGETHER, Entry
from routing.receipt import Receipt
from routing.receipts import Receipts
from routing.room import Room
from routing.setting_aside import MET_BY_ERROR
from routing.shares import Share
from routing.state import SiteState
from routing.subscription import Consumer, Subscription
from routing.targets import Topic

JOINING_WAIT_S: Final = 0.1
"""What was delayed waits for subscriptions that are joining."""

DEAD_HEADERS: Final = (
    "Dead-Topic",
    "Dead-Smuid",
    "Dead-Account",
    "Dead-Subscription",
    "Dead-Delivery",
    "Dead-Deliveries",
    "Dead-Reason",
)
"""What a dead letter says of the message that it is a copy of."""


class Publishing:
    """Accepts messages from clients, and makes those that the server itself sends.

    Args:
        wall_ms: the wall clock, Unix milliseconds, for births.
    """

    def __init__(
        self,
        state: SiteState,
        lifecycle: Lifecycle,
        deliveries: Deliveries,
        receipts: Receipts,
        federation: Federation,
        room: Room,
        wall_ms: Callable[[], int],
    ) -> None:
        self._state = state
        self._room = room
        self._wall_ms = wall_ms
        self._lifecycle = lifecycle
        self._deliveries = deliveries
        self._receipts = receipts
        self._federation = federation
        self._own_address = make_address(SERVER_ACCOUNT, "system", state.server)

    def publish(
        self,
        now: float,
        consumer: Consumer,
        topic_name: str,
        message: Message,
        publisher: str,
        request: Any,
        *,
        together: bool = False,
        head: bytes = b"",
        delay_s: float = 0.0,
    ) -> None:
        """Accept a client's message. Raises Refusal (queue-full, store-failed): nothing was accepted.

        With `together` it is one of several that are stored at once or not at all, so it is not refused
        alone, neither here nor if the store fails: `Room.check` has told that there is room for all of them.
        An error of ours that meets it is raised as it is. `head`: see `routing.frames.encode_head`.

        With `delay_s` nobody gets it before that is over, and all that is decided over a message when it is
        published is decided then, but its mode. It is not to ask for a receipt.
        """
        state = self._state
        cmuid = message.cmuid
        if cmuid:
            smuid = state.publications.known(publisher, cmuid)
            if smuid is not None:
                # without a guarantee publishers are told nothing, of a repetition neither
                if message.guarantee:
                    state.out.append(AnswerRequest(consumer, request, smuid=smuid, repeated=True))
                return
        topic = state.topic(topic_name)
        share = state.shares.by_publisher.get(publisher) or state.shares.charged(publisher, topic.recipient)
        if not together:
            self._check_room(topic, message, publisher, share)
        # where an error of ours takes back to
        untaken, last_id = len(state.out), state.last_id
        try:
            entry, due = self._accept(topic, message, publisher, share, now, delay_s)
            if together:
                entry.flags |= TOGETHER
            if message.guarantee:
                smuid = entry.smuid(state.server)
                state.out.append(AnswerRequest(consumer, request, smuid=smuid, entry=entry))
            self._offer(entry, due, message, publisher, now, head=head)
        except Exception as error:
            self._take_back(topic, untaken, last_id, now)
            if together:
                raise
            state.mishap(f"a message to {topic_name}", error)
            raise Refusal(Refusal.STORE_FAILED, "the site could not take this; its log says why") from error
        if cmuid:
            smuid = entry.smuid(state.server)
            state.publications.add(publisher, cmuid, smuid, now)
            if message.guarantee:
                state.out.append(StorePublication(publisher, cmuid, smuid))

    def _check_room(self, topic: Topic, message: Message, publisher: str, share: Share | None) -> None:
        """Refuse what the topic has no room for, or the account that it counts on: raises Refusal."""
        state, settings = self._state, self._state.settings
        # `Room` has the rule; most topics are told to have room without it
        may_be_full = (
            topic.messages >= settings.queue_messages_max
            or topic.bytes >= settings.queue_bytes_max
            or topic.name in state.crossing.besides
        )
        if may_be_full and self._room.is_full(topic.name):
            text = f"{topic.name} holds as much as it may; try again once messages have been taken from it"
            self._deny_full(topic.name, message, publisher)
            raise Refusal(Refusal.QUEUE_FULL, text)
        wants_receipt = message.receipt != "NONE"
        is_bounded = share is not None and share.is_bounded
        if is_bounded or topic.recipient or wants_receipt:
            try:
                if share is not None:
                    share.check(1, message.size_bytes)
                if topic.recipient or wants_receipt:
                    self._room.check_system(publisher, [(topic.name, message.size_bytes, wants_receipt)])
            except Refusal:
                state.matching.forget_if_unused(topic)
                self._deny_full(topic.name, message, publisher)
                raise

    def _take_back(self, topic: Topic, untaken: int, last_id: int, now: float) -> None:
        """An error of ours met a message while it was accepted: it never was, nor what the server told of it.

        `untaken`, `last_id`: how many decisions there were before, and the newest message.
        """
        state = self._state
        made = range(last_id + 1, state.last_id + 1)
        for entry in [state.entries[id] for id in made if id in state.entries]:
            self._receipts.withdraw(entry)
            self._deliveries.setting_aside.set_aside(now, entry, MET_BY_ERROR)
        state.out[untaken:] = [each for each in state.out[untaken:] if message_of(each) not in made]
        state.matching.forget_if_unused(topic)

    def _deny_full(self, topic: str, message: Message, publisher: str) -> None:
        self._state.out.append(Refused("denied", topic, publisher, Refusal.QUEUE_FULL, message.size_bytes))

    def _accept(
        self,
        topic: Topic,
        message: Message,
        publisher: str,
        share: Share | None,
        now: float,
        delay_s: float = 0.0,
    ) -> tuple[Entry, list[Subscription]]:
        """Give a message its identity and begin to hold it; to whom it is due, in mode ALL."""
        state = self._state
        mode, timeout_s, due = state.matching.terms(topic, message, state.settings.default_timeout_s)
        id = state.next_id()
        smuid = make_smuid(state.server, self._wall_ms(), state.boot, state.counter)
        entry = self._lifecycle.begin(
            id,
            smuid,
            topic,
            message,
            publisher,
            mode,
            timeout_s,
            due_at_first(len(due), one=mode == "ONE"),
            now,
            owes_receipt=message.receipt != "NONE",
            delay_s=delay_s,
            share=share,
        )
        return entry, due

    def _offer(
        self,
        entry: Entry,
        due: list[Subscription],
        message: Message,
        publisher: str,
        now: float,
        cause: int = 0,
        head: bytes = b"",
    ) -> None:
        """Keep an accepted message and offer it to whom it is due to."""
        state = self._state
        depth = self._federation.depth_of(entry, message.depth)
        asked = "" if message.receipt == "NONE" else message.receipt
        published = Record("published", entry, account=publisher, depth=depth, due=entry.due, receipt=asked)
        if entry.flags & DELAYED:
            until_ms = self._wall_ms() + int((entry.deadline - now) * 1000)
            published.reason = f"held back until {write_created(until_ms)}"
        state.out.append(published)
        count = entry.due
        stamped = msgspec.structs.replace(message, smuid=entry.smuid(state.server), account=publisher)
        state.keep(entry, stamped, count, now, cause, head)
        if entry.flags & DELAYED:
            self._deliveries.hold_back(entry, now)
            return
        counted = bool(entry.flags & RECEIPT)
        queries = self._federation.published(entry, message.depth, counted=counted)
        if entry.flags & RECEIPT:
            assert message.receipt != "NONE"
            receipt = Receipt(entry, message.receipt, publisher, message.cmuid, count, 0, count)
            receipt.children = dict.fromkeys(queries, (0, 0))
            receipt.waiting = set(queries)
            self._receipts.add(receipt, now)
        if entry.flags & ONE:
            self._deliveries.offer_to_one(entry, now)
            return
        if not self._lifecycle.end_if_due_to_nobody(entry, "due to nobody"):
            self._deliveries.offer_to_all(entry, due, now)

    def route_delayed(self, entry: Entry, message: Message, now: float) -> None:
        """Decide over a message whose delay has ended as over one that is published now.

        It stands where it was published, before those that came since.
        """
        state, matching = self._state, self._state.matching
        if state_of(entry.flags) != "delayed":
            return
        if any(each.joining for each in matching.waits_with(entry.topic)):
            # whether what it is offered, of what was kept, reaches so far already nobody knows
            entry.deadline = now + JOINING_WAIT_S
            state.watch(entry, now)
            return
        _, timeout_s, _ = matching.terms(entry.topic, message, state.settings.default_timeout_s)
        due = [] if entry.flags & ONE else matching.taking(entry.topic, "ALL")
        self._lifecycle.end_delay(entry, timeout_s, due_at_first(len(due), one=bool(entry.flags & ONE)), now)
        state.out.append(MarkRouted(entry))
        if entry.flags & GUARANTEED:
            # or another start would take them for subscriptions that came too late
            late = [each.id for each in due if each.options.durable and each.joined_after(entry)]
            state.out += (MarkDue(entry.id, id) for id in late)
        self._federation.published(entry, message.depth, counted=False)
        if entry.flags & CROSSES and entry.flags & GUARANTEED:
            state.out.append(StoreCopy(entry.id))  # it is not stored with the message, which is there already
        if entry.flags & ONE:
            self._deliveries.offer_to_one(entry, now)
            return
        for each in matching.forbidden(entry.topic):
            if each.had_before is not None:
                each.had_before.lack(entry.id)  # it is older than it may seem
        if not self._lifecycle.end_if_due_to_nobody(entry, "due to nobody"):
            self._deliveries.offer_delayed(entry, due, now)

    # -- what the server itself publishes ---------------------------------------------------------

    def publish_own(self, now: float, topic_name: str, message: Message, cause: int = 0) -> str:
        """Publish a message of the server's own, and return its Smuid; never refused.

        `cause` is the message that it tells of.
        """
        topic = self._state.topic(topic_name)
        share = self._state.shares.charged(self._own_address, topic.recipient)
        entry, due = self._accept(topic, message, self._own_address, share, now)
        smuid = entry.smuid(self._state.server)
        self._offer(entry, due, message, self._own_address, now, cause)
        return smuid

    def send_receipt(self, receipt: Receipt, now: float) -> None:
        """Tell a publisher `X/Y` on its system topic. Source: SMQP RECEIPT."""
        headers = [
            ("Receipt-Smuid", receipt.entry.smuid(self._state.server)),
            ("Receipt-Topic", receipt.entry.topic.name),
        ]
        if receipt.cmuid:
            headers.append(("Receipt-Cmuid", receipt.cmuid))
        body = Section("text/plain", receipt.text.encode())
        message = Message(
            name="Receipt", created=write_created(self._wall_ms()), others=tuple(headers), sections=(body,)
        )
        self.publish_own(now, receipt.publisher, message, receipt.entry.id)

    def bury(self, bury: Bury, message: Message, now: float) -> None:
        """Publish a copy of an undeliverable message to the dead-letter topic, with the reason."""
        topic = bury.entry.topic.name
        headers = (
            ("Dead-Topic", topic),
            ("Dead-Smuid", message.smuid),
            ("Dead-Account", message.account),
            ("Dead-Subscription", bury.subscription.owner),
            ("Dead-Delivery", "ONE" if bury.entry.flags & ONE else "ALL"),
            ("Dead-Deliveries", str(bury.attempts)),
            ("Dead-Reason", bury.reason),
        )
        dead = msgspec.structs.replace(
            message,
            delivery="ONE",
            timeout_s=None,
            receipt="NONE",
            depth=0,
            hops=(),
            others=message.others + headers,
        )
        self.publish_own(now, dead_letter_topic(topic), dead, bury.entry.id)

    # -- the topic's own settings -----------------------------------------------------------------

    def set_delivery(
        self, consumer: Consumer, topic_name: str, mode: DeliveryMode | None, request: Any
    ) -> None:
        """Set the mode of a topic for what is published from now on. Source: SMQP "SET TOPIC DELIVERY"."""
        topic = self._state.topic(topic_name)
        topic.mode = mode
        self._store_topic(topic, consumer, request)

    def set_timeout(self, consumer: Consumer, topic_name: str, timeout_s: float | None, request: Any) -> None:
        """Set the timeout of what is published from now on without one. Source: SMQP "SET TOPIC TIMEOUT"."""
        topic = self._state.topic(topic_name)
        topic.timeout_s = timeout_s
        self._store_topic(topic, consumer, request)

    def annotate(
        self, consumer: Consumer, topic_name: str, front_end: str, text: str | None, request: Any
    ) -> None:
        """Keep what a front end writes with a topic; None to forget it."""
        topic = self._state.topic(topic_name)
        topic.annotate(front_end, text)
        self._state.out.append(StoreAnnotation(topic_name, front_end, text))
        self._state.out.append(AnswerRequest(consumer, request))
        self._state.matching.forget_if_unused(topic)

    def _store_topic(self, topic: Topic, consumer: Consumer, request: Any) -> None:
        self._state.out.append(StoreTopic(topic))
        self._state.out.append(AnswerRequest(consumer, request))
        self._state.matching.forget_if_unused(topic)
