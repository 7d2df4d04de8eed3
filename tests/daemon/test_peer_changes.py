"""`smqpd peer` at a running site, and its stop: what the other site is told. Two real daemons."""

import signal
from pathlib import Path

import trio

from tests.support.linked_sites import Site, linked, make_sites
from tests.support.process import PATIENCE_S, daemon

RUN = trio.to_thread.run_sync


async def test_a_peer_that_is_removed_is_told_and_one_that_is_added_again_is_linked(tmp_path: Path) -> None:
    alpha, beta = make_sites(tmp_path, "alpha", "beta")
    alpha.link(beta)
    with trio.fail_after(PATIENCE_S):
        async with daemon(alpha.config) as a, daemon(beta.config) as b:
            await linked(b, "alpha")

            assert (await RUN(alpha.command, "peer", "remove", "beta"))[0] == 0
            await says_of(
                beta, "alpha", "it is no longer a peer of this site", "it is not a peer of this site"
            )
            assert await RUN(alpha.asked, "peers") == []

            added = await RUN(alpha.command, "peer", "add", "beta", f"127.0.0.1:{beta.link_port}")
            assert added[0] == 0
            await up(beta)

            a.signal(signal.SIGTERM)
            assert await a.exit_code() == 0
            await says_of(beta, "alpha", "draining", "cannot be dialled")
    assert "link with alpha is down: draining" in b.log


async def says_of(site: Site, peer: str, *reasons: str) -> None:
    """Wait until the site says of a peer that the link is down, for one of these reasons."""
    while True:
        [link] = await RUN(site.asked, "peers", "--only-down") or [{"why_down": ""}]
        if any(reason in link["why_down"] for reason in reasons):
            assert link["peer"] == peer
            return
        await trio.sleep(0.05)


async def up(site: Site) -> None:
    """Wait until the link is up."""
    while [link["state"] for link in await RUN(site.asked, "peers")] != ["up"]:
        await trio.sleep(0.05)
