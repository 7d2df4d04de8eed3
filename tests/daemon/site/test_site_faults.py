"""Four real sites, and what may happen to them: nothing accepted is lost, nothing comes twice.

Each test ends with the account of all copies from the hop logs, see `tests.support.trial`. Longer trials:
`python -m tests.faults`.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio

from tests.support.clocks import FAKETIME, WallClock
from tests.support.operator import Operator
from tests.support.patience import PATIENCE_S
from tests.support.real_sites import real_sites
from tests.support.required import may_skip
from tests.support.trial import trial, way_for

pytestmark = pytest.mark.kill


async def test_a_partition_loses_nothing(tmp_path: Path) -> None:
    async with trial(tmp_path) as running:
        sites = running.sites
        await running.more(20)  # and of these some are on their way
        sites.network.cut("gamma", "delta")
        await sites["gamma"].linked("delta", up=False)
        sites.network.cut("alpha", "beta")
        await sites["alpha"].linked("beta", up=False)
        sites.network.heal("gamma", "delta")
        sites.network.heal("alpha", "beta")
        await sites.linked()
    assert running.judge() == []


async def test_sites_that_are_killed_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    async with trial(tmp_path) as running:
        for name in ("gamma", "alpha", "delta", "gamma"):
            await running.more(10)
            await running.sites[name].kill()
        await running.sites.linked()
    assert running.judge() == []


async def test_a_certificate_that_expires_ends_its_links_until_it_is_renewed(tmp_path: Path) -> None:
    async with trial(tmp_path, probe_timeout_s=PATIENCE_S) as running:
        alpha, gamma, delta = (running.sites[name] for name in ("alpha", "gamma", "delta"))
        for valid_s in (6.0, 30.0, 120.0):  # a start takes as long as it takes
            delta.issue(valid_s=valid_s)
            await delta.kill()
            with trio.move_on_after(valid_s):
                await gamma.linked("delta")
                break
        await gamma.linked("delta", up=False)
        await gamma.logs("refused delta", "the certificate of delta expired on")
        await delta.logs("the certificate of delta expired on")
        await alpha.linked("beta", "gamma")
        delta.issue()
        await delta.reload()
        await running.sites.linked()
        assert "link with alpha is down" not in gamma.log
    assert running.judge() == []


async def test_a_revoked_site_is_cut_off_at_once_until_it_has_a_new_certificate(
    tmp_path: Path,
) -> None:
    async with trial(tmp_path, probe_timeout_s=PATIENCE_S) as running:
        gamma, delta = running.sites["gamma"], running.sites["delta"]
        running.sites.authority.revoke("delta", datetime.now(UTC))
        gamma.trust()
        await gamma.reload()
        await gamma.linked("delta", up=False)
        await gamma.logs("the certificate of delta is revoked")
        await delta.logs("is revoked")
        delta.issue()
        await delta.reload()
        await running.sites.linked()
        assert "link with alpha is down" not in gamma.log
    assert running.judge() == []


@pytest.mark.skipif(may_skip("faketime", FAKETIME.exists()), reason="libfaketime is not installed")
async def test_clocks_that_jump_by_an_hour_change_nothing(tmp_path: Path) -> None:
    clocks = {name: WallClock(tmp_path / f"{name}.clock") for name in ("alpha", "gamma")}
    environment = {name: clock.environment for name, clock in clocks.items()}
    async with trial(tmp_path, environment=environment) as running:
        for ahead_s in (3600, -3600):
            await running.more(10)
            clocks["gamma"].set(ahead_s)
            clocks["alpha"].set(-ahead_s)
        await running.sites["gamma"].kill()
        await running.sites.linked()
    assert running.judge() == []
    hours = {line[:13] for line in running.sites["gamma"].log.splitlines()}
    assert len(hours) > 1


async def test_commands_show_links_and_routes(tmp_path: Path) -> None:
    async with real_sites(tmp_path, [("alpha", "beta")], namespaces=False) as sites:
        async with sites["beta"].client("reader") as client:
            await client.subscribe("weather")
            await way_for(sites["alpha"], "weather", "ALL", {"beta": 1})
        alpha = Operator(sites["alpha"].directory)
        [status] = await alpha.asked("peers")
        assert (status["peer"], status["state"]) == ("beta", "up")
        [to_all] = [one for one in await alpha.asked("routes", "weather") if one["kind"] == "ALL"]
        assert (to_all["peer"], to_all["distance"], to_all["why"]) == ("beta", 1, "")
        nowhere = await alpha.asked("routes", "nowhere")
        assert nowhere[0]["distance"] is None
