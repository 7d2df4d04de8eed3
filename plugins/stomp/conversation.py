"""One STOMP connection: bytes and the session's events in, bytes and calls of the session out. No I/O.

    connecting  ->  connected  ->  leaving (DISCONNECT; what is owed is answered)  ->  RECEIPT
                         any error  ->  what is owed is answered  ->  ERROR

A SEND is guaranteed (on disk before its RECEIPT) with persistent:true, guarantee:YES, a receipt or a
transaction; guarantee:NO and persistent:false say otherwise, in this order. Source: STOMP 1.0-1.2; what is
server-specific there is described in README.md beside this file.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from daemon.connections.conversation import Conversation, Credentials, EndReason
from daemon.frontend import (
    Answer,
    Delivered,
    Detached,
    Limits,
    ReturnOutcome,
    Session,
    SessionEvent,
    Withdrawn,
)
from plugins.stomp.answers import command_word, write_error, write_receipt
from plugins.stomp.codec import Decoder, DecoderLimits, Frame, Version, encode
from plugins.stomp.connect import Connect, read_connect, with_advice
from plugins.stomp.consuming import Consuming, required
from plugins.stomp.sending import Sending
from plugins.stomp.settings import StompSettings
from plugins.stomp.subscription import Subscription, read_boolean
from plugins.stomp.transactions import Transactions
from routing.errors import Refusal
from routing.message import text_bytes


class _Quiet:
    """A request whose answer is waited for, but which the client gets no RECEIPT for."""


QUIET: Final = _Quiet()

LOGIN_BODY_BYTES_MAX: Final = 4_096
"""CONNECT has no body; whoever has not logged in is to cost little, and yet to hear what was wrong."""


class StompConversation(Conversation):
    """The server's side of one connection.

    Attributes:
        version: agreed at CONNECT.
    """

    heart_beat = b"\n"

    def __init__(
        self,
        *,
        server_name: str,
        server_ident: str,
        limits: Limits,
        settings: StompSettings,
        token: str,
        wall_ms: Callable[[], int],
        note_refused: Callable[[Refusal], object],
    ) -> None:
        super().__init__(note_refused)
        self.version: Version = "1.2"
        self._server_name = server_name
        self._server_ident = server_ident
        self._limits = limits
        self._settings = settings
        self._token = token
        self._wall_ms = wall_ms
        self._decoder = Decoder(
            msgspec.structs.replace(
                decoder_limits(limits, settings),
                body_bytes_max=min(LOGIN_BODY_BYTES_MAX, limits.message_bytes_max),
            )
        )
        self._transactions = Transactions(settings)
        self._connect: Connect | None = None  # that is being looked at, or was right
        self._session: Session
        self._consuming: Consuming | None = None
        self._sending: Sending | None = None
        self._begun: object = None  # headers of a frame that has been looked at, and whose body is awaited
        self._delayed: Frame | None = None  # until the client may publish
        self._acknowledged: list[int] = []  # by ACKs that came one after the other, to be committed together
        self._failed = False  # the goodbye is an ERROR

    @property
    def unfinished_bytes(self) -> int:
        """Of frames and of transactions."""
        return self._decoder.unfinished_bytes + self._transactions.bytes

    @property
    def rests(self) -> bool:
        """Whether no frame has begun: between two, a client may be silent for as long as it likes."""
        return not self._decoder.unfinished_bytes

    # -- what the shell calls ---------------------------------------------------------------------

    def feed(self, data: bytes | bytearray) -> None:
        """See `Conversation`."""
        self._decoder.feed(data)

    def proceed(self, unanswered_max: int) -> Credentials | None:
        """See `Conversation`."""
        while self.goodbye is None and self.unanswered < unanswered_max and not self.wait_s:
            frame = None
            try:
                frame, self._delayed = self._delayed or self._decoder.next_frame(), None
                if self._acknowledged and (frame is None or frame.command != "ACK"):
                    self._commit_acknowledged()
                    if self.goodbye is not None:
                        return None
                if frame is None:
                    self._look_ahead()
                    return None
                if self._consuming is None:
                    self.frames += 1
                    return self._login(frame)
                self.wait_s = self._wait_s_before(frame)
                if self.wait_s:
                    self._delayed = frame
                    return None
                self.frames += 1
                handle = _HANDLERS.get(frame.command)
                if handle is None:
                    raise _unexpected(frame)
                before = self.unanswered
                try:
                    handle(self, frame)
                except Refusal:
                    self.unanswered = before  # what was refused is not answered
                    raise
            except Refusal as refusal:
                if frame is None:
                    self._fail(refusal, self._decoder.receipt)
                else:
                    self._fail(refusal, frame.headers.get("receipt"), frame.command)
        self._commit_acknowledged()
        return None

    def _wait_s_before(self, frame: Frame) -> float:
        transaction = frame.headers.get("transaction")
        if frame.command == "SEND":
            return 0.0 if transaction is not None else self._session.publish_wait_s
        if frame.command == "COMMIT" and self._transactions.publishes(transaction):
            return self._session.publish_wait_s
        return 0.0

    def _look_ahead(self) -> None:
        """Where the body of a SEND is still to come: refuse now what would be refused with it."""
        unfinished = self._decoder.unfinished
        if unfinished is None or unfinished[1] is self._begun or self._sending is None:
            return
        command, headers = unfinished
        self._begun = headers
        try:
            self._sending.look_ahead(command, headers)
        except Refusal as refusal:
            self._fail(refusal, headers.get("receipt"), command)

    def refuse_unfinished(self, refusal: Refusal) -> None:
        """Send ERROR for the frame that is awaited."""
        command, headers = self._decoder.unfinished or (None, {})
        self._fail(refusal, headers.get("receipt"), command)

    def limit(self, limits: Limits) -> None:
        """See `Conversation`."""
        self._decoder.limit(decoder_limits(limits, self._settings))
        if self._consuming is not None:
            self._consuming.limits = limits

    def accept(self, session: Session) -> None:
        """Send CONNECTED, and go on with the session."""
        connect = self._connect
        assert connect is not None
        self._session = session
        self.version = self._decoder.version = connect.version
        self.limit(self._limits)
        least = self._settings.heart_beat_ms_min
        if connect.sends_every_ms:
            every_s = max(connect.sends_every_ms, least) / 1000
            self.silence_max_s = every_s * self._settings.heart_beat_grace
        if connect.wants_every_ms:
            self.sends_every_s = max(connect.wants_every_ms, least) / 1000
        headers = {"version": connect.version, "server": self._server_ident, "session": self._token}
        if connect.version != "1.0":
            headers["heart-beat"] = f"{least},{least}"
        self.out.append(encode("CONNECTED", headers))
        self._consuming = Consuming(
            session,
            connect.version,
            self.out,
            self.finished,
            server_name=self._server_name,
            limits=self._limits,
            settings=self._settings,
            token=self._token,
            wall_ms=self._wall_ms,
        )
        self._sending = Sending(session, self._consuming, self._settings, self._wall_ms)

    def refuse(self, refusal: Refusal) -> None:
        """Send ERROR: there is no second try. Source: STOMP 1.2 "Connecting"."""
        if refusal.code == Refusal.BAD_LOGIN and self._connect is not None:
            refusal = with_advice(refusal, self._connect)
        self._fail(refusal, None)

    def end(self, reason: EndReason, text: str, redirect: str | None) -> None:
        """Send ERROR, with the reason for the end."""
        code = Refusal.NOT_LOGGED_IN if reason == "login-timeout" else Refusal.NOT_AVAILABLE
        self._end_with(Refusal(code, f"{text}; connect to {redirect}" if redirect else text), None)

    def handle(self, events: Iterable[SessionEvent]) -> None:
        """See `Conversation`. Who is leaving is delivered nothing more, and loses no subscription."""
        consuming = self._consuming
        assert consuming is not None
        for event in events:
            if isinstance(event, Delivered):
                if self.goodbye is None:
                    consuming.deliver(event)
            elif isinstance(event, Answer):
                self._answered(event)
            elif isinstance(event, Withdrawn):
                consuming.withdrawn(event)
            elif isinstance(event, Detached):
                refusal = consuming.detached(event)
                if refusal is not None and self.goodbye is None:
                    self._fail(refusal, None)

    # -- the client's frames ----------------------------------------------------------------------

    def _login(self, frame: Frame) -> Credentials:
        if frame.command not in ("CONNECT", "STOMP"):
            raise (
                _unexpected(frame)
                if frame.command not in _HANDLERS
                else Refusal(Refusal.NOT_LOGGED_IN, f"{frame.command} came before CONNECT")
            )
        connect = self._connect = read_connect(frame, token_passcode=self._settings.token_passcode)
        channel = self._settings.channel if connect.channel is None else connect.channel
        return Credentials(connect.account, connect.password, channel)

    def _send(self, frame: Frame) -> None:
        sending = self._sending
        assert sending is not None
        headers = frame.headers
        transaction, receipt = headers.get("transaction"), headers.get("receipt")
        if transaction is not None:
            size = len(frame.body)
            size += sum(text_bytes(name) + text_bytes(value) for name, value in headers.items())
            self._transactions.add(transaction, sending.read_for_commit(frame), size, len(headers))
            self._receipt(receipt)
            return
        topic, message, delay_s = sending.read(frame)
        if message.guarantee:
            self._session.publish(topic, message, self._owe(receipt), delay_s=delay_s)
        else:
            sending.publish_unguaranteed(topic, message, delay_s, asks=receipt is not None)
            self._receipt(receipt)

    def _subscribe(self, frame: Frame) -> None:
        assert self._consuming is not None
        self.unanswered += 1
        self._consuming.subscribe(frame)

    def _unsubscribe(self, frame: Frame) -> None:
        assert self._consuming is not None
        self._consuming.unsubscribe(frame, self._owe(frame.headers.get("receipt")))

    def _ack(self, frame: Frame) -> None:
        self._settle(frame, None)

    def _nack(self, frame: Frame) -> None:
        self._settle(frame, "failed" if read_boolean(frame.headers, "requeue", "true") else "rejected")

    def _settle(self, frame: Frame, returned: ReturnOutcome | None) -> None:
        """An ACK, or a NACK and what it makes of the message."""
        consuming = self._consuming
        assert consuming is not None
        delivery = consuming.find(frame)
        receipt = frame.headers.get("receipt")
        transaction = frame.headers.get("transaction")
        if transaction is not None:

            def settle() -> None:
                self._finish(consuming.take(delivery, strict=True, in_transaction=True), returned, None)

            self._transactions.add(transaction, settle)
            self._receipt(receipt)
            return
        numbers = consuming.take(delivery, strict=receipt is not None)
        if not numbers:
            self._receipt(receipt)
        elif returned is None and receipt is None:
            self._acknowledged += numbers
        else:
            self._finish(numbers, returned, receipt)
            self.unanswered += receipt is not None

    def _finish(self, numbers: list[int], returned: ReturnOutcome | None, request: str | None) -> None:
        if not numbers:
            return
        if returned is None:
            self._session.commit(numbers, request)
        else:
            self._session.give_back(numbers, "nack", request=request, outcome=returned)

    def _commit_acknowledged(self) -> None:
        numbers, self._acknowledged = self._acknowledged, []
        try:
            self._finish(numbers, None, None)
        except Refusal as refusal:
            self._fail(refusal, None)

    def _begin(self, frame: Frame) -> None:
        self._transactions.begin(required(frame, "transaction"))
        self._receipt(frame.headers.get("receipt"))

    def _commit(self, frame: Frame) -> None:
        steps = self._transactions.end(required(frame, "transaction"))
        receipt = frame.headers.get("receipt")
        if not steps:
            self._receipt(receipt)
            return
        with self._session.transaction(self._owe(receipt)):
            for step in steps:
                step()

    def _abort(self, frame: Frame) -> None:
        self._transactions.end(required(frame, "transaction"))
        self._receipt(frame.headers.get("receipt"))

    def _disconnect(self, frame: Frame) -> None:
        self._transactions.abort_all()
        self.said_goodbye = True
        receipt = frame.headers.get("receipt")
        self.goodbye = b"" if receipt is None else write_receipt(receipt, self.version)

    # -- answers ----------------------------------------------------------------------------------

    def _owe(self, receipt: str | None) -> Any:
        self.unanswered += 1
        return QUIET if receipt is None else receipt

    def _answered(self, answer: Answer) -> None:
        request = answer.request
        if request is None:
            # An ACK without a receipt that came too late: what became of it the client did not ask.
            if answer.error is not None and answer.error.code != Refusal.LOCK_LOST:
                self._fail(answer.error, None)
            return
        self.unanswered -= 1
        if isinstance(request, Subscription):
            request.begun = True
            receipt, request.receipt = request.receipt, None
        else:
            receipt = None if request is QUIET else request
        if answer.error is not None:
            self._fail(answer.error, receipt)
        else:
            self._receipt(receipt, answer.smuid)

    def _receipt(self, receipt: str | None, smuid: str = "") -> None:
        if receipt is not None:
            self.out.append(write_receipt(receipt, self.version, smuid))

    def _fail(self, refusal: Refusal, receipt: str | None, command: str | None = None) -> None:
        if not self._failed:
            self.note_refused(refusal)
            self._note_end(refusal, command if command in _HANDLERS else "")
        self._end_with(refusal, receipt, command)

    def _end_with(self, refusal: Refusal, receipt: str | None, command: str | None = None) -> None:
        """ERROR, after which the connection ends, and before which it is told what was done.

        Nothing more is read; of several errors the first is told. Source: STOMP 1.2 "ERROR".
        """
        if not self._failed:
            self._failed = True
            self.goodbye = write_error(refusal, self.version, receipt, command)
        self._transactions.abort_all()
        self._commit_acknowledged()


def decoder_limits(limits: Limits, settings: StompSettings) -> DecoderLimits:
    """The limits after a login; before it, bodies are bounded by `LOGIN_BODY_BYTES_MAX`, too."""
    return DecoderLimits(
        header_bytes_max=limits.frame_header_bytes_max,
        header_line_bytes_max=settings.header_line_bytes_max,
        headers_max=limits.frame_headers_max,
        body_bytes_max=limits.message_bytes_max,
    )


def _unexpected(frame: Frame) -> Refusal:
    if frame.command in ("CONNECT", "STOMP"):
        return Refusal(Refusal.BAD_COMMAND, "the connection is logged in already")
    word = command_word(frame.command)
    if word != frame.command:
        return Refusal(
            Refusal.BAD_COMMAND, f"the line of {word} holds more than that; headers have their own"
        )
    return Refusal(Refusal.BAD_COMMAND, f"{word[:80]!r} is not a command that a client may send")


_HANDLERS: Final[dict[str, Callable[[StompConversation, Frame], None]]] = {
    "SEND": StompConversation._send,
    "SUBSCRIBE": StompConversation._subscribe,
    "UNSUBSCRIBE": StompConversation._unsubscribe,
    "ACK": StompConversation._ack,
    "NACK": StompConversation._nack,
    "BEGIN": StompConversation._begin,
    "COMMIT": StompConversation._commit,
    "ABORT": StompConversation._abort,
    "DISCONNECT": StompConversation._disconnect,
}
