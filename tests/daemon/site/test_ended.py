"""What a site that has ended leaves behind in its event loop."""

import time
from pathlib import Path

import trio

from daemon.configuration.config import load
from daemon.metrics import LONG_PAUSE_S
from daemon.site.site import serve_site
from daemon.system.systemd import Notifier
from tests.support.installed import checkout_plugins
from tests.support.made_site import made_site
from tests.support.ports import free_port


async def test_a_site_measures_the_turns_of_its_loop_until_it_has_ended(tmp_path: Path) -> None:
    installed = checkout_plugins()
    config = made_site(tmp_path / "site", "alpha.example", free_port()).config
    async with trio.open_nursery() as nursery:
        site = await nursery.start(serve_site, config, load(config, installed), installed, Notifier({}), {})
        before = site.metrics.long_pauses.total()
        await long_turn()
        assert site.metrics.long_pauses.total() > before
        nursery.cancel_scope.cancel()
    before = site.metrics.long_pauses.total()
    await long_turn()
    assert site.metrics.long_pauses.total() == before


async def long_turn() -> None:
    await trio.sleep(0.001)
    time.sleep(1.5 * LONG_PAUSE_S)  # holds the loop up: that is what is measured
    await trio.sleep(0.001)
