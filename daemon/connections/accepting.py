"""Accepts connections until cancelled: no error of one accept or of one connection ends that."""

import errno
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

_log = logging.getLogger(__name__)

Listener = trio.abc.Listener[trio.SocketStream]
Mishap = Callable[[str, Exception], None]

SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
"""After which `trio.serve_listeners` waits, says so, and tries again."""

AGAIN_S: Final = 0.1
"""After any other error."""


async def accept_all(
    handler: Callable[[trio.SocketStream], Awaitable[object]],
    listeners: Sequence[Listener],
    mishap: Mishap,
    *,
    handler_nursery: trio.Nursery | None = None,
) -> None:
    """Run `handler` for each connection, in `handler_nursery` or here; closes what it was given."""

    async def handle(stream: trio.SocketStream) -> None:
        try:
            await handler(stream)
        except Exception as error:
            mishap("a connection", error)

    steady = [_Steady(listener, mishap) for listener in listeners]
    await trio.serve_listeners(handle, steady, handler_nursery=handler_nursery)


class _Steady(Listener):
    """A listener that goes on after an error.

    Linux hands the errors of the network that a connection met on to accept(2), which is to be tried again.
    """

    def __init__(self, listener: Listener, mishap: Mishap) -> None:
        self._listener = listener
        self._mishap = mishap

    async def accept(self) -> trio.SocketStream:
        while True:
            try:
                return await self._listener.accept()
            except OSError as error:
                if error.errno in SHORTAGES:
                    raise
                _log.info("a connection was lost before it was accepted: %s", error)
            except trio.ClosedResourceError:
                raise
            except Exception as error:
                self._mishap("an accept", error)
            await trio.sleep(AGAIN_S)

    async def aclose(self) -> None:
        await self._listener.aclose()
