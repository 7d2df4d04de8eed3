"""Patterns of topics: how they are written, what they cover, what two of them share; and trees of them.

    pattern      a topic in which a level may be * (one level) and the last may be # (any rest, also none)

Rights, the rules of links and subscriptions are written in them. A subscription takes less than its pattern
covers: system topics by no pattern, since each has one name, and what begins with `dead.` only by a pattern
that begins so, too: who subscribes to `#` asks for no replies and no dead letters.

The trees cost as much as there is in common between what is looked for and what is in them: however many
patterns begin otherwise than a topic, they are not looked at. Source: routing contract 1 and 5.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, Generic, TypeVar

from routing.errors import Refusal
from routing.names import DEAD_LETTER_PREFIX, TOPIC_BYTES_MAX, check_topic, is_system_topic, is_topic

PATTERN_BYTES_MAX: Final = TOPIC_BYTES_MAX

_DEAD: Final = DEAD_LETTER_PREFIX.removesuffix(".")

_T = TypeVar("_T")


def is_pattern(text: str) -> bool:
    """Whether what has been checked is a pattern and no topic: no topic has `*` or `#` in its name."""
    return "#" in text or "*" in text


def is_pattern_of_topics(text: str) -> bool:
    """Whether `check_pattern` would take it."""
    levels, _ = _levels(text)
    plain = ".".join("x" if level == "*" else level for level in levels)
    return bool(text) and _fits(text) and (not plain or is_topic(plain))


def check_pattern(text: str) -> str:
    """The topic pattern, checked; a topic alone is one, too. Raises Refusal (bad-topic)."""
    if not is_pattern_of_topics(text):
        raise Refusal(
            Refusal.BAD_TOPIC,
            f"{text[:80]!r} is not a topic pattern (a topic in which a level may be * for one level, "
            "and the last # for any rest)",
        )
    return text


def check_wanted(text: str) -> str:
    """What one can subscribe to, a topic or a pattern, checked. Raises Refusal (bad-topic)."""
    return check_pattern(text) if is_pattern(text) else check_topic(text)


@lru_cache(maxsize=16384)
def topic_matches(pattern: str, topic: str) -> bool:
    """Whether the pattern covers the topic: `*` is one level, `#` any rest, also none.

    >>> topic_matches("weather.#", "weather"), topic_matches("weather.*", "weather.oslo.rain")
    (True, False)
    """
    return _covers(_levels(pattern), topic.split("."))


class AnyPattern:
    """Patterns of which one is to cover a topic, taken apart once: for many topics, each looked at once."""

    __slots__ = ("_patterns",)

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [_levels(pattern) for pattern in patterns]

    def covers(self, topic: str) -> bool:
        """Whether one of them covers the topic."""
        levels = topic.split(".")
        for pattern in self._patterns:  # noqa: SIM110 # a generator would take longer than all else
            if _covers(pattern, levels):
                return True
        return False


def subscription_takes(pattern: str, topic: str) -> bool:
    """Whether a subscription to the pattern takes what is published to the topic."""
    if is_system_topic(topic) or (topic.startswith(DEAD_LETTER_PREFIX) and pattern.split(".")[0] != _DEAD):
        return False
    return topic_matches(pattern, topic)


def overlap(one: str, other: str) -> str | None:
    """The pattern of the topics that both cover, or where that is too long, `one`; None where there are none.

    >>> overlap("weather.#", "*.oslo.*"), overlap("weather.*", "news.#")
    ('weather.oslo.*', None)
    """
    short, short_rest = _levels(one)
    long, long_rest = _levels(other)
    if len(short) > len(long):
        short, short_rest, long, long_rest = long, long_rest, short, short_rest
    if len(short) < len(long) and not short_rest:
        return None
    levels = []
    for a, b in zip(short, long, strict=False):
        if a != b and "*" not in (a, b):
            return None
        levels.append(b if a == "*" else a)
    levels += long[len(short) :]
    if short_rest and long_rest:
        levels.append("#")
    shared = ".".join(levels)
    return shared if _fits(shared) else one  # what no topic is long enough for, or hardly any


def _covers(pattern: tuple[list[str], bool], levels: list[str]) -> bool:
    """Whether a pattern covers a topic, both taken apart."""
    wanted, rest = pattern
    if len(levels) < len(wanted) or (len(levels) > len(wanted) and not rest):
        return False
    for want, level in zip(wanted, levels, strict=False):  # noqa: SIM110 # as above
        if want != level and want != "*":
            return False
    return True


def _levels(pattern: str) -> tuple[list[str], bool]:
    """The levels before a last `#`, and whether there is one."""
    levels = pattern.split(".")
    rest = levels[-1] == "#"
    if rest:
        levels.pop()
    return levels, rest


def _fits(text: str) -> bool:
    return len(text.encode(errors="replace")) <= PATTERN_BYTES_MAX


class _PatternNode(Generic[_T]):
    __slots__ = ("children", "here", "rest")

    def __init__(self) -> None:
        self.children: dict[str, _PatternNode[_T]] | None = None
        self.here: _T | None = None  # of the pattern that ends here
        self.rest: _T | None = None  # of the one that goes on with #


class PatternTree(Generic[_T]):
    """A value for each of many patterns, found by the topics that subscriptions to them take."""

    def __init__(self) -> None:
        self._root: _PatternNode[_T] = _PatternNode()
        self._count = 0

    def __len__(self) -> int:
        """How many patterns there are."""
        return self._count

    def get(self, pattern: str) -> _T | None:
        """The value of this very pattern; None where it is not there."""
        levels, rest = _levels(pattern)
        node = self._root
        for level in levels:
            found = node.children.get(level) if node.children else None
            if found is None:
                return None
            node = found
        return node.rest if rest else node.here

    def put(self, pattern: str, value: _T) -> None:
        """Add a pattern, of which there is none."""
        levels, rest = _levels(pattern)
        node = self._root
        for level in levels:
            if node.children is None:
                node.children = {}
            found = node.children.get(level)
            if found is None:
                found = node.children[level] = _PatternNode()
            node = found
        if rest:
            node.rest = value
        else:
            node.here = value
        self._count += 1

    def discard(self, pattern: str) -> None:
        """Take a pattern out that is there."""
        levels, rest = _levels(pattern)
        way = [self._root]
        for level in levels:
            way.append((way[-1].children or {})[level])
        if rest:
            way[-1].rest = None
        else:
            way[-1].here = None
        self._count -= 1
        for level, node, above in zip(reversed(levels), reversed(way), way[-2::-1], strict=False):
            if node.children or node.here is not None or node.rest is not None:
                return
            assert above.children is not None
            del above.children[level]

    def match(self, topic: str) -> list[_T]:
        """The values of all patterns by which a subscription takes this topic."""
        out: list[_T] = []
        if is_system_topic(topic):
            return out
        by_wildcard = not topic.startswith(DEAD_LETTER_PREFIX)  # of the first level alone
        nodes = [self._root]
        for level in topic.split("."):
            following = []
            for node in nodes:
                if by_wildcard and node.rest is not None:
                    out.append(node.rest)
                if (children := node.children) is not None:
                    if (found := children.get(level)) is not None:
                        following.append(found)
                    if by_wildcard and (found := children.get("*")) is not None:
                        following.append(found)
            if not following:
                return out
            nodes, by_wildcard = following, True
        for node in nodes:
            out += (value for value in (node.here, node.rest) if value is not None)
        return out


class _TopicNode:
    __slots__ = ("children", "topic")

    def __init__(self) -> None:
        self.children: dict[str, _TopicNode] = {}
        self.topic: str | None = None


class TopicTree:
    """Topics, found by the patterns by which subscriptions take them."""

    def __init__(self) -> None:
        self._root = _TopicNode()

    def add(self, topic: str) -> bool:
        """Add a topic; False for one that is there already, or a system topic, which changes nothing."""
        if is_system_topic(topic):
            return False
        node = self._root
        for level in topic.split("."):
            found = node.children.get(level)
            if found is None:
                found = node.children[level] = _TopicNode()
            node = found
        is_new = node.topic is None
        node.topic = topic
        return is_new

    def __contains__(self, topic: str) -> bool:
        node = self._root
        for level in topic.split("."):
            found = node.children.get(level)
            if found is None:
                return False
            node = found
        return node.topic is not None

    def discard(self, topic: str) -> None:
        """Take a topic out; one that is not there changes nothing."""
        levels = topic.split(".")
        way = [self._root]
        for level in levels:
            found = way[-1].children.get(level)
            if found is None:
                return
            way.append(found)
        way[-1].topic = None
        for level, node, above in zip(reversed(levels), reversed(way), way[-2::-1], strict=False):
            if node.children or node.topic is not None:
                return
            del above.children[level]

    def under(self, pattern: str) -> Iterator[str]:
        """The topics that a subscription to the pattern takes."""
        return (topic for topic in self.walk(pattern) if topic is not None)

    def walk(self, pattern: str) -> Iterator[str | None]:
        """Find the same, with None wherever one was looked for in vain, so that each takes little time.

        Topics may come and go meanwhile: of those that come, some are found.
        """
        levels, rest = _levels(pattern)
        names_dead = levels[:1] == [_DEAD]
        stack = [(iter((self._root,)), 0)]
        while stack:
            nodes, at = stack[-1]
            if (node := next(nodes, None)) is None:
                stack.pop()
                continue
            yield node.topic if at == len(levels) else None
            if at == len(levels) and not rest:
                continue
            if not names_dead and node is self._root.children.get(_DEAD):
                continue
            if at < len(levels) and levels[at] != "*":
                children = [found] if (found := node.children.get(levels[at])) is not None else []
            else:
                children = list(node.children.values())
            stack.append((reversed(children), min(at + 1, len(levels))))
