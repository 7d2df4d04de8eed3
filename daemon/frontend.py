"""All that a front end sees of the daemon: a plugin is given a `Site` and opens `Session`s on it.

A front end turns bytes or stanzas into calls of a session, and the session's events back into bytes.
The calls never wait: what can be refused at once raises `Refusal`, everything else is told later by an
event. Each connection (`daemon.connections.client_connection`) has two tasks: one reads and calls, one does

    while events := await session.events():
        await stream.send_all(encode(events))

Events of one session come in the order in which they became true. An answer to a guaranteed PUBLISH,
RECEIVED or COMMIT comes only when what it promises is on disk.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, Protocol

import msgspec
import trio

from daemon.metrics import LONG_PAUSE_S as LONG_PAUSE_S
from daemon.metrics import STEPS_S as STEPS_S
from daemon.metrics import Histogram as Histogram
from daemon.metrics import Metrics as Metrics
from daemon.operating.accounts import CONFLICT as CONFLICT
from daemon.operating.accounts import AccountSettings as AccountSettings
from daemon.operating.accounts import AccountStatus as AccountStatus
from daemon.operating.accounts import Verdict as Verdict
from daemon.operating.federation import KnownSite as KnownSite
from daemon.operating.federation import LinkStatus as LinkStatus
from daemon.operating.federation import Route as Route
from daemon.operating.federation import link_remarks as link_remarks
from daemon.operating.federation import links_between as links_between
from daemon.operating.journeys import Journey as Journey
from daemon.operating.messages import Browsed as Browsed
from daemon.operating.messages import BrowsedMessage as BrowsedMessage
from daemon.operating.messages import DeadLetter as DeadLetter
from daemon.operating.messages import Replayed as Replayed
from daemon.operating.operations import Actor as Actor
from daemon.operating.operations import Operations as Operations
from daemon.operating.overview import Overview as Overview
from daemon.operating.overview import Totals as Totals
from daemon.operating.overview import Warned as Warned
from daemon.operating.sessions import SessionStatus as SessionStatus
from daemon.operating.topics import TIMEOUT_S_MAX as TIMEOUT_S_MAX
from daemon.operating.topics import SubscriptionStatus as SubscriptionStatus
from daemon.operating.topics import TopicOrder as TopicOrder
from daemon.operating.topics import TopicPage as TopicPage
from daemon.operating.topics import TopicStatus as TopicStatus
from daemon.operating.topics import TopicSummary as TopicSummary
from daemon.session_events import Answer as Answer
from daemon.session_events import Delivered as Delivered
from daemon.session_events import Detached as Detached
from daemon.session_events import Ending as Ending
from daemon.session_events import HeldEntry as HeldEntry
from daemon.session_events import HeldMessage as HeldMessage
from daemon.session_events import HeldPage as HeldPage
from daemon.session_events import Retracted as Retracted
from daemon.session_events import SessionEvent as SessionEvent
from daemon.session_events import StoredMessage as StoredMessage
from daemon.session_events import Withdrawn as Withdrawn
from daemon.settings import PORT_PATTERN as PORT_PATTERN
from daemon.settings import YEAR_S as YEAR_S
from daemon.settings import ConfigError as ConfigError
from daemon.settings import Limits as Limits
from daemon.settings import ListenAddress as ListenAddress
from daemon.settings import count as count
from daemon.settings import note as note
from daemon.settings import seconds as seconds
from daemon.settings import text as text
from routing.message import DeliveryMode, Message
from routing.options import Accepts as Accepts
from routing.options import ReturnOutcome as ReturnOutcome
from routing.options import SubscribeOptions as SubscribeOptions
from routing.quotas import OwnQuotas as OwnQuotas
from routing.rights import RIGHTS as RIGHTS
from routing.rights import Operating as Operating
from routing.rights import Right as Right
from routing.rights import Rights as Rights
from routing.traffic import COUNTERS as COUNTERS
from routing.traffic import TOPIC_COUNTERS as TOPIC_COUNTERS
from routing.view import SubscriptionInfo as SubscriptionInfo
from routing.view import TopicInfo as TopicInfo

UNCOUNTED_BYTES: Final = 4_096
"""What a connection may hold of a message that is not whole without saying so: see `Session.hold`."""


ANNOTATION_BYTES_MAX: Final = 65_536
"""Of what a front end keeps with a topic, in UTF-8."""


class Session(Protocol):
    """One login. Owned by the front end that opened it, which must `close` it (also when cancelled).

    Whatever a method says that it raises, what asks for something to be done is also refused once the session
    has ended or the site drains (not-available), and while too much waits for a disk that cannot be written
    (store-failed).
    """

    account: str
    channel: str
    system_topic: str

    def publish(self, topic: str, message: Message, request: Any = None, *, delay_s: float = 0.0) -> None:
        """Accept a message. Answered once on disk; with Guarantee NO never answered.

        Raises Refusal (forbidden, bad-topic, bad-header, too-large, queue-full, store-failed: no room on
        disk; too-many: see `publish_wait_s`): nothing was accepted. `message` must not carry Smuid, Hops or
        Account; without Created it is given one.

        With `delay_s` nobody gets it before that is over; its Timeout counts from then, and it is not to ask
        for a receipt.
        """

    @property
    def publish_wait_s(self) -> float:
        """Seconds for which nothing is to be published, since the session or its account does so too fast.

        A front end that can hold up its client alone asks before it publishes, and carries nothing out until
        they are over. What is published all the same is refused (too-many); a transaction is so by its first
        message, and paid for whole.
        """

    def check_publish(self, topic: str) -> None:
        """Check whether a message to this topic would be taken, before it has come whole.

        Raises Refusal (forbidden, bad-topic); a message may still be refused for the rest.
        """

    async def hold(self, bytes: int) -> None:
        """Have the connection hold so many bytes that are no messages yet, from now on and in all.

        Bodies count whole once their length is known. To be called before more is read, with any change to
        or from more than `UNCOUNTED_BYTES`, and with 0 once nothing is held; `close` does that. Waits for
        room, for some seconds at most, and longer while much that was accepted here is not on disk yet
        (`is_storing_much`); to hold less never waits else. Raises Refusal (too-many): it holds what it
        held before, and the front end must let go of what was to be added.
        """

    def hold_now(self, bytes: int) -> None:
        """Hold, as `hold` does, without waiting. Raises Refusal (too-many) where there is no room now."""

    def check_room(self, bytes: int) -> None:
        """Check whether so many bytes would find room now, beside what is held and is being stored.

        For a front end that does not `hold` before it reads. Raises Refusal (too-many).
        """

    @property
    def is_storing_much(self) -> bool:
        """Whether so much is not on disk yet that `hold` is to be called before more is read, in any case."""

    def subscribe(self, topic: str, options: SubscribeOptions, request: Any = None) -> None:
        """Begin or change a subscription to a topic or a pattern of topics, and receive from it here.

        By a pattern comes what is published to any topic that it takes and the account may subscribe to, also
        to later ones; each delivery names its topic. Of several subscriptions of one account, channel and
        name a message of mode ALL comes to one: that to its topic, else the oldest.

        Sessions that had it are detached, unless they and this one share it. Raises Refusal (bad-topic;
        bad-header: a credit beyond `credit_max`; forbidden, also where the account may have no topic of the
        pattern; too-many).
        """

    def unsubscribe(self, topic: str, name: str = "", request: Any = None) -> None:
        """End a subscription to a topic, or a pattern, for all who share it.

        What it held, locked or received, goes to the next subscriber.
        """

    def detach(self, topic: str, name: str = "", request: Any = None) -> None:
        """Stop receiving here; a durable subscription stays, and one that others share."""

    def received(self, numbers: Iterable[int], request: Any = None) -> None:
        """Note that the client has stored these: the first phase. After the answer they go to nobody else."""

    def commit(self, numbers: Iterable[int], request: Any = None) -> None:
        """Finish these, which are not sent again: the second phase, or the only one.

        A number whose lock was lost is answered `lock-lost`, after all others have been carried out. Nobody
        waits for one without a `request`: it may be put off for some milliseconds, to share a transaction.
        """

    def reached_nobody(self, numbers: Iterable[int]) -> None:
        """Note that these deliveries were sent to a client that was not there.

        They stay where they are; however they return, the return does not raise their count, so that nothing
        becomes a dead letter that nobody has seen. Called once for each, if at all. Those whose lock was lost
        are passed over.
        """

    def give_back(
        self,
        numbers: Iterable[int],
        reason: str = "",
        delay_s: float = 0.0,
        request: Any = None,
        *,
        outcome: ReturnOutcome = "failed",
    ) -> None:
        """Give deliveries back, to the next subscriber (or here again, after `delay_s` seconds).

        Their count is raised, unless they are "released"; what is "rejected" goes to the dead-letter topic at
        once. What is "withheld" was not for this subscription: in mode ALL it never comes to it again.
        """

    def transaction(self, request: Any = None) -> AbstractContextManager[None]:
        """In the block, calls of publish, commit, give_back, remove, set_delivery, set_timeout and annotate
        are one: all happen, or none; but where the store refuses it after that, what it has set of topics
        stays set until somebody sets it back. What is published in it is to topics as they have been set in
        it.

        A call that is refused raises at once, also commit and give_back where a lock was lost; leaving the
        block by an exception does nothing of what was called in it. Else all of it is in one commit of the
        store, and is answered once, by `request`; the calls' own requests are not answered. Where the disk
        has no room for its messages, or something of it can never be stored, it is refused; one that removes
        waits for room, and so does one without messages. Raises Refusal (queue-full) on leaving the block.
        Nothing may be awaited inside.
        """

    def remove(self, topic: str, smuid: str, request: Any = None) -> None:
        """REMOVE a message wherever it went; answered `not-found` where this site has never seen it."""

    def set_delivery(self, topic: str, mode: DeliveryMode | None, request: Any = None) -> None:
        """Set the mode of a topic; None lets each message say again. Source: SMQP "SET TOPIC DELIVERY"."""

    def set_timeout(self, topic: str, timeout_s: float | None, request: Any = None) -> None:
        """Set the timeout of a topic, in seconds; None removes it. Source: SMQP "SET TOPIC TIMEOUT"."""

    def annotate(self, topic: str, text: str | None, request: Any = None) -> None:
        """Keep a text with a topic, over restarts and in backups; None to forget it.

        Each front end has one for each topic: `TopicInfo.annotations` has it under its protocol's name, at
        once. It goes with the topic when that is deleted, and keeps it known until then. What it says is the
        front end's alone, and so is who may change it: no right is asked for. It is to be read like anything
        from outside: a store may be damaged, and has "" in the place of what is lost. Raises Refusal
        (bad-topic; too-large: more than `ANNOTATION_BYTES_MAX`).
        """

    def allows(self, right: Right, topic: str) -> bool:
        """Whether the account has a right on a topic."""

    def may_follow(self, pattern: str) -> bool:
        """Whether there can be topics of a pattern that the account may subscribe to."""

    async def topics(self, after: str = "", count: int = 100, pattern: str = "") -> list[TopicInfo]:
        """Topics, by name, that the account may subscribe to or administer; no system topics.

        With a pattern only those of it that a subscription to it takes.
        """

    def topic(self, topic: str) -> TopicInfo | None:
        """A topic; None where nothing is known of it, or the account has no right on it."""

    def annotation(self, topic: str) -> str | None:
        """What this front end keeps with a topic, as `topic` would tell; None also where it keeps nothing."""

    def subscriptions(self, topic: str) -> list[SubscriptionInfo]:
        """Everyone's subscriptions to a topic. Raises Refusal (forbidden) without the right to administer."""

    def end_subscription(self, subscription: SubscriptionInfo, request: Any = None) -> None:
        """End anyone's subscription to a topic, one of `subscriptions`; who consumes from it is told.

        One to a pattern takes other topics, too, so that only its own login ends it. Raises Refusal
        (bad-topic for such a one; not-subscribed, as it has ended; forbidden without the right to
        administer).
        """

    async def browse(
        self, topic: str, after: int = 0, count: int = 100, *, backwards: bool = False
    ) -> HeldPage:
        """Messages that wait for a subscriber, are locked, or are kept for late ones, oldest first.

        From the one that follows `message_id` `after`; messages of mode ALL without a timeout, which only
        wait for those who were there, are not shown. At most `count`, and as many as make some MiB; a larger
        one comes by itself. With `backwards` the newest first, from the one in front of `after`, where 0 is
        the end of the topic. Raises Refusal (forbidden).
        """

    def entries(
        self, topic: str, after: int = 0, count: int = 100, *, backwards: bool = False
    ) -> list[HeldEntry]:
        """What `browse` shows, unread, so that it is there at once; also what is not stored yet.

        Fewer than `count` are all that follow. Raises Refusal (forbidden).
        """

    def entries_among(self, topic: str, message_ids: Iterable[int]) -> list[HeldEntry]:
        """Those of some messages that `entries` shows, as they come. Raises Refusal (forbidden)."""

    def kept(self, topic: str, after: int = 0, count: int = 100, *, backwards: bool = False) -> list[int]:
        """The messages that the topic keeps for late ones, `TopicInfo.kept` in all; else as `entries`."""

    def kept_among(self, topic: str, message_ids: Iterable[int]) -> list[int]:
        """Those of some messages that the topic keeps for late ones. Raises Refusal (forbidden)."""

    def purge(self, topic: str, request: Any = None) -> None:
        """REMOVE every message of a topic, also from subscribers that have it. Raises Refusal (forbidden)."""

    def delete_topic(self, topic: str, request: Any = None) -> None:
        """Remove a topic's messages, subscriptions and settings. Raises Refusal (forbidden)."""

    async def events(self) -> list[SessionEvent]:
        """Wait for events and return some, at most about 256 KiB of messages; [] once the session ended.

        Cancellation loses no event.
        """

    def offer_events_to(self, take: Callable[[list[SessionEvent]], bool]) -> None:
        """Have events offered to `take` first, while `events` waits: so nobody has to be woken for them.

        It is called where other sessions wait for it to return: it must neither wait nor raise. What it does
        not take (False) is returned by `events`, which some events always are.
        """

    def close(self, *, lost: bool = False, why: str = "") -> None:
        """End the session: session-bound subscriptions end, locked messages go to the next subscriber.

        With `lost` the client has gone without a word, and what it may have worked on has failed. `why` is
        for the log, where it was not the client that ended it.
        """


class Identity(msgspec.Struct, frozen=True):
    """Who logged in."""

    account: str


class Site(Protocol):
    """One running site, as its front ends see it."""

    server_name: str
    server_ident: str
    suid: str
    limits: Limits
    default_timeout_s: float
    draining: trio.Event
    """Set once the daemon stops: refuse new logins, tell clients where to go, close soon."""
    redirect: str | None
    """`address:port` for clients to go to while this site drains; None where there is none."""

    @property
    def operations(self) -> Operations:
        """What operators see and do. Nothing here asks who wants it: see to it that the account may."""

    def credential(self, account: str) -> str:
        """Names the password of an account, for what is to end with it; "" where there is no account."""

    def operates(self, account: str) -> Operating:
        """What an account may do at the site itself, now."""

    @property
    def metrics(self) -> Metrics:
        """What the site measures: to be read."""

    async def authenticate(self, account: str, password: str, remote: str, *, protocol: str = "") -> Identity:
        """Check a password. Raises Refusal (bad-login), after a delay that grows with the failures."""

    async def authenticate_token(
        self, token: str, remote: str, *, protocol: str = ""
    ) -> tuple[Identity, str]:
        """Whose token it is, and what that is called. Raises Refusal likewise."""

    def holding(self, identity: Identity, bytes: int, *, remote: str) -> AbstractAsyncContextManager[None]:
        """Count so many bytes in the block, as `Session.hold` does, of a body that is for no session.

        Raises Refusal (too-many).
        """

    def open_session(self, identity: Identity, channel: str, *, protocol: str, remote: str) -> Session:
        """Log an account and channel in; `protocol` is the front end's name.

        Raises Refusal (too-many, not-available, bad-login if disabled).
        """

    @property
    def topic_count(self) -> int:
        """Topics that something is known of."""

    def durable_subscriptions(self, name_prefix: str) -> list[SubscriptionInfo]:
        """Durable ones whose `name` begins so: for a front end to find its own again after a start."""

    def annotated_topics(self, front_end: str) -> list[TopicInfo]:
        """Those with which the front end of this name keeps a text: to find its own again after a start."""

    def allows(self, account: str, right: Right, topic: str) -> bool:
        """Whether an account has a right on a topic, logged in or not."""

    def mishap(self, what: str, error: Exception) -> None:
        """Count an error of the front end's own that it survives, and log it: `what` was set aside for it."""

    async def keep_going(self, what: str, task: Callable[[], Awaitable[object]]) -> None:
        """Run a task of the front end's own until it is cancelled or returns; an error begins it anew.

        What leaves a front end's `serve` ends the site.
        """

    async def serve_streams(
        self,
        listen: tuple[str, ...],
        handler: Callable[[trio.abc.Stream, str, float], Awaitable[object]],
        *,
        socket_name: str,
        tls: bool,
        http: bool = False,
        refusal: bytes = b"",
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections and run `handler(stream, remote, login_by)` for each, until the site drains.

        `login_by` is when `login_timeout_s` is over, of which the handshake of TLS has taken its part.
        `listen` holds `host:port` or `[v6]:port`; sockets that systemd passed under `socket_name` are
        taken in their place. Limits on connections are kept here: one beyond them is sent `refusal`, unless
        it is TLS, and closed. An exception of a handler is logged and ends its connection only. On
        draining, listening ends first; handlers get the drain time, then are cancelled. For `http`, TLS has
        clients choose between HTTP/2 and 1.1 (ALPN). Started with the addresses that were bound.
        """


class Plugin(Protocol):
    """A front end. Found by the entry point group `smqpd.plugins`; `name` is its table [plugins.name].

    Attributes:
        settings: a msgspec.Struct with a default for each field; the configuration's table in its type.
        enabled_by_default: whether a configuration that does not name it runs it.
    """

    name: str
    settings: type[msgspec.Struct]
    enabled_by_default: bool

    def check(self, settings: Any, accounts: Collection[str]) -> Iterable[str]:
        """What is hardly meant in `settings`, a line each, at a site with these accounts; changes nothing.

        Raises ConfigError for what `serve` would not start with.
        """

    async def serve(
        self, site: Site, settings: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run until cancelled or drained; started once it accepts connections."""
