"""One message through the synthetic federation: the records that every site would write, and the truth.

The rules are those of the routing contract: a copy of more depth is forwarded again (`depth`), one's own name
in Hops is a loop, what was here before is a duplicate, a forward without an answer is repeated with a higher
attempt, a message of mode ONE has one custodian.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final, Literal

from routing.hops import FORMAT_VERSION, HopEvent, HopRecord
from routing.trace.synthetic.plan import PlannedFederation, PlannedTopic

RETRY_US: Final = 2_000_000
ATTEMPTS_MAX: Final = 6
TIMEOUT_US: Final = 60_000_000
UNLIMITED: Final = 1 << 20


@dataclass
class Truth:
    """What became of one message. Sites are numbers; delays are true microseconds."""

    smuid: str
    topic: str
    mode: Literal["ONE", "ALL"]
    origin: int
    depth: int
    guarantee: bool
    accepted: list[tuple[int, int, int]] = field(default_factory=list)
    widened: list[tuple[int, int]] = field(default_factory=list)
    states: dict[int, str] = field(default_factory=dict)
    due: int = 0
    committed: int = 0
    receipt: str = ""
    faults: list[str] = field(default_factory=list)
    links: list[tuple[int, int, str]] = field(default_factory=list)
    """(from, to, what): sent, lost, accepted, depth, duplicate, loop, unanswered; one entry each time."""


class MessageRun:
    """Runs one message to its end; `records` yields (true time, site, record without number and time)."""

    def __init__(
        self, federation: PlannedFederation, topic: PlannedTopic, birth_us: int, fault: str = ""
    ) -> None:
        rng, plan = federation.rng, federation.plan
        self.federation, self.topic, self.rng, self.plan = federation, topic, rng, plan
        origin = rng.choice(topic.area)
        site = federation.sites[origin]
        site.counter += 1
        self.birth_us = birth_us
        born_ms = site.clock.read(birth_us) // 1000
        one = fault == "custody" or (fault in ("", "lost") and rng.random() < plan.one)
        guarantee = bool(fault) or one or rng.random() >= plan.unguaranteed
        depth = -1 if one else 1 if fault == "deep" else rng.choice((-1, 1, 2, 2, 3, 4))
        self.truth = Truth(
            smuid=f"{site.name}/{born_ms:012x}-{site.boot(birth_us):x}-{site.counter:x}",
            topic=topic.name,
            mode="ONE" if one else "ALL",
            origin=origin,
            depth=depth,
            guarantee=guarantee,
        )
        asked = fault == "receipt" or (fault != "custody" and rng.random() < plan.receipt)
        self.wants_receipt = guarantee and asked
        self.holds = guarantee and not fault and not one and rng.random() < plan.held
        self.fault = fault
        self.size = int(rng.expovariate(1 / 800)) + 20
        self.priority = rng.choice((0, 0, 0, 3, 7))
        self.seen: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self.crossings: dict[tuple[int, int], int] = {}
        self.agenda: list[tuple[int, int, str, tuple[Any, ...]]] = []
        self.order = 0
        self.out: list[tuple[int, int, HopRecord]] = []
        self.last_commit_us = birth_us

    def records(self) -> Iterator[tuple[int, int, HopRecord]]:
        truth, origin = self.truth, self.truth.origin
        depth = UNLIMITED if truth.depth < 0 else truth.depth
        self.seen[origin] = depth
        asked = "ALL" if self.wants_receipt else ""
        self.begin(self.birth_us, origin, "published", depth=truth.depth, receipt=asked)
        self.settle(self.birth_us, origin, depth, ())
        while self.agenda:
            now, _, what, arguments = heappop(self.agenda)
            getattr(self, what)(now, *arguments)
        if self.wants_receipt:
            self.answer()
        return iter(self.out)

    def at(self, when_us: int, what: str, *arguments: Any) -> None:
        self.order += 1
        heappush(self.agenda, (when_us, self.order, what, arguments))

    def write(self, now: int, site: int, event: HopEvent, **fields: Any) -> HopRecord:
        record = HopRecord(
            version=FORMAT_VERSION,
            server=self.federation.sites[site].name,
            boot=0,
            record=0,
            time_us=0,
            event=event,
            smuid=self.truth.smuid,
            topic=self.topic.name,
            mode=self.truth.mode,
            size=self.size,
            priority=self.priority,
            guarantee=self.truth.guarantee,
            **fields,
        )
        self.out.append((now, site, record))
        return record

    def clock(self, site: int, now: int) -> int:
        return self.federation.sites[site].clock.read(now)

    def begin(self, now: int, site: int, event: HopEvent, **fields: Any) -> None:
        due = 0 if self.truth.mode == "ONE" else self.topic.subscribers.get(site, 0)
        self.truth.due += due
        self.truth.states[site] = "held" if self.truth.guarantee else "gone"
        self.open[site] = 0
        expires = self.clock(site, now) + TIMEOUT_US if not self.holds else 0
        self.write(now, site, event, due=due, expires_us=expires, **fields)

    def closed(self, site: int, record: HopRecord) -> None:
        """Count one thing less to do at `site`; the record that leaves nothing to do ends the copy."""
        self.open[site] -= 1
        if self.open[site] == 0 and self.truth.states[site] in ("held", "gone"):
            record.final = True
            self.truth.states[site] = "finished"

    def settle(self, now: int, site: int, depth: int, hops: tuple[int, ...]) -> None:
        """Deliver and forward what has just been accepted."""
        if self.truth.mode == "ONE":
            self.hand_over(now, site, hops)
            return
        self.deliver(now, site)
        self.forward(now, site, depth, hops)
        if self.open[site] == 0 and self.truth.states[site] in ("held", "gone"):
            self.write(now + 1, site, "expired", reason="due to nobody", final=True)
            self.truth.states[site] = "finished"

    def deliver(self, now: int, site: int) -> None:
        for number in range(self.topic.subscribers.get(site, 0)):
            self.open[site] += 1
            if self.holds and number == 0:
                continue
            self.at(now + self.rng.randrange(100, 3000), "hand_out", site, number, 1)

    def hand_out(self, now: int, site: int, number: int, attempt: int) -> None:
        subscription = f"reader{number}:main@{self.federation.sites[site].name}"
        acknowledged = attempt if self.truth.guarantee else 0
        record = self.write(now, site, "delivered", subscription=subscription, attempt=acknowledged)
        if not acknowledged:
            self.truth.committed += 1
            self.closed(site, record)
        elif attempt < 3 and self.rng.random() < 0.03:
            back = now + self.rng.randrange(1000, 50_000)
            self.at(back, "give_back", site, number, attempt)
        else:
            self.at(now + self.rng.randrange(1000, 200_000), "commit", site, subscription, attempt)

    def give_back(self, now: int, site: int, number: int, attempt: int) -> None:
        subscription = f"reader{number}:main@{self.federation.sites[site].name}"
        self.write(
            now, site, "returned", subscription=subscription, attempt=attempt, reason="the lock timed out"
        )
        self.at(now + 500, "hand_out", site, number, attempt + 1)

    def commit(self, now: int, site: int, subscription: str, attempt: int) -> None:
        record = self.write(now, site, "committed", subscription=subscription, attempt=attempt)
        self.truth.committed += 1
        self.last_commit_us = now
        self.closed(site, record)

    def forward(self, now: int, site: int, depth: int, hops: tuple[int, ...]) -> None:
        too_deep = self.fault == "deep" and depth == 0 and "deep" not in self.truth.faults
        if depth == 0 and not too_deep:
            return
        for peer in self.federation.peers[site]:
            if peer not in self.topic.area:
                continue
            if peer in hops and self.rng.random() >= self.plan.loop:
                continue
            if too_deep and peer in self.seen:
                continue
            left = UNLIMITED if depth == UNLIMITED else max(depth - 1, 0)
            self.open[site] += 1
            self.at(now + self.rng.randrange(50, 800), "send", site, peer, left, (*hops, site))

    def hand_over(self, now: int, site: int, hops: tuple[int, ...]) -> None:
        self.open[site] += 1
        if site in self.topic.subscribers:
            self.at(now + 500, "hand_out", site, 0, 1)
            return
        peer = self.topic.toward[site]
        self.at(now + 300, "send", site, peer, UNLIMITED, (*hops, site))
        if self.fault == "custody" and not self.truth.faults:
            others = [p for p in self.federation.peers[site] if p in self.topic.area and p != peer]
            if others:
                self.truth.faults.append("custody")
                self.open[site] += 1
                self.at(now + 400, "send", site, others[0], UNLIMITED, (*hops, site))

    def travel_us(self, a: int, b: int, now: int) -> int:
        base = self.federation.delay_us[a, b]
        if now >= self.federation.bad_from_us.get((a, b), 1 << 62):
            base = base * 8 + 100_000
        return base + int(self.rng.expovariate(1 / 2000))

    def send(self, now: int, site: int, peer: int, depth: int, hops: tuple[int, ...]) -> None:
        # Every crossing of a link has its own number, be it a repetition or a copy of more depth.
        attempt = self.crossings[site, peer] = self.crossings.get((site, peer), 0) + 1
        link = self.truth.links
        link.append((site, peer, "sent"))
        if self.truth.guarantee and attempt < ATTEMPTS_MAX and self.rng.random() < self.plan.loss:
            link.append((site, peer, "lost"))
            self.at(now + RETRY_US, "send", site, peer, depth, hops)
            return
        if not self.truth.guarantee and self.rng.random() < self.plan.loss:
            return
        arrival = now + self.travel_us(site, peer, now)
        self.at(arrival, "arrive", site, peer, depth, hops, attempt, now)

    def arrive(
        self, now: int, sender: int, site: int, depth: int, hops: tuple[int, ...], attempt: int, sent: int
    ) -> None:
        truth = self.truth
        shown = -1 if depth >= UNLIMITED // 2 else depth
        fields = {
            "peer": self.federation.sites[sender].name,
            "depth": shown,
            "attempt": attempt,
            "hops": tuple(self.federation.sites[hop].name for hop in hops),
        }
        outcome = "accepted"
        if site in hops:
            outcome = "loop"
            self.write(now, site, "loop", **fields)
        elif site not in self.seen:
            truth.accepted.append((sender, site, now - sent))
            if 0 <= truth.depth < len(hops) and "deep" not in truth.faults:
                truth.faults.append("deep")
            self.seen[site] = depth
            if self.fault == "lost" and "lost" not in truth.faults:
                truth.faults.append("lost")
                truth.states[site] = "lost"
            else:
                self.begin(now, site, "received", **fields)
                self.settle(now, site, depth, hops)
        elif depth > self.seen[site] and truth.mode == "ALL":
            outcome = "depth"
            truth.widened.append((sender, site))
            self.seen[site] = depth
            if truth.states[site] != "lost":
                self.write(now, site, "depth", **fields)
                self.forward(now, site, depth, hops)
        else:
            outcome = "duplicate"
            if truth.states[site] != "lost":
                self.write(now, site, "duplicate", **fields)
        truth.links.append((sender, site, outcome))
        if not truth.guarantee:
            self.open[sender] -= 1
            return
        if attempt < ATTEMPTS_MAX and self.rng.random() < self.plan.ack_loss:
            truth.links.append((sender, site, "unanswered"))
            again = max(sent + RETRY_US, now + 1)
            self.at(again, "send", sender, site, depth, hops)
            return
        back = now + self.rng.randrange(50, 3000)
        answered = back + self.travel_us(site, sender, back)
        stamps = (sent, self.clock(site, now), self.clock(site, back))
        self.at(answered, "acknowledged", sender, site, shown, attempt, outcome, stamps)

    def acknowledged(
        self, now: int, site: int, peer: int, depth: int, attempt: int, outcome: str, stamps: tuple[int, ...]
    ) -> None:
        sent, peer_received, peer_sent = stamps
        record = self.write(
            now,
            site,
            "forwarded",
            peer=self.federation.sites[peer].name,
            depth=depth,
            attempt=attempt,
            crossing=1 if self.truth.mode == "ONE" else 0,
            outcome=outcome,
            sent_us=self.clock(site, sent),
            peer_received_us=peer_received,
            peer_sent_us=peer_sent,
        )
        self.closed(site, record)

    def answer(self) -> None:
        """Tell the receipt X/Y at the origin, once all is known."""
        truth = self.truth
        due = 1 if truth.mode == "ONE" else truth.due
        claimed = truth.committed
        if self.fault == "receipt":
            truth.faults.append("receipt")
            claimed += 1
            due += 1
        truth.receipt = f"{claimed}/{due}"
        when = (self.birth_us + TIMEOUT_US) if claimed < due else self.last_commit_us + 100_000
        self.write(when, truth.origin, "receipt", receipt=truth.receipt)
