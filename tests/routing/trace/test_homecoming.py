"""Messages of mode ONE that go to and fro, while answers are late: `why` and the jobs say what is so."""

import random
from collections import defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from routing.fate import judge
from routing.hops import HopRecord
from tests.support.fates import balance_state
from tests.support.found_in_logs import found
from tests.support.hop_logs import ANSWERED, READER, WrittenLogs

SITES = ("a", "b", "c")
WAYS = 200
LEGS_MAX = 7


class Leg(NamedTuple):
    """What is on record at a site, at a time."""

    at: float
    site: str
    event: str
    fields: dict[str, Any]


def way(rng: random.Random) -> tuple[list[Leg], dict[str, str]]:
    """A way from `a`, each leg of which is answered at once or much later, cut off anywhere; and by site what
    became of the copy there, as far as that is on record then.
    """
    legs = [Leg(0.0, "a", "published", {"due": 1, "depth": -1})]
    at, here, hops = 0.0, "a", tuple[str, ...]()
    answered: dict[tuple[str, str], float] = {}
    stays: dict[str, list[Leg]] = defaultdict(list)
    for _ in range(rng.randint(1, LEGS_MAX)):
        # a site sends no copy to a peer that has still to answer for the one before
        peers = [peer for peer in SITES if peer != here and answered.get((here, peer), -1.0) <= at]
        if not peers:
            break
        peer = rng.choice(peers)
        at += 1.0
        hops = (*hops, here)
        crossing = [*pairwise((*hops, peer))].count((here, peer))
        answered[here, peer] = at + rng.choice((0.1, rng.random() * 6))
        left = {"peer": peer, "crossing": crossing, "attempt": 1, "final": True, **ANSWERED}
        stays[here].append(Leg(answered[here, peer], here, "forwarded", left))
        legs += [
            Leg(at, peer, "received", {"peer": here, "attempt": 1, "due": 1, "hops": hops}),
            stays[here][-1],
        ]
        here = peer
    if rng.random() < 0.4:
        stays[here].append(
            Leg(at + 0.5, here, "committed", {"subscription": f"{READER}@{here}", "final": True})
        )
        legs.append(stays[here][-1])
    ends_at = at + 10 if rng.random() < 0.7 else rng.random() * (at + 2)
    told = sorted((leg for leg in legs if leg.at <= ends_at), key=lambda leg: leg.at)
    became = {}
    for site in {leg.site for leg in told}:
        comings = sum(leg.site == site and leg.event in ("published", "received") for leg in told)
        last = stays[site][comings - 1 : comings]
        became[site] = "finished" if last and last[0].at <= ends_at else "held"
    return told, became


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_said_of_a_copy_that_comes_home_is_so_however_late_peers_answer(
    spark: Any, seed: int
) -> None:
    rng, logs, truth = random.Random(seed), WrittenLogs(), dict[tuple[str, str], str]()
    for number in range(WAYS):
        name = f"a/019aa5d72900-1-{number + 1:x}"
        told, became = way(rng)
        truth |= {(site, name): state for site, state in became.items()}
        for leg in told:
            logs.write(leg.site, leg.event, name, mode="ONE", **leg.fields)
    for site in SITES:
        logs.write(site, "heartbeat")
    states = found(spark, logs.records).states
    by_copy: dict[tuple[str, str], list[HopRecord]] = defaultdict(list)
    for record in logs.records:
        if record.smuid:
            by_copy[record.server, record.smuid].append(record)
    fates = {copy: balance_state(judge(records, newest_boot=1)) for copy, records in by_copy.items()}
    assert fates == truth
    assert {copy: states[copy] for copy in truth} == truth
