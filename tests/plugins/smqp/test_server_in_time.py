"""What the server does as time passes: the clock of these tests goes only where they move it."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from daemon.connections.transport import SEND_BYTES
from daemon.frontend import Limits
from routing.quotas import Quotas
from tests.support.full_disk import no_file_beyond
from tests.support.patience import pass_time
from tests.support.site import BrokerSite, running_site
from tests.support.smqp_peer import connected, frame, publish


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path) as site:
        yield site


@pytest.fixture
def clock(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    return mock_clock


async def test_who_can_be_answered_nothing_for_long_is_told_goodbye_though_nothing_is_read(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    clock.autojump_threshold = 0
    async with (
        running_site(tmp_path, Limits(unanswered_per_session_max=2)) as site,
        connected(site) as ada,
    ):
        with no_file_beyond(1):
            await ada.send(frame("SUBSCRIBE a", "Request: 1"), frame("SUBSCRIBE b", "Request: 2"))
            assert isinstance(ada.stream, trio.abc.HalfCloseableStream)
            await ada.stream.send_eof()  # which is not seen
            assert (await ada.line())[0] == "BYE not-available"
            assert await ada.line() is None


async def test_who_does_not_log_in_in_time_is_told_goodbye(
    site: BrokerSite, clock: trio.testing.MockClock
) -> None:
    async with connected(site, None) as peer:
        await peer.line()
        for _ in range(15):
            await peer.send(b"P")
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(1)
        start, _ = await peer.line()
        assert start == "BYE login-timeout"


async def test_a_byte_now_and_then_is_no_sign_of_life(
    site: BrokerSite, clock: trio.testing.MockClock
) -> None:
    async with connected(site) as slow, connected(site) as other:
        for byte in b"PUBLISH t\r\n" * 40:
            await slow.send(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(1)
            if clock.current_time() % 100 == 0:
                await other.send(frame("PING"))
                assert await other.line() == ("PONG", {})
            if clock.current_time() >= 300:
                break
        start, _ = await slow.line()
        assert start == "BYE idle"
        await other.send(frame("PING"))
        assert await other.line() == ("PONG", {})


async def test_a_client_that_does_not_read_is_dropped_and_slows_nobody(
    site: BrokerSite, clock: trio.testing.MockClock
) -> None:
    async with (
        connected(site, "bob/desk", pair=trio.testing.lockstep_stream_pair) as slow,
        connected(site, "ada/desk") as ada,
    ):
        await slow.send(frame("SUBSCRIBE t"))
        assert await slow.line() == ("OK SUBSCRIBE", {})
        for number in range(20):
            await ada.send(publish("t", number, body=b"x" * 100_000))
            assert (await ada.line())[0] == "OK PUBLISH"
        await trio.testing.wait_all_tasks_blocked()
        clock.jump(61)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BrokenResourceError):
            await slow.send(frame("PING"))


async def test_a_client_that_reads_slowly_is_sent_a_message_of_any_size(
    site: BrokerSite, clock: trio.testing.MockClock
) -> None:
    body = b"x" * 1_000_000
    async with (
        connected(site, "bob/desk", pair=trio.testing.lockstep_stream_pair) as slow,
        connected(site, "ada/desk") as ada,
    ):
        await slow.send(frame("SUBSCRIBE t"))
        assert await slow.line() == ("OK SUBSCRIBE", {})
        await ada.send(publish("t", 1, body=body))
        assert (await ada.line())[0] == "OK PUBLISH"
        while (message := slow.reader.take()) is None:
            await pass_time(clock, 50)
            slow.reader.feed(bytes(await slow.stream.receive_some(SEND_BYTES)))
        assert message.sections[0].body == body
        assert trio.current_time() > 600


@pytest.mark.parametrize(
    ("published", "answer"),
    [
        (partial(publish, "t"), "OK PUBLISH"),
        (lambda number: frame("CONNECTTO bob/desk 4711", f"Request: {number}"), "OK CONNECTTO"),
    ],
)
@pytest.mark.parametrize("quota", [Quotas(publish_rate_per_s_max=10.0, publish_burst_max=1), None])
async def test_who_publishes_faster_than_it_may_is_read_no_faster_and_loses_nothing(
    tmp_path: Path, quota: Quotas | None, published: Callable[[int], bytes], answer: str
) -> None:
    limits = Limits() if quota else Limits(publish_rate_per_s_max=10.0)
    async with running_site(tmp_path, limits, quotas=quota) as site, connected(site) as peer:
        count = 4 if quota else 12  # of a connection, those of a second may come at once
        began = trio.current_time()
        requests = [published(number) for number in range(count)]
        await peer.send(*requests, frame("PING", "Request: 1"))
        answers = [await peer.line() for _ in range(count + 1)]
        assert trio.current_time() - began >= 0.19
        assert {start for start, _ in answers} == {answer, "PONG"}
        assert site.metrics.slowed
        assert not site.metrics.refused
