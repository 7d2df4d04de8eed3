"""A connection of the page, without a network."""

from base64 import b64encode
from collections.abc import Callable

import trio
from trio.testing import memory_stream_pair

from daemon.settings import Limits
from plugins.web.serving import WebServer
from tests.support.site import PASSWORD
from tests.support.web import REMOTE

ADA = ("authorization", f"Basic {b64encode(f'ada:{PASSWORD}'.encode()).decode()}")
FORM = ("content-type", "application/x-www-form-urlencoded")
SEND_S = 30.0


class ServedConnection:
    """A connection that the page serves.

    Attributes:
        ours: the end of the client.
        ended: set once the page has done with it.
    """

    def __init__(self) -> None:
        self.ours, self._theirs = memory_stream_pair()
        self.ended = trio.Event()

    async def serve(self, server: WebServer, login_by: float | None = None) -> None:
        if login_by is None:
            login_by = trio.current_time() + Limits().login_timeout_s
        await server.serve(self._theirs, REMOTE, login_by)
        await self._theirs.aclose()
        self.ended.set()


ConnectPage = Callable[[], ServedConnection]
