"""What one subscribes to: topics, and the patterns of an account; and what waits there.

A topic has one shared queue for mode ONE, and keeps what is for those who come later. A pattern has none of
its own: what waits in its topics is found for those who consume from it.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from routing.message import DeliveryMode
from routing.names import DEAD_LETTER_PREFIX, is_system_topic, owner_of
from routing.patterns import overlap, topic_matches
from routing.queue import KeptEntries, PriorityQueue
from routing.subscription import Subscription, Target
from routing.traffic import Traffic
from routing.waiting import WaitingQueues

GRANTS_MAX: Final = 100
"""Rights that an account came to have at different times and that are told apart in one pattern."""


_NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_GRANTS: Final[Mapping[str, int]] = MappingProxyType({})


class Pattern(Target):
    """A pattern to which an account subscribes.

    Attributes:
        allowed: the patterns of those of its topics that the account may have.
    """

    __slots__ = ("_since", "account", "allowed", "is_gathering", "shared", "was_extended")

    is_pattern = True

    def __init__(self, name: str, account: str, allowed: Sequence[str]) -> None:
        super().__init__(name)
        self.account = account
        self.allowed = allowed
        self.shared: WaitingQueues[str] | None = None
        self.is_gathering = False
        self.was_extended = False
        self._since = _NO_GRANTS  # `allowed_since`, where it was

    def forget_shared(self) -> None:
        """Forget what waits in its topics, as nobody needs it."""
        self.shared = None
        self.is_gathering = False

    def since(self, topic: str) -> int:
        """See `Target`: the id after which the account may have messages of a topic."""
        return min((id for each, id in self._since.items() if topic_matches(each, topic)), default=0)

    @property
    def allowed_since(self) -> Mapping[str, int]:
        """By pattern, the id of the newest message when the account came to have the right."""
        return self._since if self.was_extended else dict.fromkeys(self.allowed, 0)

    def allow(self, allowed: Sequence[str], since: Mapping[str, int], last_id: int) -> None:
        """Take on rights.

        Args:
            since: what the account might have so far, as `allowed_since`.
            last_id: of the newest message; what is allowed only now is due from there on.
        """
        self.allowed = allowed
        had: dict[str, int] = {}
        for old, id in since.items():
            for new in allowed:
                if (shared := overlap(old, new)) is not None:
                    had[shared] = min(id, had.get(shared, id))
        for new in allowed:
            had.setdefault(new, last_id)
        if len(had) > GRANTS_MAX:
            had = dict.fromkeys(allowed, min(had.values()))
        self.was_extended = any(had.values())
        self._since = had if self.was_extended else _NO_GRANTS


class Followers(NamedTuple):
    """Those who take what comes to a topic by patterns.

    Attributes:
        patterns: all that take it, whether or not their accounts may have it.
        allowed: those of them whose accounts may.
        due: of these, the subscriptions that take mode ALL, by age.
        passed_over: those that are left out of `due`: another of the same account, channel and name has what
            comes to the topic, so that it comes once.
    """

    patterns: tuple[Pattern, ...] = ()
    allowed: tuple[Pattern, ...] = ()
    due: tuple[Subscription, ...] = ()
    passed_over: tuple[Subscription, ...] = ()


NO_FOLLOWERS: Final = Followers()


class Topic(Target):
    """A topic: its settings, those who subscribe, and what it holds.

    Attributes:
        mode: set by SET TOPIC DELIVERY; None lets each message say.
        timeout_s: set by SET TOPIC TIMEOUT; None for none; `inf` for state messages.
        annotations: by the name of a front end, what that keeps with the topic; replaced when one changes, so
            that whoever has read it has it as it was.
        kept: messages of mode ALL with a stated timeout: those who join later get them.
        recipient: `account@server` where only one account can read it, and everyone may write to it: of a
            system topic and its dead letters; "" for an ordinary topic.
        attempts: as of a subscription, of messages of mode ONE.
        messages, bytes: all that it holds; `unguaranteed` are those of them without a guarantee.
        traffic: what has gone through it.
        followers: as they were when there had been `followers_as_of` changes of patterns and rights.
        is_listed: patterns find what it has waiting.
    """

    __slots__ = (
        "annotations",
        "attempts",
        "bytes",
        "followers",
        "followers_as_of",
        "is_listed",
        "is_system",
        "kept",
        "messages",
        "mode",
        "recipient",
        "shared",
        "timeout_s",
        "traffic",
        "unguaranteed",
    )

    def __init__(self, name: str, server: str) -> None:
        """`server` is the name of this site."""
        super().__init__(name)
        owner = owner_of(name, server)
        self.is_system = is_system_topic(name)
        self.recipient = "" if owner is None else f"{owner.account}@{owner.server}"
        self.mode: DeliveryMode | None = None
        self.timeout_s: float | None = None
        self.annotations = _NO_ANNOTATIONS
        self.shared: PriorityQueue = PriorityQueue()
        self.kept = KeptEntries()
        self.attempts: dict[int, int] = {}
        self.messages = 0
        self.unguaranteed = 0
        self.bytes = 0
        self.traffic = Traffic()
        self.followers = NO_FOLLOWERS
        self.followers_as_of = -1
        self.is_listed = False

    @property
    def has_settings(self) -> bool:
        """Whether anything is set for it: by that it is remembered, also where it holds nothing."""
        return self.mode is not None or self.timeout_s is not None or bool(self.annotations)

    def annotate(self, front_end: str, text: str | None) -> None:
        """Keep what a front end writes; None to forget it."""
        others = {name: kept for name, kept in self.annotations.items() if name != front_end}
        self.annotations = others if text is None else {**others, front_end: text}

    @property
    def is_dead_letter(self) -> bool:
        """Whether it holds what others could not deliver; from here nothing is moved on."""
        return self.name.startswith(DEAD_LETTER_PREFIX)
