"""Standard output of commands that go on meanwhile: a thread waits for whoever is to read."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import trio

from daemon.terminal import output

GRACE_S: Final = 5.0
"""For a write when its command is to end, so that whoever reads is not left with half a message."""

WRITE_BYTES: Final = 65_536
"""What short pieces are put together to: as much as a pipe has room for."""


class StandardOutput:
    """That of one command. One task writes at a time."""

    def __init__(self) -> None:
        self._hurry = trio.Event()

    def hurry(self) -> None:
        """Wait no longer for whoever reads where the command is to end."""
        self._hurry.set()

    async def write(self, pieces: Sequence[bytes]) -> None:
        """Write these. Raises OSError.

        It may wait for ever where nobody reads. Cancelled, it ends at the border of a piece: what was begun
        is still written, and nothing after it. Raises Cancelled only where that took longer than GRACE_S, or
        was hurried: then the thread is left to itself, and the output may end within a piece.
        """
        token = trio.lowlevel.current_trio_token()
        ended, outcomes = trio.Event(), list[Any]()
        stopped = False

        def write_all() -> None:
            for data in _joined(pieces):
                output.write(data)
                if stopped:
                    return

        def deliver(outcome: Any) -> None:
            outcomes.append(outcome)
            with suppress(trio.RunFinishedError):  # it was left to itself
                token.run_sync_soon(ended.set)

        trio.lowlevel.start_thread_soon(write_all, deliver)
        try:
            await ended.wait()
        except trio.Cancelled:
            stopped = True
            with trio.CancelScope(shield=True):
                await self._wait_in_grace(ended)
            if not outcomes:
                raise
        outcomes[0].unwrap()

    async def _wait_in_grace(self, ended: trio.Event) -> None:
        with trio.move_on_after(GRACE_S):
            async with trio.open_nursery() as nursery:

                async def watch() -> None:
                    await self._hurry.wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(watch)
                await ended.wait()
                nursery.cancel_scope.cancel()


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole pieces together, where they are short."""
    together: list[bytes] = []
    length = 0
    for piece in pieces:
        if together and length + len(piece) > WRITE_BYTES:
            yield b"".join(together)
            together, length = [], 0
        together.append(piece)
        length += len(piece)
    yield b"".join(together)
