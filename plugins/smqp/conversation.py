"""One SMQP connection, from greeting to goodbye: commands to calls of the session, its events to frames.

Pure but for the session that it calls: see `daemon.connections.conversation`. What needs no disk (PONG,
refusals) is answered at once, everything else by an event.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from daemon.connections.conversation import Conversation, Credentials, EndReason
from daemon.frontend import Answer, Delivered, Detached, Limits, Session, SessionEvent, Withdrawn
from plugins.smqp import replies
from plugins.smqp.protocol import is_answered, read_command, reply_key, without_secret
from plugins.smqp.requests import (
    Command,
    Commit,
    ConnectTo,
    Detach,
    Login,
    Ping,
    Publish,
    Quit,
    Received,
    Remove,
    RequestKey,
    Return,
    SetDelivery,
    SetTimeout,
    Subscribe,
    Unsubscribe,
)
from routing.errors import FramingLost, Refusal
from routing.frames import Frame, FrameLimits, FrameReader
from routing.names import make_address

LOGIN_ATTEMPTS_MAX: Final = 3
LOGIN_HEADER_BYTES_MAX: Final = 4_096
"""Who has not logged in makes the server hold no more than this."""

CONNECT_TIMEOUT_S: Final = 60.0
"""How long a CONNECTTO waits for its receiver: who asked is not listening for longer."""


class SmqpConversation(Conversation):
    """See `daemon.connections.conversation.Conversation`."""

    def __init__(
        self,
        *,
        server_name: str,
        server_ident: str,
        suid: str,
        default_timeout_s: float,
        limits: Limits,
        remote: str,
        utc_now: Callable[[], datetime],
        note_refused: Callable[[Refusal], object],
    ) -> None:
        """`remote` is the client's address, with or without its port."""
        super().__init__(note_refused)
        self._server_name = server_name
        self._server_ident = server_ident
        self._suid = suid
        self._default_timeout_s = default_timeout_s
        self._remote = remote
        self._utc_now = utc_now
        self._limits = limits
        self._reader = FrameReader(
            msgspec.structs.replace(
                frame_limits(limits),
                header_bytes_max=min(LOGIN_HEADER_BYTES_MAX, limits.frame_header_bytes_max),
                sections_max=0,
            )
        )
        self._begun: Frame | None = None  # whose head has been looked at, and whose rest is awaited
        self._greeted = False
        self._attempts = 0
        self._delayed: Publish | ConnectTo | None = None  # until the client may publish
        self._login: Login | None = None  # that is being looked at
        self._session: Session | None = None
        self._handlers: dict[type[Command], Callable[[Any], object]] = {}

    @property
    def unfinished_bytes(self) -> int:
        """See `Conversation`."""
        return self._reader.unfinished_bytes

    def greet(self) -> None:
        """Send the greeting: the server speaks first."""
        self._greeted = True
        self.out.append(replies.greeting(self._server_ident))

    def end(self, reason: EndReason, text: str, redirect: str | None) -> None:
        """Say BYE, or in the greeting that nobody is served."""
        if not self._greeted:
            self.goodbye = replies.not_available(self._server_ident, redirect, text)
        else:
            hint = "; send PING now and then" if reason == "idle" else ""
            self.goodbye = replies.goodbye(reason, text + hint, redirect)

    # -- what the client says ---------------------------------------------------------------------

    def feed(self, data: bytes | bytearray) -> None:
        """See `Conversation`."""
        self._reader.feed(bytes(data))

    def proceed(self, unanswered_max: int) -> Credentials | None:
        """See `Conversation`."""
        while self.goodbye is None and self.unanswered < unanswered_max and not self.wait_s:
            if self._delayed is not None and self._session is not None:
                delayed, self._delayed = self._delayed, None
                self._carry_out(self._session, delayed)
                continue
            try:
                frame = self._reader.take()
            except FramingLost as lost:
                self._tell_refused(("", ""), lost)
                self.goodbye = replies.goodbye("framing-lost")
                self._note_end(lost)
                return None
            except Refusal as refusal:
                self._refuse_frame(self._reader.refused, refusal)
                self.frames += 1
                continue
            if frame is None:
                if self._look_ahead():
                    return None
                continue
            self.frames += 1
            try:
                command = read_command(frame)
            except Refusal as refusal:
                self._refuse_frame(frame, refusal)
                continue
            if self._session is not None:
                self._carry_out(self._session, command)
            elif isinstance(command, Login):
                self._login = command
                return Credentials(command.account, command.password, command.channel)
            else:
                self._carry_out_early(frame, command)
        return None

    def _look_ahead(self) -> bool:
        """Refuse now what would be refused once its sections had come; False where there is more to read."""
        frame = self._reader.unfinished
        if frame is None or frame is self._begun or self._session is None:
            return True
        self._begun = frame
        try:
            if frame.command != "PUBLISH":
                read_command(frame)
                raise Refusal(Refusal.BAD_FRAME, f"{frame.command} has no sections")
            self._session.check_publish(frame.arguments.strip())
        except Refusal as refusal:
            self._reader.refuse(refusal)
            return False
        return True

    def refuse_unfinished(self, refusal: Refusal) -> None:
        """Refuse the frame that is awaited, and pass over it; end where its head is too long for that."""
        if self._reader.unfinished is not None:
            self._reader.refuse(refusal)
        else:
            self._tell_refused(("", ""), refusal)
            self.goodbye = replies.goodbye(refusal.code)
            self._note_end(refusal)

    def _carry_out_early(self, frame: Frame, command: Command) -> None:
        if isinstance(command, Ping):
            self.out.append(replies.pong(command.request))
        elif isinstance(command, Quit):
            self._quit(command)
        else:
            early = Refusal(Refusal.NOT_LOGGED_IN, "PASS account[/channel] password comes first")
            self._refuse_frame(frame, early)

    def _carry_out(self, session: Session, command: Command) -> None:
        """An unguaranteed PUBLISH is never answered, not even when it is refused. Source: SMQP GUARANTEE."""
        try:
            if type(command) is Publish or type(command) is ConnectTo:  # which publishes, too
                self.wait_s = session.publish_wait_s
                if self.wait_s:
                    self._delayed = command
                    return
            if type(command) is Publish:
                message = command.message
                session.publish(command.topic, message, command.key)
                if message.guarantee:
                    self.unanswered += 1
            elif type(command) is Ping:
                self.out.append(replies.pong(command.request))
            elif type(command) is Quit:
                self._quit(command)
            else:
                self._handlers[type(command)](command)
                self.unanswered += 1
        except Refusal as refusal:
            self.note_refused(refusal)
            if type(command) is not Publish or command.message.guarantee:
                self.out.append(replies.error(command.key, refusal))

    def _refuse_frame(self, frame: Frame, refusal: Refusal) -> None:
        """Refuse what was read of a frame: alike, however the stream was cut as it came."""
        self.note_refused(refusal)
        if is_answered(frame):
            self.out.append(replies.error(reply_key(frame), without_secret(frame, refusal)))

    def _tell_refused(self, key: RequestKey, refusal: Refusal) -> None:
        self.note_refused(refusal)
        self.out.append(replies.error(key, refusal))

    def _quit(self, command: Quit) -> None:
        self.said_goodbye = True
        self.goodbye = replies.goodbye("quit", request=command.request)

    def input_ended(self) -> None:
        """See `Conversation`."""
        self.goodbye = replies.goodbye("quit")

    # -- the login --------------------------------------------------------------------------------

    def limit(self, limits: Limits) -> None:
        """See `Conversation`."""
        self._reader.limits = frame_limits(limits)

    def accept(self, session: Session) -> None:
        """See `Conversation`."""
        assert self._login is not None
        self._session = session
        self.limit(self._limits)
        self._handlers = {
            Commit: lambda command: session.commit(command.numbers, command.key),
            ConnectTo: self._connect_to,
            Detach: lambda command: session.detach(command.topic, command.name, command.key),
            Login: _log_in_again,
            Received: lambda command: session.received(command.numbers, command.key),
            Remove: lambda command: session.remove(command.topic, command.smuid, command.key),
            Return: lambda command: session.give_back(
                command.numbers, command.reason, command.delay_s, command.key, outcome=command.outcome
            ),
            SetDelivery: lambda command: session.set_delivery(command.topic, command.mode, command.key),
            SetTimeout: lambda command: session.set_timeout(command.topic, command.timeout_s, command.key),
            Subscribe: lambda command: session.subscribe(command.topic, command.options, command.key),
            Unsubscribe: lambda command: session.unsubscribe(command.topic, command.name, command.key),
        }
        self.out.append(
            replies.logged_in(
                self._login.request,
                session.system_topic,
                self._default_timeout_s,
                self._utc_now(),
                self._suid,
                self._limits.idle_timeout_s,
            )
        )

    def refuse(self, refusal: Refusal) -> None:
        """Refuse a login; end unless a wrong password may be mended, which is tried a few times."""
        assert self._login is not None
        self._tell_refused(self._login.key, refusal)
        self._attempts += 1
        if refusal.code != Refusal.BAD_LOGIN or self._attempts == LOGIN_ATTEMPTS_MAX:
            self.goodbye = replies.goodbye(refusal.code)

    # -- what the session says --------------------------------------------------------------------

    def handle(self, events: Iterable[SessionEvent]) -> None:
        """See `Conversation`."""
        out = self.out
        for event in events:
            if type(event) is Delivered:
                replies.deliver(event, out)
            elif type(event) is Answer:
                self.unanswered -= 1
                out.append(replies.answer(event))
            elif type(event) is Withdrawn:
                out.append(replies.withdrawn(event))
            elif type(event) is Detached:
                out.append(replies.detached(event))

    def _connect_to(self, command: ConnectTo) -> None:
        assert self._session is not None
        address = command.address or _without_port(self._remote)
        message = replies.connect_request(address, command.port, CONNECT_TIMEOUT_S, self._utc_now())
        topic = make_address(command.account, command.channel, self._server_name)
        self._session.publish(topic, message, command.key)


def frame_limits(limits: Limits) -> FrameLimits:
    """The limits after a login; before it, heads are bounded by `LOGIN_HEADER_BYTES_MAX`, too."""
    return FrameLimits(
        header_bytes_max=limits.frame_header_bytes_max,
        headers_max=limits.frame_headers_max,
        message_bytes_max=limits.message_bytes_max,
        sections_max=limits.sections_max,
    )


def _log_in_again(command: Login) -> None:
    raise Refusal(Refusal.BAD_COMMAND, "this connection is logged in already")


def _without_port(remote: str) -> str:
    """`10.0.0.1:4711` and `[::1]:4711` to the address alone; an address alone stays."""
    if remote.startswith("["):
        return remote[1:].partition("]")[0]
    return remote.partition(":")[0] if remote.count(":") == 1 else remote
