"""What sites answer to the questions of `routing.federation.enquiry`, and what whoever asked is told."""

from typing import Final, Literal

import msgspec

from daemon.hops.examine import Findings
from routing.numbers import Count, Depth, TimeUs

ReportOutcome = Literal[
    "reached",  # the question is here; for a ping: this is the server
    "wider",  # a trace that was here with less depth, and goes further now
    "duplicate",
    "loop",
    "denied",
    "busy",  # more was asked than this site answers
    "stopped",  # a ping that can go no further
]

REASON_CHARACTERS_MAX: Final = 400


class PassedOver(msgspec.Struct, frozen=True):
    """A peer that a site has not asked.

    Attributes:
        why: in words.
        is_down: the link is down, and nothing else keeps the question from it. A site of 0.1 does not say so.
        is_source: the question came from there. The same holds of that.
    """

    peer: str
    why: str
    is_down: bool = False
    is_source: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One site's answer to a question that came to it by one way.

    Attributes:
        at: the site.
        source: the peer that it heard the question from; "" at the site that asks first.
        reason: of a question that goes no further, in words.
        time_us: when it came, by the clock of `at`.
        hops: the sites that it came through, the first one first.
        asked: peers that the site asks in turn; each is due to report.
        passed_over: peers that it does not ask.
        depth: trace: hops that it may still go from here.
        subscriptions: trace: those here that a message would go to; in mode ONE, one of so many.
        smuid: trace: of the message that was delivered here; "" where none was.
        topic: why: of the message; "" where its log does not know it.
        findings: why: what its log says.
    """

    at: str
    source: str
    outcome: ReportOutcome
    reason: str = ""
    time_us: TimeUs = 0
    hops: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    depth: Depth = 0
    subscriptions: Count = 0
    smuid: str = ""
    topic: str = ""
    findings: Findings | None = None


class ReportTold(msgspec.Struct, frozen=True):
    """A report on a link."""

    key: str
    report: Report


class Heard(msgspec.Struct, frozen=True, tag="heard"):
    """A report has come, so many seconds after the question was asked."""

    report: Report
    after_s: float


class Unanswered(msgspec.Struct, frozen=True):
    """A site that was asked by another and has not reported, or whose report was lost on the way."""

    asker: str
    site: str


class End(msgspec.Struct, frozen=True, tag="end"):
    """No more comes: everybody has reported, or the time is over."""

    unanswered: tuple[Unanswered, ...]
    after_s: float


Told = Heard | End
