"""Server-sent events: the overview every two seconds, for as long as the browser listens and may."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import trio

from daemon.frontend import Site
from plugins.web.live import STREAMS_MAX, TOLD_EVERY_S, Live

HEADERS: Final = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
AGAIN_MS: Final = 5_000
"""After which a browser comes back."""


class EventStream:
    """An answer that goes on until the browser leaves, the site drains, or `may_listen` says no."""

    def __init__(self, site: Site, live: Live, may_listen: Callable[[], Awaitable[bool]]) -> None:
        self._site = site
        self._live = live
        self._may_listen = may_listen

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As an ASGI application."""
        if self._live.streams >= STREAMS_MAX:
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        self._live.streams += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
            if scope["method"] != "HEAD":
                await self._tell(receive, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._live.streams -= 1

    async def _tell(self, receive: Any, send: Any) -> None:
        ended = trio.Event()
        begin = f"retry: {AGAIN_MS}\n".encode()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_gone, receive, ended)
            nursery.start_soon(self._until_drained, ended)
            while not ended.is_set() and await self._may_listen():
                data = b"%bdata: %b\n\n" % (begin, msgspec.json.encode(await self._live.told()))
                await send({"type": "http.response.body", "body": data, "more_body": True})
                begin = b""
                with trio.move_on_after(TOLD_EVERY_S):  # never in the middle of one
                    await ended.wait()
            nursery.cancel_scope.cancel()

    async def _until_gone(self, receive: Any, ended: trio.Event) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.set()

    async def _until_drained(self, ended: trio.Event) -> None:
        await self._site.draining.wait()
        ended.set()
