"""What a protocol is to the shell of its connections: bytes and events in, bytes and calls of a session out.

    feed, proceed   what the client sent, carried out as far as it has come; may ask for a login
    accept, refuse  what became of the login
    handle          what the session tells the client
    take_output     what is to be sent
    limit           other limits, of a configuration that was read anew

No I/O, no clock, no task: a conversation is tested by calling it. The shell (`daemon.connections.shell`) does
the waiting, and keeps the rules that are the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, Literal

import msgspec

from daemon.frontend import Limits, Session, SessionEvent
from routing.errors import Refusal

EndReason = Literal["login-timeout", "idle", "not-available", "draining", "disabled", "closed", "failed"]
"""Why the server ends a connection: those of `daemon.frontend.Ending`, and what the shell finds itself."""


class Credentials(msgspec.Struct, frozen=True):
    """A login that a client asks for."""

    account: str
    password: str
    channel: str


class Conversation(ABC):
    """The server's side of one connection.

    Attributes:
        out: bytes to be sent, in order; a frame is one or several pieces.
        finished: deliveries that are finished by being sent with `out`.
        unanswered: requests that an event of the session has still to answer.
        wait_s: how long nothing is to be carried out, since the client publishes as fast as it may.
        frames: how many have been read whole, for the shell to see that the client gets on.
        goodbye: the last bytes, b"" where there is nothing to say; None until the connection has to end. From
            then on nothing that the client sent is carried out. What is unanswered is answered before.
        said_goodbye: the client has said that it leaves, so it has left nothing half done.
        ended_by: for the log, what made the conversation itself set `goodbye`; "" where nothing did. Holds no
            text of a refusal: that may quote what the client sent.
        sends_every_s: how often the client wants to hear something; None for never.
        silence_max_s: how long it may send nothing at all; None for ever.
        heart_beat: what is sent where there is nothing else to say.
        note_refused: to be called with each refusal of a request that the client is told of, or would be if
            it wanted to; those of the session may be among them.
    """

    heart_beat: ClassVar[bytes] = b""

    def __init__(self, note_refused: Callable[[Refusal], object]) -> None:
        """`note_refused` is the site's `metrics.tell_refused`."""
        self.out: list[bytes] = []
        self.finished: list[int] = []
        self.unanswered = 0
        self.wait_s = 0.0
        self.frames = 0
        self.goodbye: bytes | None = None
        self.said_goodbye = False
        self.ended_by = ""
        self.sends_every_s: float | None = None
        self.silence_max_s: float | None = None
        self.note_refused = note_refused

    @property
    @abstractmethod
    def unfinished_bytes(self) -> int:
        """What is held, or has been announced, of what is not complete."""

    @property
    def rests(self) -> bool:
        """Whether the client may be silent for ever as it is now, but for `silence_max_s`."""
        return False

    def greet(self) -> None:
        """Say what a server says first."""
        return

    def limit(self, limits: Limits) -> None:
        """Keep to other limits from now on, also in what has not been looked at of a frame that has begun.

        Called where those of the site have changed since the login; those of before it are known.
        """
        return

    @abstractmethod
    def feed(self, data: bytes | bytearray) -> None:
        """Take bytes as they came."""

    @abstractmethod
    def proceed(self, unanswered_max: int) -> Credentials | None:
        """Carry out what has come whole.

        Until so much is unanswered, until there is a `goodbye` or a `wait_s`, or until a login is asked for,
        which is returned; it needs `accept` or `refuse`, and then `proceed`.
        """

    @abstractmethod
    def accept(self, session: Session) -> None:
        """Go on with a session, as the login was right; it stays the shell's to close."""

    @abstractmethod
    def refuse(self, refusal: Refusal) -> None:
        """Tell that the login was refused; whether another may be tried is the protocol's affair."""

    @abstractmethod
    def refuse_unfinished(self, refusal: Refusal) -> None:
        """Let go of what `unfinished_bytes` tells of, for which there is no room, or set `goodbye`."""

    @abstractmethod
    def handle(self, events: Iterable[SessionEvent]) -> None:
        """Turn what the session tells into frames; an Ending is not among it: see `end`."""

    @abstractmethod
    def end(self, reason: EndReason, text: str, redirect: str | None) -> None:
        """Set `goodbye`: the connection has to end. `redirect` is where to go where the site drains.

        Called only while there is no goodbye; also before `greet` and before the login.
        """

    def input_ended(self) -> None:
        """Set `goodbye` where there is one to who has ended its own direction, and has what it is owed."""
        return

    def _note_end(self, refusal: Refusal, command: str = "") -> None:
        """Set `ended_by`; `command` is the frame at fault, where it is one of the protocol's own."""
        self.ended_by = f"the site ended it: {refusal.code}{command and f' at {command}'}"

    def take_output(self) -> tuple[list[bytes], list[int]]:
        """What is to be sent, and the deliveries that are finished once it was."""
        pieces = self.out[:]
        self.out.clear()
        if not self.finished:
            return pieces, []
        finished = self.finished[:]
        self.finished.clear()
        return pieces, finished
