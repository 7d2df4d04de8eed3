"""What operators see of a running site, and do at it: by commands over the control socket, in a front end.

`daemon.operations` answers; whoever asks has seen to it that its user may. Values are frozen copies. What
looks at much does so in steps of a millisecond, so that messages go on meanwhile: it is true for each thing
that it shows, but not for all of them at one moment.
"""

from collections.abc import Iterable
from typing import Final, Literal, Protocol

import msgspec

from daemon.settings import OwnQuotas, Quotas
from routing.federation.news import LinkNews
from routing.message import DeliveryMode
from routing.rights import Right, Rights
from routing.subscription import Accepts

TopicOrder = Literal["name", "held", "bytes", "oldest", "in", "out", "subscriptions", "expired", "dead"]
"""What topics are sorted by: names rise, all else falls."""

LinkState = Literal["up", "leaving", "dialling", "waiting"]

CONFLICT: Final = "conflict"
"""Code of a refusal: what was to be changed is another by now, or what comes of it has to be wanted."""

TOPICS_MAX: Final = 1_000
"""On one page."""

BROWSED_MAX: Final = 1_000
BODIES_BYTES_MAX: Final = 2**20
"""Of all messages that are browsed at once, shown of their bodies."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Since the start of the site; see `routing.traffic.Traffic`."""

    came: int
    delivered: int
    committed: int
    expired: int
    removed: int
    dropped: int
    dead: int


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """Something to see to.

    Attributes:
        level: `error` where something does not work, or is not as its files say.
        about: what it is about, in a word, such as `links`.
    """

    level: Literal["error", "warning"]
    about: str
    text: str


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The whole site.

    Attributes:
        started_at: Unix time, seconds.
        up_s: seconds since then.
        listening: `smqp 127.0.0.1:7720` each.
        sessions: that are logged in; connections also before that.
        topics: without system topics.
        held: guaranteed messages; `held_bytes` are of the bodies of all messages.
        unguaranteed_bytes: in memory, of messages that are never on disk.
        unfinished_bytes: in memory, of what is no message yet.
        dead_letters: held on dead-letter topics.
        in_per_s, out_per_s: messages, lately.
        memory_bytes: of the process; 0 where it cannot be known.
        store_bytes: of the database; `disk_free_bytes` where it is.
        store_failed: why the last transaction failed; "" where it did not.
        links, links_up: peers, and those that there is a link with.
        errors: of smqpd's own since the start; the log has them.
        damaged: rows of the store that could not be read since the start, or not all of them; likewise.
        warnings: the gravest first.
    """

    server: str
    version: str
    started_at: float
    up_s: float
    draining: bool
    listening: tuple[str, ...]
    connections: int
    sessions: int
    topics: int
    subscriptions: int
    held: int
    held_bytes: int
    unguaranteed_bytes: int
    unfinished_bytes: int
    dead_letters: int
    in_per_s: float
    out_per_s: float
    totals: Totals
    memory_bytes: int
    store_bytes: int
    disk_free_bytes: int
    disk_full: bool
    store_failed: str
    links: int
    links_up: int
    errors: int
    damaged: int
    warnings: tuple[Warned, ...]


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A topic.

    Attributes:
        delivery: its own mode; None where each message says.
        timeout_s: its own timeout; None for none, "INFINITE" for state messages.
        held, bytes: all that it holds, also what is with subscribers.
        oldest_s: how long ago what waits longest for somebody here was published; None where nothing does.
        subscriptions: attached or not.
        in_per_s, out_per_s: messages that come, and deliveries, lately.
        came, delivered, expired, dead: since the site started, or since the topic was last empty and unused;
            `dead` were moved to its dead-letter topic.
        dead_letters: held there now.
    """

    name: str
    delivery: DeliveryMode | None
    timeout_s: float | Literal["INFINITE"] | None
    held: int
    bytes: int
    oldest_s: float | None
    subscriptions: int
    in_per_s: float
    out_per_s: float
    came: int
    delivered: int
    expired: int
    dead: int
    dead_letters: int


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some topics, of so many that were looked for; and of all, without system topics."""

    topics: tuple[TopicSummary, ...]
    matching: int
    total: int


class SubscriptionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription, and what is its.

    Attributes:
        topic: what it is to.
        credit: of those who share it, together.
        sessions: ids of those that consume from it now.
        waiting: messages of mode ALL in its queue; those of mode ONE wait for anybody.
        locked: with it, and unanswered; `locked_s`: how long the one that is so for longest, None for none.
        received: RECEIVED, and not committed.
        joining: what the topic keeps is still being offered to it.
        unused_s: how long nobody has consumed from it; None while somebody does.
    """

    topic: str
    account: str
    channel: str
    name: str
    accepts: Accepts
    durable: bool
    ordered: bool
    credit: int
    sessions: tuple[int, ...]
    waiting: int
    locked: int
    locked_s: float | None
    received: int
    joining: bool
    unused_s: float | None


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One topic.

    Attributes:
        waiting: messages of mode ONE that wait for any subscription.
        kept: messages with a stated timeout, which those who join get, too.
        messages_max, bytes_max: at which publishers are refused.
    """

    summary: TopicSummary
    waiting: int
    kept: int
    messages_max: int
    bytes_max: int
    subscriptions: tuple[SubscriptionStatus, ...]


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One login.

    Attributes:
        id: names it for as long as the site runs.
        remote: `address:port`.
        opened_at: Unix time, seconds.
        subscriptions: that it consumes from.
        in_flight: messages that it has and has not finished; `in_flight_max` if it used all of its credit.
        published: messages that it has published.
        unsent, unsent_bytes: what waits for the client to read it.
        paused_s: how long it gets no more messages since so much is unsent; None where it gets them.
    """

    id: int
    account: str
    channel: str
    protocol: str
    remote: str
    opened_at: float
    subscriptions: int
    in_flight: int
    in_flight_max: int
    published: int
    unsent: int
    unsent_bytes: int
    paused_s: float | None


class LinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A peer.

    Attributes:
        since_s: seconds in this state.
        remote: address of the other end; "" where none is known.
        round_trip_s: of the last probe; None where none has come back.
        waiting: units not written (`daemon.link.unacknowledged` adds what waits on disk).
        in_flight: units written and not acknowledged.
        lag_s: age of the oldest of them (of what waits on disk, since it was published, by the clock of the
            site where it was); None where there is none.
        why_down: why the last link, or the last attempt at one, ended; "" where none did.
    """

    peer: str
    state: LinkState
    since_s: float
    remote: str
    round_trip_s: float | None
    waiting: int
    in_flight: int
    lag_s: float | None
    why_down: str
    version: str
    features: tuple[str, ...]


class Browsed(msgspec.Struct, frozen=True, kw_only=True):
    """A section of a message: the first bytes of its body, of `size` in all."""

    content_type: str
    headers: tuple[tuple[str, str], ...]
    size: int
    body: bytes


class BrowsedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a topic holds.

    Attributes:
        id: its number at this site, which rises in the order of arrival.
        account: its publisher.
        age_s: since it was published, by the clock of the site where that was.
        expires_in_s: of the time that the site holds it for; None where that has no end.
        locked: of mode ONE, and with a subscriber.
        headers: all of them, in order, as SMQP writes them.
    """

    id: int
    smuid: str
    account: str
    age_s: float
    expires_in_s: float | None
    locked: bool
    size: int
    headers: tuple[tuple[str, str], ...]
    sections: tuple[Browsed, ...]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message on a dead-letter topic; what is not known of it is "".

    Attributes:
        topic: where it was published.
        smuid: that it had there; its own is the message's.
        account: who published it.
        subscription: that could not take it, as the hop log writes it.
        deliveries: how often it was tried.
    """

    topic: str
    smuid: str
    account: str
    subscription: str
    deliveries: str
    reason: str
    message: BrowsedMessage


REFUSED_MAX: Final = 100
"""Dead letters of which each is named that did not go back: where one does not, mostly none does."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of dead letters that were to go back.

    Attributes:
        done: that went back.
        stayed: that did not.
        refused: by Smuid, why one stays; of the first `REFUSED_MAX`.
        last_id: of the last one that was looked at, for the next call; None where there are no more.
    """

    done: int
    stayed: int
    refused: dict[str, str]
    last_id: int | None


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


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an account may do something; `why` names the pattern or the rule that says so."""

    allowed: bool
    why: str


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What an account uses of that which quotas bound.

    Attributes:
        held_messages, held_bytes: that it has published at this site and that are held.
        unfinished_bytes: memory for what is no message yet, or not on disk.
    """

    sessions: int = 0
    held_messages: int = 0
    held_bytes: int = 0
    unfinished_bytes: int = 0


class AccountStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An account.

    Attributes:
        sessions: of it that are open.
        quotas: those that hold, 0 for no limit; `own` are those that it has itself.
        tokens: their names.
        version: names what it may do, for `Operations.set_account`.
    """

    name: str
    disabled: bool
    rights: Rights
    sessions: int
    quotas: Quotas
    own: OwnQuotas
    used: Used
    tokens: tuple[str, ...]
    version: str


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an account is to be, or to become; None leaves that as it is."""

    disabled: bool | None = None
    rights: Rights | None = None
    quotas: OwnQuotas | None = None


class KnownSite(msgspec.Struct, frozen=True, kw_only=True):
    """A site.

    Attributes:
        hops: links from this site, over such as are up at both ends; None where there is no way.
        source: the peer that told of it first; "" of this site itself, and of one that says nothing.
        age_s: since it said so; None where it says nothing of itself, as one of an earlier version.
        boot, number: of what it said; 0 where it says nothing.
        wants: topics and patterns that are known to be wanted there; None where it does not say.
        wants_missing: it has said more, which is not here yet.
    """

    site: str
    hops: int | None
    source: str
    age_s: float | None
    boot: int
    number: int
    links: tuple[LinkNews, ...]
    wants: int | None = None
    wants_missing: bool = False


def links_between(sites: Iterable[KnownSite]) -> list[tuple[str, str, bool]]:
    """Each link once, by its two ends, and whether it is up: where each end that says anything says so."""
    said = {(site.site, link.peer): link.up for site in sites for link in site.links}
    pairs = sorted({(min(pair), max(pair)) for pair in said})
    return [
        (one, other, said.get((one, other), True) and said.get((other, one), True)) for one, other in pairs
    ]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One peer, as a way for a message.

    Attributes:
        distance: links from this site to the nearest site beyond the peer that wants it; None where the
            peer knows of none. It is the least Depth with which a message gets there.
        why: a message does not go there now; "" where it goes.
    """

    peer: str
    kind: Literal["ALL", "ONE", "SERVER"]
    distance: int | None
    why: str


class JourneyStop(msgspec.Struct, kw_only=True):
    """One site that had the message.

    Attributes:
        source: the site that it came from; "" where it was published.
        came_us: when, by the site's own clock; None where its log was not read.
        after_us: microseconds after it was published, clocks corrected; None where the stamps for that
            are missing.
        link_us: on the link to this site, half a round trip; None likewise.
        state, verdict: what became of it there, see `routing.fate`; `unknown` where nobody knows.
        again: sites from which it came once more, and what this site did with that.
        beyond: the sites that it went on to.
    """

    server: str
    source: str = ""
    came_us: int | None = None
    after_us: int | None = None
    link_us: int | None = None
    state: str = "unknown"
    verdict: str = ""
    again: list[str] = []
    beyond: list["JourneyStop"] = []


class KnowledgeGap(msgspec.Struct, frozen=True):
    """A site of which not all is known, and why."""

    server: str
    why: str


class Journey(msgspec.Struct, kw_only=True):
    """The way of one message over all sites.

    Attributes:
        began: the site where it was published, or the first that is known to have had it; None for none.
        apart: sites that had it, with no log that tells how they came by it.
        never: sites whose logs reach back far enough to say that they never had it.
    """

    smuid: str
    topic: str
    began: JourneyStop | None
    apart: list[JourneyStop]
    never: list[str]
    gaps: list[KnowledgeGap]


class Operations(Protocol):
    """One running site."""

    async def overview(self) -> Overview:
        """The whole site; topics are counted anew every few seconds where there are many."""

    async def topics(
        self, search: str = "", *, order: TopicOrder = "name", offset: int = 0, count: int = 50
    ) -> TopicPage:
        """Topics whose names contain `search`, in any case, or match it where it is a pattern with * or #.

        `count` of them, at most `TOPICS_MAX`, after the first `offset`. System topics are not among them.
        """

    async def topic(self, name: str) -> TopicStatus | None:
        """A topic, a system topic too; None where nothing is known of it."""

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

    async def browse(
        self, topic: str, *, after: int = 0, count: int = 20, body_bytes_max: int = 4_096
    ) -> list[BrowsedMessage]:
        """What a topic holds, oldest first, from what follows the message with the id `after`.

        `count` of them, at most `BROWSED_MAX`; fewer are all that follow. Nothing is taken or locked by that.
        """

    async def dead_letters(
        self, topic: str, *, after: int = 0, count: int = 20, body_bytes_max: int = 4_096
    ) -> list[DeadLetter]:
        """The dead letters of a topic, as `browse`."""

    async def journey(self, smuid: str, timeout_s: float) -> Journey:
        """The way of a message over all sites that answer in time.

        Raises Refusal (bad-header, not-available).
        """

    # What follows changes the site, and is in its log with who did it. Each raises Refusal where it cannot be
    # done, and has then done nothing, and returns once what it did is on disk.

    async def purge(self, topic: str, by: Actor) -> int:
        """Remove every message that a topic holds now; how many those were."""

    async def delete_topic(self, topic: str, by: Actor) -> int:
        """Remove a topic's messages, subscriptions and settings; how many messages there were."""

    async def set_delivery(self, topic: str, mode: DeliveryMode | None, by: Actor) -> None:
        """SET TOPIC DELIVERY; None lets each message say."""

    async def set_timeout(self, topic: str, timeout_s: float | None, by: Actor) -> None:
        """SET TOPIC TIMEOUT; None for none, `inf` for state messages."""

    async def remove_message(self, topic: str, smuid: str, by: Actor) -> None:
        """REMOVE one message, wherever it went; a dead letter is dropped so. Raises Refusal (not-found)."""

    async def replay(
        self, topic: str, by: Actor, *, smuid: str = "", after: int = 0, count: int = 1_000
    ) -> Replayed:
        """Publish dead letters of a topic there again, as new messages of who published them.

        One, or `count` of those that follow the id `after`. One of mode ALL goes to every subscription, also
        to those that had it. Each leaves its dead-letter topic once it is on disk where it came from; a kill
        in between leaves both, and replaying it again within the time that Cmuids are remembered publishes
        it no second time. Raises Refusal (not-found).
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

    async def set_password(self, name: str, password: str, by: Actor) -> str:
        """Give an account another password, as `add_account`. Sessions that are open stay."""

    async def remove_account(self, name: str, by: Actor, *, leave_nobody: bool = False) -> None:
        """Remove it for good, and end its sessions; its subscriptions and messages stay until they expire.

        Raises Refusal likewise.
        """
