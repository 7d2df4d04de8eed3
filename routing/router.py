"""The router of one site: an input is a call of one of its parts, a consequence a decision in `take()`.

Pure: it knows time only as an argument (`now`: site time in seconds, never going back; `wall_ms`: Unix
time for births), holds no body, and touches neither disk nor network. An input either raises `Refusal`
and has changed nothing, or adds to the decisions. `routing.door` lists the inputs, and is what the rest of
the site has; the router itself is for whoever carries the decisions out.

    publishing   a message is accepted           state        what the site knows
    matching     who is due for it               receipts     X/Y
    delivery     handed out, taken back          queue        the index of what waits
    lifecycle    who may still have it, its end  subscribing  who wants what
"""

from collections.abc import Callable
from typing import Any

from routing.acknowledging import Acknowledgements
from routing.changed_rights import ChangedRights
from routing.copy_states import is_on_offer
from routing.decisions import INPUT_END, AnswerRequest, Bury, Decision, DropSetAside, OwnError, Together
from routing.delivery import Deliveries
from routing.federation.federation import Federation
from routing.lifecycle import Lifecycle
from routing.matching import EVERYBODY, SubscribeRights
from routing.message import Message
from routing.peering.copies import Seen
from routing.publishing import Publishing
from routing.queue import GONE, Entry
from routing.receipts import Receipts
from routing.restore import Restore
from routing.room import Room
from routing.shares import UNBOUNDED, Bounds
from routing.state import RouterSettings, SiteState, raise_it
from routing.steps import Steps
from routing.subscribing import Subscribing
from routing.subscription import Consumer, Subscription
from routing.timing import Timing
from routing.topics import Topics
from routing.view import SiteView


class Router:
    """Decides over the messages of one site.

    Args:
        server: this site's name.
        boot: greater than at every earlier start.
        wall_ms: the wall clock, Unix milliseconds.
        recall: finds on disk what was remembered of another server's Smuid.
        has_account: whether an account of this site is there and can log in.
        rights: who may subscribe to what; another answer is told by `ChangedRights.take_on`.
        mishap: told of each error of ours that is survived, and of what was set aside for it.
        bounds: what may be held of an account; asked again by `reconfigure`.

    Attributes:
        publishing, subscribing, changed_rights, acknowledging, deliveries, topics, receipts, federation,
            timing, setting_aside: the parts, whose methods are the inputs.
        view, room: what may be read; of the federation `federation.outlook`.
    """

    def __init__(
        self,
        server: str,
        boot: int,
        settings: RouterSettings,
        wall_ms: Callable[[], int],
        recall: Callable[[str], Seen | None] = lambda smuid: None,
        has_account: Callable[[str], bool] = lambda account: True,
        rights: SubscribeRights = EVERYBODY,
        mishap: Callable[[str, Exception], None] = raise_it,
        bounds: Callable[[str], Bounds] = lambda account: UNBOUNDED,
    ) -> None:
        self.server = server
        self.boot = boot
        # a topic, a receipt or a handover goes from a part to one that is made of it
        self._state = state = SiteState(
            server,
            boot,
            settings,
            has_account,
            rights,
            mishap,
            bounds,
            lambda name: self.federation.telling.topic_begun(name),
        )
        self.receipts = Receipts(
            state,
            lambda receipt, now: self.publishing.send_receipt(receipt, now),
            lambda smuid, due, have: self.federation.forwarding.note_counts(smuid, due, have),
        )
        self._lifecycle = life = Lifecycle(state, self.receipts)
        self.deliveries = Deliveries(state, life, lambda entry: self.federation.custody.hand_over(entry))
        self.setting_aside = self.deliveries.setting_aside
        self.acknowledging = Acknowledgements(state, life, self.deliveries)
        self.federation = Federation(state, life, self.deliveries, self.receipts, recall)
        steps = Steps(state)
        wants_changed = self.federation.own_wants.changed
        self.subscribing = Subscribing(state, life, self.deliveries, steps, wants_changed)
        self.changed_rights = ChangedRights(
            state, life, self.deliveries, steps, self.subscribing, wants_changed
        )
        self.room = Room(state)
        self.publishing = Publishing(
            state, life, self.deliveries, self.receipts, self.federation, self.room, wall_ms
        )
        self.topics = Topics(state, self.deliveries, self.subscribing, self.federation, steps)
        self.timing = Timing(state, self.deliveries, self.receipts, steps, self.federation)
        self.view = SiteView(state)

    def take(self) -> list[Decision]:
        """The decisions since the last call, in order."""
        try:
            self.federation.wanting.tell()
        except Exception as error:  # it is told with the next, or with the next link
            self._state.mishap("what peers are told of interest", error)
        try:
            self.federation.see_to_destinations()
        except Exception as error:  # it is done with the next change, or in a minute
            self._state.mishap("the destinations of copies", error)
        out, self._state.out = self._state.out, []
        return out

    def restore(self, now: float) -> Restore:
        """Rebuild what the store holds; only before any other input."""
        parts = (self._state, self._lifecycle, self.subscribing, self.receipts, self.federation)
        return Restore(*parts, self.setting_aside, now)

    def end_input(self) -> None:
        """End an input: what is decided from now on is of another; see `InputEnd`."""
        out = self._state.out
        if out and out[-1] is not INPUT_END:
            out.append(INPUT_END)

    # -- inputs that are no one part's ------------------------------------------------------------

    def drop_set_aside(self, smuid: str, consumer: Consumer, request: Any) -> None:
        """Forget what was set aside of a message, or of all (""), for good."""
        self._state.out += (DropSetAside(smuid), AnswerRequest(consumer, request))

    def begin_together(self, *, removes: bool = False) -> None:
        """Let what follows be stored at once or not at all, until `end_together`; see `Together`."""
        self._state.out.append(Together(begins=True, removes=removes))

    def end_together(self, consumer: Consumer, request: Any, error: Exception | None = None) -> None:
        """Answer a request once all of it is on disk; with an `error` of ours that met it, none of it is."""
        if error is not None:
            self._state.out.append(OwnError(error))
        self._state.out += (AnswerRequest(consumer, request), Together(begins=False))

    def reconfigure(self, settings: RouterSettings) -> None:
        """Take on other bounds; they hold for what comes from now on."""
        self._state.settings = settings
        self._state.shares.reconfigure()

    def maintain(self, now: float) -> list[Subscription]:
        """Each minute or so: forget old Cmuids, removals and news, end unused subscriptions, which are named.

        What peers would not have is offered to them again.
        """
        for chore in (
            self.federation.custody.offer_denied,
            self.federation.rerouting.minute,
            lambda: self._state.removed.forget(now),
            lambda: self.federation.spreading.forget(now),
            lambda: self._state.publications.expire(now - self._state.settings.dedupe_window_s),
        ):
            try:
                chore()
            except Exception as error:  # it comes up again in a minute
                self._state.mishap("what is done each minute", error)
        return self.subscribing.end_unused(now)

    # -- what became of decisions -----------------------------------------------------------------

    def unpublish(self, entry: Entry, publisher: str, cmuid: str, now: float) -> None:
        """Undo the publishing of a message that could not be stored; the broker refuses its publisher."""
        self._state.publications.forget(publisher, cmuid)
        if not entry.flags & GONE:
            self.receipts.withdraw(entry)
            self.deliveries.drop(entry, now, "store failed")

    def buried(self, bury: Bury, message: Message, now: float) -> None:
        """Publish on the dead-letter topic the message that `Bury` asked for: an input of its own."""
        if is_on_offer(bury.entry):
            self.publishing.bury(bury, message, now)
            if not bury.entry.flags & GONE:  # without a guarantee, it may have made room for its dead letter
                self.acknowledging.buried(bury, now)
        self.end_input()

    def route_delayed(self, entry: Entry, message: Message, now: float) -> None:
        """Route the message that `RouteDelayed` asked for: an input of its own."""
        self.publishing.route_delayed(entry, message, now)
        self.end_input()

    @property
    def wake_at(self) -> float:
        """Site time at or before which `tick` has to be called; `inf` for none."""
        return self._state.wake_at
