"""What a session is handed: in order, from memory or the disk, and no more than its front end sends."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from daemon import frontend
from daemon.broker.outbox import EVENTS_BYTES, PENDING_BYTES_MAX
from tests.support.broker import virtual_site


@pytest.mark.parametrize(
    ("body", "headers"),
    [(bytes(10_000), {}), (b"", {"others": (("X", "x" * 10_000),)})],
    ids=["body", "headers"],
)
async def test_a_slow_session_is_paused_and_costs_others_nothing(
    tmp_path: Path, mock_clock: MockClock, body: bytes, headers: dict[str, Any]
) -> None:
    count = 3 * PENDING_BYTES_MAX // 10_000
    async with virtual_site(tmp_path) as site:
        slow, quick = site.login("ada"), site.login("bob")
        slow.session.subscribe("news", frontend.SubscribeOptions(credit=10_000))
        await quick.subscribe("news", credit=10_000)
        eva = site.login("eva")
        for _ in range(count):
            await eva.publish("news", body, **headers)
        got = await quick.delivered(count)
        assert len(got) == count
        in_hand = len(slow.session.consumer.locks)
        assert in_hand * 10_000 <= 1.1 * PENDING_BYTES_MAX
        bodies = [each.stored.message.sections[0].body for each in await slow.delivered(count)]
        assert bodies == [body] * count


async def test_of_messages_with_long_headers_few_are_read_from_the_disk_at_a_time(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        smuids = [
            await eva.publish("jobs", delivery="ONE", others=(("X", "x" * EVENTS_BYTES),)) for _ in range(9)
        ]
    async with virtual_site(tmp_path) as site:
        ada = await site.login("ada").subscribe("jobs", credit=1_000)
        for smuid in smuids:
            (got,) = await ada.delivered()
            assert got.stored.message.smuid == smuid


async def test_bodies_that_are_not_in_memory_come_from_the_disk(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        for number in range(300):
            await eva.publish("jobs", b"%d" % number * 500, delivery="ONE")
    async with virtual_site(tmp_path) as site:
        ada = await site.login("ada").subscribe("jobs", credit=1_000)
        got = await ada.delivered(300)
        bodies = [each.stored.message.sections[0].body for each in got]
        assert bodies == [b"%d" % number * 500 for number in range(300)]


async def test_a_session_goes_on_when_all_it_was_to_get_has_ended_meanwhile(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    body = bytes(EVENTS_BYTES)
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        [_, smuid] = [await eva.publish("jobs", body, delivery="ONE") for _ in range(2)]
    async with virtual_site(tmp_path) as site:
        eva, ada = site.login("eva"), await site.login("ada").subscribe("jobs")
        assert len(await ada.delivered()) == 1, "each fills what is handed out at a time"
        request = eva.request()
        eva.session.remove("jobs", smuid, request)
        await eva.answer(request)
        assert [type(event) for event in await ada.session.events()] == [frontend.Withdrawn]


async def test_a_session_that_is_cancelled_while_it_waits_for_events_loses_none(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        await site.login("eva").publish("jobs", b"work", delivery="ONE")
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        ada.session.subscribe("jobs", frontend.SubscribeOptions(), 1)
        await site.login("eva").publish("probe")
        with trio.CancelScope() as scope:
            scope.cancel()
            ada.events += await ada.session.events()
        await ada.answer(1)
        [got] = await ada.delivered()
        assert got.stored.message.sections[0].body == b"work"
