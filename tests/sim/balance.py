"""Judges the hop logs: every record is there or known to be missing, and every copy has one end.

copies begun = copies ended + copies still held         at each site, for each message
copies that a peer accepted = copies that it received   on each link
a message of mode ONE is handed over a link             16 times at most, in either direction
"""

import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from daemon.hops.reader import HopLogReader
from routing.hops import HopRecord
from tests.sim.ledger import Ledger

if TYPE_CHECKING:
    from tests.sim.site import SimulatedSite

ARRIVALS: Final = ("received", "duplicate", "depth", "loop", "denied")
"""Events of which one tells of each copy that a peer has sent."""

CROSSINGS_USUAL_MAX: Final = 12
"""Of one link, by one message of mode ONE: its way may lead back where ways change, but seldom twice.

Sites slow it down at `routing.federation.custody.CROSSINGS_MAX`; one that comes near that shows that they
disagree.
"""


class Facts(msgspec.Struct):
    """What the hop logs of all sites say, by Smuid.

    Attributes:
        arrived: how often each site was sent it, whatever it did with it then.
        committed: (site, subscription) of each commit.
        dead: subscriptions that gave a message up.
        ended: the events that ended a copy.
        ended_at: the same, by site and Smuid.
        held: sites that hold one now.
        incomplete: sites whose log has lost something, so that not finding a record there proves nothing.
    """

    arrived: dict[str, Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    committed: dict[str, list[str]] = msgspec.field(default_factory=lambda: defaultdict(list))
    dead: dict[str, set[str]] = msgspec.field(default_factory=lambda: defaultdict(set))
    ended: dict[str, Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    ended_at: dict[tuple[str, str], Counter[str]] = msgspec.field(
        default_factory=lambda: defaultdict(Counter)
    )
    held: dict[str, Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    incomplete: set[str] = msgspec.field(default_factory=set)


def judge(ledger: Ledger, sites: dict[str, "SimulatedSite"]) -> Facts:
    """Judge the logs as they are now, while all sites run and nothing is under way."""
    facts = Facts()
    crossings: Counter[tuple[str, str, str]] = Counter()
    arrivals: Counter[tuple[str, str, str]] = Counter()
    for name, site in sites.items():
        reader = HopLogReader(site.machine.directory / "hops")
        records = list(reader.records())
        if (reader.unread.bad or reader.unread.too_long) and not site.machine.lost_tails:
            ledger.violate(f"{name}: its hop log has lines that cannot be read: {reader.unread}")
        if site.machine.lost_tails:
            facts.incomplete.add(name)
        _judge_numbers(ledger, name, records, may_miss=bool(site.machine.lost_tails))
        _gather(records, facts, crossings, arrivals)
        for text in to_and_fro(records):
            ledger.violate(text)
        _judge_copies(ledger, site, records, facts)
    _judge_crossings(ledger, facts, crossings, arrivals)
    return facts


def _judge_numbers(ledger: Ledger, name: str, records: list[HopRecord], *, may_miss: bool) -> None:
    last, boot = 0, 0
    for record in records:
        if record.record <= last:
            ledger.violate(f"{name}: record {record.record} comes after {last}")
        missing = record.record > last + 1
        if missing and not may_miss:
            ledger.violate(f"{name}: records {last + 1} to {record.record - 1} are missing")
        if record.previous and not last <= record.previous < record.record:
            ledger.violate(f"{name}: record {record.record} comes after {last}, not {record.previous}")
        if record.boot < boot:
            ledger.violate(f"{name}: record {record.record} is of boot {record.boot}, after boot {boot}")
        last, boot = record.record, record.boot


def _gather(
    records: list[HopRecord],
    facts: Facts,
    crossings: Counter[tuple[str, str, str]],
    arrivals: Counter[tuple[str, str, str]],
) -> None:
    timed = {record.smuid for record in records if record.expires_us > 0}
    for record in records:
        if record.event == "committed":
            facts.committed[record.smuid].append(record.subscription)
        elif record.event == "dead":
            facts.dead[record.smuid].add(record.subscription)
        elif record.event == "forwarded" and record.guarantee:
            crossings[record.server, record.peer, record.smuid] += 1
        elif record.event in ("received", "depth") and record.guarantee:
            arrivals[record.peer, record.server, record.smuid] += 1
        if record.event in ARRIVALS:
            facts.arrived[record.smuid][record.server] += 1
        if record.final and record.event == "committed" and record.smuid in timed:
            # received before its timeout ended, and finished after: nobody waited for its peers then
            facts.ended_at[record.server, record.smuid]["expired"] += 1
        if record.final:
            facts.ended[record.smuid][record.event] += 1
            facts.ended_at[record.server, record.smuid][record.event] += 1


def to_and_fro(records: list[HopRecord]) -> Iterator[str]:
    """Messages that a site has handed to one peer again and again, in words."""
    most: dict[tuple[str, str, str], int] = {}
    for record in records:
        if record.crossing > CROSSINGS_USUAL_MAX:
            way = record.smuid, record.server, record.peer
            most[way] = max(record.crossing, most.get(way, 0))
    for (smuid, site, peer), crossings in most.items():
        yield f"{smuid} goes to and fro: from {site} to {peer} {crossings} times"


def _judge_copies(ledger: Ledger, site: "SimulatedSite", records: list[HopRecord], facts: Facts) -> None:
    assert site.broker is not None
    held = Counter(entry.smuid(site.name) for entry in site.broker._router._state.entries.values())
    for smuid, count in held.items():
        facts.held[smuid][site.name] = count
    if site.name in facts.incomplete:
        return
    open_copies: Counter[str] = Counter()
    unguaranteed: set[str] = set()
    boot = 0
    kept = 0  # of them those with a guarantee
    for record in records:
        if record.event == "heartbeat" and record.held != kept:
            ledger.violate(
                f"{site.name}: record {record.record} states {record.held} copies, and {kept} are kept"
            )
        if record.boot != boot:
            boot = record.boot
            for smuid in unguaranteed:
                del open_copies[smuid]
            unguaranteed.clear()
        # what was here had ended, and is held again until the peers have it
        widens_what_ended = record.event == "depth" and not open_copies[record.smuid]
        if record.event in ("published", "received") or widens_what_ended:
            open_copies[record.smuid] += 1
            kept += record.guarantee
            if not record.guarantee:
                unguaranteed.add(record.smuid)
        if record.final:
            open_copies[record.smuid] -= 1
            kept -= record.guarantee
            unguaranteed.discard(record.smuid)
            if open_copies[record.smuid] < 0:
                ledger.violate(f"{site.name}: a copy of {record.smuid} ended that had not begun")
    for smuid in open_copies.keys() | held.keys():
        if open_copies[smuid] != held[smuid]:
            ledger.violate(
                f"{site.name}: of {smuid} {open_copies[smuid]} copies have no end, and {held[smuid]} are held"
            )


def _judge_crossings(
    ledger: Ledger,
    facts: Facts,
    crossings: Counter[tuple[str, str, str]],
    arrivals: Counter[tuple[str, str, str]],
) -> None:
    """What has come has been acknowledged, and is in the sender's log unless its copy had ended before."""
    for (sender, receiver, smuid), count in sorted(arrivals.items()):
        ended = facts.ended_at[sender, smuid]
        if facts.incomplete & {sender, receiver} or ended["expired"] or ended["removed"]:
            continue
        if not crossings[sender, receiver, smuid]:
            ledger.violate(f"{receiver} received {smuid} from {sender} {count} times, which does not know")


def shown(error: BaseException) -> str:
    """An exception in one line, with where it came from."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__}: {error} ({where})"
