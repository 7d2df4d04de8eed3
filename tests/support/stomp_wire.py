"""A STOMP connection without a socket or a password: its state machine on a real broker."""

import itertools
from typing import Final

import trio

from daemon.frontend import Identity, Session, SessionEvent
from plugins.stomp.codec import Decoder, Frame, Version, encode
from plugins.stomp.conversation import StompConversation
from plugins.stomp.settings import StompSettings
from tests.support.patience import PATIENCE_S
from tests.support.site import BrokerSite
from tests.support.stomp import WIDE

UNANSWERED_MAX: Final = 10_000


class Wire:
    """One connection, to be used as a context.

    Attributes:
        now_ms: the Unix time.
        held: the headers of a message that a subscription 0 has not acknowledged.
    """

    numbers = itertools.count()

    def __init__(self, site: BrokerSite, version: Version, settings: StompSettings) -> None:
        self.version = version
        self.now_ms = 1_795_000_000_000
        self.connection = StompConversation(
            server_name=site.server_name,
            server_ident=site.server_ident,
            limits=site.limits,
            settings=settings,
            token=f"wire{next(self.numbers)}",
            wall_ms=lambda: self.now_ms,
            note_refused=site.metrics.tell_refused,
        )
        self._site = site
        self._session: Session | None = None
        self._decoder = Decoder(WIDE)
        self.held: dict[str, str] | None = None

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.close()

    def give(self, *pieces: bytes) -> None:
        """The client sends this; a login is always right."""
        for piece in pieces:
            self.connection.feed(piece)
            if self.connection.proceed(UNANSWERED_MAX) is not None:
                self._session = self._site.open_session(
                    Identity("ada"), f"c{next(self.numbers)}", protocol="stomp", remote="test"
                )
                self.connection.accept(self._session)
                self._decoder.version = self.connection.version
                assert self.connection.proceed(UNANSWERED_MAX) is None

    async def frame(self) -> Frame:
        """The next frame; no MESSAGE once one is `held`, since what was given back comes again."""
        with trio.fail_after(PATIENCE_S):
            while True:
                output, finished = self.connection.take_output()
                if finished and self._session is not None:
                    self._session.commit(finished)
                if not output and self.ends:
                    output.append(self.connection.goodbye or b"")
                self._decoder.feed(b"".join(output))
                while (frame := self._decoder.next_frame()) is not None:
                    if frame.command != "MESSAGE" or self.held is None:
                        return frame
                self.connection.handle(await self._events())

    async def closes(self) -> bool:
        """Whether the server ends the connection, once it owes nothing more."""
        while self.connection.unanswered:
            self.connection.handle(await self._events())
        return self.ends

    @property
    def ends(self) -> bool:
        """Whether nothing but the goodbye is left to say."""
        return self.connection.goodbye is not None and not self.connection.unanswered

    async def _events(self) -> list[SessionEvent]:
        assert self._session is not None
        return await self._session.events()

    async def begin(self, needs_message: bool) -> None:
        """Log in, open the transaction t, and make a subscription 0 that holds a message if needed."""
        self.give(encode("CONNECT", {"accept-version": self.version}))
        self.give(encode("BEGIN", {"transaction": "t"}))
        queue = f"/queue/held-{next(self.numbers)}"
        self.give(encode("SUBSCRIBE", {"id": "0", "destination": queue, "ack": "client-individual"}))
        assert (await self.frame()).command == "CONNECTED"
        if needs_message:
            self.give(encode("SEND", {"destination": queue, "persistent": "true"}))
            self.held = (await self.frame()).headers
