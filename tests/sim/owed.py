"""Receipts that can be told while something is lost: all that are counted can say so by ways that stayed up.

Of a message that began before its site was started last, that site knows only of some whom it was for: its
receipt waits for peers.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from routing.names import parse_smuid
from tests.sim.ledger import Ledger
from tests.sim.scenario import LONG_S, WHEN_QUIET, PlannedPublication

if TYPE_CHECKING:
    from tests.sim.site import SimulatedSite


def owed(
    ledger: Ledger, sites: dict[str, "SimulatedSite"], lost: Collection[str | tuple[str, str]]
) -> Iterator[str]:
    """Those that have not been, in words."""
    scenario = ledger.scenario
    if not scenario.name_destinations.issuperset(scenario.sites) or any(
        link.flood for link in scenario.links
    ):
        return  # whom a message was for is not known
    for key, publication in ledger.publications.items():
        told = ledger.told[key]
        if not publication.guarantee or publication.receipt == "NONE" or told.receipts or not told.accepted:
            continue
        is_cut_short = publication.removed_at is not None or (publication.timeout_s or LONG_S) < LONG_S
        if is_cut_short or publication.at == WHEN_QUIET or len(told.smuids) != 1 or publication.site in lost:
            continue
        broker = sites[publication.site].broker
        (smuid,) = told.smuids
        if broker is None or parse_smuid(smuid).boot != broker.door.boot:
            continue
        if _can_be_told(ledger, publication, scenario.distances(publication.site, without=lost)):
            yield f"{key} ({smuid}) has no receipt, though all who are due have it and can say so"


def _can_be_told(ledger: Ledger, publication: PlannedPublication, distances: dict[str, int]) -> bool:
    """Whether all that a message of mode ALL was due to have it; of mode ONE, the one that took it.

    `distances`: of the sites that can be reached.
    """
    holds = ledger.of_message[publication.key]
    readers = [reader for reader in ledger.scenario.readers if reader.takes(publication)]
    if publication.mode == "ONE":
        return any(
            reader.site in distances and reader.key in holds and holds[reader.key].state == "committed"
            for reader in readers
        )
    counted = [reader for reader in readers if reader.accepts != "ONE"]
    return all(
        publication.reaches(distances.get(reader.site))
        and reader.ends_at is None
        and reader.key in holds
        and holds[reader.key].state == "committed"
        for reader in counted
        if ledger.in_ball(publication, reader)
    )
