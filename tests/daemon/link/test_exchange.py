"""What an exchange tells the broker while it writes."""

from daemon.link.exchange import Exchange
from routing.link.units import Lane, Transfer
from tests.support.links import RecordingBroker


async def test_room_that_an_unguaranteed_copy_leaves_once_it_is_written_is_told_of() -> None:
    broker = RecordingBroker()
    exchange = Exchange("beta", window_units=1, window_bytes=1_000, port=broker, wall_us=lambda: 0)
    exchange.put(Transfer(topic="joystick", wire=b"\r\n", guarantee=False), Lane.BULK)
    assert not exchange.sender.has_room
    exchange.fill(Lane.BULK, 1_000)
    assert broker.log == ["room beta"]
