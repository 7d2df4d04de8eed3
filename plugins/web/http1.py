"""HTTP/1.1 as hypercorn speaks it, without what nobody here needs of it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from h11._readers import ContentLengthReader
from hypercorn.events import Closed
from hypercorn.protocol.h11 import H2ProtocolAssumedError, H11Protocol

AT_ONCE_BYTES: Final = 512


class Http1(H11Protocol):  # type: ignore[misc]
    """One connection. Who asks for a WebSocket is refused, whatever comes after that.

    Who would change to HTTP/2 is answered in HTTP/1.1: RFC 9113 3.1 deprecates that, and forbids it over TLS.
    Of requests that come at once, the next one is read when it is the connection's turn again.
    """

    def __init__(self, *args: Any, have_a_turn: Callable[[], Awaitable[object]]) -> None:
        super().__init__(*args)
        self._have_a_turn = have_a_turn

    @property
    def at_once_bytes(self) -> int:
        """Read between two looks at the clock: six may be a chunk, but a body of known length is no work."""
        reader = self.connection._reader
        left = reader._remaining if isinstance(reader, ContentLengthReader) else 0
        return max(AT_ONCE_BYTES, left)

    async def _maybe_recycle(self) -> None:
        await self._have_a_turn()
        await super()._maybe_recycle()

    async def _check_protocol(self, request: Any) -> None:
        if (request.method, request.target, request.http_version) == (b"PRI", b"*", b"2.0"):
            raise H2ProtocolAssumedError(b"PRI * HTTP/2.0\r\n\r\n" + self.connection.trailing_data[0])

    async def _create_stream(self, request: Any) -> None:
        if (b"upgrade", b"websocket") in ((name, value.strip().lower()) for name, value in request.headers):
            await self._send_error_response(403)
            await self.send(Closed())
        else:
            await super()._create_stream(request)
