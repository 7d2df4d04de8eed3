"""Bodies that have not come whole: what cannot be taken is not held, and the connection goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from daemon.frontend import Limits
from tests.support.site import BrokerSite, running_site
from tests.support.smqp_peer import connected, frame, publish

MEGABYTE = 1_000_000


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    limits = Limits(message_bytes_max=MEGABYTE, unfinished_bytes_max=4 * MEGABYTE)
    async with running_site(tmp_path, limits) as site:
        yield site


def begun(topic: str, cmuid: str, *headers: str) -> tuple[bytes, bytes]:
    """All of a PUBLISH but its last byte, and that."""
    whole = publish(topic, cmuid, *headers, body=b"x" * (MEGABYTE - 1) + b"!")
    return whole[:-1], whole[-1:]


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


async def test_a_body_counts_whole_as_soon_as_its_length_is_known_and_no_more_once_it_has_come(
    site: BrokerSite,
) -> None:
    async with connected(site) as peer:
        begin, end = begun("t", "c1")
        await peer.send(begin[:5_000])
        await settle()
        assert MEGABYTE <= site.broker.unfinished.bytes < MEGABYTE + 1_000
        await peer.send(begin[5_000:], end)
        assert (await peer.line())[0] == "OK PUBLISH"
        await settle()
        assert site.broker.unfinished.bytes == 0


@pytest.mark.parametrize("topic", ["forbidden", "nobody:x@smqp.example", "no/topic"])
async def test_the_body_of_what_is_forbidden_is_passed_over(site: BrokerSite, topic: str) -> None:
    async with connected(site, "eve") as peer:
        begin, end = begun(topic, "c1")
        await peer.send(begin)
        await settle()
        assert site.broker.unfinished.bytes == 0
        await peer.send(end, publish("eve.t", "c2"))
        start, attributes = await peer.line()
        assert start == "ERROR bad-topic" if "/" in topic else "ERROR forbidden"
        assert attributes["Cmuid"] == "c1"
        assert (await peer.line())[0] == "OK PUBLISH"


NO_SECTION = (b"Content-Type: text/plain", b"Content-Type: none")


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize(
    ("topic", "header", "change"),
    [
        ("forbidden", "x: y", (b"", b"")),
        ("no/topic", "x: y", (b"", b"")),
        ("eve.t", "Priority: high", (b"", b"")),
        ("eve.t", "no line", (b"", b"")),
        ("eve.t", "x: y", NO_SECTION),
    ],
)
async def test_an_unguaranteed_one_is_passed_over_without_an_answer_however_it_is_cut(
    site: BrokerSite, topic: str, header: str, change: tuple[bytes, bytes], is_cut: bool
) -> None:
    whole = publish(topic, "c1", "Guarantee: NO", header).replace(*change)
    pieces = whole.partition(b"Content-Length") if is_cut else (whole,)
    async with connected(site, "eve") as peer:
        for piece in pieces:
            await peer.send(piece)
            await settle()
        await peer.send(frame("PING"))
        assert (await peer.line())[0] == "PONG"


async def test_a_command_that_has_no_body_is_refused_before_it_comes(site: BrokerSite) -> None:
    async with connected(site) as peer:
        head = frame("PING", "Sections: 1")
        section = frame("Content-Type: text/plain", f"Content-Length: {MEGABYTE}")
        await peer.send(head + section, b"x" * (MEGABYTE - 1))
        await settle()
        assert site.broker.unfinished.bytes == 0
        await peer.send(b"x", frame("PING"))
        assert (await peer.line())[0] == "ERROR bad-frame"
        assert (await peer.line())[0] == "PONG"


async def test_who_has_too_much_unfinished_is_refused_and_others_are_not(
    site: BrokerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.connections.unfinished.WAIT_S", 0)
    async with connected(site) as one, connected(site) as two, connected(site) as three:
        unfinished = []
        for peer in (one, two):
            begin, end = begun("t", "c")
            await peer.send(begin)
            unfinished.append((peer, end))
            await settle()
        assert site.broker.unfinished.bytes <= 2 * MEGABYTE
        await three.send(*begun("t", "c1"))
        start, attributes = await three.line()
        assert (start, attributes["Cmuid"]) == ("ERROR too-many", "c1")
        await three.send(publish("t", "c2"))
        assert (await three.line())[0] == "OK PUBLISH"
        await one.send(unfinished[0][1])
        assert (await one.line())[0] == "OK PUBLISH"
        await three.send(*begun("t", "c3"))
        assert (await three.line())[0] == "OK PUBLISH"


async def test_what_is_refused_is_passed_over_where_there_is_no_room_for_its_head_either(
    site: BrokerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.connections.unfinished.WAIT_S", 0)
    async with connected(site) as one, connected(site) as two, connected(site) as three:
        await one.send(begun("t", "c1")[0])
        await settle()
        await two.send(publish("t", "c2", body=b"x" * (MEGABYTE - 2_000))[:-1])
        await settle()
        begin, end = begun("t", "c3", "X: " + "x" * 5_000)
        await three.send(begin)
        await settle()
        await three.send(end, frame("PING"))
        assert (await three.line())[0] == "ERROR too-many"
        assert (await three.line())[0] == "PONG"


async def test_what_a_connection_held_is_free_when_it_is_lost(site: BrokerSite) -> None:
    async with connected(site) as peer:
        await peer.send(begun("t", "c1")[0])
        await settle()
    await settle()
    assert site.broker.unfinished.bytes == 0


@asynccontextmanager
async def slow_disk(site: BrokerSite) -> AsyncIterator[None]:
    """Nothing is committed, since no thread is free for it."""
    site.broker.commits.in_place_s = 0.0
    threads = trio.to_thread.current_default_thread_limiter()
    taken = range(int(threads.total_tokens))
    for number in taken:
        await threads.acquire_on_behalf_of(number)
    try:
        yield
    finally:
        for number in taken:
            threads.release_on_behalf_of(number)


async def test_a_client_is_read_from_no_faster_than_the_disk_takes_what_it_sends(site: BrokerSite) -> None:
    async with connected(site) as peer:
        async with slow_disk(site):
            many = [publish("t", f"c{n}", "Delivery: ONE", body=bytes(MEGABYTE)) for n in range(8)]
            await peer.send(*many)
            await settle()
            assert 0 < site.broker.held < 4
            assert site.broker.unfinished.bytes < 4 * MEGABYTE
        for number in range(8):
            start, attributes = await peer.line()
            assert (start, attributes["Cmuid"]) == ("OK PUBLISH", f"c{number}")
        await settle()
        assert site.broker.unfinished.bytes == 0


async def test_it_is_so_where_what_a_client_sends_is_headers(site: BrokerSite) -> None:
    async with connected(site) as peer:
        async with slow_disk(site):
            headers = ("Delivery: ONE", "X: " + "x" * 60_000)
            await peer.send(*(publish("t", f"c{n}", *headers, body=b"") for n in range(100)))
            await settle()
            assert 0 < site.broker.held < 70
            assert site.broker.unfinished.bytes < 4 * MEGABYTE
        for _ in range(100):
            assert (await peer.line())[0] == "OK PUBLISH"
        await settle()
        assert site.broker.unfinished.bytes == 0
