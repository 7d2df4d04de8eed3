"""A site with a peer that behaves, and one that the tests play."""

from collections.abc import AsyncIterator

import pytest
from trio.testing import MockClock

from daemon.link.peers_file import PeerEntry
from tests.support.links import MemoryNetwork, Puppet, TestSite, puppet, site


@pytest.fixture
async def alpha(autojump_clock: MockClock) -> AsyncIterator[TestSite]:
    """A site with two peers, of which the tests play `zeta`, and `good` behaves."""
    network = MemoryNetwork()
    async with (
        site(network, "alpha", [PeerEntry(name="good"), PeerEntry(name="zeta")]) as alpha,
        site(network, "good", [PeerEntry(name="alpha", address="alpha:1")]) as good,
    ):
        await good.linked(alpha)
        alpha.network = network  # type: ignore[attr-defined] # for `zeta`
        yield alpha
        # Whatever was done to alpha, its link with the peer that behaves has never been down.
        assert [line for line in alpha.log if "good" in line] == ["up good restarted"]
        good.send("alpha", "still.there")
        await good.broker.until(lambda: good.broker.settled)


@pytest.fixture
async def zeta(alpha: TestSite) -> AsyncIterator[Puppet]:
    async with puppet(alpha.network, "zeta", "alpha") as player:  # type: ignore[attr-defined] # set above
        await player.greet()
        yield player
