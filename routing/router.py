"""The router of one site: every input of the site is one call, every consequence a decision in `take()`.

Pure: it knows time only as an argument (`now`: site time in seconds, never going back; `wall_ms`: Unix
time for births), holds no body, and touches neither disk nor network. A call either raises `Refusal`
and has changed nothing, or adds to the decisions.

    publishing   a message is accepted           state        what the site knows
    delivery     handed out, taken back, ended   receipts     X/Y
    subscribing  who wants what                  queue        the index of what waits
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from routing.acknowledging import Acknowledgements
from routing.decisions import Answer, Bury, Decision, Record, Together
from routing.delivery import Deliveries
from routing.errors import Refusal
from routing.federation.copies import Seen
from routing.federation.federation import Federation
from routing.lifecycle import Lifecycle
from routing.message import DeliveryMode, Message
from routing.publishing import Publishing
from routing.queue import CROSSES, EXPIRED, GONE, Entry
from routing.receipts import Receipts
from routing.restore import Restore
from routing.state import RouterSettings, SiteState, raise_it
from routing.steps import Steps
from routing.subscribing import Subscribing
from routing.subscription import Consumer, Outcome, SubscribeOptions, Subscription
from routing.timing import Timing
from routing.topics import Topics


class Router:
    """Decides over the messages of one site.

    Args:
        server: this site's name.
        boot: greater than at every earlier start.
        wall_ms: the wall clock, Unix milliseconds.
        recall: finds on disk what was remembered of another server's Smuid.
        has_account: whether an account of this site is there and can log in.
        mishap: told of each error of ours that is survived, and of what was set aside for it.
    """

    def __init__(
        self,
        server: str,
        boot: int,
        settings: RouterSettings,
        wall_ms: Callable[[], int],
        recall: Callable[[str], Seen | None] = lambda smuid: None,
        has_account: Callable[[str], bool] = lambda account: True,
        mishap: Callable[[str, Exception], None] = raise_it,
    ) -> None:
        self.state = SiteState(server, boot, settings, has_account, mishap)
        # a receipt or a handover goes from a part to one that is made of it
        self._receipts = Receipts(
            self.state, lambda receipt, now: self._publishing.send_receipt(receipt, now)
        )
        self._lifecycle = Lifecycle(self.state, self._receipts)
        self._deliveries = Deliveries(
            self.state, self._lifecycle, lambda entry: self.federation.custody.hand_over(entry)
        )
        self._acknowledgements = Acknowledgements(self.state, self._lifecycle, self._deliveries)
        self.federation = Federation(self.state, self._lifecycle, self._deliveries, self._receipts, recall)
        steps = Steps(self.state)
        self._subscribing = Subscribing(
            self.state, self._lifecycle, self._deliveries, steps, self.federation.topic_changed
        )
        self._publishing = Publishing(
            self.state, self._lifecycle, self._deliveries, self._receipts, self.federation, wall_ms
        )
        self._topics = Topics(self.state, self._deliveries, self._subscribing, self.federation, steps)
        self._timing = Timing(self.state, self._deliveries, self._receipts, steps)

    def take(self) -> list[Decision]:
        """The decisions since the last call, in order."""
        self.federation.tell_interest()
        out, self.state.out = self.state.out, []
        return out

    def restore(self, now: float) -> Restore:
        """Rebuild what the store holds; only before any other input."""
        return Restore(self.state, self._lifecycle, self._subscribing, self._receipts, self.federation, now)

    # -- sessions ---------------------------------------------------------------------------------

    def open(self, handle: Any, account: str, channel: str) -> Consumer:
        """A session begins."""
        return Consumer(handle, account, channel)

    def close(self, consumer: Consumer, now: float, *, lost: bool = False) -> None:
        """A session has ended: what it held locked goes on to others.

        `lost`: without a word from the client, so that what it was at work on has failed.
        """
        self._subscribing.close(consumer, now, lost=lost)

    def pause(self, consumer: Consumer) -> None:
        """The session has much to send yet; it gets no more until `resume`."""
        consumer.open = False

    def resume(self, consumer: Consumer, now: float) -> None:
        """The session can take more."""
        self._deliveries.resume(consumer, now)

    # -- a client's requests ----------------------------------------------------------------------

    def publish(
        self,
        consumer: Consumer,
        topic: str,
        message: Message,
        publisher: str,
        request: Any,
        now: float,
        *,
        together: bool = False,
    ) -> None:
        """A client's message. Raises Refusal (queue-full).

        With `together` it is one of several that are stored at once or not at all, so it is not refused
        alone if the store fails.
        """
        self._publishing.publish(consumer, topic, message, publisher, request, now, together=together)

    def check_room(self, topic: str, messages: int, bytes: int) -> None:
        """Whether so much can be published to a topic at once. Raises Refusal (queue-full)."""
        self._publishing.check_room(topic, messages, bytes)

    def check_system_room(self, publisher: str, added: Iterable[tuple[str, int]]) -> None:
        """Whether so much more may wait on system topics: see `SystemTopics.check`. Raises Refusal."""
        self._publishing.check_system_room(publisher, added)

    def answer(self, consumer: Consumer, request: Any) -> None:
        """Answer a request once everything decided until now is on disk."""
        self.state.out.append(Answer(consumer, request))

    def unpublish(self, entry: Entry, publisher: str, cmuid: str, now: float) -> None:
        """A message could not be stored: it never was. Its publisher is refused by the broker."""
        self.state.publications.forget(publisher, cmuid)
        if not entry.flags & GONE:
            self._receipts.withdraw(entry)
            self._deliveries.end(entry, self._deliveries.holders(entry), "dropped", now, "store failed")

    def begin_together(self) -> None:
        """What follows is stored at once or not at all, until `end_together`."""
        self.state.out.append(Together(begins=True))

    def end_together(self, consumer: Consumer, request: Any) -> None:
        """Answer a request once all of it is on disk."""
        self.answer(consumer, request)
        self.state.out.append(Together(begins=False))

    def uncommit(self, record: Record, now: float) -> None:
        """A commit could not be stored: it never was, and the message waits again. `record` is its own."""
        self._acknowledgements.uncommit(record, now)

    def subscribe(
        self, consumer: Consumer, topic: str, options: SubscribeOptions, request: Any, now: float
    ) -> None:
        """Begin or change a subscription, and consume from it."""
        self._subscribing.subscribe(consumer, topic, options, request, now)

    def unsubscribe(self, consumer: Consumer, topic: str, name: str, request: Any, now: float) -> None:
        """End a subscription. Raises Refusal (not-subscribed)."""
        self._subscribing.unsubscribe(consumer, topic, name, request, now)

    def detach(self, consumer: Consumer, topic: str, name: str, request: Any, now: float) -> None:
        """Stop consuming from a subscription. Raises Refusal (not-subscribed)."""
        self._subscribing.detach(consumer, topic, name, request, now)

    def end_subscription(
        self, subscription: Subscription, now: float, reason: Literal["removed", "forbidden"]
    ) -> None:
        """End a subscription for another reason than its owner's wish."""
        self._subscribing.end(subscription, now, reason=reason)

    def received(self, consumer: Consumer, numbers: Iterable[int], request: Any) -> None:
        """First phase of the two-phase commit."""
        self._acknowledgements.received(consumer, numbers, request)

    def commit(self, consumer: Consumer, numbers: Iterable[int], request: Any, now: float) -> None:
        """Second or only phase."""
        self._acknowledgements.commit(consumer, numbers, request, now)

    def reached_nobody(self, consumer: Consumer, numbers: Iterable[int]) -> None:
        """What was sent has not been seen by anybody."""
        self._acknowledgements.reached_nobody(consumer, numbers)

    def give_back(
        self,
        consumer: Consumer,
        numbers: Iterable[int],
        reason: str,
        delay_s: float,
        request: Any,
        now: float,
        outcome: Outcome = "failed",
    ) -> None:
        """Not by this one, or not now; rejected, by nobody."""
        self._acknowledgements.give_back(consumer, numbers, outcome, reason, delay_s, request, now)

    def remove(self, consumer: Consumer, topic: str, smuid: str, request: Any, now: float) -> None:
        """REMOVE. A message that is finished already is removed with success. Raises Refusal."""
        entry_id = self.federation.entry_id(smuid)
        if entry_id is None or entry_id > self.state.last_id:
            raise Refusal(Refusal.NOT_FOUND, f"{smuid} has never been at this site")
        entry = self.state.entries.get(entry_id)
        if entry is not None:
            if entry.topic.name != topic or entry.smuid(self.state.server) != smuid:
                raise Refusal(Refusal.NOT_FOUND, f"{smuid} is not a message of {topic}")
            self._deliveries.end(entry, self._deliveries.holders(entry), "removed", now)
        if entry is None or entry.flags & CROSSES:  # else no other site can have it
            self.federation.note_removed(smuid, topic, now)
        self.state.out.append(Answer(consumer, request, smuid=smuid))

    def set_delivery(self, consumer: Consumer, topic: str, mode: DeliveryMode | None, request: Any) -> None:
        """SET TOPIC DELIVERY."""
        self._publishing.set_delivery(consumer, topic, mode, request)

    def set_timeout(self, consumer: Consumer, topic: str, timeout_s: float | None, request: Any) -> None:
        """SET TOPIC TIMEOUT."""
        self._publishing.set_timeout(consumer, topic, timeout_s, request)

    def browse(self, topic: str, after: int, count: int) -> list[tuple[Entry, bool]]:
        """See `routing.topics`."""
        found = self.state.topics.get(topic)
        return self._topics.browse(found, after, count) if found is not None else []

    def purge(self, consumer: Consumer, topic: str, request: Any, now: float) -> None:
        """Remove every message of a topic; of a large one in steps (see `routing.emptying`)."""
        self._topics.purge(consumer, topic, request, now)

    def delete_topic(self, consumer: Consumer, topic: str, request: Any, now: float) -> None:
        """Remove a topic with all that hangs on it; a large one in steps."""
        self._topics.delete(consumer, topic, request, now)

    def reconfigure(self, settings: RouterSettings) -> None:
        """Take on other bounds; they hold for what comes from now on."""
        self.state.settings = settings

    # -- the server's own -------------------------------------------------------------------------

    def set_aside(self, entry: Entry, reason: str, now: float) -> None:
        """A copy cannot be stored, or cannot be read: it ends here, its receipt is closed, and the next is
        offered to those whom it was with. What the store has of it is kept for the operator.
        """
        self._deliveries.setting_aside.set_aside(entry, reason, now)

    def buried(self, bury: Bury, message: Message, now: float) -> None:
        """The message that the decision `Bury` asked for: on to the dead-letter topic with it."""
        if not bury.entry.flags & (GONE | EXPIRED):
            self._publishing.bury(bury, message, now)
            self._acknowledgements.buried(bury, now)

    def publish_own(self, topic: str, message: Message, now: float) -> str:
        """Publish a message of the server's own; returns its Smuid."""
        return self._publishing.publish_own(topic, message, now)

    def tick(self, now: float) -> None:
        """Carry out what time alone brings about; to be called at `wake_at`."""
        self._timing.tick(now)

    def maintain(self, now: float) -> list[Subscription]:
        """Each minute or so: forget old Cmuids and removals, end unused subscriptions, which are named.

        What peers would not have is offered to them again.
        """
        for chore in (
            self.federation.custody.offer_denied,
            lambda: self.state.removed.forget(now),
            lambda: self.state.publications.expire(now - self.state.settings.dedupe_window_s),
        ):
            try:
                chore()
            except Exception as error:  # it comes up again in a minute
                self.state.mishap("what is done each minute", error)
        return self._subscribing.end_unused(now)

    @property
    def wake_at(self) -> float:
        """Site time at or before which `tick` has to be called; `inf` for none."""
        return self.state.wake_at
