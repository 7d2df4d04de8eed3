"""Work for a client that waits for it, and may give up: it is done unless the client has left meanwhile.

While the work goes on the stream is read, which is how leaving is noticed; what the client sends ahead is
kept for later, `READ_AHEAD_BYTES` of it at most, and beyond that leaving is not noticed. A client that has
closed only its own direction still wants its answer: it is waited for a little.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from routing.errors import Refusal

READ_AHEAD_BYTES: Final = 4_096

CLOSED_S: Final = 2.0
"""How long an answer is of use to who will send nothing more; most such clients have gone altogether."""

T = TypeVar("T")


async def unless_left(
    work: Callable[[], Awaitable[T]],
    receive: Callable[[int], Awaitable[bytes | bytearray]],
    take: Callable[[bytes], object],
) -> T:
    """Do `work`; `receive` reads some bytes at most, b"" at the end, and `take` is given what came.

    Raises what the work raises where it is a Refusal, and BrokenResourceError where the client has left; the
    work is then cancelled. `receive` may be cancelled, and must lose nothing then.
    """
    done: list[T] = []
    refusal: Refusal | None = None

    async def watch() -> None:
        room = READ_AHEAD_BYTES
        try:
            while data := await receive(room):
                take(bytes(data))
                room -= len(data)
                if room <= 0:
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # whoever reads next finds the same
        else:
            await trio.sleep(CLOSED_S)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        try:
            done.append(await work())
        except Refusal as error:
            refusal = error
        nursery.cancel_scope.cancel()
    if refusal is not None:
        raise refusal
    if not done:
        raise trio.BrokenResourceError("the client has left")
    return done[0]
