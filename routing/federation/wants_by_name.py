"""Who wants a topic or a pattern, of all other sites, and what the rules of their links let pass, by name."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

import msgspec

from routing.message import MODES, DeliveryMode
from routing.patterns import PatternTree, is_pattern, topic_matches

FOUND_MAX: Final = 10_000
"""Topics of each mode of which it is remembered who wants them."""

SaidOfName = tuple[str, str, str]
"""What a site says of a name: its kind, the name, and of which peer where it is a rule; else "" for that."""

NameKind = Literal["ALL", "ONE", "ATTACHED"]
KINDS: Final[tuple[NameKind, ...]] = get_args(NameKind)

_NOBODY: Final[Mapping[str, None]] = {}


class Touched(msgspec.Struct):
    """What others may decide by that has changed.

    Attributes:
        names: topics and patterns that other sites want for mode ALL, or want no more.
        names_for_one: the same for mode ONE; and those that somebody is attached to there now, or nobody.
        come: who wants some of them for mode ALL, and did not.
        buckets: numbers of those that have come, or are not here any more, of whichever site.
        rules: of links.
    """

    names: dict[str, None] = {}
    names_for_one: dict[str, None] = {}
    come: dict[str, list[str]] = {}
    buckets: set[int] = set()
    rules: bool = False


class WantsByName:
    """What sites say of names. Whoever knows the sites tells it what each says, and says no more.

    Attributes:
        touched: what has changed since others looked.
    """

    def __init__(self) -> None:
        self.touched = Touched()
        # sites, by what they say, and topic
        self._topics: dict[str, dict[str, dict[str, None]]] = {kind: {} for kind in KINDS}
        self._patterns: dict[str, PatternTree[dict[str, None]]] = {kind: PatternTree() for kind in KINDS}
        self._found: dict[str, dict[str, Mapping[str, None]]] = {kind: {} for kind in KINDS}
        self._alone: dict[
            str, dict[str, None]
        ] = {}  # a site as the only one, shared by all that it alone wants
        self._rules: dict[tuple[str, str, str], dict[str, None]] = {}  # patterns, by site, kind and peer

    def find(self, kind: NameKind, topic: str) -> Mapping[str, None]:
        """The sites that say so of a topic, or of a pattern that takes it; to be read at once."""
        found = self._found[kind].get(topic)
        return self._find(kind, topic) if found is None else found

    def _find(self, kind: NameKind, topic: str) -> Mapping[str, None]:
        found: Mapping[str, None] = self._topics[kind].get(topic, _NOBODY)
        for sites in self._patterns[kind].match(topic) if len(self._patterns[kind]) else ():
            found = {**found, **sites} if found else sites
        remembered = self._found[kind]
        if len(remembered) >= FOUND_MAX:
            remembered.clear()
        remembered[topic] = found
        return found

    def wanting(self, mode: DeliveryMode, name: str) -> Mapping[str, None]:
        """The sites that want a topic or a pattern, as they said it."""
        if is_pattern(name):
            return self._patterns[mode].get(name) or _NOBODY
        return self._topics[mode].get(name, _NOBODY)

    def is_taken_by_pattern(self, topic: str) -> bool:
        """Whether a site wants a pattern that takes a topic."""
        return any(self._patterns[mode].match(topic) for mode in MODES)

    def rules_allow(self, site: str, kind: str, peer: str, topic: str) -> bool:
        """Whether one of the rules of this kind that a site has for its link with a peer takes a topic."""
        return any(topic_matches(each, topic) for each in self._rules.get((site, kind, peer), ()))

    @property
    def pattern_count(self) -> int:
        """How many patterns are remembered: one of each mode, and of those attached, whoever wants it."""
        return sum(map(len, self._patterns.values()))

    def more_patterns(self, site: str, was: set[SaidOfName], now: set[SaidOfName]) -> int:
        """How many more there would be if a site said this of names, and no more what it said before."""
        come = sum(self._patterns[kind].get(name) is None for kind, name in _patterns(now - was))
        gone = sum(
            (self._patterns[kind].get(name) or {}).keys() == {site} for kind, name in _patterns(was - now)
        )
        return come - gone

    # -- what sites say ---------------------------------------------------------------------------

    def change(self, site: str, was: set[SaidOfName], now: set[SaidOfName]) -> None:
        """A site says this now of some names, and said that before."""
        for kind, name, peer in sorted(was - now):
            self._leave(site, kind, name, peer)
        for kind, name, peer in sorted(now - was):
            self._enter(site, kind, name, peer)

    def forget(self, site: str) -> None:
        """Forget a site, which says nothing any more."""
        self._alone.pop(site, None)

    def _enter(self, site: str, kind: str, name: str, peer: str) -> None:
        if peer:
            self._rules.setdefault((site, kind, peer), {})[name] = None
            self.touched.rules = True
            return
        self._touch(kind, name)
        if kind == "ALL":
            self.touched.come.setdefault(name, []).append(site)
        if is_pattern(name):
            wanting = self._patterns[kind].get(name)
            if wanting is None:
                self._patterns[kind].put(name, {site: None})
            else:
                wanting[site] = None
            self._found[kind].clear()
            return
        topics = self._topics[kind]
        sites = topics.get(name)
        if sites is None:
            topics[name] = self._only(site)
        elif len(sites) == 1:
            topics[name] = {**sites, site: None}  # that of one site is shared by all that it alone wants
        else:
            sites[site] = None
        self._found[kind].pop(name, None)

    def _touch(self, kind: str, name: str) -> None:
        names = self.touched.names if kind == "ALL" else self.touched.names_for_one
        names[name] = None

    def _leave(self, site: str, kind: str, name: str, peer: str) -> None:
        if peer:
            self.touched.rules = True
            rules = self._rules[site, kind, peer]
            del rules[name]
            if not rules:
                del self._rules[site, kind, peer]
            return
        self._touch(kind, name)
        if is_pattern(name):
            wanting = self._patterns[kind].get(name) or {}
            wanting.pop(site, None)
            if not wanting:
                self._patterns[kind].discard(name)
            self._found[kind].clear()
            return
        topics = self._topics[kind]
        sites = topics[name]
        if len(sites) == 1:
            del topics[name]
        else:
            del sites[site]
            if len(sites) == 1:
                topics[name] = self._only(next(iter(sites)))
        self._found[kind].pop(name, None)

    def _only(self, site: str) -> dict[str, None]:
        alone = self._alone.get(site)
        if alone is None:
            alone = self._alone[site] = {site: None}
        return alone


def _patterns(sayings: Iterable[SaidOfName]) -> set[tuple[str, str]]:
    """Those that are wanted, by mode, and those that somebody is attached to."""
    return {(kind, name) for kind, name, peer in sayings if not peer and is_pattern(name)}
