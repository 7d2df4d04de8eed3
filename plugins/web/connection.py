"""One connection of the page: hypercorn speaks HTTP on it, and who is slow is sent away here.

    no request yet                             `login_timeout_s`, from connecting
    the head of another one has begun          `login_timeout_s`, from its first byte
    between two requests                       `KEEP_ALIVE_S`
    takes nothing of what there is for it      `send_timeout_s`

In HTTP/2, where the first byte may be that of a PING, another head has to be whole within `KEEP_ALIVE_S`.

Requests that are under way when a connection ends are carried out; nobody is answered then.

Heads are read for whoever comes, and few bytes may be milliseconds of work: so connections take turns, one in
each turn of the event loop, and messages go on meanwhile, however many those are.
"""

import logging
import math
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, Final

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, RawData
from hypercorn.protocol.h11 import H2ProtocolAssumedError
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from daemon.connections.shell import send_in_parts
from daemon.frontend import Site
from plugins.web.http1 import Http1
from plugins.web.http2 import Http2

_log = logging.getLogger(__name__)

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]

KEEP_ALIVE_S: Final = 60.0
REQUESTS_MAX: Final = 50
"""At a time on one connection of HTTP/2, as its client is told."""

UNDER_WAY_MAX: Final = 2 * REQUESTS_MAX
"""With those whose streams are closed, by an answer or as the client has cancelled them; more are refused."""

HEADS_BYTES_MAX: Final = 262_144
"""Of the requests that are under way on one connection of HTTP/2; while there is more, others are refused."""

RECEIVE_BYTES: Final = 65_536

TURN_S: Final = 0.001


class WebConnection:
    """A stream, and the requests that come on it."""

    def __init__(
        self,
        site: Site,
        app: AsgiApp,
        config: Config,
        worker: WorkerContext,
        turn: trio.Lock,
        stream: Any,
        remote: str,
        login_by: float,
    ) -> None:
        """`turn` is one for all connections; by `login_by` there has to be a request."""
        self._site = site
        self._app = app
        self._config = config
        self._worker = worker
        self._turn = turn
        self._stream = stream
        self._remote = remote
        self._tls = isinstance(stream, trio.SSLStream)
        self._writing = trio.Lock()
        self._reading = trio.CancelScope(deadline=login_by)
        self._lost = False
        self._requests = set[Incoming]()
        self._begun = True
        self._handling = False  # what has come, which may be a request
        self._protocol: Any = None
        self._tasks: trio.Nursery

    async def run(self) -> None:
        """Serve it until it ends, or its time has come. Errors of the client end here, but not its stream."""
        async with trio.open_nursery() as self._tasks:
            over_tls = self._stream.selected_alpn_protocol() if self._tls else None
            self._protocol = self._speak(Http2 if over_tls == "h2" else Http1)
            with self._reading:
                await self._of_client(self._read)
            await self._of_client(self._protocol.handle, Closed())
            for incoming in self._requests:
                incoming.end()

    async def _of_client(self, act: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Do what runs nothing of our applications, so that any error is of what the client has sent."""
        try:
            await act(*args)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            _log.debug("%s: connection lost", self._remote)
            self._lost = True
        except Exception as error:
            _log.info("%s: not HTTP: %s: %s", self._remote, type(error).__name__, error)
            self._lost = True

    def rest(self) -> None:
        """Have it end, now or with the last of the requests that are under way."""
        if not self._requests and not self._handling:
            self._reading.cancel()

    def _speak(self, version: Any) -> Any:
        more: dict[str, Any] = {"have_a_turn": self._have_a_turn}
        if version is Http2:
            more = {
                "wait_s": lambda: self._site.limits.send_timeout_s,
                "slow": self._lose_slow,
                "full": self._is_full,
            }
        state = ConnectionState({})
        return version(
            self._app, self._config, self._worker, self, state, self._tls, None, None, self._send, **more
        )

    def _is_full(self) -> bool:
        if len(self._requests) >= UNDER_WAY_MAX:
            return True
        return sum(incoming.head_bytes for incoming in self._requests) >= HEADS_BYTES_MAX

    # -- what comes -------------------------------------------------------------------------------

    async def _read(self) -> None:
        await self._protocol.initiate()
        more = True
        while more:
            data = await self._stream.receive_some(RECEIVE_BYTES)
            more = bool(data)
            if more and not self._begun and not self._requests and isinstance(self._protocol, Http1):
                self._begun = True
                self._reading.deadline = trio.current_time() + self._site.limits.login_timeout_s
            self._handling = True
            await self._handle(bytes(data))
            self._handling = False
            if self._site.draining.is_set():
                self.rest()
        self._lost = isinstance(self._protocol, Http2)  # in HTTP/1.1 its answer may still be waited for

    async def _handle(self, data: bytes) -> None:
        """Let hypercorn read it, and begin with what is asked for; after a millisecond it is others' turn."""
        began, at = await self._have_a_turn(), 0
        while True:
            size = self._protocol.at_once_bytes
            await self._handle_now(data[at : at + size])
            at += size
            if at >= len(data) or self._reading.cancel_called:
                return
            if perf_counter() - began > TURN_S:
                began = await self._have_a_turn()

    async def _have_a_turn(self) -> float:
        """Returns when it began."""
        async with self._turn:  # a turn of the event loop, also where nobody waits
            return perf_counter()

    async def _handle_now(self, data: bytes) -> None:
        try:
            await self._protocol.handle(RawData(data))
        except H2ProtocolAssumedError as assumed:
            self._protocol = self._speak(Http2)
            await self._protocol.initiate()
            await self._handle(assumed.data)

    # -- what goes --------------------------------------------------------------------------------

    async def _send(self, event: Any) -> None:
        """What hypercorn calls: with bytes, with the end, or to say whether requests are under way."""
        if isinstance(event, Closed):
            self._reading.cancel()
        elif isinstance(event, RawData):
            try:
                async with self._writing:
                    if not self._lost:
                        await self._send_all(event.data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._lose()
            except trio.Cancelled:  # perhaps in the middle
                self._lose()
                raise

    async def _send_all(self, data: bytes) -> None:
        with trio.move_on_after(self._site.limits.send_timeout_s) as patience:

            def taken() -> None:
                patience.deadline = trio.current_time() + self._site.limits.send_timeout_s

            await send_in_parts(self._stream, data, taken)
        if patience.cancelled_caught:
            self._lose_slow()

    def _lose_slow(self) -> None:
        _log.info("%s: does not read", self._remote)
        self._lose()

    def _lose(self) -> None:
        self._lost = True
        self._reading.cancel()

    # -- requests, as hypercorn has them run ------------------------------------------------------

    def spawn(self, task: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run something that hypercorn needs, for as long as the connection lasts."""
        self._tasks.start_soon(task, *args)

    async def spawn_app(self, app: AsgiApp, config: Config, scope: Any, send: Any) -> Any:
        """Begin with a request; what is returned is called with each part of it that comes."""
        state = scope["state"]
        incoming = Incoming(state.pop("taken", None), state.pop("head_bytes", 0))
        self._requests.add(incoming)
        self._begun = False
        self._reading.deadline = math.inf
        state["remote"] = self._remote
        self._tasks.start_soon(self._answer, app, scope, incoming, send)
        return incoming.put

    async def _answer(self, app: AsgiApp, scope: Any, incoming: "Incoming", send: Any) -> None:
        async def answer(message: Any) -> None:
            incoming.read_no_more()
            await send(message)

        try:
            await app(scope, incoming.receive, answer)
            await send(None)
        finally:
            incoming.read_no_more()
            self._requests.discard(incoming)
            if not self._requests:
                self._reading.deadline = trio.current_time() + KEEP_ALIVE_S
                if self._site.draining.is_set():
                    self.rest()

    # -- its end, as a `HalfCloseable` ------------------------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """See `trio.abc.ReceiveStream`."""
        data: bytes | bytearray = await self._stream.receive_some(max_bytes)
        return data

    async def send_eof(self) -> None:
        """See `trio.SocketStream`; TLS has no half of its own to close."""
        if not self._tls:
            await self._stream.send_eof()


class Incoming:
    """What comes of one request, and that its client has gone.

    Attributes:
        head_bytes: of its head, which is kept until it is answered; 0 where no other may come before that.
    """

    def __init__(self, taken: Callable[[int, bool], None] | None, head_bytes: int) -> None:
        """`taken` is told how many bytes are kept no more, and whether they were the last, or more may come.

        Without one, more is read only once all has been received.
        """
        self.head_bytes = head_bytes
        self._taken = taken
        self._body = bytearray()
        self._whole = False
        self._ended = False
        self._unwanted = False
        self._gone = False
        self._changed = trio.lowlevel.ParkingLot()

    async def put(self, message: Any) -> None:
        """Have the application receive it. Waits, unless it is told what is taken, until it was received.

        What comes once there is an answer is thrown away: nobody waits for that.
        """
        if message["type"].endswith(".disconnect"):
            self.end()
            return
        self._body += message["body"]
        self._whole = not message["more_body"]
        if self._unwanted:
            self._take()
        self._changed.unpark_all()
        while self._taken is None and self._body and not self._gone:
            await self._changed.park()

    def end(self) -> None:
        """Tell the application, once it has received what came whole before, that its client has gone."""
        self._gone = True
        if not self._whole:  # nor ever will be
            self._take()
        self._changed.unpark_all()

    async def receive(self) -> Any:
        """As an application calls it; once the client has gone, it is told so each time."""
        while not self._gone and not self._is_more():
            await self._changed.park()
        if not self._is_more():
            return {"type": "http.disconnect"}
        self._ended = self._whole
        return {"type": "http.request", "body": self._take(), "more_body": not self._whole}

    def read_no_more(self) -> None:
        """Throw away what has come, and what still comes."""
        self._unwanted = True
        self._take()

    def _is_more(self) -> bool:
        return not self._unwanted and not self._ended and (bool(self._body) or self._whole)

    def _take(self) -> bytes:
        body = bytes(self._body)
        self._body.clear()
        self._changed.unpark_all()
        if body and self._taken is not None:
            self._taken(len(body), self._whole)
        return body
