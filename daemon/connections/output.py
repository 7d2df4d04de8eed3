"""What goes to a client: one send at a time, and heart-beats where there is nothing else to say.

Whichever task has something to send sends all there is, so that frames never mix; any other waits until it is
done.
"""

import math
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from daemon.connections.conversation import Conversation
from daemon.connections.transport import Transport
from daemon.frontend import Session, SessionEvent, Site


class Output:
    """Of one connection.

    Attributes:
        busy: something is being sent; may be set so that nothing else begins.
        login_by: until when its client has to log in, and to take what is sent before.
        is_unread: the client has not taken in time what was sent.
    """

    def __init__(
        self,
        site: Site,
        conversation: Conversation,
        transport: Transport,
        finish: Callable[[list[int]], None],
    ) -> None:
        """`finish` gets the deliveries that are finished by being sent."""
        self.busy = False
        self.login_by = math.inf
        self.is_unread = False
        self._site = site
        self._conversation = conversation
        self._transport = transport
        self._finish = finish
        self._sent = trio.lowlevel.ParkingLot()
        self._sent_at = 0.0  # when the latest send ended, where the client wants heart-beats

    async def flush(self) -> None:
        """Send what there is; on return all that was there at the call has been sent."""
        while self.busy:
            await self._sent.park()
        while True:
            pieces, finished = self._conversation.take_output()
            if not pieces:
                return
            await self.send(pieces)
            self._finish(finished)

    def send_now(self) -> Callable[[], Awaitable[None]] | None:
        """Send what there is without waiting; what is to be run for the rest. Only where nothing is sent."""
        pieces, finished = self._conversation.take_output()
        rest: list[bytes] = []
        if pieces:
            rest = self._transport.send_now(pieces)
            self._note_sent()
        if rest:
            self.busy = True
            return partial(self._send_rest, rest, finished)
        self._finish(finished)
        return None

    async def _send_rest(self, rest: list[bytes], finished: list[int]) -> None:
        await self._send_waiting(rest)
        self._finish(finished)

    async def events(self, session: Session) -> list[SessionEvent]:
        """The next events; heart-beats while there are none, or none of which anything was sent."""
        beat_s = self._conversation.sends_every_s
        if beat_s is None:
            return await session.events()
        while True:
            if trio.current_time() >= self._sent_at + beat_s:
                await self._beat()
            with trio.move_on_at(self._sent_at + beat_s):
                return await session.events()

    async def _beat(self) -> None:
        if self.busy:
            await self._sent.park()  # what is being sent tells as much
        else:
            await self.send([self._conversation.heart_beat])

    async def send(self, pieces: list[bytes]) -> None:
        """Send these to the client. Raises TooSlowError where it does not take them in time."""
        pieces = self._transport.send_now(pieces)
        if not pieces:
            self._note_sent()
            return
        await self._send_waiting(pieces)

    def _note_sent(self) -> None:
        if self._conversation.sends_every_s is not None:  # else nobody asks
            self._sent_at = trio.current_time()

    async def _send_waiting(self, pieces: list[bytes]) -> None:
        self.busy = True
        try:
            with trio.CancelScope(deadline=self._send_by()) as sending:

                def taken() -> None:
                    sending.deadline = self._send_by()

                await self._transport.send_pieces(pieces, taken)
            if sending.cancelled_caught:
                self.is_unread = True
                raise trio.TooSlowError
            self._note_sent()
        finally:
            self.busy = False
            self._sent.unpark_all()

    def _send_by(self) -> float:
        return min(trio.current_time() + self._site.limits.send_timeout_s, self.login_by)
