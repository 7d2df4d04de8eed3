"""Looking at what a topic holds while others work on it."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from daemon.broker import browsing
from daemon.broker.committing import GATHER_MAX_S
from daemon.frontend import HeldPage
from daemon.operating.messages import BODIES_BYTES_MAX
from daemon.operations.site import SiteOperations
from daemon.system import stepping
from tests.support.broker import virtual_site
from tests.support.federated import FederatedSite, federated_site
from tests.support.held_at_once import held_at_once
from tests.support.links import MemoryNetwork
from tests.support.patience import PATIENCE_S


@pytest.mark.parametrize("gone", [1, 3], ids=["one", "the whole page"])
async def test_what_ends_while_a_page_is_read_from_the_disk_leaves_no_gap_in_it(
    tmp_path: Path, gone: int
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        smuids = [await ada.publish("work", delivery="ONE") for _ in range(7)]
    pages: list[HeldPage] = []
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
    assert [[held.smuid for held in page.held] for page in pages] == [smuids[gone : gone + 3]]


async def test_what_was_removed_between_two_messages_hides_none(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        first, *between, last = [await ada.publish("work", delivery="ONE") for _ in range(8)]
        for smuid in between:
            request = ada.request()
            ada.session.remove("work", smuid, request)
            await ada.answer(request)
        assert [held.smuid for held in (await ada.session.browse("work", 0, 3)).held] == [first, last]


async def test_what_is_asked_for_by_its_number_is_shown_as_it_is_among_all(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        ada, worker, away = site.login("ada"), site.login("bob"), site.login("bob", "away")
        first = site.broker.door.view.last_id
        await away.subscribe("news", credit=0, accepts="ALL")
        await worker.subscribe("news", credit=3, accepts="ONE")
        for _ in range(5):
            await ada.publish("news", delivery="ONE")
        kept, removed = [await ada.publish("news", delivery="ALL", timeout_s=60.0) for _ in range(2)]
        await ada.publish("news", delivery="ALL")  # only for those who were there
        await ada.publish("else", delivery="ONE")
        with_worker = await worker.delivered(3)
        await worker.received(with_worker[0].number)
        worker.session.give_back([with_worker[1].number], delay_s=60.0)
        request = ada.request()
        ada.session.remove("news", removed, request)
        await ada.answer(request)
        every = ada.session.entries("news")
        assert [held.locked for held in every] == [True, False, True, True, False, False]
        assert every[-1].smuid == kept
        numbers = range(first, site.broker.door.view.last_id + 2)
        assert ada.session.entries_among("news", numbers) == every
        assert ada.session.kept("news") == ada.session.kept_among("news", numbers) == [every[-1].message_id]
        assert ada.session.entries_among("nothing", numbers) == []


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
        assert [held.smuid for held in (await ada.session.browse("work")).held] == early
        assert [held.smuid for held in (await ada.session.browse("work", 0, 1_000)).held] == early
        mock_clock.jump(GATHER_MAX_S)
        late = (await ada.answer(request)).smuid
        assert [held.smuid for held in (await ada.session.browse("work", 0, 1_000)).held] == [*early, late]
        site.broker.commits.gather_max_s = 0.0
        mock_clock.jump(GATHER_MAX_S)
    assert "dropped" not in {record.event for record in site.records()}


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
async def test_a_page_ends_by_bytes_and_one_message_is_on_it_whatever_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, backwards: bool
) -> None:
    monkeypatch.setattr(browsing, "PAGE_BYTES_MAX", 100_000)
    sizes = [40_000, 60_000, 1, 200_000, 300_000, 0, 99_000]
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        for size in reversed(sizes) if backwards else sizes:
            await ada.publish("work", bytes(size), delivery="ONE")
    # started again, nothing is in memory
    async with virtual_site(tmp_path) as site:
        session, pages, after = site.login("ada").session, list[list[int]](), 0
        more = True
        while more:
            held, more = await session.browse("work", after, 3, backwards=backwards)
            pages.append([held.stored.message.size_bytes for held in held])
            after = held[-1].message_id
    assert pages == [[40_000, 60_000], [1], [200_000], [300_000], [0, 99_000]]


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
async def test_a_page_ends_by_headers_that_are_read_and_what_follows_is_on_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, backwards: bool
) -> None:
    monkeypatch.setattr(browsing, "PAGE_BYTES_MAX", 1_000)
    sizes = [600, 600, 2_000, 1, 999, 1]
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        for size in reversed(sizes) if backwards else sizes:
            await ada.publish("work", delivery="ONE", others=(("Note", size * "x"),))
    # started again, nothing is in memory
    async with virtual_site(tmp_path) as site:
        session, pages, after = site.login("ada").session, list[list[int]](), 0
        more = True
        while more:
            held, more = await session.browse("work", after, 10, backwards=backwards)
            pages.append([len(dict(each.stored.message.others)["Note"]) for each in held])
            after = held[-1].message_id
    assert pages == [[600, 600], [2_000], [1, 999], [1]]


async def test_what_ends_meanwhile_leaves_no_page_empty_that_others_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "PAGE_BYTES_MAX", 100)
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        smuids = [await ada.publish("work", bytes(80), delivery="ONE") for _ in range(3)]
    pages: list[HeldPage] = []
    async with virtual_site(tmp_path) as site, trio.open_nursery() as nursery:
        ada = site.login("ada")

        async def browse() -> None:
            pages.append(await ada.session.browse("work", 0, 10))

        with trio.fail_after(PATIENCE_S):
            async with site.broker.reading.lock:  # as if others were reading
                nursery.start_soon(browse)
                await trio.testing.wait_all_tasks_blocked()
                request = ada.request()
                ada.session.remove("work", smuids[0], request)
                await ada.answer(request)
    assert [([held.smuid for held in page.held], page.more) for page in pages] == [([smuids[1]], True)]


async def test_of_what_is_read_a_page_is_held_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, count = 2**16, 300
    monkeypatch.setattr(browsing, "PAGE_BYTES_MAX", 4 * size)
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        requests = [ada.send("work", bytes(size), delivery="ONE") for _ in range(count)]
        for request in requests:
            await ada.answer(request)
    async with virtual_site(tmp_path) as site:
        operations, ada = SiteOperations(site.broker), site.login("ada")
        with held_at_once() as looking:
            assert len(await operations.browse("work", count=count)) == count
            assert len(ada.session.entries("work", 0, count)) == count
        with held_at_once() as paging:
            assert len((await ada.session.browse("work", 0, count)).held) == 4
    # each is there as it was stored, and as it was read from that; the page before is, until the next one is
    assert paging.bytes < 3 * 4 * size
    assert looking.bytes < 8 * 4 * size + BODIES_BYTES_MAX


@asynccontextmanager
async def site_with_copies(directory: Path, count: int) -> AsyncIterator[FederatedSite]:
    """It holds so many for a peer that is not there."""
    rules = {"beta": {"flood": True}}
    async with federated_site(MemoryNetwork(), directory, "alpha", ["beta"], rules=rules) as alpha:
        publisher = await alpha.client("publisher")
        for number in range(count):
            await publisher.publish("weather", str(number), depth=1)
        yield alpha


async def browsed(site: FederatedSite, count: int, at_once: int) -> list[str]:
    found = []
    async with aclosing(site.broker.browse_every("weather", 0, count, at_once)) as pages:
        async for page in pages:
            found += [held.stored.message.sections[0].body.decode() for held in page]
    return found


async def test_others_run_while_what_waits_for_links_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    async def work() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with site_with_copies(tmp_path, 10 * stepping.LOOKED_AT) as site, trio.open_nursery() as nursery:
        monkeypatch.setattr(stepping, "STEP_S", 0.0)
        nursery.start_soon(work)
        assert await browsed(site, 5, 5) == ["0", "1", "2", "3", "4"]
        nursery.cancel_scope.cancel()
    assert turns >= 10


async def test_what_waits_for_links_is_looked_through_once_for_all_pages(tmp_path: Path) -> None:
    async with site_with_copies(tmp_path, 6) as site:
        scattered = browsing.Scattered(site.broker.door.view, "weather")
        with trio.testing.assert_checkpoints():
            first = await scattered.after(0, 3)
        with trio.testing.assert_no_checkpoints():
            second = await scattered.after(first[-1].id, 3)
            assert await scattered.after(second[-1].id, 3) == []
        assert [entry.id for entry in first + second] == sorted(site.broker.door.outlook.copies)


@pytest.mark.parametrize("gone", [0, 7])
async def test_more_than_is_found_at_once_is_browsed_without_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    monkeypatch.setattr(browsing, "FOUND_AT_ONCE", 10)
    async with site_with_copies(tmp_path, 64) as site:
        ada = await site.client("ada")
        pages = site.broker.browse_every("weather", 0, 1_000, 3)
        async with aclosing(pages):
            assert len(await anext(pages)) == 3
            later = sorted(site.broker.door.outlook.copies)[3 : 3 + gone]
            for id in later:
                entry = site.broker.door.view.entry(id)
                assert entry is not None
                ada.session.remove("weather", entry.smuid("alpha"))
            found = [held.message_id async for page in pages for held in page]
        assert found == sorted(site.broker.door.outlook.copies)[3:]
        assert len(found) == 61 - gone
