"""Who may do what with which topic.

An account holds, for each right, patterns of topics (see `routing.patterns`). Nothing is allowed that no
pattern allows, with the exception of system topics (`account:channel@host`), which belong to their account,
as their dead letters do (`dead.account:channel@host`):

    publish      every account, so that replies find their way, where somebody can read it: at this server
                 the account must be there and enabled, and nowhere is it `smqpd`; to dead letters nobody
    subscribe    the account itself, at its own server; a pattern never opens it to others
    remove       the account itself, and who has the right by pattern
    administer   who has the right by pattern

Besides topics there is the site: whoever operates it looks at all of it but what messages say, or changes it,
too, accounts and their rights not left out.

The answer is needed for every message, so it is remembered for each account, right and topic.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal, get_args

import msgspec

from routing.errors import Refusal
from routing.names import SERVER_ACCOUNT, Address, is_system_topic, owner_of
from routing.patterns import AnyPattern, check_pattern, overlap

Right = Literal["publish", "subscribe", "remove", "administer"]
RIGHTS: Final[tuple[Right, ...]] = get_args(Right)

Operating = Literal["", "look", "change"]
"""What an account may do at the site itself, by a front end for operators; "" for nothing."""

CACHE_ENTRIES_MAX: Final = 16_384
"""Answers remembered for a whole site, about 4 MB; when full it starts anew."""


class Rights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The patterns of one account, by right, and what it may do at the site.

    Raises ValueError for what is no pattern.
    """

    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    administer: tuple[str, ...] = ()
    operate: Operating = ""

    def __post_init__(self) -> None:
        for right in RIGHTS:
            for pattern in getattr(self, right):
                try:
                    check_pattern(pattern)
                except Refusal as refusal:
                    raise ValueError(refusal.text) from None


EVERYTHING: Final = Rights(
    publish=("#",), subscribe=("#",), remove=("#",), administer=("#",), operate="change"
)


class RightsTable:
    """The rights of all accounts of one site, for as long as they do not change.

    Changed rights are a new table, which begins with nothing remembered.
    """

    def __init__(
        self, server_name: str, accounts: Mapping[str, Rights], disabled: Collection[str] = ()
    ) -> None:
        """`disabled`: those of the accounts that cannot log in; what is sent to them nobody could read."""
        self.server_name = server_name
        self._readers = frozenset(accounts) - frozenset(disabled)
        self._patterns = {
            (account, right): getattr(rights, right)
            for account, rights in accounts.items()
            for right in RIGHTS
        }
        self._taken_apart: dict[tuple[str, Right], AnyPattern] = {}  # of those who were asked for
        self._answers: dict[tuple[str, Right, str], bool] = {}
        self._operating = {account: rights.operate for account, rights in accounts.items()}

    def operates(self, account: str) -> Operating:
        """What an account may do at the site itself; nothing where it is unknown or disabled."""
        return self._operating[account] if account in self._readers else ""

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

    def subscribable(self, account: str, pattern: str) -> list[str]:
        """The patterns of those topics of a pattern to which `account` may subscribe; [] for none."""
        own = self._patterns.get((account, "subscribe"), ())
        shared = (overlap(pattern, each) for each in own)
        return list(dict.fromkeys(each for each in shared if each is not None))

    def _decide(self, account: str, right: Right, topic: str) -> bool:
        key = account, right
        if key not in self._patterns:
            return False
        owner = owner_of(topic, self.server_name) if right != "administer" else None
        if owner is not None:
            if right == "publish":
                return is_system_topic(topic) and can_be_read(
                    owner, self.server_name, self._readers.__contains__
                )
            if owner.account == account and owner.server == self.server_name:
                return True
            if right == "subscribe":
                return False
        patterns = self._taken_apart.get(key)
        if patterns is None:
            patterns = self._taken_apart[key] = AnyPattern(self._patterns[key])
        return patterns.covers(topic)


def can_be_read(owner: Address, server: str, has_account: Callable[[str], bool]) -> bool:
    """Whether what is sent to this login can ever be read, as far as the server of this name knows.

    `has_account` tells of its own accounts that can log in; other servers are taken at their word.
    """
    if owner.account in ("", SERVER_ACCOUNT):
        return False
    return owner.server != server or has_account(owner.account)
