"""Who may do what with which topic.

An account holds, for each right, patterns of topics. A pattern is a topic name in which a level may be
`*` (any one level) and the last may be `#` (any rest, also none): `orders.#` covers `orders`,
`orders.new` and `orders.eu.new`; `*.new` covers `orders.new` only. Nothing is allowed that no pattern
allows, with the exception of system topics (`account:channel@host`), which belong to their account:

    publish      every account, so that replies and receipts find their way
    subscribe    the account itself, at its own server; a pattern never opens it to others
    remove       the account itself, and who has the right by pattern
    administer   who has the right by pattern

The answer is needed for every message, so it is remembered for each account, right and topic.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

import msgspec

Right = Literal["publish", "subscribe", "remove", "administer"]
RIGHTS: Final[tuple[Right, ...]] = get_args(Right)

CACHE_ENTRIES_MAX: Final = 16_384
"""Answers remembered for a whole site, about 4 MB; when full it starts anew."""

PATTERN_BYTES_MAX: Final = 255
"""As for the topics themselves."""

_LEVEL: Final = re.compile(r"[^\s/*#>.\x00-\x1f\x7f-\x9f]*")
_SYSTEM_TOPIC: Final = re.compile(
    r"([A-Za-z0-9._+-]{1,64}):[A-Za-z0-9._-]{1,64}@([A-Za-z0-9.-]+(?::[0-9]+)?)"
)


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """The patterns of one account, by right. Raises ValueError for what is no pattern."""

    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    administer: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for right in RIGHTS:
            compile_patterns(getattr(self, right))


class RightsTable:
    """The rights of all accounts of one site, for as long as they do not change.

    Changed rights are a new table, which begins with nothing remembered.
    """

    def __init__(self, server_name: str, accounts: Mapping[str, Rights]) -> None:
        self._server_name = server_name
        self._patterns = {
            (account, right): compile_patterns(getattr(rights, right))
            for account, rights in accounts.items()
            for right in RIGHTS
        }
        self._answers: dict[tuple[str, Right, str], bool] = {}

    def allows(self, account: str, right: Right, topic: str) -> bool:
        """Whether `account` has `right` on `topic`; an unknown account has none."""
        key = (account, right, topic)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._decide(account, right, topic)
            if len(self._answers) >= CACHE_ENTRIES_MAX:
                self._answers.clear()
            self._answers[key] = answer
        return answer

    def _decide(self, account: str, right: Right, topic: str) -> bool:
        pattern = self._patterns.get((account, right))
        if pattern is None:
            return False
        system = _SYSTEM_TOPIC.fullmatch(topic)
        if system and right == "publish":
            return True
        if system and right != "administer":
            own = system[1] == account and system[2] == self._server_name
            if own or right == "subscribe":
                return own
        return pattern.fullmatch(topic) is not None


def compile_patterns(patterns: Iterable[str]) -> re.Pattern[str]:
    """One expression whose `fullmatch` says whether any of the patterns covers a topic.

    Raises ValueError naming the pattern that is none.
    """
    return re.compile("|".join(_expression(pattern) for pattern in patterns) or r"(?!)")


def _expression(pattern: str) -> str:
    if not pattern or len(pattern.encode()) > PATTERN_BYTES_MAX:
        raise ValueError(f"a topic pattern has 1 to {PATTERN_BYTES_MAX} bytes, not {len(pattern.encode())}")
    if pattern == "#":
        return r".+"
    levels = pattern.split(".")
    rest = levels[-1] == "#"
    parts = []
    for level in levels[:-1] if rest else levels:
        if level == "*":
            parts.append(r"[^.]*")
        elif _LEVEL.fullmatch(level):
            parts.append(re.escape(level))
        else:
            raise ValueError(f"{pattern!r} is no topic pattern: a level is a name, `*`, or a last `#`")
    return r"\.".join(parts) + (r"(?:\..*)?" if rest else "")


EVERYTHING: Final = Rights(publish=("#",), subscribe=("#",), remove=("#",), administer=("#",))
