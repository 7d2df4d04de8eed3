"""`smqpd peer` at a running site, and its stop: what the other site is told. Two real daemons."""

import json
from pathlib import Path

import trio

from tests.support.operator import Operator
from tests.support.patience import PATIENCE_S
from tests.support.real_sites import real_sites


async def test_a_peer_that_is_removed_is_told_and_one_that_is_added_again_is_linked(tmp_path: Path) -> None:
    async with real_sites(tmp_path, [("alpha", "beta")], namespaces=False) as sites:
        alpha, beta = (Operator(sites[name].directory) for name in ("alpha", "beta"))

        assert (await alpha.command("peer", "remove", "beta"))[0] == 0
        await says(
            beta, "it says: beta is no longer a peer of alpha", "says: refused: beta is not a peer of alpha"
        )
        assert await alpha.asked("peers") == []

        address = sites.network.address("alpha", "beta")
        assert (await alpha.command("peer", "add", "beta", address))[0] == 0
        await sites.linked()

        assert await sites["alpha"].stop() == 0
        await sites["beta"].logs("link with alpha is down: draining")
        assert await sites["beta"].stop() == 0


async def says(operator: Operator, *reasons: str) -> None:
    """Wait until one of these is why the site's one link is down."""
    with trio.fail_after(PATIENCE_S):
        while True:
            _, down, _ = await operator.command("peers", "--only-down", "--json")  # 1 while one is down
            if any(reason in link["why_down"] for link in json.loads(down) for reason in reasons):
                return
            await trio.sleep(0.05)
