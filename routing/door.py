"""The one way into a router, and what may be read of it: all that the rest of a site has of the router.

    door.commit(consumer, numbers, request)      an input: at the site's time, and carried out soon
    door.view, door.outlook, door.room           read: topics, subscriptions, messages; peers and ways; room
    door.entry_id(smuid)                         read, which may ask the disk: a message's number here

Whoever carries decisions out has the router itself: it takes them, and says what became of them. Where more
comes of that, as of a message that is buried or whose delay has ended, it is an input that ends itself.

A new input is a method of that part of the router whose rule it is, with the time first, and a line here.
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from routing.router import Router

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Door:
    """Each input does what its part of the router says, raises what that raises, and never waits.

    Args:
        now: site time, in seconds, never going back.
        wake: has what was decided carried out. Called after each input, also after one that is refused.
        wake_later: has it carried out soon, with what comes next; called instead where nobody waits for it.
    """

    def __init__(
        self,
        router: Router,
        now: Callable[[], float],
        wake: Callable[[], None],
        wake_later: Callable[[], None],
    ) -> None:
        self._now = now
        self._wake = wake
        self._end_input = router.end_input
        self._wake_later = wake_later

        self.server = router.server
        self.boot = router.boot
        self.view = router.view
        self.outlook = router.federation.outlook
        self.room = router.room

        self.entry_id = router.federation.removing.entry_id

        # sessions
        self.publish = self._timed(router.publishing.publish)
        self.subscribe = self._timed(router.subscribing.subscribe)
        self.unsubscribe = self._timed(router.subscribing.unsubscribe)
        self.detach = self._timed(router.subscribing.detach)
        self.received = self._untimed(router.acknowledging.received)
        self.commit = self._unhurried(router.acknowledging.commit)
        self.give_back = self._timed(router.acknowledging.give_back)
        self.reached_nobody = self._untimed(router.acknowledging.reached_nobody)
        self.remove = self._timed(router.topics.remove)
        self.check_removable = router.topics.check_removable
        self.set_delivery = self._untimed(router.publishing.set_delivery)
        self.set_timeout = self._untimed(router.publishing.set_timeout)
        self.annotate = self._untimed(router.publishing.annotate)
        self.purge = self._timed(router.topics.purge)
        self.delete_topic = self._timed(router.topics.delete)
        self.begin_together = self._untimed(router.begin_together)
        self.end_together = self._untimed(router.end_together)
        self.resume = self._timed(router.deliveries.resume)
        self.close = self._timed(router.subscribing.close)

        # links
        federation = router.federation
        self.set_peers = self._timed(federation.set_peers)
        self.link_up = self._untimed(federation.link_up)
        self.link_down = self._untimed(federation.link_down)
        self.arrive = self._timed(federation.arriving.arrive)
        self.acknowledged = self._unhurried(federation.acknowledged)
        self.not_copied = self._untimed(federation.not_copied)
        # what a peer tells, and, as part of the same input, that it is heard
        self.hear_interest = self._untimed(federation.wanting.hear, end_input=_goes_on)
        self.hear_destinations = self._unhurried(federation.destinations_heard.hear, _goes_on)
        self.hear_receipt = self._timed(router.receipts.heard, _goes_on)
        self.hear_counts = self._timed(federation.counting.hear, _goes_on)
        self.hear_removed = self._timed(federation.removing.hear, _goes_on)
        self.hear_news = self._timed(federation.spreading.hear, _goes_on)
        self.hear_wants = self._timed(federation.spreading.hear_wants, _goes_on)
        self.hear_known_news = self._timed(federation.spreading.hear_known, _goes_on)
        self.heard = self._untimed(federation.heard, wake_later)
        self.answer_arrived = self._untimed(router.receipts.answered)
        self.news_arrived = self._untimed(federation.spreading.news_arrived)
        self.set_notary = self._untimed(federation.spreading.set_notary)
        self.removal_arrived = self._untimed(federation.removing.arrived)

        # the site itself
        self.publish_own = self._timed(router.publishing.publish_own)
        self.set_aside = self._timed(router.setting_aside.set_aside)
        self.drop_set_aside = self._untimed(router.drop_set_aside)
        self.take_on_rights = self._timed(router.changed_rights.take_on)
        self.reconfigure = self._untimed(router.reconfigure)
        self.tick = self._timed(router.timing.tick)
        self.maintain = self._timed(router.maintain)

    def _timed(
        self, call: Callable[Concatenate[float, _P], _T], end_input: Callable[[], None] | None = None
    ) -> Callable[_P, _T]:
        now, wake, end_input = self._now, self._wake, end_input or self._end_input

        def made(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return call(now(), *args, **kwargs)
            finally:
                end_input()
                wake()

        return made

    def _untimed(
        self,
        call: Callable[_P, _T],
        wake: Callable[[], None] | None = None,
        end_input: Callable[[], None] | None = None,
    ) -> Callable[_P, _T]:
        """An input that is the same at any time. `wake`, `end_input`: called in place of the usual ones."""
        wake, end_input = wake or self._wake, end_input or self._end_input

        def made(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return call(*args, **kwargs)
            finally:
                end_input()
                wake()

        return made

    def _unhurried(
        self, call: Callable[Concatenate[float, _P], _T], end_input: Callable[[], None] | None = None
    ) -> Callable[_P, _T]:
        """An input, timed, of which nobody may wait for what is decided."""
        now, end_input, view = self._now, end_input or self._end_input, self.view

        def made(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            before, wake = view.untaken, self._wake
            try:
                result = call(now(), *args, **kwargs)
                if not view.is_awaited(before):
                    wake = self._wake_later
                return result
            finally:
                end_input()
                wake()

        return made


def _goes_on() -> None:
    """End no input: what comes next is part of it."""
