"""Questions over links: this site's own, and those of others; see `routing.federation.enquiry` for the rules.

    Enquiring.ask       a question of this site's operator, and all reports to it
    ask_arrived         a peer asks: this site reports, and asks on
    answer_arrived      a report from beyond a peer: for this site, or on to whoever asked
    run                 reads the hop log for `why`, one question at a time

What is sent waits until the broker has carried out what came before it: like a message, a question goes
through the whole site, and an answer proves that the site works.
"""

import itertools
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon.control.reports import (
    REASON_CHARACTERS_MAX,
    End,
    Heard,
    PassedOver,
    Report,
    ReportOutcome,
    ReportTold,
    Told,
    Unanswered,
)
from daemon.control.routes import by_destinations
from daemon.hops.examine import Awaited, Findings, examine, shortened, with_awaited
from daemon.system.clock import Clock
from routing.door import Door
from routing.errors import Refusal
from routing.federation.arriving import accepted_depth
from routing.federation.enquiry import About, Ask, Enquiries, Ping, Trace, Why, check_ask, kind
from routing.federation.obstacles import DOWN
from routing.federation.outlook import Way
from routing.headers import write_created
from routing.message import Message, Section
from routing.names import is_system_topic

_log = logging.getLogger(__name__)

OWN_MAX: Final = 64
"""Questions of this site's operator at a time."""

REPORTS_WAITING_MAX: Final = 10_000
LOG_READS_WAITING_MAX: Final = 32
WRITTEN_WITHIN_S: Final = 2.0
"""Of a log that takes longer not all is known: its disk is full, or does not answer."""

RECORDS_MAX: Final = 100
"""Of one message in one report: it has to fit between other controls."""


class Enquiring:
    """One site's part in all questions.

    Args:
        wake: tells the broker that there is something to be sent.
        tell: sends a control to a peer: its name, the kind, the value; False where it cannot now.
        why_down: why there is no link with a peer, in words.
        has_room: whether a message of so many bytes to a topic can be held now.
        awaited: of which peers an answer for a message is awaited.
    """

    def __init__(
        self,
        door: Door,
        clock: Clock,
        wake: Callable[[], None],
        tell: Callable[[str, str, msgspec.Struct], bool],
        why_down: Callable[[str], str],
        has_room: Callable[[str, int], bool],
        awaited: Callable[[str], list[Awaited]],
    ) -> None:
        self._door = door
        self._server = door.server
        self._outlook = door.outlook
        self._clock = clock
        self._wake = wake
        self._tell = tell
        self._why_down = why_down
        self._has_room = has_room
        self._awaited = awaited
        self._enquiries = Enquiries(self._server)
        self._features: dict[str, tuple[str, ...]] = {}
        self._own: dict[str, trio.MemorySendChannel[Report]] = {}
        self._numbers = itertools.count(1)
        self._outgoing: list[tuple[str, str, Ask | ReportTold]] = []
        self._reads_in, self._reads_out = trio.open_memory_channel[tuple[Ask, Report]](LOG_READS_WAITING_MAX)

    # -- this site's own ----------------------------------------------------------------------------

    async def ask(self, about: About, timeout_s: float, tell: Callable[[Told], Awaitable[None]]) -> None:
        """Ask, and tell of each report as it comes, then of the end. Cancelling forgets the question.

        Raises Refusal where more is asked at a time than a site answers.
        """
        if len(self._own) >= OWN_MAX:
            raise Refusal(Refusal.NOT_AVAILABLE, f"{OWN_MAX} questions are being asked already")
        key = f"{self._server}/{self._door.boot:x}-{next(self._numbers):x}"
        self._own[key], reports = trio.open_memory_channel[Report](REPORTS_WAITING_MAX)
        asked_at = trio.current_time()
        outstanding = Counter({("", self._server): 1})
        try:
            self._hear(Ask(key, about, (), timeout_s), "")
            with trio.move_on_after(timeout_s):
                while any(outstanding.values()):
                    report = await reports.receive()
                    outstanding[report.source, report.at] -= 1
                    outstanding.update((report.at, peer) for peer in report.asked)
                    if isinstance(about, Ping):
                        outstanding.clear()
                    await tell(Heard(report, trio.current_time() - asked_at))
        finally:
            self._own.pop(key).close()
            reports.close()
            self._enquiries.forget(key)
        missing = (Unanswered(asker, site) for (asker, site), count in outstanding.items() if count > 0)
        await tell(End(tuple(missing), trio.current_time() - asked_at))

    # -- from and to the links ----------------------------------------------------------------------

    def peers_changed(self, peers: Mapping[str, object]) -> None:
        """Replace the peers by these."""
        for gone in self._features.keys() - peers.keys():
            del self._features[gone]
            self._enquiries.forget_peer(gone)

    def link_up(self, peer: str, features: tuple[str, ...]) -> None:
        """Note that a link is up; the features are those that both sites have."""
        self._features[peer] = features

    def ask_arrived(self, peer: str, payload: bytes) -> None:
        """Take a peer's question. Raises MsgspecError and Refusal where it cannot be understood."""
        ask = msgspec.json.decode(payload, type=Ask)
        check_ask(ask, peer)
        self._hear(ask, peer)

    def answer_arrived(self, peer: str, payload: bytes) -> None:
        """Take a report from a peer, or from beyond it. Raises MsgspecError."""
        answer = msgspec.json.decode(payload, type=ReportTold)
        asker = self._enquiries.answered(answer.key, peer, len(payload), self._clock.now())
        if asker is not None:
            self._say(answer.key, asker, answer.report)

    def carried_out(self) -> None:
        """Let questions and answers leave: the broker has carried out what came before them."""
        self._outgoing = [
            (peer, word, value)
            for peer, word, value in self._outgoing
            if not self._tell(peer, word, value) and self._comes_up(peer)
        ]

    def _comes_up(self, peer: str) -> bool:
        """Whether the router knows of a link over which nothing has been told yet."""
        return self._outlook.is_up(peer)

    # -- what becomes of a question -----------------------------------------------------------------

    def _hear(self, ask: Ask, peer: str) -> None:
        about = ask.about
        if peer and isinstance(about, Trace):
            known = self._outlook.peers.get(peer)
            if known is None or not known.may_come(about.topic):
                self._report(ask, peer, "denied", "the rules of the link forbid it")
                return
            depth = accepted_depth(about.topic, about.depth, known.rules)
            ask = msgspec.structs.replace(ask, about=msgspec.structs.replace(about, depth=depth))
        verdict = self._enquiries.hear(ask, peer, self._clock.now())
        if verdict == "duplicate" or verdict == "loop" or verdict == "busy":
            self._report(ask, peer, verdict)
            return
        match ask.about:
            case Ping():
                self._ping(ask, peer, ask.about)
            case Trace():
                self._trace(ask, peer, ask.about, again=verdict == "wider")
            case Why():
                self._why(ask, peer)

    def _report(self, ask: Ask, peer: str, outcome: ReportOutcome, reason: str = "") -> None:
        self._say(ask.key, peer, self._begun(ask, peer, outcome, reason))

    def _begun(self, ask: Ask, peer: str, outcome: ReportOutcome, reason: str = "") -> Report:
        return Report(
            at=self._server,
            source=peer,
            outcome=outcome,
            reason=reason[:REASON_CHARACTERS_MAX],
            time_us=self._clock.wall_us(),
            hops=ask.hops,
        )

    def _say(self, key: str, asker: str, report: Report) -> None:
        """Tell whoever asked; what a peer's rules keep from it is left out."""
        if not asker:
            if (own := self._own.get(key)) is not None:
                try:
                    own.send_nowait(report)
                except trio.WouldBlock:
                    _log.warning("reports to a question of this site come faster than they are read")
            return
        peer = self._outlook.peers.get(asker)
        if peer is None:
            return
        if report.topic and not (peer.may_come(report.topic) or peer.may_go(report.topic)):
            reason = f"the rules of the link between {self._server} and {asker} forbid it"
            report = msgspec.structs.replace(report, outcome="denied", reason=reason, topic="", findings=None)
        self._outgoing.append((asker, "answer", ReportTold(key, report)))
        self._wake()

    def _ask_on(self, ask: Ask, about: About, peer: str) -> None:
        left_s = self._enquiries.left_s(ask.key, self._clock.now())
        self._enquiries.asking(ask.key, peer)
        self._outgoing.append((peer, "ask", Ask(ask.key, about, (*ask.hops, self._server), left_s)))
        self._wake()

    def _unasked(self, about: About, peer: str) -> PassedOver | None:
        """Why a peer cannot be asked; None where it can."""
        if not self._outlook.peers[peer].up:
            return self._passed_over(Way(peer, None, "down"))
        if kind(about) not in self._features.get(peer, ()):
            return PassedOver(peer, f"it does not know `{kind(about)}`: its smqpd is too old")
        return None

    def _passed_over(self, way: Way) -> PassedOver:
        """Why nothing goes there; of a link that is down, why it is."""
        is_down = way.obstacle in DOWN
        if is_down and (why := self._why_down(way.peer)):
            way = msgspec.structs.replace(way, detail=f" ({why})")
        return PassedOver(way.peer, way.why, is_down, is_source=way.obstacle == "source")

    def _ping(self, ask: Ask, peer: str, ping: Ping) -> None:
        if ping.server == self._server:
            self._report(ask, peer, "reached")
            return
        distances = self._outlook.distances(("SERVER", ping.server))
        peers = self._outlook.peers
        reasons = {}
        for name in sorted(peers, key=lambda name: (distances.get(name, math.inf), name)):
            if name in ask.hops or not (name in distances or name == ping.server):
                continue
            unasked = self._unasked(ping, name)
            if unasked is None:
                self._ask_on(ask, ping, name)
                return
            reasons[name] = unasked.why
        if not reasons:
            reasons = {f"no way to {ping.server} is known here": ""}
            for name, known in sorted(peers.items()):
                if not known.up and name not in ask.hops:
                    reasons[name] = self._passed_over(Way(name, None, "down")).why
        told = "; ".join(f"{name}: {why}" if why else name for name, why in reasons.items())
        self._report(ask, peer, "stopped", told)

    def _trace(self, ask: Ask, peer: str, trace: Trace, *, again: bool) -> None:
        asked, passed_over = [], []
        count = self._door.view.takers(trace.topic, trace.mode)
        if not (trace.mode == "ONE" and self._door.view.is_attended(trace.topic)):
            for way, destinations in self._ways(ask, trace):
                unasked = self._passed_over(way) if way.obstacle else self._unasked(trace, way.peer)
                if unasked is not None:
                    passed_over.append(unasked)
                else:
                    assert way.depth is not None
                    on = msgspec.structs.replace(trace, depth=way.depth, destinations=destinations)
                    self._ask_on(ask, on, way.peer)
                    asked.append(way.peer)
        smuid = self._deliver(ask, trace) if trace.deliver and count and not again else ""
        reason = "not delivered: there is no room" if smuid is None else ""
        report = msgspec.structs.replace(
            self._begun(ask, peer, "wider" if again else "reached", reason),
            asked=tuple(asked),
            passed_over=tuple(passed_over),
            depth=trace.depth,
            subscriptions=0 if again else count,
            smuid=smuid or "",
        )
        self._say(ask.key, peer, report)

    def _ways(self, ask: Ask, trace: Trace) -> Iterator[tuple[Way, tuple[str, ...]]]:
        """All peers as ways for a trace, and the destinations that each is to see to."""
        outlook, assigned = self._outlook, None
        if trace.destinations:
            assigned = outlook.assignments.pass_on(trace.topic, trace.depth, ask.hops, trace.destinations)
        elif trace.mode == "ALL" and not ask.hops and not is_system_topic(trace.topic):
            assigned = outlook.assignments.find(trace.topic, trace.depth)
        for way in outlook.ways(trace.topic, trace.mode, trace.depth, ask.hops):
            if assigned is None:
                yield way, ()
                continue
            seen_to = tuple(one.site for one in assigned if one.peer == way.peer)
            yield by_destinations(outlook, way, trace.depth, assigned), seen_to

    def _deliver(self, ask: Ask, trace: Trace) -> str | None:
        """Give the probe to the subscriptions here, for as long as the question lives; None if it is full."""
        origin = ask.key.partition("/")[0]
        body = Section("text/plain", f"A probe of {origin}: smqpd trace {trace.topic} --deliver\n".encode())
        if not self._has_room(trace.topic, len(body.body)):
            return None
        return self._door.publish_own(
            trace.topic,
            Message(
                name="Probe",
                created=write_created(self._clock.wall_ms()),
                timeout_s=max(self._enquiries.left_s(ask.key, self._clock.now()), 1.0),
                delivery=trace.mode,
                others=(("Probe", ask.key), ("Probe-Hops", ",".join((*ask.hops, self._server)))),
                sections=(body,),
            ),
        )

    def _why(self, ask: Ask, peer: str) -> None:
        asked, passed_over = [], []
        for name in sorted(self._outlook.peers):
            if name in ask.hops:
                continue
            unasked = self._unasked(ask.about, name)
            if unasked is not None:
                passed_over.append(unasked)
            else:
                self._ask_on(ask, ask.about, name)
                asked.append(name)
        report = msgspec.structs.replace(
            self._begun(ask, peer, "reached"), asked=tuple(asked), passed_over=tuple(passed_over)
        )
        try:
            self._reads_in.send_nowait((ask, report))
        except trio.WouldBlock:
            busy = msgspec.structs.replace(report, outcome="busy", reason="its hop log is asked too much")
            self._say(ask.key, peer, busy)

    async def run(self, hops_directory: Path, until_written: Callable[[], Awaitable[bool]]) -> None:
        """Read the hop log for those who ask. Runs until cancelled.

        `until_written`: returns once what has happened is in it, or, False, cannot be written.
        """
        async for ask, report in self._reads_out:
            left_s = self._enquiries.left_s(ask.key, self._clock.now())
            if not left_s:
                continue
            assert isinstance(ask.about, Why)
            is_written = False
            with trio.move_on_after(min(left_s, WRITTEN_WITHIN_S)):
                is_written = await until_written()
            look = partial(_look_for, ask.about.smuid, hops_directory, is_behind=not is_written)
            try:
                findings = await trio.to_thread.run_sync(look, abandon_on_cancel=True)
            except OSError as error:
                failed = f"its hop log cannot be read: {error.strerror or error}"
                self._say(ask.key, report.source, msgspec.structs.replace(report, reason=failed))
                continue
            topic, findings = "", shortened(findings, RECORDS_MAX)
            if findings.records:  # else nothing tells whether whoever asks may know
                topic = findings.records[0].topic
                findings = with_awaited(findings, self._awaited(ask.about.smuid))
            report = msgspec.structs.replace(report, topic=topic, findings=findings)
            self._say(ask.key, report.source, report)


def _look_for(smuid: str, hops_directory: Path, *, is_behind: bool) -> Findings:
    """`is_behind`: as it was before anything was read."""
    return examine(hops_directory, smuid, is_behind=lambda newest: is_behind)
