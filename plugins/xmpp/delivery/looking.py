"""Subscribers that are away are looked for: nothing else wakes one that is back and says nothing."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol

import trio

from plugins.xmpp.delivery import presence
from plugins.xmpp.delivery.absence import Absence


class LookingPort(presence.PresencePort, Protocol):
    """Who looks; see `service.Service`."""

    is_up: bool

    def start(self, task: Callable[[], Awaitable[object]]) -> None: ...


class Looking:
    """For those who are absent, each at its time."""

    def __init__(self, service: LookingPort) -> None:
        self._service = service
        self._absence = Absence()
        self._changed = trio.Event()

    def ask_now(self, jids: Iterable[str]) -> None:
        """Look for all of these: there is a new stream."""
        self._absence.ask_now(jids, trio.current_time())
        self._changed.set()

    def ask_later(self, jid: str) -> None:
        """Look for a subscriber again after a while."""
        self._absence.ask_later(jid, trio.current_time())
        self._changed.set()

    def found(self, jid: str) -> None:
        """Look no more for a subscriber that was away: it is there, or has no account any more."""
        self._absence.seen(jid)

    async def run(self) -> None:
        """Look for subscribers that are away. Runs until cancelled."""
        service = self._service
        while True:
            # without a stream nobody can be asked; a new one begins with all
            next_at = self._absence.next_at() if service.is_up else float("inf")
            self._changed = trio.Event()
            with trio.move_on_at(next_at):
                await self._changed.wait()
            if service.is_up and (jids := self._absence.due(trio.current_time())):
                service.start(partial(presence.look_for, service, jids))
