"""A client of HTTP/2 on a stream, which does what it is told to, in whatever order."""

from typing import Any, TypeVar

import h2.config
import h2.connection
import h2.events
import h2.settings
import trio

E = TypeVar("E")


class Http2Client:
    """One connection.

    Attributes:
        connection: for what no method does; `flush` sends it.
        events: that have come, and that nobody has asked for yet.
    """

    def __init__(self, stream: trio.abc.Stream, *, window: int = 65_535) -> None:
        """`window`: bytes of each answer that it takes before it says that it takes more."""
        self.stream = stream
        config = h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
        self.connection = h2.connection.H2Connection(config)
        window_size = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
        self.connection.local_settings = h2.settings.Settings(
            client=True, initial_values={window_size: window}
        )
        self.events: list[Any] = []
        self.connection.initiate_connection()

    async def flush(self) -> None:
        await self.stream.send_all(self.connection.data_to_send())

    async def begin(self, method: str, path: str, *headers: tuple[str, str], ends: bool = True) -> int:
        """The stream of a request, of which more comes unless it `ends`."""
        stream_id = self.connection.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
        self.connection.send_headers(stream_id, [*head, *headers], end_stream=ends)
        await self.flush()
        return stream_id

    async def until(self, kind: type[E], stream_id: int | None = None) -> E:
        """The next event of a kind, of one stream where that is said."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and stream_id in (None, getattr(event, "stream_id", None)):
                    self.events.remove(event)
                    return event
            data = await self.stream.receive_some()
            assert data, f"the server has closed; there was {self.events}"
            self.events += self.connection.receive_data(data)
            await self.flush()

    async def status(self, stream_id: int) -> int:
        """What a request is answered with."""
        answer = await self.until(h2.events.ResponseReceived, stream_id)
        return int(dict(answer.headers)[b":status"])

    async def until_closed(self) -> None:
        """Until the server closes."""
        while await self.stream.receive_some():
            pass
