"""Calls of a session whose answers come back to whoever made them, in the session's order."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from daemon.frontend import Answer, Session
from routing.errors import Refusal

Done = Callable[[Answer], Awaitable[None]]


class SessionEnded(Refusal):
    """The session has ended before it answered: what was asked for has been done, or has not."""

    def __init__(self) -> None:
        super().__init__(Refusal.NOT_AVAILABLE, "the session has ended")


class Reply:
    """The answer to one call, for who waits for it; `done` is what the call is given."""

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._come = trio.Event()

    async def done(self, answer: Answer) -> None:
        """Take the answer."""
        self._answer = answer
        self._come.set()
        await trio.lowlevel.checkpoint()

    async def wait(self) -> Answer:
        """Wait for the answer. Raises Refusal where that is it."""
        await self._come.wait()
        assert self._answer is not None
        if self._answer.error is not None:
            raise self._answer.error
        return self._answer


class Calls:
    """What has been asked of one session, and is not answered yet.

    Attributes:
        unanswered: how many; at most `unanswered_max`.
    """

    def __init__(self, session: Session, unanswered_max: int) -> None:
        self.session = session
        self.unanswered = 0
        self._unanswered_max = unanswered_max
        self._waiting: dict[int, Done] = {}
        self._next_request = 1

    def request(self, call: Callable[..., None], *args: Any, done: Done) -> None:
        """Call the session; `done` is awaited with the answer. Raises Refusal: `done` is not called then."""
        if self.unanswered >= self._unanswered_max:
            raise Refusal(Refusal.TOO_MANY, "too many unanswered requests")
        number = self._next_request
        call(*args, request=number)
        self._next_request = number + 1
        self._waiting[number] = done
        self.unanswered += 1

    async def ask(self, call: Callable[..., None], *args: Any) -> Answer:
        """Call the session and wait for the answer. Raises Refusal, also where that is the answer."""
        reply = Reply()
        self.request(call, *args, done=reply.done)
        return await reply.wait()

    def quietly(self, call: Callable[..., None], *args: Any, **options: Any) -> None:
        """Call the session where nobody waits for what comes of it."""
        try:
            call(*args, **options)
        except Refusal:
            # the session has just ended, and with it what this was about
            return

    async def answered(self, answer: Answer) -> None:
        """Tell whoever made a call what the session has answered."""
        done = self._waiting.pop(answer.request, None)
        if done is not None:
            self.unanswered -= 1
            await done(answer)

    def give_up(self) -> list[Done]:
        """Give up all calls, as the session has ended; returns those who will not be answered any more."""
        waiting, self._waiting = list(self._waiting.values()), {}
        return waiting
