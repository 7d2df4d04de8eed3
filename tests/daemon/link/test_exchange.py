"""What an exchange tells the broker while it writes."""

import pytest

from daemon.link.exchange import NOT_IN_FLIGHT_MAX, Exchange
from routing.link.agreement import agree
from routing.link.codec import UnitRefusal
from routing.link.units import Acknowledge, Hello, Lane, Transfer
from tests.support.links import RecordingBroker, copy


async def test_room_that_an_unguaranteed_copy_leaves_once_it_is_written_is_told_of() -> None:
    broker = RecordingBroker()
    exchange = Exchange("beta", window_units=1, window_bytes=1_000, port=broker, wall_us=lambda: 0)
    exchange.put(Transfer(topic="joystick", wire=b"\r\n", guarantee=False), Lane.BULK)
    assert not exchange.sender.has_room
    exchange.fill(Lane.BULK, 1_000)
    assert broker.log == ["room beta"]


async def test_an_acknowledgement_that_names_what_is_long_answered_is_no_work() -> None:
    broker, count = RecordingBroker(), NOT_IN_FLIGHT_MAX + 2
    exchange = Exchange("beta", window_units=1, window_bytes=1_000, port=broker, wall_us=lambda: 0)
    alpha = Hello(server="alpha", boot=1)
    beta = Hello(server="beta", boot=1, window_units=count, window_bytes=10**9)
    exchange.connected(beta, agree(alpha, beta), 1, lambda: None)
    for _ in range(count):
        exchange.put(Transfer(topic="weather", wire=b"\r\n"), Lane.BULK)
    exchange.fill(Lane.BULK, 10**9)

    def acknowledge(first: int, last: int) -> None:
        ranges = ((first, last),)
        exchange.take(Acknowledge(outcome="accepted", ranges=ranges, received_us=1, sent_us=2))

    acknowledge(1, count - 1)
    acknowledge(1, count - 1)  # of which none is in flight: it is passed over
    acknowledge(count, count)
    assert len(broker.settled) == count
    with pytest.raises(UnitRefusal, match="ACK: names 10002 numbers, where 0 are not acknowledged"):
        acknowledge(1, count)


async def test_what_has_been_answered_is_owed_no_other_answer() -> None:
    broker = RecordingBroker()
    broker.answers = False
    exchange = Exchange("beta", window_units=4, window_bytes=1_000, port=broker, wall_us=lambda: 0)
    beta = Hello(server="beta", boot=1)
    exchange.connected(beta, agree(Hello(server="alpha", boot=1), beta), 1, lambda: None)
    for number in (1, 2):
        exchange.take(copy("beta", "weather", number=number))
    exchange.answer(1, [1], "accepted", "")
    exchange.answer(1, [1], "accepted", "")
    assert exchange.receiver.answers_waiting == 1
    assert exchange.answers()
    exchange.answer(1, [1], "accepted", "")
    assert (exchange.receiver.answers_waiting, exchange.answers()) == (0, b"")
