"""What is remembered of what peers write is bounded by its size, however often they write something else."""

import contextlib
import tracemalloc
from collections.abc import Callable

import pytest

from routing.link.codec import DESTINATIONS_MAX, UnitReader, UnitRefusal, encode_transfer
from routing.link.units import Transfer

TRANSFERS = 500
KEPT_BYTES_MAX = 5_000_000


def destinations(number: int) -> Transfer:
    return Transfer(
        number=1,
        topic="t",
        wire=b"x",
        destinations=tuple(f"s{number}-{site}.{'x' * 70}" for site in range(DESTINATIONS_MAX)),
    )


def hops(number: int) -> Transfer:
    return Transfer(
        number=1, topic="t", wire=b"x", hops=tuple(f"s{number}-{site}.{'x' * 40}" for site in range(500))
    )


def no_server(number: int) -> Transfer:
    return Transfer(number=1, topic="t", wire=b"x", hops=(f"{number}-{'x' * 20_000}",))


@pytest.mark.parametrize("named", [destinations, hops, no_server])
def test_however_many_sites_a_peer_names_little_is_kept(named: Callable[[int], Transfer]) -> None:
    tracemalloc.start()
    try:
        for number in range(TRANSFERS):
            units = UnitReader(message_bytes_max=1_000)
            units.feed(encode_transfer(named(number), None))
            with contextlib.suppress(UnitRefusal):
                units.take()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < KEPT_BYTES_MAX
