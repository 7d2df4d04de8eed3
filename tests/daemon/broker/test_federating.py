"""What the broker releases for peers while links come and go."""

from collections.abc import Sequence

import msgspec
import pytest
import trio
import trio.testing

from daemon.broker import federating
from daemon.broker.bodies import Bodies, Stored
from daemon.broker.federating import URGENT_PRIORITY, Federating
from daemon.link.peers_file import PeerEntry
from daemon.link.port import ControlArrived
from daemon.system.mishaps import Mishaps
from routing.decisions import StoreMessage
from routing.door import Door
from routing.federation.enquiry import Ask, Ping
from routing.link.agreement import Agreement
from routing.link.units import Control, Lane, Transfer
from routing.message import Message, ReceiptMode, Section
from routing.peering.wants import InterestChange
from routing.router import Router
from routing.subscription import Consumer
from tests.support.broker import VirtualClock
from tests.support.sites import SETTINGS

AGREEMENT = Agreement(version=(1, 0), features=(), window_units=100, window_bytes=100_000)

BETA_WANTS = [InterestChange("SERVER", "beta", 0), InterestChange("ALL", "weather", 0)]


class SentUnits:
    """Links that take everything, and remember it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.lanes: list[Lane] = []
        self.denied: list[str] = []
        self.told: list[str] = []

    def has_room(self, peer: str) -> bool:
        return True

    def has_memory(self, peer: str) -> bool:
        return True

    def send(self, peer: str, unit: Transfer | Control, lane: Lane) -> int:
        if isinstance(unit, Transfer):
            self.texts.append(unit.wire.decode().splitlines()[-1])
            self.lanes.append(lane)
        else:
            self.told.append(unit.kind)
        return 0

    def acknowledge(self, peer: str, connection: int, numbers: list[int], outcome: str, reason: str) -> None:
        self.told.append("acknowledgement")
        if outcome == "denied":
            self.denied.append(reason)


class Alpha:
    """A site whose transactions are carried out by hand."""

    def __init__(self) -> None:
        self.bodies = Bodies()
        self.clock = VirtualClock((0.0, 0.0, "", 0.0))
        self.router = Router("alpha", 1, SETTINGS, self.clock.wall_ms)
        self.federating = Federating(
            Door(self.router, self.clock.now, lambda: None, lambda: None),
            self.bodies,
            self.clock,
            lambda: None,
            self.load_some,
            lambda topic, size: True,
            lambda: True,
            Mishaps(),
        )
        self.links = self.federating.links = SentUnits()  # type: ignore[assignment] # no more of them is used
        self.federating.peers_changed({"beta": PeerEntry(name="beta")})
        self.publisher = Consumer(None, "ada", "desk")

    async def load_some(self, ids: Sequence[int], bytes_max: float) -> tuple[dict[int, Stored], int]:
        return {}, len(ids)

    def link_up(self) -> None:
        self.federating.link_up("beta", AGREEMENT, restarted=False)

    def link_down(self) -> None:
        self.federating.link_down("beta", "lost")

    def publish(self, text: str, receipt: ReceiptMode = "NONE", priority: int = 0) -> None:
        body = Section("text/plain", text.encode())
        message = Message(depth=1, receipt=receipt, priority=priority, sections=(body,))
        self.router.publishing.publish(
            self.clock.now(), self.publisher, "weather", message, "ada:desk@alpha", None
        )

    @property
    def question(self) -> int:
        """That for the receipt of what was published."""
        [query] = self.router._state.asked_of
        return query

    def carry_out(self, decisions: Sequence[object]) -> None:
        """They are on disk."""
        for decision in decisions:
            if isinstance(decision, StoreMessage):
                self.bodies.add(decision.entry.id, Stored(message=decision.message))
        for decision in decisions:
            if effect := self.federating.effects.get(type(decision)):
                effect(decision)


async def test_what_was_decided_before_a_link_came_up_goes_over_it_once_and_in_order() -> None:
    alpha = Alpha()
    alpha.link_up()
    alpha.router.federation.wanting.hear("beta", BETA_WANTS, whole=True)
    alpha.carry_out(alpha.router.take())
    alpha.link_down()
    alpha.publish("first")
    alpha.carry_out(alpha.router.take())
    alpha.publish("second")
    on_its_way_to_the_disk = alpha.router.take()
    alpha.link_up()
    alpha.carry_out(on_its_way_to_the_disk)
    alpha.carry_out(alpha.router.take())
    await trio.lowlevel.checkpoint()
    assert alpha.links.texts == ["first", "second"]


async def test_a_message_of_high_priority_goes_in_a_lane_of_its_own() -> None:
    alpha = Alpha()
    alpha.link_up()
    alpha.router.federation.wanting.hear("beta", BETA_WANTS, whole=True)
    alpha.carry_out(alpha.router.take())
    for priority in (0, URGENT_PRIORITY - 1, URGENT_PRIORITY, 9):
        alpha.publish(str(priority), priority=priority)
    alpha.carry_out(alpha.router.take())
    assert alpha.links.lanes == [Lane.BULK, Lane.BULK, Lane.URGENT, Lane.URGENT]


async def test_a_link_that_was_lost_and_found_meanwhile_begins_anew() -> None:
    alpha = Alpha()
    alpha.link_up()
    alpha.router.federation.wanting.hear("beta", BETA_WANTS, whole=True)
    alpha.publish("first")
    on_its_way_to_the_disk = alpha.router.take()
    alpha.link_down()
    alpha.link_up()
    alpha.carry_out(on_its_way_to_the_disk)
    alpha.carry_out(alpha.router.take())
    await trio.lowlevel.checkpoint()
    assert alpha.links.texts == ["first"]


async def test_a_question_that_comes_with_the_link_is_answered_once_the_link_has_begun() -> None:
    alpha = Alpha()
    alpha.link_up()
    question = msgspec.json.encode(Ask("beta/1-1", Ping("alpha"), ("beta",), 5.0))
    control = Control(kind="ask", payload=question, number=1)
    alpha.federating.control_arrived(ControlArrived(peer="beta", connection=1, control=control))
    alpha.federating.carried_out()  # what was decided before the link came up
    assert alpha.links.told == []
    alpha.carry_out(alpha.router.take())
    alpha.federating.carried_out()
    assert alpha.links.told == ["interest", "acknowledgement", "answer"]


async def test_who_claims_the_name_of_this_site_elsewhere_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alpha = Alpha()
    for number, payload in enumerate([b'{"remote":"192.0.2.9:4711"}', b'{"remote":"x\\nroot: all is well"}']):
        control = Control(kind="claimed", payload=payload, number=number)
        alpha.federating.control_arrived(ControlArrived(peer="beta", connection=1, control=control))
    assert "refused 192.0.2.9:4711 at beta: it claims the name of this site, alpha" in caplog.text
    assert "\nroot" not in caplog.text


@pytest.mark.parametrize(
    ("kind", "payload", "reason"),
    [
        ("receipt", b'{"query":1,"due":7,"have":99,"closed":true}', "receipt: 99/7 is no count"),
        ("receipt", b'{"query":1,"due":1e9,"have":"x","closed":true}', "receipt: Expected `int`"),
        ("interest", b'{"changes":[{"kind":"ALL","name":"a b","distance":0}]}', "interest: 1 wants are"),
        ("interest", b'{"changes":[{"kind":"NO\\nBODY","name":"a","distance":0}]}', "interest: Invalid enum"),
        (
            "interest",
            b'{"changes":[{"kind":"%s","name":"a","distance":0}]}' % (b"x" * 99_999),
            "interest: Invalid",
        ),
        (
            "interest",
            b'{"changes":[],"more":true,"whole":"%s"}' % (b"x" * 99_999),
            "interest: Expected `bool`",
        ),
        ("removed", b'{"smuid":"%s","topic":"t"}' % (b"x" * 99_999), "removed: Smuid: 'xxx"),
        ("removed", b'{"smuid":"beta/1","topic":"t"}', "removed: Smuid: 'beta/1' is not a message id"),
    ],
)
async def test_a_peer_that_says_nonsense_is_told_what_this_site_logs(
    caplog: pytest.LogCaptureFixture, kind: str, payload: bytes, reason: str
) -> None:
    alpha = Alpha()
    alpha.link_up()
    alpha.router.federation.wanting.hear("beta", BETA_WANTS, whole=True)
    alpha.publish("m", receipt="ALL")
    control = Control(
        kind=kind, payload=payload.replace(b'"query":1', b'"query":%d' % alpha.question), number=1
    )
    alpha.federating.control_arrived(ControlArrived(peer="beta", connection=1, control=control))
    alpha.carry_out(alpha.router.take())
    [told] = alpha.links.denied
    assert told.startswith(reason)
    assert told.isprintable()
    assert len(told) < 500
    assert f"refused what beta told ({told}): it makes no sense" in caplog.text


class FailingReads(Alpha):
    """Cannot read what waits on disk."""

    async def load_some(self, ids: Sequence[int], bytes_max: float) -> tuple[dict[int, Stored], int]:
        raise TypeError("a read that is broken")


async def test_what_waits_and_meets_an_error_ends_the_link_and_goes_over_the_next(
    nursery: trio.Nursery,
) -> None:
    alpha = FailingReads()
    ended: list[str] = []
    alpha.links.end = lambda peer, reason: ended.append(peer)  # type: ignore[attr-defined] # no other test needs it
    nursery.start_soon(alpha.federating.run)
    alpha.link_up()
    alpha.router.federation.wanting.hear("beta", BETA_WANTS, whole=True)
    alpha.carry_out(alpha.router.take())
    alpha.publish("first")
    decided = alpha.router.take()
    alpha.carry_out([each for each in decided if not isinstance(each, StoreMessage)])
    await trio.testing.wait_all_tasks_blocked()
    assert ended == ["beta"]
    alpha.carry_out([each for each in decided if isinstance(each, StoreMessage)])
    alpha.link_down()
    alpha.link_up()
    alpha.carry_out(alpha.router.take())
    assert alpha.links.texts == ["first"]


class ManyHeaders(Alpha):
    """Holds messages that are headers alone, on disk, until its link has room for 64 KB of them."""

    def __init__(self) -> None:
        super().__init__()
        self.on_disk: dict[int, Stored] = {}
        self.sent_bytes = self.room_bytes = 0
        self.links.has_room = lambda peer: self.sent_bytes < self.room_bytes  # type: ignore[method-assign]
        self.links.send = self.send  # type: ignore[method-assign]

    def publish_headers(self, byte_count: int) -> None:
        body = Section("text/plain", b"", (("More", "x" * byte_count),))
        message = Message(depth=1, sections=(body,))
        self.router.publishing.publish(
            self.clock.now(), self.publisher, "weather", message, "ada@alpha", None
        )

    def carry_out(self, decisions: Sequence[object]) -> None:
        for decision in decisions:
            if isinstance(decision, StoreMessage):
                self.on_disk[decision.entry.id] = Stored(message=decision.message)
        super().carry_out([each for each in decisions if not isinstance(each, StoreMessage)])

    async def load_some(self, ids: Sequence[int], bytes_max: float) -> tuple[dict[int, Stored], int]:
        found: dict[int, Stored] = {}
        for id in ids:
            if sum(len(each.wire) for each in found.values()) >= bytes_max:
                break
            found[id] = self.on_disk[id]
        return found, len(found)

    def send(self, peer: str, unit: Transfer | Control, lane: Lane) -> int:
        if isinstance(unit, Transfer):
            self.sent_bytes += len(unit.wire)
        return 0


async def test_no_more_is_read_for_a_link_than_it_has_room_for_and_a_little(nursery: trio.Nursery) -> None:
    """However much of it is headers, which no size of a message tells."""
    alpha = ManyHeaders()
    nursery.start_soon(alpha.federating.run)
    alpha.link_up()
    alpha.router.federation.wanting.hear("beta", BETA_WANTS, whole=True)
    for _ in range(50):
        alpha.publish_headers(60_000)
    alpha.carry_out(alpha.router.take())
    alpha.room_bytes = 64_000
    alpha.federating.room("beta")
    await trio.testing.wait_all_tasks_blocked()
    assert alpha.room_bytes < alpha.sent_bytes < alpha.room_bytes + federating.LOAD_BYTES + 100_000
    alpha.room_bytes = 10_000_000
    alpha.federating.room("beta")
    await trio.testing.wait_all_tasks_blocked()
    assert alpha.sent_bytes > 50 * 60_000


async def test_every_lane_that_waits_for_the_broker_goes_on_once_it_is_through(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(federating, "BACKLOG_MAX", 3)
    alpha = Alpha()
    for number in range(3):
        alpha.publish(f"message {number}")
    assert alpha.router.view.untaken >= federating.BACKLOG_MAX
    with trio.fail_after(20):
        async with trio.open_nursery() as lanes:
            for _ in range(3):
                lanes.start_soon(alpha.federating.input_room)
            await trio.testing.wait_all_tasks_blocked()
            alpha.carry_out(alpha.router.take())
            alpha.federating.carried_out()
