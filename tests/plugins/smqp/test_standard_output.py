"""What commands write while they go on, and how signals end that."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from plugins.smqp.signals import until_signal
from plugins.smqp.standard_output import GRACE_S, WRITE_BYTES, StandardOutput
from tests.support.patience import pass_time

LONG = b"x" * 1_000_000


class Pipe:
    """As standard output; `reader` is the other end."""

    def __init__(self) -> None:
        self.reads, self._writes = os.pipe()
        self.reader = trio.lowlevel.FdStream(self.reads)

    def fileno(self) -> int:
        return self._writes

    async def is_written_to(self) -> None:
        await trio.lowlevel.wait_readable(self.reads)

    async def read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            data += await self.reader.receive_some(length - len(data))
        return data

    async def rest(self) -> bytes:
        os.close(self._writes)
        return b"".join([part async for part in self.reader])


@pytest.fixture
async def pipe(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pipe]:
    pipe = Pipe()
    monkeypatch.setattr(sys, "stdout", pipe)
    async with pipe.reader:
        yield pipe


async def test_what_is_interrupted_ends_at_the_border_of_the_piece_that_was_begun(pipe: Any) -> None:
    interrupt = trio.CancelScope()

    async def write() -> None:
        with interrupt:
            await StandardOutput().write([LONG, b"next"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await pipe.is_written_to()
        interrupt.cancel()
        assert await pipe.read(len(LONG)) == LONG
    assert await pipe.rest() == b""


async def test_pieces_of_any_length_are_written_in_their_order(pipe: Any) -> None:
    lengths = (0, 1, WRITE_BYTES - 1, WRITE_BYTES, 1, WRITE_BYTES + 1, 1, 1)
    pieces = [b"%d" % number * length for number, length in enumerate(lengths)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(StandardOutput().write, pieces)
        assert await pipe.read(sum(lengths)) == b"".join(pieces)
    assert await pipe.rest() == b""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_a_second_signal_ends_at_once_what_a_first_one_leaves_time(pipe: Any, mock_clock: Any) -> None:
    ended_by: list[int | None] = []

    async def run() -> None:
        ended_by.append(await until_signal(lambda output: output.write([LONG])))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await pipe.is_written_to()
        os.kill(os.getpid(), signal.SIGTERM)
        await pass_time(mock_clock, GRACE_S / 2)
        assert ended_by == []
        os.kill(os.getpid(), signal.SIGINT)
        while not ended_by:
            await pass_time(mock_clock, GRACE_S / 100)
    assert ended_by == [signal.SIGTERM]
    assert trio.current_time() < GRACE_S
