"""Requests of the site's own, or of its operator, to the router: answered like those of a session."""

import trio

from daemon.frontend import Answer, SessionEvent
from routing.errors import Refusal
from routing.names import SERVER_ACCOUNT
from routing.subscription import Consumer


class Asker:
    """Takes the place of a session, for as long as what it asked for is not answered."""

    def __init__(self, account: str = SERVER_ACCOUNT, channel: str = "system") -> None:
        """Of this login, where what is asked for is its own."""
        self.consumer = Consumer(self, account, channel)
        self._requests = 0
        self._answers: dict[int, Answer] = {}
        self._answered = trio.Event()
        self._ended = False

    def request(self) -> int:
        """The number of a request that is to be made, with `consumer`."""
        self._requests += 1
        return self._requests

    async def answer(self, request: int) -> Answer:
        """Wait until it is carried out, and on disk. Raises Refusal."""
        while request not in self._answers:
            if self._ended:
                raise Refusal(Refusal.STORE_FAILED, "an error of the site ended this; its log says why")
            self._answered = trio.Event()
            await self._answered.wait()
        answer = self._answers.pop(request)
        if answer.error is not None:
            raise answer.error
        return answer

    def put(self, event: SessionEvent) -> None:
        """Take an answer of the broker; called by it, as for a session, to which only answers come."""
        assert isinstance(event, Answer)
        self._answers[event.request] = event
        self._answered.set()

    def gather(self, event: SessionEvent) -> None:
        """Take an answer of the broker, as `put` does; called by it, as for a session."""
        self.put(event)

    def hand_on(self) -> None:
        """Do nothing; called by the broker, as for a session: all has been handed on."""

    def unpublish(self, messages: int) -> None:
        """Do nothing; called by the broker, as for a session: what it publishes is not counted."""

    def end(self, event: SessionEvent) -> None:
        """Let whoever waits go on; called by the broker, as for a session: nothing more comes."""
        self._ended = True
        self._answered.set()
