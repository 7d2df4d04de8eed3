"""The connection of a client: from its first byte to its last, whatever is spoken on it.

    log in      until login_timeout_s, which stands still while the site verifies a password
    read        receive -> the conversation -> calls of the session
    write       session.events -> the conversation -> one send; begins with the login
    part        the answers that are owed, the end of the session, the goodbye

What the session tells while the writer waits for it is written in the turn of the loop in which it comes
true, where the transport takes bytes at once: nobody is woken for it. What does not go then has a task.

What is sent goes through `daemon.connections.output`, where the reader waits while the writer sends: so a
client that does not read stops being read from. Nor is a client read from to which as many answers are owed
as may be, until half of them are given, or while there is no room for what it has begun, nor while it or its
account publishes faster than it may, but for a little, which tells whether it is still there.

A client that is silent for longer than it has agreed to is gone: its connection ends without a word. Else the
last frame is sent, then the server's half of the stream is closed, and what still comes is thrown away until
the client has closed too, or for a moment: to close at once could reset the connection before the client has
read why. A client that has ended its own direction gets what it is owed, too.
"""

import math
from contextlib import suppress
from functools import partial

import trio

from daemon.connections.conversation import Conversation, Credentials, EndReason
from daemon.connections.output import Output
from daemon.connections.silence import Silence, SilentError
from daemon.connections.transport import RECEIVE_BYTES, Transport, linger
from daemon.connections.unless_left import READ_AHEAD_BYTES, unless_left
from daemon.frontend import UNCOUNTED_BYTES, Ending, Limits, Session, SessionEvent, Site
from daemon.system.mishaps import OWN_ERROR
from routing.errors import Refusal


async def _fail(error: Exception) -> None:
    raise error


class ClientConnection:
    """One connection while it is served."""

    def __init__(
        self,
        site: Site,
        protocol: str,
        conversation: Conversation,
        transport: Transport,
        remote: str,
        login_by: float,
    ) -> None:
        self._site = site
        self._protocol = protocol
        self._conversation = conversation
        self._transport = transport
        self._remote = remote
        self._session: Session | None = None
        self._listening = trio.CancelScope()  # around each wait for the client
        self._answered = trio.lowlevel.ParkingLot()
        self._answers_end = False  # the session gives none any more, or none in time
        self._limits = site.limits  # of which the conversation knows
        self._output = Output(site, conversation, transport, self._finish)
        self._output.login_by = login_by
        self._silence = Silence(site, conversation)
        self._ahead_bytes = 0  # read while nothing was carried out
        self._left_by = math.inf  # who has closed its own direction, and is slowed down
        self._held = 0  # bytes that the session knows of
        self._why = ""  # the connection itself ends it, for the log
        self._left = False  # its client has ended its direction, and had not said goodbye

    async def run(self) -> None:
        """Run the connection until both sides have said what they have to say."""
        conversation = self._conversation
        if not await self._open():
            return
        try:
            async with trio.open_nursery() as nursery:
                session = await self._log_in()
                self._output.login_by = math.inf
                if session is not None:
                    session.offer_events_to(partial(self._take, nursery))
                    nursery.start_soon(self._write, session)
                    await self._read(session)
                    self._left = conversation.goodbye is None
                    await self._wait_for_answers()
                await self._output.flush()
                self._output.busy = True  # no other frame begins, so that the writer is stopped within none
                nursery.cancel_scope.cancel()
            self._output.busy = False
            await self._output.flush()
        except* (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, SilentError):
            raise
        except* Exception:
            self._why = OWN_ERROR
            raise
        finally:
            if self._session is not None:  # what it held goes on to others now
                self._session.close(lost=not conversation.said_goodbye, why=self._why_ended)
        if conversation.goodbye is None:
            conversation.input_ended()
        if conversation.goodbye is not None:
            await self._part(conversation.goodbye)

    def end(self, reason: EndReason, text: str) -> None:
        """Say goodbye once what is owed is answered, unless that is being done already."""
        if self._conversation.goodbye is None:
            self._why = text
            redirect = self._site.redirect if reason == "draining" else None
            self._conversation.end(reason, text, redirect)
        self._stop_waiting()

    @property
    def _why_ended(self) -> str:
        """For the log; "" where the connection broke, or its client said goodbye."""
        why = self._why or self._conversation.ended_by
        if not why and self._left:
            why = self._transport.ended_by or "its client closed the connection without a goodbye"
        if not why and self._output.is_unread:
            why = "its client does not read"
        return why

    def _stop_waiting(self) -> None:
        self._listening.cancel()
        self._answered.unpark_all()

    # -- logging in -------------------------------------------------------------------------------

    async def _open(self) -> bool:
        """False where the client has not come so far that anything could be said to it."""
        with trio.CancelScope(deadline=self._output.login_by) as self._listening:
            return await self._transport.open()
        return False

    async def _log_in(self) -> Session | None:
        """None where the connection ends without a login."""
        conversation, timeout_s = self._conversation, self._site.limits.login_timeout_s
        if self._site.draining.is_set():
            self.end("draining", "the site is stopping")
        else:
            conversation.greet()
        while True:
            credentials = conversation.proceed(self._site.limits.unanswered_per_session_max)
            if credentials is not None:
                began = trio.current_time()
                session = await self._verify(credentials)
                if session is not None:
                    return session
                self._output.login_by += trio.current_time() - began
                continue
            await self._output.flush()
            if conversation.goodbye is None:
                data = await self._receive(self._output.login_by)
                if data:
                    conversation.feed(data)
                    continue
                if data is None:
                    self.end("login-timeout", f"no login within {timeout_s:g} s")
            return None

    async def _verify(self, credentials: Credentials) -> Session | None:
        """Look at a login; None where it is refused, or the connection has to end meanwhile."""
        site, conversation = self._site, self._conversation
        account, password = credentials.account, credentials.password
        identity = None
        try:
            with trio.CancelScope() as self._listening:
                identity = await unless_left(
                    lambda: site.authenticate(account, password, self._remote, protocol=self._protocol),
                    self._transport.receive_some,
                    conversation.feed,
                )
            if identity is None or conversation.goodbye is not None:
                return None
            self._session = site.open_session(
                identity, credentials.channel, protocol=self._protocol, remote=self._remote
            )
        except Refusal as refusal:
            conversation.refuse(refusal)
            return None
        conversation.accept(self._session)
        return self._session

    # -- reading ----------------------------------------------------------------------------------

    async def _read(self, session: Session) -> None:
        """Until the client has ended its direction, or there is a goodbye."""
        conversation = self._conversation
        self._silence.frame_at = trio.current_time()
        while True:
            self._proceed()
            await self._output.flush()
            if conversation.goodbye is not None:
                return
            limits = self._site.limits
            if conversation.wait_s:
                await self._slow_down(session)
            elif conversation.unanswered >= limits.unanswered_per_session_max:
                await self._let_answers_catch_up(limits)
            elif await self._make_room(session) and not await self._listen(session):
                return

    def _proceed(self) -> None:
        limits = self._site.limits
        try:
            if limits is not self._limits:
                self._limits = limits
                self._conversation.limit(limits)
            self._conversation.proceed(limits.unanswered_per_session_max)
        except Exception as error:  # of ours: what the session holds goes to others, and the client is told
            self._site.mishap(f"what {self._remote} asked for", error)
            self._answers_end = True
            self.end("failed", OWN_ERROR)

    async def _listen(self, session: Session) -> bool:
        """Wait for bytes, and carry out what comes, while there is nothing else to do; False at the end.

        One cancel scope for many reads: it costs as much as the read. What is heard meanwhile does not move
        its deadline, which is only looked at anew when it has come.
        """
        conversation, silence = self._conversation, self._silence
        silence.heard_at = trio.current_time()
        self._ahead_bytes = 0
        rests = conversation.rests
        while conversation.goodbye is None:
            until = silence.until(rests=rests)
            with trio.CancelScope(deadline=until) as listening:
                self._listening = listening
                while conversation.goodbye is None:
                    data = await self._transport.receive_some(RECEIVE_BYTES)
                    silence.heard_at = trio.current_time()
                    if rests:
                        silence.frame_at = silence.heard_at
                    conversation.feed(data)
                    if not data:
                        return False
                    self._proceed()
                    if self._has_more_to_do(session):
                        return True
                    rests = conversation.rests
                    if rests:
                        continue  # what was heard just now does not make it sooner
                    sooner = silence.until(rests=rests)
                    if sooner < until:
                        until = listening.deadline = sooner
            if conversation.goodbye is None:
                self._look_at_silence()
        return True

    def _has_more_to_do(self, session: Session) -> bool:
        """Whether there is anything to be done before the next read."""
        conversation = self._conversation
        return bool(
            conversation.out
            or self._output.busy
            or conversation.wait_s
            or conversation.unanswered >= self._site.limits.unanswered_per_session_max
            or self._unfinished_bytes != self._held
            or session.is_storing_much
        )

    def _look_at_silence(self) -> None:
        """Raises SilentError where no heart-beat came."""
        try:
            if self._silence.is_idle(trio.current_time()):
                self.end("idle", f"no complete frame for {self._site.limits.idle_timeout_s:g} s")
        except SilentError as error:
            self._why = str(error)
            raise

    async def _receive(self, deadline: float) -> bytes | bytearray | None:
        """Some bytes, b"" at the end of the stream; None at the deadline, or where there is a goodbye."""
        with trio.CancelScope(deadline=deadline) as self._listening:
            return await self._transport.receive_some(RECEIVE_BYTES)
        return None

    async def _make_room(self, session: Session) -> bool:
        """Hold, of the memory that all connections share, what has come or was announced and is not whole.

        Where much that has come is not on disk yet, this waits until there is room for what the next read may
        bring: so a client is read from no faster than the disk takes what it sends.

        False where there is no room: the conversation has something to say to that.
        """
        held = self._unfinished_bytes
        if held != self._held or session.is_storing_much:
            try:
                await session.hold(held)
            except Refusal as refusal:
                self._conversation.refuse_unfinished(refusal)
                return False
            self._held = held
        return True

    @property
    def _unfinished_bytes(self) -> int:
        """That are to be held; a little is not counted."""
        held = self._conversation.unfinished_bytes
        return held if held > UNCOUNTED_BYTES else 0

    async def _slow_down(self, session: Session) -> None:
        """Carry nothing out until the client may publish again, or there is a goodbye.

        Raises BrokenResourceError where it has left, and what it sent would take long to carry out.
        """
        self._site.metrics.slowed += 1
        while (wait_s := session.publish_wait_s) and self._conversation.goodbye is None:
            if trio.current_time() >= self._left_by:
                self._why = "its client left while it was slowed down"
                raise trio.BrokenResourceError(self._why)
            with trio.move_on_after(wait_s) as self._listening:
                await self._read_ahead()
                await trio.sleep_until(self._left_by)
        self._conversation.wait_s = 0.0

    async def _read_ahead(self) -> None:
        """Take a little of what comes while nothing is carried out: so it is noticed that it leaves."""
        while self._ahead_bytes < READ_AHEAD_BYTES and self._left_by == math.inf:
            data = await self._transport.receive_some(READ_AHEAD_BYTES - self._ahead_bytes)
            self._ahead_bytes += len(data)
            self._conversation.feed(data)
            if not data:  # its own direction has ended, and it may still want its answers
                self._left_by = trio.current_time() + self._site.limits.send_timeout_s

    async def _let_answers_catch_up(self, limits: Limits) -> None:
        """Until half of the answers that may be owed have been given.

        Nothing is read meanwhile, so that it cannot be told whether the client is still there: where no
        answer comes for long, the connection ends.
        """
        conversation = self._conversation
        while conversation.unanswered > limits.unanswered_per_session_max // 2:
            if conversation.goodbye is not None:
                return
            if not await self._next_answer(limits.idle_timeout_s):
                self.end("not-available", f"the site could answer nothing for {limits.idle_timeout_s:g} s")
                self._answers_end = True

    async def _wait_for_answers(self) -> None:
        """Until none is owed, or none comes."""
        while self._conversation.unanswered and not self._answers_end:
            if not await self._next_answer(self._site.limits.send_timeout_s):
                return

    async def _next_answer(self, timeout_s: float) -> bool:
        with trio.move_on_after(timeout_s) as silence:
            await self._answered.park()
        return not silence.cancelled_caught

    # -- writing ----------------------------------------------------------------------------------

    async def _write(self, session: Session) -> None:
        """Until the session has ended."""
        conversation = self._conversation
        while events := await self._output.events(session):
            last = events[-1]
            if type(last) is Ending:
                events.pop()
            self._handle(events)
            await self._output.flush()
            if type(last) is Ending:
                self.end(last.reason, last.text)
            elif conversation.goodbye is not None:
                self._stop_waiting()
        self._answers_end = True
        self.end("failed", "the session has ended")

    def _handle(self, events: list[SessionEvent]) -> None:
        conversation = self._conversation
        before = conversation.unanswered
        conversation.handle(events)
        if conversation.unanswered < before:
            self._answered.unpark_all()

    def _take(self, nursery: trio.Nursery, events: list[SessionEvent]) -> bool:
        """Do at once what `_write` would do; False where that has to wait."""
        output = self._output
        if output.busy or not self._transport.sends_now:
            return False
        try:
            self._handle(events)
            unsent = output.send_now()
            if unsent is not None:
                nursery.start_soon(unsent)
            if self._conversation.goodbye is not None:
                self._stop_waiting()
        except Exception as error:  # the client's, or ours: it ends the connection as in a task of that
            nursery.start_soon(_fail, error)
        return True

    def _finish(self, deliveries: list[int]) -> None:
        if deliveries and self._session is not None:
            with suppress(Refusal):  # the session has just ended; they come again
                self._session.commit(deliveries)

    async def _part(self, goodbye: bytes) -> None:
        """The last frame; then end our direction, and take what still comes."""
        if goodbye:
            await self._output.send([goodbye])
        await linger(self._transport)
