"""What clients did and were told, in the order of time, and judged as it comes.

What a site has answered is a promise; what it has not answered may have happened or not. The ledger keeps
the two apart. It sees all sites at once, so it can tell what no single client could.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Literal

import msgspec

from routing.errors import Refusal
from routing.names import parse_smuid
from tests.sim.scenario import PlannedPublication, PlannedReader, Scenario

HoldState = Literal[
    "with",  # delivered
    "receiving",  # RECEIVED said, not answered
    "received",
    "committing",  # COMMIT said, not answered
    "committed",
    "returning",  # given back, or UNSUBSCRIBE said, not answered; or the session has ended before
    "returned",
]


class Hold(msgspec.Struct):
    """One message at one subscription.

    Attributes:
        deliveries: how often it came.
        had: it has been committed, or COMMIT was said.
        session: where it came last; a number that no other session of the run has.
        attempt: of the last delivery, as the site counts.
        counted: the greatest attempt of which its return was answered: the next one has to be greater.
    """

    state: HoldState
    deliveries: int
    session: int
    had: bool = False
    attempt: int = 0
    counted: int = 0


class PublicationFate(msgspec.Struct):
    """What became of one publication, as its publisher knows.

    Attributes:
        smuids: all under which it was answered or delivered: never more than one.
        receipts: the texts of its receipts.
        removed: its REMOVE was answered.
    """

    accepted: bool = False
    sent: bool = False
    refused: int = 0
    smuids: set[str] = msgspec.field(default_factory=set)
    receipts: list[str] = []
    removed: bool = False


class Ledger:
    """The history of a run.

    Attributes:
        violations: promises that were broken, in words.
        trace: what happened, one line each.
        changes: how many they are; for telling whether anything happens.
        replies: how often each that was accepted has come.
        ended: subscriptions that have been ended, by key.
        gone: those whose clients are gone for good; they stay.
        ending: those for which UNSUBSCRIBE was said, and in which session that was so last: who comes again
            may be another subscription.
    """

    def __init__(self, scenario: Scenario, now: Callable[[], float]) -> None:
        self.scenario = scenario
        self.violations: list[str] = []
        self.trace: list[str] = []
        self.publications = {publication.key: publication for publication in scenario.publications}
        self.told = {key: PublicationFate() for key in self.publications}
        self.holds: dict[tuple[str, str], Hold] = {}
        self.of_message: dict[str, dict[str, Hold]] = defaultdict(dict)
        self.changes = 0
        self.replies: dict[str, int] = {}
        self._reply_smuids: dict[str, str] = {}
        self.ended: set[str] = set()
        self.gone: set[str] = set()
        self.ending: dict[str, int] = {}
        self._last: dict[tuple[str, str, str, int], tuple[tuple[int, int], str]] = {}
        self._distances = {site: scenario.distances(site) for site in scenario.sites}
        self._now = now
        self._sessions = 0
        self._receipt_smuids: dict[str, set[str]] = defaultdict(set)
        self._named: dict[tuple[str, int, int], str] = {}

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.changes += 1
        self.trace.append(f"{self._now():12.6f} {text}")

    def violate(self, text: str) -> None:
        """A promise is broken."""
        self.violations.append(text)
        self.note(f"VIOLATION {text}")

    def session(self) -> int:
        """A number for a new session."""
        self._sessions += 1
        return self._sessions

    # -- publishers -------------------------------------------------------------------------------

    def sent(self, publication: PlannedPublication) -> None:
        """PUBLISH was said."""
        self.told[publication.key].sent = True
        mode, timeout_s = publication.mode, publication.timeout_s
        self.note(
            f"{publication.site} publish {publication.key} to {publication.topic} {mode}"
            f" depth {publication.depth} timeout {timeout_s} receipt {publication.receipt}"
            f"{'' if publication.guarantee else ' unguaranteed'}"
        )

    def accepted(self, publication: PlannedPublication, smuid: str) -> None:
        """PUBLISH was answered."""
        told = self.told[publication.key]
        told.accepted = True
        self._name(publication.key, smuid)
        self.note(f"{publication.site} accepted {publication.key} as {smuid}")

    def refused(self, publication: PlannedPublication, refusal: Refusal) -> None:
        """PUBLISH was refused."""
        self.told[publication.key].refused += 1
        self.note(f"{publication.site} refused {publication.key}: {refusal.text}")

    def removed(self, publication: PlannedPublication) -> None:
        """REMOVE was answered."""
        self.told[publication.key].removed = True
        self.note(f"{publication.site} removed {publication.key}")

    def receipt(self, key: str, smuid: str, text: str) -> None:
        """A receipt has come; the same one may come again until it is committed."""
        self.note(f"receipt {text} for {key} ({smuid})")
        if smuid not in self._receipt_smuids[key]:
            self._receipt_smuids[key].add(smuid)
            self.told[key].receipts.append(text)
            if len(self.told[key].receipts) > 1:
                self.violate(f"{key} has more than one receipt: {self.told[key].receipts}")

    def _name(self, key: str, smuid: str) -> None:
        told = self.told[key]
        told.smuids.add(smuid)
        if len(told.smuids) > 1:
            self.violate(f"{key} was published more than once: {sorted(told.smuids)}")
        parts = parse_smuid(smuid)
        other = self._named.setdefault((parts.server, parts.boot, parts.counter), key)
        if other != key:
            self.violate(f"{other} and {key} have the same Smuid, but for their birth: {smuid}")

    def replied(self, reply: str, smuid: str) -> None:
        """A reply was answered."""
        self.replies.setdefault(reply, 0)
        self.note(f"reply {reply} accepted as {smuid}")

    def reply_came(self, reply: str, smuid: str) -> None:
        """A reply has come; again, where its COMMIT was not answered."""
        self.note(f"reply {reply} came ({smuid})")
        self.replies[reply] = self.replies.get(reply, 0) + 1
        known = self._reply_smuids.setdefault(reply, smuid)
        if known != smuid:
            self.violate(f"the reply {reply} was published more than once: {known}, {smuid}")

    # -- readers ----------------------------------------------------------------------------------

    def distance(self, publication: PlannedPublication, reader: PlannedReader) -> int:
        """Links from where it was published to the subscription."""
        return self._distances[publication.site][reader.site]

    def has_come(self, key: str, reader: PlannedReader) -> bool:
        """Whether a message has come to a subscription at least once."""
        return (reader.key, key) in self.holds

    def in_ball(self, publication: PlannedPublication, reader: PlannedReader) -> bool:
        """Whether the depth reaches the subscription."""
        return publication.reaches(self.distance(publication, reader))

    def delivered(
        self,
        reader: PlannedReader,
        key: str,
        smuid: str,
        session: int,
        *,
        received: bool,
        acknowledge: bool,
        attempt: int = 1,
    ) -> Hold:
        """A message has come to a subscription."""
        flags = f"{' received' if received else ''}{'' if acknowledge else ' unguaranteed'}"
        self.note(f"{reader.key} delivered {key}{flags}")
        publication = self.publications[key]
        self._name(key, smuid)
        if not self.in_ball(publication, reader):
            self.violate(f"{key} came to {reader.key}, beyond its depth {publication.depth}")
        if not reader.takes(publication):
            self.violate(f"{key} came to {reader.key}, of another topic")
        if reader.accepts not in ("BOTH", publication.mode):
            self.violate(f"{key} of mode {publication.mode} came to {reader.key}")
        if reader.key in self.ended:
            self.violate(f"{key} came to {reader.key}, which has unsubscribed")
        hold = self.holds.get((reader.key, key))
        if hold is None:
            hold = Hold("returned", 0, 0)
            self.holds[reader.key, key] = self.of_message[key][reader.key] = hold
            if received:
                self.violate(f"{key} came to {reader.key} as received, and never was")
            self._judge_order(reader, publication, smuid)
        elif reader.key not in self.ending:
            self._judge_again(reader, publication, hold, session, received=received)
            if publication.guarantee and publication.mode == "ALL" and attempt <= hold.counted:
                self.violate(f"{key} came to {reader.key} as attempt {attempt}, after {hold.counted} returns")
        if publication.mode == "ONE":
            if self.ending.get(reader.key) != session:
                self._judge_one(reader, publication)
            if publication.group is not None:
                self._judge_group(reader, publication)
        hold.deliveries += 1
        hold.attempt = attempt
        hold.session = session
        hold.state = ("received" if received else "with") if acknowledge else "committed"
        hold.had |= not acknowledge
        return hold

    def _judge_again(
        self,
        reader: PlannedReader,
        publication: PlannedPublication,
        hold: Hold,
        session: int,
        *,
        received: bool,
    ) -> None:
        key = publication.key
        if hold.state == "committed":
            self.violate(f"{key} came to {reader.key} again, which had committed it")
        elif hold.state == "received" and not received:
            self.violate(f"{key} came to {reader.key} again, which had received it, and did not say so")
        elif received and hold.state in ("with", "returned"):
            self.violate(f"{key} came to {reader.key} as received, and was not")
        elif hold.session == session and hold.state in ("with", "receiving", "received"):
            self.violate(f"{key} came to {reader.key} again, which still had it")

    def _judge_order(self, reader: PlannedReader, publication: PlannedPublication, smuid: str) -> None:
        """By one path, what a site publishes to a topic comes in order, unless something was given back."""
        if self.scenario.shape != "tree" or publication.mode == "ONE" or not publication.guarantee:
            return
        if reader.careless or reader.begins_at or reader.ends_at is not None:
            return
        parts = parse_smuid(smuid)
        lane = (reader.key, publication.site, publication.topic, publication.priority)
        last, before = self._last.get(lane, ((0, 0), ""))
        number = parts.boot, parts.counter
        if number < last:
            self.violate(f"{publication.key} came to {reader.key} after {before}, which was published later")
        self._last[lane] = number, publication.key

    def _judge_one(self, reader: PlannedReader, publication: PlannedPublication) -> None:
        for other, hold in self.of_message[publication.key].items():
            if other != reader.key and hold.state in ("received", "committed"):
                self.violate(
                    f"{publication.key} of mode ONE came to {reader.key}; {other} has {hold.state} it"
                )

    def _judge_group(self, reader: PlannedReader, publication: PlannedPublication) -> None:
        """Of a site, nobody else works on a message of its group: none that is surely in a hand."""
        for key, holds in self.of_message.items():
            other = self.publications[key]
            if (other.topic, other.mode, other.group) != (publication.topic, "ONE", publication.group):
                continue
            if not other.guarantee or other.removed_at is not None:
                continue  # a restart or its removal may have taken it from who had it
            for owner, hold in holds.items():
                is_here = owner.partition("@")[2] == reader.site
                if is_here and owner != reader.key and hold.state == "received":
                    self.violate(f"{publication.key} came to {reader.key}; {owner} has {key} of its group")

    def hold_is(self, reader: PlannedReader, key: str, hold: Hold, state: HoldState) -> None:
        """A subscription has said or heard something about a message."""
        told_late = state == "received" and hold.state in ("committing", "returning")
        if hold.state != "committed" and not told_late:
            hold.state = state
        hold.had |= state in ("committing", "committed")
        if state == "returned":
            hold.counted = max(hold.counted, hold.attempt)
        self.note(f"{reader.key} {state} {key}")
        if state == "committed" and self.publications[key].mode == "ONE":
            others = [
                other
                for other, one in self.of_message[key].items()
                if other != reader.key and one.state == "committed"
            ]
            if others:
                self.violate(f"{key} of mode ONE is committed by {reader.key} and by {', '.join(others)}")

    def unsubscribing(self, reader: PlannedReader, session: int) -> None:
        """UNSUBSCRIBE was said: from now on what it had, or is on its way to it, may come to others.

        It hears of that with the answer, before which also comes what others may have finished by now.
        """
        self.ending[reader.key] = session
        self.note(f"{reader.key} unsubscribing")
        for (owner, _), hold in self.holds.items():
            if owner == reader.key and hold.state in ("with", "receiving", "received"):
                hold.state = "returning"

    def unsubscribed(self, reader: PlannedReader) -> None:
        """UNSUBSCRIBE was answered: what it had is for others."""
        self.ended.add(reader.key)
        self.note(f"{reader.key} unsubscribed")
        for (owner, _), hold in self.holds.items():
            if owner == reader.key and hold.state != "committed":
                hold.state = "returned"

    def leaves(self, reader: PlannedReader) -> None:
        """Its client is gone for good; the subscription stays."""
        self.gone.add(reader.key)
        self.note(f"the client of {reader.key} is gone for good")

    def session_ended(self, reader: PlannedReader, session: int) -> None:
        """What was with the subscriber is so no longer; what it had received stays its own."""
        for (owner, _), hold in self.holds.items():
            if owner == reader.key and hold.session == session and hold.state == "with":
                hold.state = "returned"
