"""All that an operator can ask of a site, and do to it."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from daemon.operating.accounts import AccountSettings, AccountStatus, PasswordChanged, Verdict
from daemon.operating.federation import KnownSite, LinkStatus, Route
from daemon.operating.journeys import Journey
from daemon.operating.messages import BrowsedMessage, DeadLetter, Replayed
from daemon.operating.overview import Overview
from daemon.operating.sessions import SessionStatus
from daemon.operating.topics import SubscriptionStatus, TopicOrder, TopicPage, TopicStatus, TopicSummary
from routing.message import DeliveryMode
from routing.rights import Right


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who does something, for the log.

    Attributes:
        name: an account, or a user of the machine.
        via: `control`, `web` or another front end.
        remote: `address:port`; "" on this machine.
    """

    name: str
    via: str
    remote: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.via}{f', {self.remote}' if self.remote else ''})"


class Operations(Protocol):
    """One running site."""

    async def overview(self) -> Overview:
        """The whole site; topics are counted anew every few seconds where there are many."""

    async def topics(
        self, search: str = "", *, order: TopicOrder = "name", offset: int = 0, count: int
    ) -> TopicPage:
        """Topics whose names contain `search`, in any case, or match it where it is a pattern with * or #.

        `count` of them, at most `TOPICS_MAX`, after the first `offset`. System topics are not among them.
        """

    async def first_topics(self, order: TopicOrder, count: int) -> Sequence[TopicSummary]:
        """So many topics, the first in an order, of one look at all; without system topics."""

    async def topic(self, name: str) -> TopicStatus | None:
        """A topic, a system topic too; None where nothing is known of it."""

    async def subscribed(self, topic: str) -> list[SubscriptionStatus]:
        """Who gets what comes to a topic, also to one of which nothing is known.

        Raises Refusal (bad-topic).
        """

    async def subscription(
        self, wanted: str, account: str, channel: str, name: str = ""
    ) -> SubscriptionStatus | None:
        """That of a login to a topic or a pattern; None where there is none of this name.

        Raises Refusal (bad-topic, bad-login).
        """

    async def sessions(self) -> list[SessionStatus]:
        """All sessions, the oldest first."""

    async def links(self) -> list[LinkStatus]:
        """All peers, by name."""

    async def sites(self) -> list[KnownSite]:
        """All sites that are known, this one first and the nearest next; those that are only named, too."""

    async def routes(self, name: str) -> list[Route]:
        """Where a message for a topic, or a server, would go from here. Raises Refusal (bad-topic)."""

    async def accounts(self) -> list[AccountStatus]:
        """All accounts, by name."""

    def accounts_fixed(self) -> str:
        """Why accounts can be changed by `smqpd account` alone; "" where the site may do it itself."""

    def may(self, account: str, right: Right, topic: str) -> Verdict:
        """Whether an account may do this to a topic, and why. Raises Refusal (bad-topic)."""

    async def browse(self, topic: str, *, after: int = 0, count: int) -> list[BrowsedMessage]:
        """What a topic holds, oldest first, from what follows the message with the id `after`.

        `count` of them, at most `BROWSED_MAX`; fewer where no more follow, or those before have so many
        headers: whoever wants all goes on after the last one until nothing comes. Of the bodies of each there
        are at most `BODY_BYTES_MAX`. Nothing is taken or locked by that.
        """

    async def dead_letters(self, topic: str, *, after: int = 0, count: int) -> list[DeadLetter]:
        """The dead letters of a topic, as `browse`."""

    async def journey(self, smuid: str, timeout_s: float) -> Journey:
        """The way of a message over all sites that answer in time.

        Raises Refusal (bad-header, not-available).
        """

    # What follows changes the site, and is in its log with who did it. Each raises Refusal where it cannot be
    # done, and has then done nothing, and returns once what it did is on disk.

    async def purge(self, topic: str, by: Actor) -> int:
        """Remove every message that a topic holds now; how many those were; 0 if there is none."""

    async def delete_topic(self, topic: str, by: Actor) -> int:
        """Remove a topic's messages, subscriptions and settings; how many messages there were.

        Raises Refusal (not-found).
        """

    async def end_subscription(
        self, wanted: str, account: str, channel: str, by: Actor, *, name: str = ""
    ) -> int:
        """End a subscription from which nobody consumes, as its own UNSUBSCRIBE would.

        Returns how many messages waited for it, counted just before. Raises Refusal (bad-topic, bad-login,
        not-subscribed; conflict: sessions consume from it, which the text names).
        """

    async def set_delivery(self, topic: str, mode: DeliveryMode | None, by: Actor) -> None:
        """Set the mode of a topic; None lets each message say. Source: SMQP "SET TOPIC DELIVERY"."""

    async def set_timeout(self, topic: str, timeout_s: float | None, by: Actor) -> None:
        """Set the timeout of a topic, in seconds; None for none, `inf` for state messages."""

    async def remove_message(self, topic: str, smuid: str, by: Actor) -> None:
        """REMOVE one message, wherever it went; a dead letter is dropped so. Raises Refusal (not-found)."""

    async def replay(self, topic: str, by: Actor, *, smuid: str = "", after: int = 0) -> Replayed:
        """Publish dead letters of a topic there again, as new messages of who published them.

        One, or at most `REPLAYED_MAX` of those that follow the id `after`. One of mode ALL goes to every
        subscription of this site, also to those that had it. A dead letter has kept no Timeout, Depth or
        Receipt: the topic's timeout holds, no other site is sent it, and nobody a receipt. Each leaves its
        dead-letter topic once it is on disk where it came from; a kill in between leaves both, and replaying
        it again within the time that Cmuids are remembered publishes it no second time. Raises Refusal
        (not-found).
        """

    async def close_session(self, id: int, by: Actor) -> bool:
        """End a session, whose client may come back; False where there is none of this id."""

    async def add_account(self, name: str, password: str, wanted: AccountSettings, by: Actor) -> str:
        """Add an account; what is not `wanted` it has not.

        Returns the password that was made for it where none was given; else "". Raises Refusal (bad-command,
        not-available).
        """

    async def set_account(
        self,
        name: str,
        wanted: AccountSettings,
        by: Actor,
        *,
        version: str = "",
        leave_nobody: bool = False,
    ) -> None:
        """Change what an account may do. Its sessions follow.

        With a `version`, only where it is still what it was then; and where nobody could change the site on
        its page any more, only where one may `leave_nobody`. Raises Refusal (not-found, conflict,
        not-available).
        """

    async def set_password(self, name: str, password: str, by: Actor) -> PasswordChanged:
        """Give an account another password, as `add_account`.

        Sessions that are open stay; what a front end has tied to `Site.credential` ends.
        """

    async def remove_account(
        self, name: str, by: Actor, *, version: str = "", leave_nobody: bool = False
    ) -> None:
        """Remove it for good, and end its sessions and subscriptions; what waits for these is lost.

        `version` and `leave_nobody` as in `set_account`. Raises Refusal likewise.
        """
