"""IQs of ours, and who waits for their answers."""

from collections.abc import Awaitable, Callable
from typing import Final
from xml.etree.ElementTree import Element

import trio

QUESTION_S: Final = 5.0
"""In which a client answers, or is taken not to."""


class Questions:
    """Those that are not answered yet, by id."""

    def __init__(self) -> None:
        self._asked: dict[str, Callable[[Element], bool]] = {}
        self._waiting: set[trio.Event] = set()

    async def ask(self, iq: Element, send: Callable[[Element], Awaitable[object]]) -> Element | None:
        """Send it, and wait for the answer; None where none comes in time, or the stream breaks."""
        id, jid = iq.get("id", ""), iq.get("to")
        answered = trio.Event()
        answers: list[Element] = []

        def take(answer: Element) -> bool:
            if answer.get("from") != jid:
                return False
            answers.append(answer)
            answered.set()
            return True

        self._asked[id] = take
        self._waiting.add(answered)
        try:
            with trio.move_on_after(QUESTION_S):
                await send(iq)
                await answered.wait()
        finally:
            del self._asked[id]
            self._waiting.discard(answered)
        return answers[0] if answers else None

    def answered(self, iq: Element) -> bool:
        """Whether a result or an error answers one of them; whoever asked has it then."""
        take = self._asked.get(iq.get("id", ""))
        return take is not None and take(iq)

    def lost(self) -> None:
        """The stream has ended, and the answers with it."""
        for waiting in self._waiting:
            waiting.set()
