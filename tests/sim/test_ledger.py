"""The judge itself: what of mode ONE may come to another, and when; and what it knows without a log."""

import msgspec
import pytest

from routing.hops import HopRecord
from tests.sim.balance import CROSSINGS_USUAL_MAX, Facts, to_and_fro
from tests.sim.drawing import draw
from tests.sim.ledger import Ledger
from tests.sim.promises import judge, note_lost_deaths
from tests.sim.scenario import PlannedReader

SCENARIO = draw(1151)
MESSAGE = next(one for one in SCENARIO.publications if one.mode == "ONE" and one.depth == -1)
FIRST, SECOND = (
    PlannedReader(
        MESSAGE.site, channel, MESSAGE.topic, "BOTH", 1, 1.0, 0.0, None, 0.0, 0.0, acknowledges_all=False
    )
    for channel in ("a", "b")
)

SMUID = f"{MESSAGE.site}/01a1ee569747-1-1"


def _deliver(ledger: Ledger, reader: PlannedReader, *, received: bool = False, session: int = 1) -> None:
    ledger.delivered(reader, MESSAGE.key, SMUID, session, received=received, acknowledge=True)


@pytest.fixture
def ledger() -> Ledger:
    """`FIRST` has received a message of mode ONE."""
    ledger = Ledger(SCENARIO, lambda: 0.0)
    _deliver(ledger, FIRST)
    ledger.hold_is(FIRST, MESSAGE.key, ledger.holds[FIRST.key, MESSAGE.key], "received")
    return ledger


def test_what_is_received_may_come_to_nobody_else(ledger: Ledger) -> None:
    _deliver(ledger, SECOND)
    assert ledger.violations == [
        f"{MESSAGE.key} of mode ONE came to {SECOND.key}; {FIRST.key} has received it"
    ]


def test_it_may_once_its_owner_has_said_unsubscribe_and_before_that_is_answered(ledger: Ledger) -> None:
    ledger.unsubscribing(FIRST, 1)
    _deliver(ledger, SECOND)
    assert ledger.violations == []


def test_it_may_be_on_its_way_to_who_has_said_unsubscribe_and_no_further(ledger: Ledger) -> None:
    ledger.unsubscribing(SECOND, 1)
    _deliver(ledger, SECOND)
    assert ledger.violations == []
    _deliver(ledger, SECOND, session=2)
    assert len(ledger.violations) == 1


def test_it_may_not_if_the_unsubscribe_was_lost_and_it_came_to_its_owner_again(ledger: Ledger) -> None:
    ledger.unsubscribing(FIRST, 1)
    _deliver(ledger, FIRST, received=True)
    _deliver(ledger, SECOND)
    assert len(ledger.violations) == 1


@pytest.mark.parametrize(
    ("deliveries", "log_is_whole", "is_dead"),
    [
        (SCENARIO.max_deliveries, False, True),
        (SCENARIO.max_deliveries - 1, False, False),
        (SCENARIO.max_deliveries, True, False),
    ],
)
def test_only_where_a_log_has_lost_something_the_last_return_tells_that_a_message_is_dead(
    deliveries: int, log_is_whole: bool, is_dead: bool
) -> None:
    reader = next(one for one in SCENARIO.readers if one.topic == MESSAGE.topic)
    incomplete = set() if log_is_whole else {reader.site}
    facts = Facts(incomplete=incomplete)
    ledger = Ledger(SCENARIO, lambda: 0.0)
    for _ in range(deliveries):
        _deliver(ledger, reader)
        ledger.hold_is(reader, MESSAGE.key, ledger.holds[reader.key, MESSAGE.key], "returned")
    note_lost_deaths(ledger, facts, MESSAGE, "x")
    assert bool(facts.dead["x"]) == is_dead


@pytest.mark.parametrize("is_removed", [False, True])
def test_what_is_removed_on_its_way_may_be_nowhere(is_removed: bool) -> None:
    """Who knows that it is removed does not take it: each site only says that it has handed it on."""
    ledger, facts = Ledger(SCENARIO, lambda: 0.0), Facts()
    message = next(one for one in SCENARIO.publications if one.mode == "ONE" and one.guarantee)
    told = ledger.told[message.key]
    told.accepted, told.removed = True, is_removed
    told.smuids.add(SMUID)
    facts.ended[SMUID]["forwarded"] = 2
    judge(ledger, {}, facts)
    missed = f"{message.key} ({SMUID}) of mode ONE is nowhere: {{'forwarded': 2}}"
    assert (missed in ledger.violations) != is_removed


def test_what_goes_over_one_link_again_and_again_goes_to_and_fro() -> None:
    def handed(smuid: str, peer: str, times: int) -> list[HopRecord]:
        hop = HopRecord(
            version=2, server="a", boot=1, record=1, time_us=1, event="forwarded", smuid=smuid, peer=peer
        )
        return [msgspec.structs.replace(hop, crossing=crossing) for crossing in range(1, times + 1)]

    seldom = (
        handed("a/1", "b", CROSSINGS_USUAL_MAX)
        + handed("a/1", "c", CROSSINGS_USUAL_MAX)
        + handed("a/2", "b", 3)
    )
    assert list(to_and_fro(seldom)) == []
    often = handed("a/3", "b", CROSSINGS_USUAL_MAX + 1)
    told = f"a/3 goes to and fro: from a to b {CROSSINGS_USUAL_MAX + 1} times"
    assert list(to_and_fro(seldom + often)) == [told]
