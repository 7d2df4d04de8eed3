"""The network in memory, by itself."""

import random

import trio
import trio.testing

from daemon.link.transport import Secured
from tests.sim.network import SimulatedNetwork

SECONDS = 2.0


async def test_a_path_that_loses_much_is_backed_off_until_all_has_come(
    autojump_clock: trio.testing.MockClock,
) -> None:
    network = SimulatedNetwork(random.Random(1))
    network.join("a", "b", delay_s=0.01, jitter_s=0.0, loss=0.0)
    path = network.paths["a", "b"]
    come = b""

    async def read(secured: Secured) -> None:
        nonlocal come
        while not come.endswith(b"again and again, and what waits for it"):
            come += await secured.stream.receive_some()

    async with trio.open_nursery() as nursery:
        network.switch_on("b")
        network.listen("b", read, nursery)
        stream = (await network.connect("a", "b")).stream
        await stream.send_all(b"at once, ")
        assert not list(network.backed_off(SECONDS))

        path.loss = 0.9
        await stream.send_all(b"again and again")
        path.loss = 0.0
        await stream.send_all(b", and what waits for it")
        await trio.sleep(SECONDS)
        assert come == b"at once, "
        assert list(network.backed_off(SECONDS)) == [("a", "b")]
    assert not list(network.backed_off(SECONDS))
