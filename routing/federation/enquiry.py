"""Questions that travel over links and are answered by the way they came: ping, trace, why.

A question has a key that no other has. It goes from site to site as a control `ask`, and each site that
gets it says one report in a control `answer` to the peer that it came from; who hears the report of another
site passes it on to whom it heard the question from first. So answers need no routes of their own, and each
report names the peers that its site has asked in turn: whoever asked knows when all have answered.

    ping    goes the nearest way to one server; that server answers, or the site at which it could not go on
    trace   goes where a message to a topic would go, and is stored nowhere
    why     goes to everybody, once: what do you know of this message?

Nothing of it is on disk: a question outlives neither its deadline nor a restart, and a link that goes down
swallows what was on it; the deadline of whoever asked is the end of all waiting. A site bounds what it
remembers, and how much each peer may ask. Peers that know a kind say so by its word among the features of
the link; others are not asked.
"""

import re
from collections import Counter
from typing import Annotated, Final, Literal

import msgspec

from routing.errors import Refusal
from routing.federation.allowance import Allowance
from routing.federation.words import SEEN_TO_MAX
from routing.message import DeliveryMode
from routing.names import SERVER_PATTERN, check_topic, is_server_name, parse_smuid
from routing.numbers import SECONDS_MAX, Depth
from routing.peering.copies import wider
from routing.peering.counts import HOPS_MAX

LEFT_S_MAX: Final = 60.0
"""A question lives no longer, whatever it says."""

QUESTIONS_MAX: Final = 1_000
"""Questions of one peer remembered at a time; about 1 KB each."""

ANSWERS_MAX: Final = 5_000
ANSWER_BYTES_MAX: Final = 16 * 2**20
"""Answers to one question that are passed on."""

ASKS_PER_S: Final = 100.0
ASKS_AT_ONCE: Final = 300.0
"""Of one peer. A clique of 100 sites puts one trace to each of them 99 times."""

LOG_READS_PER_S: Final = 1.0
LOG_READS_AT_ONCE: Final = 10.0
"""Of one peer: each may read the log of a day."""

_is_key = re.compile(rf"{SERVER_PATTERN}/[0-9a-f]{{1,16}}-[0-9a-f]{{1,16}}").fullmatch


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Is there a way to this server?"""

    server: str


class Trace(msgspec.Struct, frozen=True, tag="trace"):
    """Where does a message to this topic go?

    Attributes:
        depth: hops that it may still go from the site that is asked on; -1 for no limit.
        deliver: it is handed to the subscriptions of each site it reaches, as a message of that site.
        destinations: of mode ALL: the sites that the one that is asked is to see to, as a message would name
            them; () where it goes wherever it is wanted.
    """

    topic: str
    mode: DeliveryMode = "ALL"
    depth: Depth = -1
    deliver: bool = False
    destinations: tuple[str, ...] = ()


class Why(msgspec.Struct, frozen=True, tag="why"):
    """What became of this message at your site?"""

    smuid: str


About = Ping | Trace | Why

FEATURES: Final = ("ping", "trace", "why")
"""What a site that has this file says in its HELLO."""


class Ask(msgspec.Struct, frozen=True):
    """A question on a link.

    Attributes:
        key: SERVER/BOOT-NUMBER of the site that asks first.
        hops: the sites that it has come through, the one that sends it last.
        left_s: seconds until nobody waits for an answer any more.
    """

    key: str
    about: About
    hops: tuple[str, ...]
    left_s: Annotated[float, msgspec.Meta(ge=0, lt=SECONDS_MAX)]


def kind(about: About) -> str:
    """The word of a question among the features of a link."""
    return str(type(about).__struct_config__.tag)


def check_ask(ask: Ask, peer: str) -> None:
    """Raises Refusal for what no honest peer sends."""
    if len(ask.key) > 300 or _is_key(ask.key) is None:
        raise Refusal(Refusal.BAD_FRAME, f"{ask.key[:80]!r} is not the key of a question")
    if not 0 < len(ask.hops) <= HOPS_MAX or ask.hops[-1] != peer:
        raise Refusal(Refusal.BAD_FRAME, "a question has come through whoever sends it, and through few")
    if not all(is_server_name(hop) for hop in ask.hops):
        raise Refusal(Refusal.BAD_FRAME, "a question has come through what is no server")
    match ask.about:
        case Ping(server):
            if not is_server_name(server):
                raise Refusal(Refusal.BAD_FRAME, f"{server[:80]!r} is not a server name")
        case Trace(topic, destinations=destinations):
            check_topic(topic)
            if len(destinations) > SEEN_TO_MAX or not all(map(is_server_name, destinations)):
                raise Refusal(Refusal.BAD_FRAME, "a trace is for what are no servers, or for too many")
        case Why(smuid):
            parse_smuid(smuid)


class Asked(msgspec.Struct):
    """A question that is remembered.

    Attributes:
        asker: the peer that brought it first; "" where it is this site's own.
        until: site time at which it is forgotten.
        depth: the greatest that a trace has come with.
        peers: who was asked by this site.
    """

    asker: str
    until: float
    depth: int
    peers: set[str]
    answers: int = 0
    answer_bytes: int = 0


AskOutcome = Literal["first", "wider", "duplicate", "loop", "busy"]


class Enquiries:
    """The questions that a site has heard lately, and what each peer may still ask."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._asked: dict[str, Asked] = {}
        self._asked_by: Counter[str] = Counter()  # how many of them
        self._asks: dict[str, Allowance] = {}
        self._log_reads: dict[str, Allowance] = {}

    def hear(self, ask: Ask, peer: str, now: float) -> AskOutcome:
        """Take a question of a peer, or of this site's own (peer ""); returns what it is here."""
        if peer and not self._allowed(ask, peer, now):
            return "busy"
        if self._server in ask.hops:
            return "loop"
        depth = ask.about.depth if isinstance(ask.about, Trace) else 0
        known = self._asked.get(ask.key)
        if known is not None:
            if not wider(depth, known.depth):
                return "duplicate"
            known.depth = depth
            return "wider"
        if self._asked_by[peer] >= QUESTIONS_MAX:
            for key in [key for key, asked in self._asked.items() if asked.until <= now]:
                self.forget(key)
            if self._asked_by[peer] >= QUESTIONS_MAX:
                return "busy"
        left_s = min(max(ask.left_s, 0.0), LEFT_S_MAX)
        self._asked[ask.key] = Asked(peer, now + left_s, depth, set())
        self._asked_by[peer] += 1
        return "first"

    def _allowed(self, ask: Ask, peer: str, now: float) -> bool:
        if not self._asks.setdefault(peer, Allowance(ASKS_PER_S, ASKS_AT_ONCE)).take(now):
            return False
        if not isinstance(ask.about, Why) or ask.key in self._asked:
            return True
        reads = self._log_reads.setdefault(peer, Allowance(LOG_READS_PER_S, LOG_READS_AT_ONCE))
        return reads.take(now)

    def asking(self, key: str, peer: str) -> None:
        """Note that this site asks a peer in turn, whose answers are then taken."""
        self._asked[key].peers.add(peer)

    def left_s(self, key: str, now: float) -> float:
        """Seconds until the question's deadline; 0 where it is over or forgotten."""
        known = self._asked.get(key)
        return max(known.until - now, 0.0) if known is not None else 0.0

    def answered(self, key: str, peer: str, size: int, now: float) -> str | None:
        """The site that is to hear an answer of a peer, "" for this one; None where it is to be dropped."""
        known = self._asked.get(key)
        if known is None or peer not in known.peers or known.until <= now:
            return None
        known.answers += 1
        known.answer_bytes += size
        over = known.answers > ANSWERS_MAX or known.answer_bytes > ANSWER_BYTES_MAX
        return None if over else known.asker

    def forget(self, key: str) -> None:
        """Forget a question, for whose answers nobody waits; one that is not known changes nothing."""
        asked = self._asked.pop(key, None)
        if asked is not None:
            self._asked_by[asked.asker] -= 1

    def forget_peer(self, peer: str) -> None:
        """Forget how much a peer has asked, which is none any more."""
        self._asks.pop(peer, None)
        self._log_reads.pop(peer, None)
