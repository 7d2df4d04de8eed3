"""A sender and a receiver back to back: what arrives, what is acknowledged, what a lost connection leaves."""

import pytest

from routing.link import sender
from routing.link.codec import UnitReader, UnitRefusal
from routing.link.receiver import LinkReceiver
from routing.link.sender import CONTROL_ANSWER_S, LinkSender, Settled
from routing.link.units import Acknowledge, Control, Lane, Transfer, Unit

SECOND_US = 1_000_000


class Ends:
    """One direction of a link, with a wire that the test may cut."""

    def __init__(self, window_units: int = 100, window_bytes: int = 1_000_000) -> None:
        self.now = 0.0
        self.sender = LinkSender(1_000, 10_000_000)
        self.receiver = LinkReceiver(window_units, window_bytes)
        self.window = (window_units, window_bytes)
        self.boot = 1
        self.connect()

    def connect(self) -> None:
        self.sender.connected(*self.window)
        self.receiver.connected("site", self.boot, self.receiver.connection + 1)

    def reconnect(self) -> list[Transfer]:
        dropped = self.sender.disconnected()
        self.connect()
        return dropped

    @property
    def now_us(self) -> int:
        return int(self.now * SECOND_US)

    def put(
        self, topic: str, lane: Lane = Lane.BULK, left: float | None = None, wire: bytes = b"\r\n"
    ) -> int:
        return self.sender.put(Transfer(topic=topic, wire=wire, timeout_left_s=left), lane, self.now)

    def put_unguaranteed(self, topic: str) -> int:
        return self.sender.put(Transfer(topic=topic, wire=b"\r\n", guarantee=False), Lane.BULK, self.now)

    def put_control(self, kind: str) -> int:
        return self.sender.put(Control(kind=kind, payload=b""), Lane.CONTROL, self.now)

    def written(self, *lanes: Lane) -> list[Transfer | Control]:
        """What the sender writes now, read back."""
        units: list[Transfer | Control] = []
        for lane in lanes or tuple(Lane):
            reader = UnitReader(10_000_000)
            reader.feed(self.sender.take(lane, 100_000_000, self.now, self.now_us))
            while (unit := reader.take()) is not None:
                assert isinstance(unit, Transfer | Control)
                units.append(unit)
        return units

    def pass_on(self) -> list[str]:
        """Everything written arrives; the topics and kinds that the router is handed."""
        units = self.written()
        for unit in units:
            self.receiver.arrived(unit, self.now_us)
        return [name(unit) for unit in units]

    def answer(self, *numbers: int) -> None:
        self.receiver.answer(self.receiver.connection, numbers, "accepted")

    def take_answers(self) -> list[Settled]:
        settled: list[Settled] = []
        for ack in self.receiver.take_answers(self.now_us):
            settled += self.sender.acknowledged(ack, self.now_us)
        return settled


def name(unit: Unit) -> str:
    return unit.topic if isinstance(unit, Transfer) else unit.kind  # type: ignore[union-attr] # the two kinds


def settled_names(settled: list[Settled]) -> list[str]:
    return [name(one.unit) for one in settled]


def test_a_copy_is_kept_until_it_is_acknowledged() -> None:
    ends = Ends()
    number = ends.put("weather")
    assert ends.pass_on() == ["weather"]
    assert (ends.sender.waiting, ends.sender.in_flight) == (0, 1)
    ends.answer(number)
    assert settled_names(ends.take_answers()) == ["weather"]
    assert (ends.sender.waiting, ends.sender.in_flight) == (0, 0)


def test_controls_that_are_answered_in_time_are_never_overdue_however_long_they_waited() -> None:
    ends = Ends(window_units=2)
    for kind in "abcdefgh":
        ends.put_control(kind)
    for _ in range(4):
        first, second = ends.written()
        for unit in (first, second):
            ends.receiver.arrived(unit, ends.now_us)
        ends.now += CONTROL_ANSWER_S
        assert ends.sender.overdue(ends.now) == ""
        ends.answer(first.number, second.number)
        ends.take_answers()
    ends.now += 1_000.0
    assert ends.sender.overdue(ends.now) == ""
    ends.put("weather")
    ends.written()
    ends.now += 1_000.0
    assert ends.sender.overdue(ends.now) == ""  # a copy is answered once there is room for it
    ends.put_control("i")
    ends.written()
    ends.now += CONTROL_ANSWER_S + 1.0
    assert ends.sender.overdue(ends.now) == "no answer to a control within 600 s"
    ends.reconnect()
    assert ends.sender.overdue(ends.now) == ""


def test_controls_that_wait_count_until_they_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "CONTROL_BYTES_MAX", 1_000)
    ends = Ends()
    for _ in range(100):
        for _ in range(5):
            ends.put_control("interest")
        assert ends.sender.overdue(ends.now) == ""
        written = ends.written()
        for unit in written:
            ends.receiver.arrived(unit, 0)
        ends.answer(*(unit.number for unit in written))
        ends.take_answers()
    for _ in range(6):
        ends.put_control("interest")
    assert ends.sender.overdue(ends.now) == "more than 1000 bytes of controls wait for it"


def test_an_acknowledgement_carries_four_stamps() -> None:
    ends = Ends()
    ends.now = 1.0
    number = ends.put("weather")
    ends.written()
    ends.receiver.arrived(Transfer(topic="weather", wire=b"", number=number), 5_000)
    ends.answer(number)
    [ack] = ends.receiver.take_answers(7_000)
    [settled] = ends.sender.acknowledged(ack, 1_010_000)
    assert (settled.sent_us, settled.peer_received_us, settled.peer_sent_us, settled.acknowledged_us) == (
        1_000_000,
        5_000,
        7_000,
        1_010_000,
    )


def test_what_a_lost_connection_leaves_is_forgotten_and_its_numbers_are_not_given_again() -> None:
    ends = Ends(window_units=1)
    ends.put("first")
    ends.put("second")
    ends.put_control("interest")
    assert ends.pass_on() == ["interest", "first"]
    ends.reconnect()
    assert ends.written() == []
    assert (ends.sender.waiting, ends.sender.in_flight) == (0, 0)
    assert (ends.receiver.in_hand, ends.sender.oldest_put_at()) == (0, None)
    assert ends.put("third") == 4
    assert ends.pass_on() == ["third"]


def test_a_queue_that_was_full_has_room_again_after_a_lost_connection() -> None:
    sender = LinkSender(queue_units_max=1, queue_bytes_max=1_000)
    sender.put(Transfer(topic="a", wire=b"x" * 1_000), Lane.BULK, 0.0)
    sender.take(Lane.BULK, 1, 0.0, 0)
    sender.put(Transfer(topic="b", wire=b"x" * 1_000), Lane.BULK, 0.0)
    assert not sender.has_room
    assert not sender.has_memory
    sender.disconnected()
    assert sender.has_room
    assert sender.has_memory


def test_the_attempt_that_is_written_is_the_one_that_the_router_counts() -> None:
    ends = Ends()
    ends.sender.put(Transfer(topic="weather", wire=b"\r\n", attempt=4), Lane.BULK, 0.0)
    [written] = ends.written()
    assert isinstance(written, Transfer)
    assert written.attempt == 4


def test_an_answer_that_is_lost_with_the_connection_is_not_sent_on_the_next_one() -> None:
    ends = Ends()
    number = ends.put("weather")
    ends.pass_on()
    ends.answer(number)
    ends.reconnect()
    assert not ends.receiver.has_answers
    assert ends.take_answers() == []


def test_an_answer_that_comes_after_the_connection_was_lost_is_not_sent_on_the_next_one() -> None:
    ends = Ends()
    number = ends.put("weather")
    ends.pass_on()
    connection = ends.receiver.connection
    ends.sender.disconnected()
    ends.answer(number)
    ends.connect()
    ends.receiver.answer(connection, [number], "accepted")
    assert ends.take_answers() == []


@pytest.mark.parametrize(
    "unit", [Transfer(topic="weather", wire=b"", number=1), Control(kind="interest", payload=b"", number=1)]
)
def test_a_number_that_a_peer_says_again_after_a_lost_connection_is_another_unit(
    unit: Transfer | Control,
) -> None:
    receiver = LinkReceiver(units_max=10, bytes_max=10_000)
    receiver.connected("site", 1, 1)
    receiver.arrived(unit, 5)
    earlier = receiver.connection
    assert not receiver.connected("site", 1, 2)
    receiver.arrived(unit, 8)
    receiver.answer(earlier, [1], "accepted")
    assert receiver.take_answers(9) == []
    receiver.answer(receiver.connection, [1], "duplicate")
    [ack] = receiver.take_answers(9)
    assert (ack.outcome, ack.ranges, ack.received_us) == ("duplicate", ((1, 1),), 8)


def test_a_number_that_comes_again_before_it_is_acknowledged_is_refused() -> None:
    receiver = LinkReceiver(units_max=10, bytes_max=10_000)
    receiver.connected("site", 1, 1)
    receiver.arrived(Transfer(topic="weather", wire=b"", number=1), 5)
    with pytest.raises(UnitRefusal, match="the number 1 comes again before it is acknowledged"):
        receiver.arrived(Transfer(topic="weather", wire=b"", number=1), 6)
    assert receiver.in_hand == 1


def test_a_restarted_peer_numbers_anew_and_old_answers_do_not_reach_its_copies() -> None:
    ends = Ends()
    number = ends.put("weather")
    ends.pass_on()
    old_connection = ends.receiver.connection
    restarted = LinkSender(1_000, 10_000_000)
    ends.sender, ends.boot = restarted, 2
    ends.connect()
    assert ends.put("news") == number
    assert ends.pass_on() == ["news"]
    ends.receiver.answer(old_connection, [number], "accepted")
    assert ends.take_answers() == []
    ends.answer(number)
    assert settled_names(ends.take_answers()) == ["news"]


def test_the_time_left_is_counted_down_while_a_copy_waits_and_never_below_nothing() -> None:
    ends = Ends()
    ends.put("weather", left=10.0)
    ends.now = 4.0
    [first] = ends.written()
    assert isinstance(first, Transfer)
    assert first.timeout_left_s == 6.0
    ends.put("weather", left=10.0)
    ends.now = 30.0
    [second] = ends.written()
    assert isinstance(second, Transfer)
    assert second.timeout_left_s == 0.0


def test_the_window_holds_back_transfers_but_not_controls() -> None:
    ends = Ends(window_units=2)
    for topic in ("a", "b", "c"):
        ends.put(topic)
    ends.put_control("interest")
    assert ends.pass_on() == ["interest", "a", "b"]
    assert ends.pass_on() == []
    ends.answer(1)
    ends.take_answers()
    assert ends.pass_on() == ["c"]


def test_the_window_in_bytes_lets_one_large_message_go_alone() -> None:
    ends = Ends(window_bytes=1_000)
    ends.put("large", wire=b"\r\n" + b"x" * 5_000)
    ends.put("small")
    assert ends.pass_on() == ["large"]
    ends.answer(1)
    ends.take_answers()
    assert ends.pass_on() == ["small"]


def test_a_full_queue_says_so_and_a_settled_copy_makes_room() -> None:
    sender = LinkSender(queue_units_max=2, queue_bytes_max=10_000_000)
    sender.put(Transfer(topic="a", wire=b""), Lane.BULK, 0.0)
    assert sender.has_room
    sender.put(Transfer(topic="b", wire=b""), Lane.BULK, 0.0)
    assert not sender.has_room
    sender.take(Lane.BULK, 1_000, 0.0, 0)
    sender.acknowledged(Acknowledge(outcome="accepted", ranges=((1, 1),), received_us=0, sent_us=0), 0)
    assert sender.has_room


def test_unguaranteed_copies_are_bounded_by_their_bytes_alone() -> None:
    sender = LinkSender(queue_units_max=2, queue_bytes_max=5_000)
    for _ in range(4):
        assert sender.has_memory
        sender.put(Transfer(topic="a", wire=b"x" * 1_000, guarantee=False), Lane.BULK, 0.0)
    assert not sender.has_room
    assert sender.has_memory
    sender.put(Transfer(topic="a", wire=b"x" * 1_000, guarantee=False), Lane.BULK, 0.0)
    assert not sender.has_memory
    sender.take(Lane.BULK, 1_000, 0.0, 0)
    assert sender.has_memory


def test_unguaranteed_copies_have_no_number_and_a_lost_connection_drops_those_that_wait() -> None:
    ends = Ends()
    assert ends.put_unguaranteed("joystick") == 0
    assert ends.pass_on() == ["joystick"]
    assert ends.sender.in_flight == 0
    ends.put_unguaranteed("mouse")
    assert [one.topic for one in ends.reconnect()] == ["mouse"]
    assert ends.pass_on() == []


def test_acknowledgements_are_ranges_by_outcome_and_moment() -> None:
    ends = Ends()
    for topic in "abcde":
        ends.put(topic)
    ends.pass_on()
    ends.receiver.answer(1, [1, 2, 5], "accepted")
    ends.receiver.answer(1, [3], "duplicate")
    ends.receiver.answer(1, [4], "denied", "no right")
    answers = ends.receiver.take_answers(9)
    assert [(ack.outcome, ack.ranges, ack.reason) for ack in answers] == [
        ("accepted", ((1, 2), (5, 5)), ""),
        ("duplicate", ((3, 3),), ""),
        ("denied", ((4, 4),), "no right"),
    ]
    assert not ends.receiver.has_answers


def test_a_wide_range_costs_no_more_than_what_is_in_flight_and_a_number_never_sent_is_refused() -> None:
    ends = Ends()
    ends.put("a")
    ends.written()
    wide = Acknowledge(outcome="accepted", ranges=((1, 2**62),), received_us=0, sent_us=0)
    with pytest.raises(UnitRefusal, match="was never sent"):
        ends.sender.acknowledged(wide, 0)
    ends.sender._next_number = 2**62 + 1
    assert settled_names(ends.sender.acknowledged(wide, 0)) == ["a"]


def test_a_peer_that_overruns_the_window_is_refused() -> None:
    receiver = LinkReceiver(units_max=2, bytes_max=10_000)
    receiver.connected("site", 1, 1)
    for number in range(1, 5):
        receiver.arrived(Transfer(topic="a", wire=b"", number=number), 1)
    with pytest.raises(UnitRefusal, match="more units than the window allows"):
        receiver.arrived(Transfer(topic="a", wire=b"", number=5), 1)


def test_what_is_in_hand_from_a_lost_connection_takes_nothing_of_the_window() -> None:
    receiver = LinkReceiver(units_max=1, bytes_max=10_000)
    for connection, first in ((1, 1), (2, 3), (3, 5)):
        receiver.connected("site", 1, connection)
        for number in (first, first + 1):
            receiver.arrived(Transfer(topic="a", wire=b"", number=number), 1)
    with pytest.raises(UnitRefusal, match="more units than the window allows"):
        receiver.arrived(Transfer(topic="a", wire=b"", number=7), 1)
    receiver.answer(1, [1, 2], "accepted")
    receiver.answer(3, [5], "accepted")
    receiver.arrived(Transfer(topic="a", wire=b"", number=7), 1)
    with pytest.raises(UnitRefusal, match="more units than the window allows"):
        receiver.arrived(Transfer(topic="a", wire=b"", number=8), 1)


def test_a_copy_that_could_not_be_read_is_denied_with_the_reason() -> None:
    ends = Ends()
    number = ends.put("weather")
    ends.written()
    ends.receiver.refused(number, "TRANSFER: Hops", 5)
    [settled] = ends.take_answers()
    assert (settled.outcome, settled.reason) == ("denied", "TRANSFER: Hops")
