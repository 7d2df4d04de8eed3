"""Accepting goes on, whatever one accept or one connection meets."""

import errno
from typing import Final

import pytest
import trio

from daemon.connections.accepting import accept_all
from daemon.system.mishaps import Mishaps

OURS: Final = TypeError("an accept that is broken")


class FailingListener(trio.abc.Listener[trio.SocketStream]):
    """Fails once with each of its errors."""

    def __init__(self, listener: trio.SocketListener, *errors: Exception) -> None:
        self._listener = listener
        self._errors = list(errors)

    async def accept(self) -> trio.SocketStream:
        if self._errors:
            await trio.lowlevel.checkpoint()
            raise self._errors.pop(0)
        return await self._listener.accept()

    async def aclose(self) -> None:
        await self._listener.aclose()


@pytest.mark.parametrize(
    ("error", "mishaps"),
    [
        (OURS, 1),
        (OSError(errno.EPROTO, "an error of the network"), 0),
        (OSError(errno.EHOSTUNREACH, "another one"), 0),
        (OSError(errno.EMFILE, "no descriptors"), 0),
    ],
    ids=lambda given: str(given),
)
async def test_an_accept_that_fails_is_tried_again(
    nursery: trio.Nursery, error: Exception, mishaps: int
) -> None:
    noted = Mishaps()
    taken = trio.Event()

    async def handler(stream: trio.SocketStream) -> None:
        taken.set()

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(accept_all, handler, [FailingListener(listener, error, error)], noted.note)
    async with await trio.open_tcp_stream(*listener.socket.getsockname()):
        await taken.wait()
    assert noted.count == 2 * mishaps


async def test_a_connection_that_fails_ends_alone(nursery: trio.Nursery) -> None:
    noted = Mishaps()
    told: list[bytes] = []

    async def handler(stream: trio.SocketStream) -> None:
        told.append(bytes(await stream.receive_some()))
        if told == [b"1"]:
            raise TypeError("a connection that is broken")
        await stream.send_all(b"good")

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(accept_all, handler, [listener], noted.note)
    for body, answer in ((b"1", b""), (b"2", b"good")):
        async with await trio.open_tcp_stream(*listener.socket.getsockname()) as stream:
            await stream.send_all(body)
            assert await stream.receive_some() == answer
    assert noted.count == 1
