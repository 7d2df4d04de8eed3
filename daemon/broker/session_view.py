"""What a session may see of the site, and whether it may do what it asks for."""

import sys
from collections.abc import Iterable
from itertools import repeat
from typing import Protocol

from daemon.accounts.accounts import Accounts
from daemon.broker.listing import list_topics
from daemon.broker.outbox import Outbox
from daemon.frontend import HeldEntry, HeldPage, SubscriptionInfo, TopicInfo
from routing.door import Door
from routing.errors import Refusal
from routing.names import owner_of
from routing.patterns import subscription_takes
from routing.queue import Entry
from routing.rights import RIGHTS, Right


class ViewOwner(Protocol):
    """What is needed of the broker; all but `browse` are synchronous."""

    server_name: str
    accounts: Accounts
    door: Door
    draining: bool

    @property
    def overloaded(self) -> bool:
        """Whether more waits for a store that fails than is to be kept in memory."""

    async def browse(self, topic: str, after: int, count: int, *, backwards: bool = False) -> HeldPage:
        """See `daemon.frontend.Session`."""


class SessionView:
    """See `daemon.frontend.Session`; what changes anything is in `daemon.broker.session`.

    Attributes:
        outbox: what its front end has still to send.
    """

    def __init__(self, owner: ViewOwner, account: str, protocol: str, outbox: Outbox) -> None:
        self.account = account
        self.protocol = protocol
        self.outbox = outbox
        self._owner = owner
        self._door = owner.door

    def allows(self, right: Right, topic: str) -> bool:
        """See `daemon.frontend.Session`."""
        return self._owner.accounts.rights.allows(self.account, right, topic)

    def may_follow(self, pattern: str) -> bool:
        """See `daemon.frontend.Session`."""
        return bool(self._owner.accounts.subscribable(self.account, pattern))

    async def topics(self, after: str = "", count: int = 100, pattern: str = "") -> list[TopicInfo]:
        """See `daemon.frontend.Session`."""

        def may_see(topic: str) -> bool:
            return (not pattern or subscription_takes(pattern, topic)) and self._may_see(topic)

        # most of many are passed over by how they begin, at a thirtieth of the cost
        begins = pattern.partition("*")[0].partition("#")[0].rstrip(".")
        return await list_topics(self._door.view, after, count, begins, may_see)

    def _may_see(self, topic: str) -> bool:
        return self.allows("subscribe", topic) or self.allows("administer", topic)

    def topic(self, topic: str) -> TopicInfo | None:
        """See `daemon.frontend.Session`."""
        return self._door.view.topic(topic) if self._may_know(topic) else None

    def annotation(self, topic: str) -> str | None:
        """See `daemon.frontend.Session`."""
        found = self._door.view.found_topic(topic)
        if found is None or not found.annotations or not self._may_know(topic):
            return None
        return found.annotations.get(self.protocol)

    def _may_know(self, topic: str) -> bool:
        # asked with each message: no generator
        allows = self._owner.accounts.rights.allows
        return any(map(allows, repeat(self.account), RIGHTS, repeat(topic)))

    def subscriptions(self, topic: str) -> list[SubscriptionInfo]:
        """See `daemon.frontend.Session`."""
        self._check("administer", topic)
        return self._door.view.subscriptions(topic)

    async def browse(
        self, topic: str, after: int = 0, count: int = 100, *, backwards: bool = False
    ) -> HeldPage:
        """See `daemon.frontend.Session`."""
        self._check("subscribe", topic)
        return await self._owner.browse(topic, after, count, backwards=backwards)

    def entries(
        self, topic: str, after: int = 0, count: int = 100, *, backwards: bool = False
    ) -> list[HeldEntry]:
        """See `daemon.frontend.Session`."""
        self._check("subscribe", topic)
        view = self._door.view
        if backwards:
            return self._held_entries(view.browse_back(topic, after or sys.maxsize, count))
        return self._held_entries(view.browse(topic, after, count))

    def entries_among(self, topic: str, message_ids: Iterable[int]) -> list[HeldEntry]:
        """See `daemon.frontend.Session`."""
        self._check("subscribe", topic)
        return self._held_entries(self._door.view.browse_among(topic, message_ids))

    def _held_entries(self, shown: list[tuple[Entry, bool]]) -> list[HeldEntry]:
        server = self._door.server
        return [HeldEntry(entry.id, entry.smuid(server), locked) for entry, locked in shown]

    def kept(self, topic: str, after: int = 0, count: int = 100, *, backwards: bool = False) -> list[int]:
        """See `daemon.frontend.Session`."""
        self._check("subscribe", topic)
        view, before = self._door.view, after or sys.maxsize
        every = view.kept_back(topic, before, count) if backwards else view.kept(topic, after, count)
        return [entry.id for entry in every]

    def kept_among(self, topic: str, message_ids: Iterable[int]) -> list[int]:
        """See `daemon.frontend.Session`."""
        self._check("subscribe", topic)
        return self._door.view.kept_among(topic, message_ids)

    def _check(self, right: Right, topic: str) -> None:
        self._check_open()
        if not self._owner.accounts.rights.allows(self.account, right, topic):
            why = ""
            if right == "publish" and owner_of(topic, self._owner.server_name) is not None:
                why = ": no account that can log in would read it"
            raise Refusal(Refusal.FORBIDDEN, f"{self.account} may not {right} {topic}{why}")

    def _check_open(self) -> None:
        if self.outbox.ended:
            raise Refusal(Refusal.NOT_AVAILABLE, "the session has ended")
        if self._owner.overloaded:
            text = "the site cannot write to its disk, and too much waits for it"
            raise Refusal(Refusal.STORE_FAILED, text)
        if self._owner.draining:
            raise Refusal(Refusal.NOT_AVAILABLE, "the site is stopping")
