"""Judges the end of a run, when all is healed and quiet, by what the routing contract promises."""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from routing.message import MODES
from routing.patterns import is_pattern
from routing.peering.leaves import BUCKETS, read_bucket
from tests.sim.balance import Facts
from tests.sim.ledger import Ledger, PublicationFate
from tests.sim.resting import Resting
from tests.sim.scenario import LONG_S, TOPICS, WHEN_QUIET, PlannedPublication, PlannedReader
from tests.sim.site import ACCOUNT
from tests.support.wishes import takes

if TYPE_CHECKING:
    from routing.federation.outlook import Outlook
    from tests.sim.site import SimulatedSite


def judge(ledger: Ledger, sites: dict[str, "SimulatedSite"], facts: Facts) -> None:
    """Add to the ledger's violations."""
    for key, publication in ledger.publications.items():
        told = ledger.told[key]
        if not publication.guarantee or not told.accepted or len(told.smuids) != 1:
            continue
        (smuid,) = told.smuids
        note_lost_deaths(ledger, facts, publication, smuid)
        if publication.mode == "ALL":
            _judge_all(ledger, facts, publication, smuid)
        else:
            _judge_one(ledger, facts, publication, smuid)
        _judge_receipt(ledger, facts, publication, told, smuid)
        _judge_last(ledger, facts, publication, told, smuid)
        _judge_state(ledger, facts, publication, told, smuid)
    _judge_commits(ledger, facts)
    for reply, came in ledger.replies.items():
        if not came:
            ledger.violate(f"the reply {reply} never came")
    for text in overdue(ledger, sites, ()):
        ledger.violate(text)
    for site in sites.values():
        _judge_store(ledger, site)
        _judge_news(ledger, site, sites)


def due_by_ways(ledger: Ledger, lost: Collection[str | tuple[str, str]]) -> list[tuple[str, PlannedReader]]:
    """Messages that a way within their depth, without what is lost, can bring to whom they are due."""
    out = []
    for key, publication in ledger.publications.items():
        is_promised = publication.guarantee and ledger.told[key].accepted and publication.mode == "ALL"
        if not is_promised or publication.site in lost:
            continue
        distances = ledger.scenario.distances(publication.site, without=lost)
        for reader in ledger.scenario.readers:
            is_due = reader.takes(publication) and _is_due(publication, reader)
            if is_due and publication.reaches(distances.get(reader.site)):
                out.append((key, reader))
    return out


def overdue(
    ledger: Ledger, sites: dict[str, "SimulatedSite"], lost: Collection[str | tuple[str, str]]
) -> Iterator[str]:
    """What of one owner waits at a site, and has a way without what is lost; in words."""
    routers = {name: site.broker._router for name, site in sites.items() if site.broker is not None}
    return Resting(ledger, lost).overdue(routers)


def note_lost_deaths(ledger: Ledger, facts: Facts, publication: PlannedPublication, smuid: str) -> None:
    """Where a log has lost something: the return that gives a message up is known by its number."""
    for reader in ledger.scenario.readers:
        hold = ledger.holds.get((reader.key, publication.key))
        if hold is None or reader.site not in facts.incomplete:
            continue
        if hold.state == "returned" and hold.deliveries >= ledger.scenario.max_deliveries:
            facts.dead[smuid].add(_owner(reader))


def _is_due(publication: PlannedPublication, reader: PlannedReader) -> bool:
    """Whether a message is due to a subscription, whatever went wrong on the way."""
    if publication.removed_at is not None or reader.accepts == "ONE" or reader.ends_at is not None:
        return False
    if publication.timeout_s is None:
        return reader.begins_at == 0.0 or publication.at == WHEN_QUIET
    return publication.timeout_s >= LONG_S


def _judge_all(ledger: Ledger, facts: Facts, publication: PlannedPublication, smuid: str) -> None:
    for reader in ledger.scenario.readers:
        if not reader.takes(publication) or not ledger.in_ball(publication, reader):
            continue
        if not _is_due(publication, reader) or _owner(reader) in facts.dead[smuid]:
            continue
        hold = ledger.holds.get((reader.key, publication.key))
        if hold is None:
            ledger.violate(f"{publication.key} ({smuid}) never came to {reader.key}")
        elif hold.state not in ("committed", "committing"):
            ledger.violate(
                f"{publication.key} ({smuid}) is {hold.state} at {reader.key}, and does not come again"
            )


def _judge_one(ledger: Ledger, facts: Facts, publication: PlannedPublication, smuid: str) -> None:
    committed, held = facts.committed[smuid], facts.held[smuid].total()
    if held > 1:
        ledger.violate(f"{publication.key} ({smuid}) of mode ONE has custodians {dict(facts.held[smuid])}")
    if committed and held:
        ledger.violate(f"{publication.key} ({smuid}) is committed, and held by {dict(facts.held[smuid])}")
    if facts.incomplete:
        return
    ends = facts.ended[smuid]
    # one that was on its way when it was removed ends as its next site, which knows of that, does not take it
    is_over = ledger.told[publication.key].removed or any(
        ends[event] for event in ("expired", "removed", "dead")
    )
    if not committed and not held and not is_over:
        ledger.violate(f"{publication.key} ({smuid}) of mode ONE is nowhere: {dict(ends)}")


def _judge_receipt(
    ledger: Ledger, facts: Facts, publication: PlannedPublication, told: PublicationFate, smuid: str
) -> None:
    if publication.receipt == "NONE":
        if told.receipts:
            ledger.violate(f"{publication.key} has a receipt that nobody asked for")
        return
    if not told.receipts:
        if publication.mode == "ALL" or (facts.committed[smuid] and publication.site not in facts.incomplete):
            ledger.violate(f"{publication.key} ({smuid}) has no receipt {publication.receipt}")
        return
    have, due = map(int, told.receipts[0].split("/"))
    who = f"{publication.key} ({smuid}) has the receipt {have}/{due}"
    taken = [hold for hold in ledger.of_message[publication.key].values() if hold.had]
    if have > due or have > len(taken):
        ledger.violate(f"{who}, and {len(taken)} have it")
    if publication.mode == "ONE":
        ended_here = publication.timeout_s is not None or publication.removed_at is not None
        if facts.committed[smuid] and have != 1 and not ended_here:
            ledger.violate(f"{who}, and is committed")
        return
    in_ball = [
        reader
        for reader in ledger.scenario.readers
        if reader.takes(publication) and reader.accepts != "ONE" and ledger.in_ball(publication, reader)
    ]
    least = sum(_is_due(publication, reader) and reader.begins_at == 0.0 for reader in in_ball)
    if due > len(in_ball):
        ledger.violate(f"{who}, and only {len(in_ball)} are within its depth")
    if publication.receipt == "ALL" and not facts.dead[smuid] and publication.removed_at is None:
        if due < least:
            ledger.violate(f"{who}, and was due to {least}")
        gave_up = any(reader.ends_at is not None for reader in in_ball)
        lasted = publication.timeout_s is None or publication.timeout_s >= LONG_S
        if have < due and lasted and not gave_up:
            ledger.violate(f"{who}, though all who were to have it do")


def _judge_last(
    ledger: Ledger, facts: Facts, publication: PlannedPublication, told: PublicationFate, smuid: str
) -> None:
    """While nothing fails a copy goes shortest ways, to each site once, and all of it is counted."""
    if publication.at != WHEN_QUIET:
        return
    scenario, who = ledger.scenario, f"{publication.key} ({smuid})"
    due = [
        reader
        for reader in scenario.readers
        if reader.takes(publication) and ledger.in_ball(publication, reader) and _is_due(publication, reader)
    ]
    if told.receipts != [f"{len(due)}/{len(due)}"]:
        ledger.violate(f"{who} has the receipts {told.receipts}, and was due to {len(due)}, who have it")
    names_all = scenario.name_destinations.issuperset(scenario.sites)
    if not names_all or any(link.flood for link in scenario.links):
        return
    begun = scenario.distances(publication.site)
    on_ways = {
        site
        for reader in due
        for site, left in scenario.distances(reader.site).items()
        if begun[site] + left == begun[reader.site]
    }
    for site, count in facts.arrived[smuid].items():
        if count > 1:
            ledger.violate(f"{who} was sent to {site} {count} times, though nothing failed")
        if site not in on_ways:
            ledger.violate(f"{who} was sent to {site}, which is on no shortest way to anybody who wants it")


def _judge_state(
    ledger: Ledger, facts: Facts, publication: PlannedPublication, told: PublicationFate, smuid: str
) -> None:
    held = facts.held[smuid]
    if told.removed and held:
        ledger.violate(f"{publication.key} ({smuid}) is removed, and held by {dict(held)}")
    if publication.timeout_s != math.inf or publication.removed_at is not None or publication.mode == "ONE":
        return
    for reader in ledger.scenario.readers:
        interested = reader.takes(publication) and reader.accepts != "ONE" and reader.ends_at is None
        if interested and ledger.in_ball(publication, reader) and not held[reader.site]:
            ledger.violate(f"{publication.key} ({smuid}) is a state that {reader.site} does not hold")


def _judge_commits(ledger: Ledger, facts: Facts) -> None:
    modes = {
        smuid: ledger.publications[key].mode for key, told in ledger.told.items() for smuid in told.smuids
    }
    again = {_owner(reader) for reader in ledger.scenario.readers if reader.ends_at is not None}
    for smuid, committed in facts.committed.items():
        twice = {owner for owner in committed if committed.count(owner) > 1} - again
        if twice:
            ledger.violate(f"{smuid} was committed more than once by {', '.join(sorted(twice))}")
        if modes.get(smuid) == "ONE" and len(committed) > 1:
            ledger.violate(f"{smuid} of mode ONE was committed by {', '.join(committed)}")


def _judge_store(ledger: Ledger, site: "SimulatedSite") -> None:
    """What the store would restore is what the site holds."""
    assert site.broker is not None
    assert site.store is not None
    held = {entry.id for entry in site.broker._router._state.entries.values() if entry.flags & 2}
    stored = {id for (id,) in site.store._reader.execute("SELECT id FROM message")}
    if held != stored:
        ledger.violate(
            f"{site.name} holds {len(held - stored)} that are not stored, stores {len(stored - held)}"
        )


def _judge_news(ledger: Ledger, site: "SimulatedSite", sites: dict[str, "SimulatedSite"]) -> None:
    """It has the latest of every site, on disk, too; and each says of itself what is so."""
    assert site.broker is not None
    assert site.store is not None
    outlook = site.broker.door.outlook
    if outlook.news.keys() != sites.keys():
        ledger.violate(f"{site.name} has news of {sorted(outlook.news)}")
        return
    if not says_its_links(outlook, site.name):
        ledger.violate(f"{site.name} does not say which links it has")
    for name, news in outlook.news.items():
        said = sites[name].broker
        assert said is not None
        if news.signed != said.door.outlook.news[name].signed:
            ledger.violate(f"{site.name} has {news.statement} of {name}, which has said something else")
    stored = dict(site.store._reader.execute("SELECT site, statement FROM news"))
    if stored != {name: news.signed.statement for name, news in outlook.news.items()}:
        ledger.violate(f"{site.name} has other news in its store than it knows")
    _judge_wants(ledger, site, sites)


def says_its_links(outlook: "Outlook", name: str) -> bool:
    """Whether the news that a site has said last of itself tells which of its links are up."""
    said = outlook.news.get(name)
    up = {peer: known.up for peer, known in outlook.peers.items()}
    return said is not None and {link.peer: link.up for link in said.statement.links} == up


def _judge_wants(ledger: Ledger, site: "SimulatedSite", sites: dict[str, "SimulatedSite"]) -> None:
    """It knows what every other site wants, and who is attached, no more and no less, on disk, too."""
    assert site.broker is not None
    assert site.store is not None
    outlook = site.broker.door.outlook
    wants = outlook.known_wants
    known: dict[tuple[str, int], bytes] = {}
    wanted = {name: _wanted_by(other) for name, other in sites.items()}
    for name, own in wanted.items():
        if name == site.name:
            continue
        buckets = {index: wants.bucket(name, index) for index in range(BUCKETS)}
        known |= {(name, index): data for index, data in buckets.items() if data}
        leaves = [leaf for data in buckets.values() if data for leaf in read_bucket(data).leaves]
        said = {(mode, leaf.name) for leaf in leaves for mode in MODES if leaf.kind in (mode, "BOTH")}
        if said != own:
            ledger.violate(f"{site.name} knows of {name} that it wants {said}, which wants {own}")
    topics = {topic for own in wanted.values() for _, topic in own if not is_pattern(topic)}
    for mode, topic in itertools.product(MODES, sorted(topics.union(TOPICS))):
        found, wanting = set(wants.wanting(mode, topic)), _wanting(wanted, mode, topic) - {site.name}
        if unsure := wants.unsure(topic):
            ledger.violate(f"{site.name} does not know whether {unsure} want {topic}")
        if found != wanting:
            ledger.violate(f"{site.name} finds {found} to want {topic} of mode {mode}, and not {wanting}")
    for topic in sorted(topics.union(TOPICS)):
        found = set(wants.attached(topic))
        attached = {
            name
            for name in _wanting(wanted, "ONE", topic) - {site.name}
            if name not in ledger.scenario.tell_attached or _is_attended(sites[name], topic)
        }
        if found != attached:
            ledger.violate(f"{site.name} finds {found} to be attached to {topic}, and not {attached}")
    stored = site.store._reader.execute("SELECT site, bucket, leaves FROM wants")
    if {(name, index): leaves for name, index, leaves in stored} != known:
        ledger.violate(f"{site.name} has other wants of sites in its store than it knows")


def _is_attended(site: "SimulatedSite", topic: str) -> bool:
    assert site.broker is not None
    return site.broker._router.view.is_attended(topic)


def _wanted_by(site: "SimulatedSite") -> set[tuple[str, str]]:
    """The modes and topics, or patterns, that a site wants."""
    assert site.broker is not None
    interest = site.broker._router.federation.interest
    return {(mode, each) for mode, each in interest.own if mode != "SERVER"}


def _wanting(wanted: Mapping[str, Collection[tuple[str, str]]], mode: str, topic: str) -> set[str]:
    return {
        name for name, own in wanted.items() if any(each == mode and takes(what, topic) for each, what in own)
    }


def _owner(reader: PlannedReader) -> str:
    return f"{ACCOUNT}:{reader.channel}@{reader.site}"
