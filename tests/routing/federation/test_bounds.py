"""What copies from peers, and the memory of them, may take at a site."""

import msgspec
import pytest

from routing import receipts
from routing.decisions import Record
from routing.federation import forwarding
from routing.message import Message
from routing.names import make_smuid
from routing.options import SubscribeOptions
from routing.peering.copies import Arrival, PeerRules, Seen
from routing.peering.decisions import DiscardAnswer, StoreInterest
from routing.peering.wants import DISTANCE_MAX, InterestChange
from routing.router import Router
from routing.subscription import Consumer
from tests.support.interest import alone
from tests.support.sites import SETTINGS, RouterFederation


def smuid(number: int) -> str:
    return make_smuid("b", 1_700_000_000_000, 1, number)


def test_unknown_headers_of_copies_count_in_the_memory_of_unguaranteed_messages() -> None:
    settings = msgspec.structs.replace(SETTINGS, unguaranteed_bytes_max=100_000)
    router = Router("a", 1, settings, lambda: 1_700_000_000_000)
    router.federation.set_peer("b", PeerRules())
    router.subscribing.subscribe(0.0, Consumer(None, "x", "c"), "t", SubscribeOptions(credit=0), None)
    for number in (1, 2, 3):
        message = Message(guarantee=False, smuid=smuid(number), others=(("Padding", "x" * 60_000),))
        arrival = Arrival(
            peer="b",
            unit=None,
            topic="t",
            message=message,
            mode="ALL",
            depth=0,
            hops=("b",),
            timeout_left_s=None,
            query=0,
        )
        router.federation.arriving.arrive(0.0, arrival)
    assert [entry.smuid("a") for entry in router._state.entries.values()] == [smuid(3)]
    dropped = [one for one in router.take() if isinstance(one, Record) and one.event == "dropped"]
    assert [one.entry.smuid("a") for one in dropped] == [smuid(1), smuid(2)]


def test_what_is_recalled_from_disk_takes_no_more_memory_than_what_has_just_come() -> None:
    on_disk = Seen(1, 0, 1, 1e9)
    router = Router("a", 1, SETTINGS, lambda: 1_700_000_000_000, lambda smuid: on_disk)
    known = router.federation.forwarding
    for number in range(forwarding.SEEN_MAX + 10):
        assert known.known(str(number)) is on_disk
    assert len(known.seen) == forwarding.SEEN_MAX


def test_receipts_that_are_told_leave_nothing_behind() -> None:
    federation = RouterFederation({("a", "b")})
    federation.subscribe("b")
    federation.settle()
    for number in range(5_000):
        federation.publish("a", str(number), depth=1, receipt="ALL")
        federation.settle()
        federation.commit("b", str(number))
        federation.settle()
    receipts = federation.routers["a"].receipts
    assert not receipts._pending
    assert len(receipts._ends) < 2_000


def wants(*names: str, distance: int | None = 0) -> list[InterestChange]:
    return [InterestChange("ALL", name, distance) for name in names]


def test_a_peer_that_wants_too_much_is_heard_as_far_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("routing.federation.interest.WANTS_MAX", 2)
    interest, _ = alone("a")
    interest.hear("c", wants("x", "y", "z"))  # what another peer wants takes none of it

    def told(changes: list[InterestChange], *, whole: bool = False) -> set[str]:
        interest.hear("b", interest.admitted("b", changes, whole=whole), whole=whole)
        return {name for name in "tuvwxyz" if "b" in interest.heard.get(("ALL", name), {})}

    assert told(wants("x", "y", "z")) == {"x", "y"}
    assert told(wants("x", distance=3)) == {"x", "y"}
    assert told(wants("x", distance=None)) == {"y"}
    assert told(wants("v", "w")) == {"y", "v"}
    assert told(wants("t", "u", "v"), whole=True) == {"t", "u"}


def test_a_distance_that_no_site_has_is_not_heard_nor_stored() -> None:
    router = Router("a", 1, SETTINGS, lambda: 1_700_000_000_000)
    router.federation.set_peer("b", PeerRules())
    assert router.federation.wanting.hear("b", wants("known", distance=3), whole=True) == 0
    for distance in (-1, -(2**63), DISTANCE_MAX, 2**63):
        changes = wants("known", *(f"new.{number}" for number in range(10)), distance=distance)
        assert router.federation.wanting.hear("b", changes, whole=False) == len(changes)
    _, *stored = [one.changes for one in router.take() if isinstance(one, StoreInterest)]
    assert stored == [[]] * 4
    assert router.federation.interest.heard[("ALL", "known")] == {"b": 3}


def test_of_answers_that_a_peer_does_not_take_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "ANSWERS_MAX", 3)
    router = Router("a", 1, SETTINGS, lambda: 1_700_000_000_000)
    for query in range(1, 6):
        router.receipts.answer("b", query, 0, 0)
    router.receipts.answer("c", 1, 0, 0)
    kept = {peer: list(answers) for peer, answers in router.receipts.answers.items()}
    assert kept == {"b": [3, 4, 5], "c": [1]}
    assert [one.query for one in router.take() if isinstance(one, DiscardAnswer)] == [1, 2]


def test_what_no_topic_or_server_can_be_called_is_not_heard_nor_stored() -> None:
    router = Router("a", 1, SETTINGS, lambda: 1_700_000_000_000)
    router.federation.set_peer("b", PeerRules())
    nothing = [*wants("", "a b", "x" * 256), InterestChange("SERVER", "B b", 0)]
    good = [*wants("weather"), InterestChange("SERVER", "b", 0)]
    assert router.federation.wanting.hear("b", [*nothing, *good], whole=True) == len(nothing)
    [stored] = [one for one in router.take() if isinstance(one, StoreInterest)]
    assert stored.changes == good
