"""The way of one message over all sites, put together from what their hop logs say, and what is not known.

A site's place is behind the peer that its own log says it took the message from; where its log was not
read, behind the site whose log says that it handed the message on. Times are by each site's own clock; how
long a copy was on a link, and by how much two clocks differ, is told by the four stamps of an
acknowledgement, as in NTP; logs of earlier versions lack the fourth, and tell neither. Nothing is guessed:
what no log says is a gap, and is named.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from daemon.control.reports import Report, Unanswered
from daemon.hops.examine import Findings, moment
from daemon.operating.journeys import Journey, JourneyStop, KnowledgeGap
from routing.hop_words import BEGINS, REFUSES, TAKEN
from routing.hops import HopRecord

_AGAIN: Final = (*REFUSES, "depth")

NESTED_MAX: Final = 100
"""Sites that a message went on to, one behind the other: what writes JSON or draws a page goes so deep, and a
peer may tell of any number. Those further on stand beside the last."""


class _Hop(msgspec.Struct):
    """What the stamps of an acknowledgement tell of a hop.

    Attributes:
        link_us: None where it was one that did not take the copy: it had come before, by an attempt whose
            acknowledgement was lost.
        offset_us: how far the receiver's clock is ahead.
    """

    link_us: int | None
    offset_us: int


def journey(smuid: str, reports: Iterable[Report], unanswered: Iterable[Unanswered]) -> Journey:
    """Put together what the sites have reported; each may have reported several times."""
    reports = list(reports)
    found = {report.at: report.findings for report in reports if report.findings is not None}
    stops = {at: _stop(at, findings) for at, findings in found.items() if findings.records}
    hops: dict[tuple[str, str], _Hop] = {}
    for at, findings in found.items():
        for record in findings.records:
            if record.event != "forwarded" or not record.peer:
                continue
            hop = _hop(record)
            if record.outcome in TAKEN:
                if hop is not None:
                    hops[at, record.peer] = hop
                if record.peer not in stops:
                    stops[record.peer] = JourneyStop(server=record.peer, source=at)
            elif record.outcome == "duplicate" and hop is not None:
                hops.setdefault((at, record.peer), msgspec.structs.replace(hop, link_us=None))
    began, apart = _tree(stops, hops)
    topics = [record.topic for findings in found.values() for record in findings.records]
    return Journey(
        smuid=smuid,
        topic=next((topic for topic in topics if topic), ""),
        began=began,
        apart=apart,
        never=sorted(at for at, one in found.items() if not one.records and one.covered and at not in stops),
        gaps=_gaps(reports, list(unanswered), found, stops),
    )


def _stop(at: str, findings: Findings) -> JourneyStop:
    first = next((one for one in findings.records if one.event in BEGINS), None)
    arrivals = [one for one in findings.records if one.event == "received" or one.event in _AGAIN]
    if first is None and arrivals and arrivals[0].event in REFUSES:
        first = arrivals[0]
    return JourneyStop(
        server=at,
        source=first.peer if first is not None else "",
        came_us=first.time_us if first is not None else None,
        state=findings.state,
        verdict=findings.verdict,
        again=[f"{record.peer}: {record.event}" for record in arrivals if record is not first],
    )


def _hop(record: HopRecord) -> _Hop | None:
    if not record.acknowledged_us:  # the record may have been written long after
        return None
    there_us = record.peer_received_us - record.sent_us
    back_us = record.acknowledged_us - record.peer_sent_us
    return _Hop((there_us + back_us) // 2, (there_us - back_us) // 2)


def _tree(
    stops: dict[str, JourneyStop], hops: dict[tuple[str, str], _Hop]
) -> tuple[JourneyStop | None, list[JourneyStop]]:
    """Hang each stop behind its source; the first root is the beginning."""
    roots = [stop for stop in stops.values() if stop.source not in stops or stop.source == stop.server]
    known = [stop for stop in roots if stop.came_us is not None]
    began = min(known or roots, key=lambda stop: (bool(stop.source), stop.came_us or 0), default=None)
    placed = set()
    had_from: dict[str, list[JourneyStop]] = defaultdict(list)
    for stop in stops.values():
        had_from[stop.source].append(stop)
    # with each its depth, and the one that what it went on to hangs below
    waiting = [(root, 0 if root.came_us is not None else None, 0, root) for root in roots]
    for root in roots:
        root.after_us = 0 if root is began and root.came_us is not None else None
    while waiting:
        stop, offset_us, depth, above = waiting.pop()
        placed.add(stop.server)
        for other in had_from[stop.server]:
            if other.server in placed:
                continue
            hop = hops.get((stop.server, other.server))
            offset = offset_us + hop.offset_us if hop is not None and offset_us is not None else None
            other.link_us = hop.link_us if hop is not None else None
            if other.came_us is not None and offset is not None and stop.after_us is not None:
                assert began is not None
                other.after_us = other.came_us - offset - (began.came_us or 0)
            above.beyond.append(other)
            waiting.append((other, offset, depth + 1, other if depth + 1 < NESTED_MAX else above))
    for stop in stops.values():
        stop.beyond.sort(key=lambda one: (one.after_us is None, one.after_us or 0, one.server))
    # Mode ONE may have gone to and fro: a ring of sources has no root of its own.
    apart = [root for root in roots if root is not began]
    apart += [stop for stop in stops.values() if stop.server not in placed]
    return began, apart


def _gaps(
    reports: list[Report],
    unanswered: list[Unanswered],
    found: dict[str, Findings],
    stops: dict[str, JourneyStop],
) -> list[KnowledgeGap]:
    gaps: dict[str, str] = {}
    for report in reports:
        for one in report.passed_over:
            gaps.setdefault(one.peer, f"{report.at} could not ask it: {one.why}")
    for missing in unanswered:
        gaps[missing.site] = f"no report came, though {missing.asker or 'this site'} asked it"
    for report in reports:
        if report.findings is None and report.outcome not in ("duplicate", "loop"):
            gaps[report.at] = report.reason or f"it answered: {report.outcome}"
    for at in found:
        gaps.pop(at, None)
    for at, findings in found.items():
        why = _doubt(at, findings, stops)
        if why:
            gaps[at] = why
    for at, stop in stops.items():
        if at not in found:
            gaps.setdefault(at, f"{stop.source} handed the message to it, and its log was not read")
    return [KnowledgeGap(at, why) for at, why in sorted(gaps.items())]


def _doubt(at: str, findings: Findings, stops: dict[str, JourneyStop]) -> str:
    if not findings.records:
        if at in stops:
            return f"its log has no record of it, though {stops[at].source} handed the message to it"
        return "" if findings.covered else findings.verdict
    unread = msgspec.structs.asdict(findings.unread)
    torn = unread.pop("torn")
    if any(unread.values()):
        return f"part of its log could not be read ({sum(unread.values()) + torn} lines or files)"
    if findings.state == "unknown" and (findings.gaps or findings.damage):
        missing = sum(gap.count for gap in findings.gaps)
        lacks = [f"lacks {missing} of its records"] if missing else []
        harmed = [f"has been changed in {len(findings.damage)} of its files"] if findings.damage else []
        return f"its log {' and '.join(lacks + harmed)}, which might tell more"
    if findings.left_out:
        return f"its log has {findings.left_out} more records of it; ask there"
    if not findings.covered and not any(record.event in BEGINS for record in findings.records):
        oldest = moment(findings.records[0].time_us)
        return f"its log no longer has the beginning, and tells of the message from {oldest} on"
    if findings.fate is not None and findings.fate.state == "unknown":
        return "its log does not tell what became of it there"
    return ""
