"""Looking at what a topic holds while others work on it."""

from pathlib import Path

import pytest
import trio
import trio.testing

from daemon.broker.committing import GATHER_MAX_S
from daemon.frontend import HeldMessage
from tests.support.broker import virtual_site
from tests.support.patience import PATIENCE_S


@pytest.mark.parametrize("gone", [1, 3], ids=["one", "the whole page"])
async def test_what_ends_while_a_page_is_read_from_the_disk_leaves_no_gap_in_it(
    tmp_path: Path, gone: int
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        smuids = [await ada.publish("work", delivery="ONE") for _ in range(7)]
    pages: list[list[HeldMessage]] = []
    # started again, nothing is in memory
    async with virtual_site(tmp_path) as site, trio.open_nursery() as nursery:
        ada = site.login("ada")

        async def browse() -> None:
            pages.append(await ada.session.browse("work", 0, 3))

        with trio.fail_after(PATIENCE_S):
            async with site.broker.reading.lock:  # as if others were reading
                nursery.start_soon(browse)
                await trio.testing.wait_all_tasks_blocked()
                for smuid in smuids[:gone]:
                    request = ada.request()
                    ada.session.remove("work", smuid, request)
                    await ada.answer(request)
    assert [[held.smuid for held in page] for page in pages] == [smuids[gone : gone + 3]]


async def test_what_has_just_been_published_is_not_lost_to_who_looks_before_it_is_stored(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        site.broker.commits.gather_max_s = GATHER_MAX_S
        requests = [ada.send("work", delivery="ONE") for _ in range(100)]
        early = [(await ada.answer(request)).smuid for request in requests]
        # after so many the next transaction waits, and the clock stands
        request = ada.send("work", delivery="ONE")
        assert [held.smuid for held in await ada.session.browse("work")] == early
        assert [held.smuid for held in await ada.session.browse("work", 0, 1_000)] == early
        mock_clock.jump(GATHER_MAX_S)
        late = (await ada.answer(request)).smuid
        assert [held.smuid for held in await ada.session.browse("work", 0, 1_000)] == [*early, late]
        site.broker.commits.gather_max_s = 0.0
        mock_clock.jump(GATHER_MAX_S)
    assert "dropped" not in {record.event for record in site.records()}
