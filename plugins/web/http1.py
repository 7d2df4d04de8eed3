"""HTTP/1.1 as hypercorn speaks it, without what nobody here needs of it."""

from typing import Any

from hypercorn.events import Closed
from hypercorn.protocol.h11 import H11Protocol


class Http1(H11Protocol):  # type: ignore[misc]
    """One connection. Who asks for a WebSocket is refused, whatever comes after that."""

    async def _create_stream(self, request: Any) -> None:
        if (b"upgrade", b"websocket") in ((name, value.strip().lower()) for name, value in request.headers):
            await self._send_error_response(403)
            await self.send(Closed())
        else:
            await super()._create_stream(request)
