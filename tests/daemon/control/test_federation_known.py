"""News of sites between real daemons, and `smqpd federation`, which shows it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio

from daemon.control.federation import known_sites
from routing.peering.copies import PeerRules
from tests.routing.federation.test_destinations import know_all
from tests.support.operator import Operator
from tests.support.patience import PATIENCE_S
from tests.support.real_sites import RealSites, real_sites
from tests.support.sites import RouterFederation

Known = dict[str, tuple[int | None, dict[str, bool]]]
"""By site: hops, and its links, up or down."""


async def shown(site: Operator) -> dict[str, Any]:
    """What it says of each site that it knows."""
    _, out, _ = await site.command("federation", "--json")
    return {one["site"]: one for one in json.loads(out)}


async def known(site: Operator, expected: Known) -> dict[str, Any]:
    """Wait until it shows these sites, with hops and links."""
    with trio.fail_after(PATIENCE_S):
        while True:
            sites = await shown(site)
            found = {
                name: (one["hops"], {link["peer"]: link["up"] for link in one["links"]})
                for name, one in sites.items()
            }
            if found == expected:
                return sites
            await trio.sleep(0.05)


UP: Known = {
    "alpha": (0, {"beta": True}),
    "beta": (1, {"alpha": True, "gamma": True}),
    "gamma": (2, {"beta": True}),
}
CUT: Known = {
    "alpha": (0, {"beta": True}),
    "beta": (1, {"alpha": True, "gamma": False}),
    "gamma": (None, {"beta": True}),
}


async def test_each_site_hears_of_all_others_what_they_say_themselves(tmp_path: Path) -> None:
    async with real_sites(tmp_path, [("alpha", "beta"), ("beta", "gamma")], namespaces=False) as sites:
        alpha = Operator(sites["alpha"].directory)
        told = await known(alpha, UP)
        assert (told["gamma"]["source"], told["alpha"]["source"]) == ("beta", "")
        assert told["gamma"]["age_s"] < PATIENCE_S
        await the_table_and_the_graph_say_it(alpha)

        sites.network.cut("beta", "gamma")
        await known(alpha, CUT)
        code, out, _ = await alpha.command("federation")
        assert (code, "no way" in out, "gamma (down)" in out) == (1, True, True)
        _, out, _ = await alpha.command("federation", "--dot")
        assert '"beta" -- "gamma" [style=dashed];' in out
        sites.network.heal("beta", "gamma")
        before = (await known(alpha, UP))["gamma"]

        await sites["alpha"].kill()
        after = (await known(alpha, UP))["gamma"]
        assert (after["boot"], after["number"]) >= (before["boot"], before["number"])

        await who_is_revoked_is_forgotten(sites, alpha)
        await sites.stop()
    code, _, why = await alpha.command("federation")
    assert (code, why.partition(" in ")[0]) == (3, "no daemon answers")


async def the_table_and_the_graph_say_it(site: Operator) -> None:
    code, out, _ = await site.command("federation")
    assert code == 0
    header, *rows = [line.split() for line in out.splitlines()]
    assert header == ["site", "hops", "heard", "from", "age", "wants", "links"]
    assert [row[:3] for row in rows] == [["alpha", "0", "-"], ["beta", "1", "beta"], ["gamma", "2", "beta"]]
    assert out.splitlines()[2].endswith("alpha, gamma")
    code, out, _ = await site.command("federation", "--dot")
    assert (code, out.splitlines()) == (
        0,
        [
            "graph federation {",
            '  "alpha";',
            '  "beta";',
            '  "gamma";',
            '  "alpha" -- "beta";',
            '  "beta" -- "gamma";',
            "}",
        ],
    )
    assert (await site.command("federation", "--dot", "--json"))[0] == 2


async def who_is_revoked_is_forgotten(sites: RealSites, alpha: Operator) -> None:
    """Alpha has no link with gamma, and trusts its certificate no more than beta does."""
    sites.authority.revoke("gamma", datetime.now(UTC))
    sites["alpha"].trust()
    await sites["alpha"].reload()
    await sites["alpha"].logs("forgot the news of gamma: its certificate is revoked")
    told = await shown(alpha)
    assert (told["gamma"]["age_s"], told["gamma"]["links"]) == (None, [])


def test_a_site_shows_its_own_links_as_others_see_them() -> None:
    sites = RouterFederation({("a", "b")}, rules={("a", "b"): PeerRules(flood=True, depth_max=3)})
    know_all(sites)
    seen = [
        next(
            one.links
            for one in known_sites(name, sites.routers[name].federation.outlook, sites.now)
            if one.site == "a"
        )
        for name in "ab"
    ]
    assert seen[0] == seen[1]
    assert (seen[0][0].flood, seen[0][0].depth_max) == (True, 3)
