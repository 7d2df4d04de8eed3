"""What waits for a peer is shown wherever it waits: also on disk, for a link that is down."""

from pathlib import Path

import trio

from daemon.link.unacknowledged import with_unacknowledged
from daemon.operating.federation import LinkStatus
from tests.support.federated import FederatedSite, federated_site
from tests.support.links import MemoryNetwork
from tests.support.patience import PATIENCE_S

FLOODED = {"beta": {"flood": True}}


async def shown(site: FederatedSite) -> LinkStatus:
    copies = site.broker.door.outlook.copies
    [status] = await with_unacknowledged(site.links.status, copies, site.broker.clock.wall_ms())
    return status


async def test_what_waits_for_a_link_that_is_down_is_shown_until_the_peer_has_it(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with federated_site(network, tmp_path, "alpha", ["beta"], rules=FLOODED) as alpha:
        publisher = await alpha.client("publisher")
        for text in ("rain", "snow", "wind"):
            await publisher.publish("weather", text, depth=1)
        await publisher.publish("weather", "for nobody else", depth=0)
        before = await shown(alpha)
        assert (before.state == "up", before.waiting, before.in_flight) == (False, 3, 0)
        assert before.lag_s is not None
        async with federated_site(network, tmp_path, "beta", ["alpha"]):
            await alpha.linked("beta")
            await alpha.idle()
            with trio.fail_after(PATIENCE_S):
                while (after := await shown(alpha)).lag_s is not None:  # controls wait for the peer, too
                    await trio.sleep(0.01)
            assert after.waiting == 0


async def test_what_waits_for_one_peer_is_not_shown_with_another(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with federated_site(network, tmp_path, "alpha", ["beta", "gamma"], rules=FLOODED) as alpha:
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=1)
        copies = alpha.broker.door.outlook.copies
        with trio.fail_after(PATIENCE_S):
            found = await with_unacknowledged(alpha.links.status, copies, alpha.broker.clock.wall_ms())
        assert [(one.peer, one.waiting) for one in found] == [("beta", 1), ("gamma", 0)]


async def test_messages_are_told_from_what_sites_tell_each_other(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with (
        federated_site(network, tmp_path, "alpha", ["beta"], rules=FLOODED) as alpha,
        federated_site(network, tmp_path, "beta", ["alpha"]),
    ):
        await alpha.linked("beta")
        network.silence()
        publisher = await alpha.client("publisher")
        await publisher.subscribe("news")
        await publisher.publish("weather", "rain", depth=1)
        with trio.fail_after(PATIENCE_S):
            while (found := await shown(alpha)).waiting + found.in_flight < 2:
                await trio.sleep(0.01)
        assert found.messages == 1
