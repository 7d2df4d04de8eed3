"""The lower half of the client: frames over a stream, and answers to whoever asked.

Three tasks run for a connection: one receives and sorts, one sends what has gathered, one pings so that
silence in either direction is noticed. The first that ends ends the others; then all who wait get
`ConnectionLost`.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from daemon.connections.shell import send_in_parts
from plugins.smqp.incoming import attributes, read_refusal
from routing.errors import Refusal
from routing.frames import Frame, FrameLimits, FrameReader, encode_frame
from routing.headers import Headers

UNSENT_BYTES_MAX: Final = 1_048_576  # above it, sending waits for the server to take some
RECEIVE_BYTES: Final = 65_536
QUIT_TIMEOUT_S: Final = 5.0
PING_TIMEOUT_S: Final = 30.0
DEFAULT_IDLE_S: Final = 300.0

_LIMITS: Final = FrameLimits(
    header_bytes_max=16_777_216, headers_max=100_000, message_bytes_max=2**31, sections_max=10_000
)


class ConnectionLost(Exception):
    """The connection has ended, or was never made.

    Attributes:
        reason: the word of the server's BYE, or `unreachable`, `lost`, `silent`, `protocol`, `not-available`,
            `refused` (something that was sent here, after which the server reads no more), `closed`.
        text: more about it, for people; may be "".
        redirect: `address:port` that the server names instead; None where it names none.
    """

    def __init__(self, reason: str, text: str = "", redirect: str | None = None) -> None:
        super().__init__(f"{reason}: {text}" if text else reason)
        self.reason = reason
        self.text = text
        self.redirect = redirect


class Pending:
    """A request on its way; `wait` may be called at any time, and by several tasks."""

    def __init__(self) -> None:
        self._done = trio.Event()
        self._reply: dict[str, str] = {}
        self._error: Exception | None = None

    @property
    def is_done(self) -> bool:
        """Whether `wait` has nothing to wait for."""
        return self._done.is_set()

    async def wait(self) -> dict[str, str]:
        """The attributes of the OK, by lower-case name. Raises Refusal, or ConnectionLost."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._reply

    def finish(self, reply: dict[str, str], error: Exception | None = None) -> None:
        """Let the client go on with what came: a reply, or an error."""
        self._reply = reply
        self._error = error
        self._done.set()


class FrameConnection:
    """Frames over `stream`, which its owner closes.

    Attributes:
        idle_s: the server ends a connection on which no frame came for so long.
    """

    def __init__(self, stream: trio.abc.Stream, notice: Callable[[Frame], None]) -> None:
        """`notice` gets each frame that is no answer; a Refusal that it raises ends the connection."""
        self.idle_s = DEFAULT_IDLE_S
        self._stream = stream
        self._notice = notice
        self._frames = FrameReader(_LIMITS)
        self._counter = 0
        self._waiting: dict[str, Pending] = {}
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._to_send = trio.Event()
        self._taken = trio.lowlevel.ParkingLot()
        self._silence = trio.CancelScope()  # of the ping; each sign of life puts its end off
        self._lost: ConnectionLost | None = None
        self.lost = trio.Event()
        """Set once the connection has ended; then `check` raises."""

    async def exchange(self, frame: Frame) -> Frame:
        """Send a frame and take the next that comes; for the login, before `run`."""
        await self._stream.send_all(encode_frame(frame))
        return await self.next_frame()

    async def next_frame(self) -> Frame:
        """The next frame. Raises ConnectionLost at the end of the stream, and Refusal."""
        while True:
            frame = self._frames.take()
            if frame is not None:
                return frame
            data = await self._stream.receive_some(RECEIVE_BYTES)
            if not data:
                raise ConnectionLost("lost", "the server closed the connection")
            self._is_alive()
            self._frames.feed(bytes(data))

    async def run(self) -> None:
        """Receive, send and ping until the connection ends; raises nothing but Cancelled, which ends it."""
        try:
            async with trio.open_nursery() as nursery:
                for task in (self._receive_all, self._send_all, self._ping_now_and_then):
                    nursery.start_soon(self._guarded, task, nursery.cancel_scope)
        finally:
            self._fail(ConnectionLost("closed", "the connection was left"))

    def check(self) -> None:
        """Raises ConnectionLost once the connection has ended."""
        if self._lost is not None:
            raise self._lost

    def expect(self, key: str, pending: Pending) -> None:
        """Let an answer with this key (`Cmuid x`, `Request x`) finish `pending`. Raises Refusal for two."""
        if key in self._waiting:
            raise Refusal(Refusal.BAD_HEADER, f"another message with {key} has not been answered yet")
        self._waiting[key] = pending

    async def request(self, command: str, arguments: str, headers: Headers) -> dict[str, str]:
        """Ask, and wait for the answer. Raises Refusal, or ConnectionLost."""
        return await (await self.request_soon(command, arguments, headers)).wait()

    async def request_soon(self, command: str, arguments: str, headers: Headers) -> Pending:
        """Ask without waiting for the answer."""
        self._counter += 1
        token = str(self._counter)
        pending = Pending()
        self.expect(f"Request {token}", pending)
        await self.send(encode_frame(Frame(command, arguments, [*headers, ("Request", token)])))
        return pending

    async def send(self, data: bytes) -> None:
        """Hand bytes to the task that sends; waits only where much is unsent."""
        self.check()
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        self._to_send.set()
        if self._unsent_bytes > UNSENT_BYTES_MAX:
            await self._taken.park()
            self.check()

    async def quit(self) -> None:
        """Say goodbye, and wait a while for the server's, which comes after all its answers."""
        with trio.move_on_after(QUIT_TIMEOUT_S):
            try:
                await self.send(b"QUIT\r\n\r\n")
            except ConnectionLost:
                return
            await self.lost.wait()

    async def _guarded(self, task: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            await task()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._fail(ConnectionLost("lost", str(error.__cause__ or "the connection was cut")))
        except ConnectionLost as lost:
            self._fail(lost)
        except Refusal as refusal:
            self._fail(ConnectionLost("protocol", refusal.text))
        scope.cancel()

    def _fail(self, lost: ConnectionLost) -> None:
        if self._lost is None:
            self._lost = lost
            for pending in self._waiting.values():
                pending.finish({}, lost)
            self._waiting.clear()
            self._taken.unpark_all()
            self.lost.set()

    async def _send_all(self) -> None:
        while True:
            await self._to_send.wait()
            self._to_send = trio.Event()
            data = b"".join(self._unsent)
            self._unsent.clear()
            self._unsent_bytes = 0
            self._taken.unpark_all()
            await send_in_parts(self._stream, data, self._is_alive)
            self._is_alive()

    async def _ping_now_and_then(self) -> None:
        while True:
            await trio.sleep(self.idle_s / 3)
            self._silence = trio.CancelScope()
            self._is_alive()
            with self._silence:  # the answer may be behind much that is on its way, to the server or from it
                await self.request("PING", "", [])
            if self._silence.cancelled_caught:
                text = f"nothing came from the server, and it took nothing, for {PING_TIMEOUT_S:g} s"
                raise ConnectionLost("silent", text)

    def _is_alive(self) -> None:
        self._silence.deadline = trio.current_time() + PING_TIMEOUT_S

    async def _receive_all(self) -> None:
        while True:
            frame = await self.next_frame()
            if frame.command in ("OK", "PONG"):
                self._answered(frame, None)
            elif frame.command == "ERROR":
                self._answered(frame, read_refusal(frame))
            elif frame.command == "BYE":
                reply = attributes(frame)
                raise ConnectionLost(frame.arguments, reply.get("text", ""), reply.get("redirect"))
            else:
                self._notice(frame)

    def _answered(self, frame: Frame, refusal: Refusal | None) -> None:
        reply = attributes(frame)
        key = f"Cmuid {reply['cmuid']}" if "cmuid" in reply else f"Request {reply.get('request', '')}"
        pending = self._waiting.pop(key, None)
        if pending is not None:
            pending.finish(reply, refusal)
        elif refusal is not None:  # it belongs to nothing that was asked here, such as lost framing
            raise ConnectionLost("refused", refusal.text)
