"""Work for a client that may leave: it is given up with it, and nothing that it sent ahead is lost."""

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from daemon.connections.unless_left import CLOSED_S, READ_AHEAD_BYTES, unless_left
from routing.errors import Refusal


class Client:
    """Its stream, what the server kept of what it sent, and what became of the work for it."""

    def __init__(self) -> None:
        self.stream, self._theirs = memory_stream_pair()
        self.came = bytearray()
        self.finish = trio.Event()
        self.outcome: object = None

    async def wait(self) -> None:
        try:
            self.outcome = await unless_left(self._work, self._theirs.receive_some, self.came.extend)
        except (Refusal, trio.BrokenResourceError) as error:
            self.outcome = error

    async def _work(self) -> str:
        await self.finish.wait()
        return "done"


async def test_who_left_is_worked_for_no_longer(autojump_clock: MockClock) -> None:
    client = Client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.wait)
        await client.stream.aclose()
    assert isinstance(client.outcome, trio.BrokenResourceError)
    assert trio.current_time() == pytest.approx(CLOSED_S)


async def test_who_only_says_nothing_more_gets_its_answer(autojump_clock: MockClock) -> None:
    client = Client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.wait)
        await client.stream.send_all(b"ahead")
        await client.stream.send_eof()
        await trio.sleep(CLOSED_S / 2)
        client.finish.set()
    assert (client.outcome, client.came) == ("done", bytearray(b"ahead"))


async def test_what_is_sent_ahead_is_kept_and_bounded(autojump_clock: MockClock) -> None:
    client = Client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.wait)
        nursery.start_soon(client.stream.send_all, b"x" * 100_000)
        await trio.testing.wait_all_tasks_blocked()
        assert len(client.came) == READ_AHEAD_BYTES
        client.finish.set()
    assert client.outcome == "done"


async def test_what_the_work_refuses_is_refused() -> None:
    async def work() -> None:
        raise Refusal(Refusal.BAD_LOGIN, "no")

    _, theirs = memory_stream_pair()
    with pytest.raises(Refusal, match="no"):
        await unless_left(work, theirs.receive_some, print)
