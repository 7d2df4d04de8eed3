"""One SMQP connection, from greeting to goodbye.

    greet, log in        one task, within login_timeout_s, unless the site begins to drain
    read commands        until QUIT, the end of the stream, lost framing or idle_timeout_s without a frame
    write events         until the session ends; a send that takes send_timeout_s ends the connection

The reader answers at once what needs no disk (PONG, refusals), all of one receive in one send; everything
else is answered by an event. It reads no further while too much is unanswered, or while the client does not
take its answers, so a client can only slow itself. The first of the two tasks to finish ends the other.
"""

import math
from datetime import UTC, datetime
from typing import Final

import trio

from daemon.connections.unless_left import unless_left
from daemon.frontend import UNCOUNTED_BYTES, Limits, Session, Site
from plugins.smqp import replies
from plugins.smqp.dispatch import Dispatcher
from plugins.smqp.protocol import is_answered, read_command, reply_key
from plugins.smqp.requests import Command, Login, Ping, Quit
from routing.errors import FramingLost, Refusal
from routing.frames import Frame, FrameLimits, FrameReader

RECEIVE_BYTES: Final = 65_536
LOGIN_ATTEMPTS_MAX: Final = 3
LOGIN_HEADER_BYTES_MAX: Final = 4_096  # who has not logged in makes the server hold no more than this
LINGER_S: Final = 1.0  # for the client to read the goodbye, which a reset of the connection would overtake

_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


async def serve_connection(site: Site, stream: trio.abc.Stream, remote: str) -> None:
    """Speak SMQP on `stream` until either side ends it, then close it.

    `remote` is the client's address, with or without its port. Faults of the client end here; cancellation
    and faults of ours pass through, after the session has been closed.
    """
    try:
        await _Connection(site, stream, remote).run()
    except* _GONE:
        pass  # nobody is left to tell, and the session is closed
    finally:
        await trio.aclose_forcefully(stream)


class _Connection:
    def __init__(self, site: Site, stream: trio.abc.Stream, remote: str) -> None:
        self._site = site
        self._stream = stream
        self._remote = remote
        self._frames = FrameReader(FrameLimits(header_bytes_max=LOGIN_HEADER_BYTES_MAX, sections_max=0))
        self._sending = trio.Lock()
        self._answered = trio.Event()  # set when answers have gone out; renewed by who waits for it
        self._replies: list[bytes] = []
        self._begun: Frame | None = None  # whose head has been looked at, and whose rest is awaited
        self._held = 0  # bytes that the session knows of
        self._goodbye = b""  # the last frame, to be sent; once set, no further command is taken
        self._parted = False  # the session's own goodbye was sent
        self._quit = False  # the client has said goodbye

    async def run(self) -> None:
        site = self._site
        if site.draining.is_set():
            self._goodbye = replies.not_available(site.server_ident, site.redirect, "the site is stopping")
        else:
            session: Session | None = None
            try:
                with trio.move_on_after(site.limits.login_timeout_s) as login:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._cancel_when_draining, login)
                        session = await self._log_in(login)
                        nursery.cancel_scope.cancel()
                if session is not None:
                    await self._serve(session)
                elif login.cancelled_caught and site.draining.is_set():
                    self._goodbye = replies.goodbye("draining", redirect=site.redirect)
                elif login.cancelled_caught:
                    text = f"no login within {site.limits.login_timeout_s:g} s"
                    self._goodbye = replies.goodbye("login-timeout", text)
            finally:
                if session is not None:
                    session.close(lost=not self._quit)
        if self._goodbye and not self._parted:
            await self._send(self._goodbye)
            self._parted = True
        if self._parted:
            await self._linger()

    async def _cancel_when_draining(self, login: trio.CancelScope) -> None:
        await self._site.draining.wait()
        login.cancel()

    async def _log_in(self, login: trio.CancelScope) -> Session | None:
        """Greet, and take commands until one logs in; None where none does, which may set a goodbye.

        What the site takes to verify a password is not the client's time, of which `login` is the end.
        """
        site = self._site
        await self._send(replies.greeting(site.server_ident))
        attempts = 0
        while not self._goodbye:
            command = self._take()
            if command is None:
                await self._flush()
                if not (self._goodbye or await self._receive()):
                    return None
            elif isinstance(command, Login):
                began, left = trio.current_time(), login.deadline
                login.deadline = math.inf
                try:
                    return await self._open(command)
                except Refusal as refusal:
                    login.deadline = left + trio.current_time() - began
                    self._replies.append(replies.error(command.key, refusal))
                    attempts += 1
                    if refusal.code == Refusal.NOT_AVAILABLE:
                        self._goodbye = replies.goodbye("draining", redirect=site.redirect)
                    elif refusal.code != Refusal.BAD_LOGIN or attempts == LOGIN_ATTEMPTS_MAX:
                        self._goodbye = replies.goodbye(refusal.code)
            elif isinstance(command, Ping):
                self._replies.append(replies.pong(command.request))
            elif isinstance(command, Quit):
                self._goodbye = replies.goodbye("quit")
            else:
                early = Refusal(Refusal.NOT_LOGGED_IN, "PASS account[/channel] password comes first")
                self._replies.append(replies.error(command.key, early))
        await self._flush()
        return None

    async def _open(self, login: Login) -> Session:
        site = self._site
        identity = await unless_left(
            lambda: site.authenticate(login.account, login.password, self._remote),
            self._stream.receive_some,
            self._frames.feed,
        )
        session = site.open_session(identity, login.channel, protocol="smqp", remote=self._remote)
        self._frames.limits = _frame_limits(site.limits)
        now = datetime.now(UTC)
        timeout_s, idle_s = site.default_timeout_s, site.limits.idle_timeout_s
        self._replies.append(
            replies.logged_in(login.request, session.system_topic, timeout_s, now, site.suid, idle_s)
        )
        return session

    async def _serve(self, session: Session) -> None:
        dispatcher = Dispatcher(session, self._site.server_name, self._remote)
        await self._flush()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write_events, session, dispatcher, nursery.cancel_scope)
            try:
                await self._read_commands(session, dispatcher)
            except _GONE:
                self._goodbye = b""
            nursery.cancel_scope.cancel()

    async def _write_events(
        self, session: Session, dispatcher: Dispatcher, connection: trio.CancelScope
    ) -> None:
        try:
            while events := await session.events():
                await self._send(replies.encode_events(events, self._site.redirect))
                self._parted = dispatcher.note(events)
                self._answered.set()
                if self._parted:
                    break
        except _GONE:
            self._goodbye = b""
        connection.cancel()

    async def _read_commands(self, session: Session, dispatcher: Dispatcher) -> None:
        idle_since = trio.current_time()
        while True:
            limits = self._site.limits
            unanswered_max = limits.unanswered_per_session_max
            now = trio.current_time()
            while not self._goodbye and dispatcher.unanswered < unanswered_max:
                command = self._take()
                if command is None:
                    if await self._make_room(session, dispatcher):
                        break
                    continue
                idle_since = now
                if isinstance(command, Quit):
                    self._quit = True
                    self._goodbye = replies.goodbye("quit")
                elif reply := dispatcher.carry_out(command):
                    self._replies.append(reply)
            await self._flush()
            if self._goodbye:
                await self._wait_for_answers(dispatcher, 0, limits.send_timeout_s)
                return
            if dispatcher.unanswered >= unanswered_max:
                if not await self._wait_for_answers(dispatcher, unanswered_max // 2, limits.idle_timeout_s):
                    text = f"the site could answer nothing for {limits.idle_timeout_s:g} s"
                    self._goodbye = replies.goodbye("not-available", text)
                    return  # whether the client is still there cannot be told: nothing is read
                idle_since = trio.current_time()
                continue
            with trio.move_on_at(idle_since + limits.idle_timeout_s) as idle:
                if not await self._receive():
                    await self._wait_for_answers(dispatcher, 0, limits.send_timeout_s)
                    return
            if idle.cancelled_caught:
                text = f"no complete frame for {limits.idle_timeout_s:g} s; send PING now and then"
                self._goodbye = replies.goodbye("idle", text)
                return

    # -- bytes ------------------------------------------------------------------------------------

    async def _make_room(self, session: Session, dispatcher: Dispatcher) -> bool:
        """For the rest of a frame that has begun; False where it is refused, and is to be passed over."""
        frame = self._frames.unfinished
        try:
            if frame is not None and frame is not self._begun:
                self._begun = frame
                dispatcher.check(frame)
            held = self._frames.unfinished_bytes
            held = held if held > UNCOUNTED_BYTES else 0
            if held != self._held:
                if held > self._held:
                    await self._flush()
                await session.hold(held)
                self._held = held
        except Refusal as refusal:
            if frame is None:  # a long head, which cannot be passed over
                self._replies.append(replies.error(("", ""), refusal))
                self._goodbye = replies.goodbye(refusal.code)
            else:
                self._frames.refuse(refusal)
            return False
        return True

    def _take(self) -> Command | None:
        """The next command that can be read; None where more bytes are needed or a goodbye is due."""
        while True:
            try:
                frame = self._frames.take()
                if frame is None:
                    return None
                try:
                    return read_command(frame)
                except Refusal as refusal:
                    self._replies.append(replies.error(reply_key(frame), refusal))
            except FramingLost as lost:
                self._replies.append(replies.error(("", ""), lost))
                self._goodbye = replies.goodbye("framing-lost")
                return None
            except Refusal as refusal:
                frame = self._frames.refused
                if frame is not self._begun or is_answered(frame):
                    self._replies.append(replies.error(reply_key(frame), refusal))

    async def _receive(self) -> bool:
        """Wait for bytes; False at the end of the stream."""
        data = await self._stream.receive_some(RECEIVE_BYTES)
        self._frames.feed(bytes(data))
        return bool(data)

    async def _flush(self) -> None:
        if self._replies:
            data = b"".join(self._replies)
            self._replies.clear()
            await self._send(data)

    async def _send(self, data: bytes) -> None:
        """Raises BrokenResourceError, also where the client does not take the data in time."""
        with trio.move_on_after(self._site.limits.send_timeout_s) as sending:
            async with self._sending:
                await self._stream.send_all(data)
        if sending.cancelled_caught:
            raise trio.BrokenResourceError("the client does not read")

    async def _wait_for_answers(self, dispatcher: Dispatcher, unanswered: int, timeout_s: float) -> bool:
        """Until no more than so many requests are unanswered; False where none was answered for so long."""
        while dispatcher.unanswered > unanswered:
            self._answered = trio.Event()
            with trio.move_on_after(timeout_s) as silence:
                await self._answered.wait()
            if silence.cancelled_caught:
                return False
        return True

    async def _linger(self) -> None:
        """After the last frame: end our direction, and take what still comes."""
        with trio.move_on_after(LINGER_S):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            while await self._stream.receive_some(RECEIVE_BYTES):
                pass


def _frame_limits(limits: Limits) -> FrameLimits:
    return FrameLimits(
        header_bytes_max=limits.frame_header_bytes_max,
        headers_max=limits.frame_headers_max,
        message_bytes_max=limits.message_bytes_max,
        sections_max=limits.sections_max,
    )
