"""IQs of ours, and who waits for their answers."""

from collections.abc import Awaitable, Callable
from typing import Final
from xml.etree.ElementTree import Element

import trio

QUESTION_S: Final = 5.0
"""In which a client answers, or is taken not to."""


class _Question:
    """One that is waited for, until it is answered or cannot be any more."""

    __slots__ = ("answer", "ended", "jid")

    def __init__(self, jid: str | None) -> None:
        self.jid = jid
        self.answer: Element | None = None
        self.ended = trio.Event()


class Questions:
    """Those that are not answered yet, by id."""

    def __init__(self) -> None:
        self._asked: dict[str, _Question] = {}

    async def ask(self, iq: Element, send: Callable[[Element], Awaitable[object]]) -> Element | None:
        """Send it, and wait for the answer; None where none comes in time, or the stream breaks."""
        id = iq.get("id", "")
        question = self._asked[id] = _Question(iq.get("to"))
        try:
            with trio.move_on_after(QUESTION_S):
                await send(iq)
                await question.ended.wait()
        finally:
            del self._asked[id]
        return question.answer

    def answered(self, iq: Element) -> bool:
        """Whether a result or an error answers one of them; whoever asked has it then."""
        question = self._asked.get(iq.get("id", ""))
        if question is None or iq.get("from") != question.jid:
            return False
        if question.answer is None:
            question.answer = iq
        question.ended.set()
        return True

    def lost(self) -> None:
        """End all questions: the stream has ended, and the answers with it."""
        for question in self._asked.values():
            question.ended.set()
