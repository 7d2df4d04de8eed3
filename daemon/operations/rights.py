"""Whether an account may do something to a topic, and which pattern or rule says so."""

from typing import Final

from daemon.accounts.accounts_file import Account
from daemon.operating.accounts import Verdict
from routing.names import check_topic, is_system_topic, owner_of
from routing.patterns import check_wanted, is_pattern, overlap, topic_matches
from routing.rights import Right, RightsTable

VERBS: Final[dict[Right, str]] = {
    "publish": "publish to",
    "subscribe": "subscribe to",
    "remove": "remove messages of",
    "administer": "administer",
}


def check_asked(right: Right, topic: str) -> str:
    """What may be asked about: a topic; of subscribing also a pattern. Raises Refusal (bad-topic)."""
    return check_wanted(topic) if right == "subscribe" else check_topic(topic)


def verdict(table: RightsTable, account: str, found: Account | None, right: Right, topic: str) -> Verdict:
    """What the table decides, in words; `found` is the account itself, None where there is none.

    `topic` may be a pattern where `right` is to subscribe: it is allowed where some of its topics are.
    """
    if found is None:
        return Verdict(allowed=False, why=f"there is no account {account}")
    if found.disabled:
        return Verdict(allowed=False, why=f"{account} is disabled, and cannot log in")
    if is_pattern(topic):
        return _of_pattern(table, account, found, topic)
    allowed = table.allows(account, right, topic)
    patterns: tuple[str, ...] = getattr(found.rights, right)
    matching = [pattern for pattern in patterns if topic_matches(pattern, topic)]
    if right != "administer" and (owner := owner_of(topic, table.server_name)) is not None:
        mine = owner.account == account and owner.server == table.server_name
        return Verdict(allowed=allowed, why=_of_owned(right, topic, allowed, mine=mine, matching=matching))
    if allowed:
        return Verdict(allowed=True, why=f"its {right} rights have the pattern {matching[0]}")
    if not patterns:
        return Verdict(allowed=False, why=f"it has no {right} rights")
    return Verdict(allowed=False, why=f"none of its {right} patterns covers it: {' '.join(patterns)}")


def _of_pattern(table: RightsTable, account: str, found: Account, pattern: str) -> Verdict:
    patterns = found.rights.subscribe
    shared = table.subscribable(account, pattern)
    if pattern in shared:
        covering = next(each for each in patterns if overlap(pattern, each) == pattern)
        return Verdict(allowed=True, why=f"its subscribe rights have the pattern {covering}")
    if shared:
        return Verdict(allowed=True, why=f"it gets what comes to {' '.join(shared)} of it")
    if not patterns:
        return Verdict(allowed=False, why="it has no subscribe rights")
    return Verdict(allowed=False, why=f"none of its subscribe patterns overlaps it: {' '.join(patterns)}")


def _of_owned(right: Right, topic: str, allowed: bool, *, mine: bool, matching: list[str]) -> str:
    kind = "system topic" if is_system_topic(topic) else "dead-letter topic of a system topic"
    if right == "publish":
        if allowed:
            return f"it is a {kind}: every account may publish there"
        if not is_system_topic(topic):
            return f"it is a {kind}: only the site publishes there"
        return f"it is a {kind} that no account which can log in would read"
    if mine:
        return f"it is a {kind} of its own"
    if allowed:
        return f"its {right} rights have the pattern {matching[0]}"
    return f"it is a {kind} of another account"
