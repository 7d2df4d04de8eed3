"""Open transactions: frames wait here until COMMIT carries them out together. Source: STOMP 1.2 "BEGIN"."""

from collections.abc import Callable
from typing import Final

import msgspec

from plugins.stomp.settings import StompSettings
from routing.errors import Refusal
from routing.message import HEADER_BYTES

STEP_BYTES: Final = 1_024
"""What a waiting frame takes besides its headers, each with `HEADER_BYTES`, and its body."""

Step = Callable[[], None]


class Transaction(msgspec.Struct):
    """An open transaction: what its COMMIT will do; the bytes and the headers of frames that wait for it."""

    steps: list[Step] = msgspec.field(default_factory=list)
    bytes: int = 0
    headers: int = 0


class Transactions:
    """The open transactions of one connection, bounded together. Every error is a Refusal."""

    def __init__(self, settings: StompSettings) -> None:
        self._settings = settings
        self._open: dict[str, Transaction] = {}
        self._frames = 0
        self._bytes = 0
        self._headers = 0

    @property
    def bytes(self) -> int:
        """Memory that all of them take, about."""
        return self._bytes + self._frames * STEP_BYTES + self._headers * HEADER_BYTES

    def begin(self, name: str) -> None:
        """Open one."""
        if name in self._open:
            raise Refusal(Refusal.BAD_FRAME, f"transaction {name[:80]!r} is open already")
        if len(self._open) >= self._settings.transactions_max:
            raise Refusal(
                Refusal.TOO_MANY, f"{len(self._open)} transactions are open, which is as many as may be"
            )
        self._open[name] = Transaction()

    def add(self, name: str, step: Step, frame_bytes: int = 0, headers: int = 0) -> None:
        """Let a step wait for COMMIT, and with it so many bytes in so many headers and a body."""
        transaction = self._find(name)
        frames, held = self._frames + 1, self._bytes + frame_bytes
        if frames > self._settings.transaction_frames_max or held > self._settings.transaction_bytes_max:
            raise Refusal(
                Refusal.TOO_LARGE,
                f"open transactions hold at most {self._settings.transaction_frames_max} frames and "
                f"{self._settings.transaction_bytes_max} bytes",
            )
        self._frames, self._bytes = frames, held
        self._headers += headers
        transaction.steps.append(step)
        transaction.bytes += frame_bytes
        transaction.headers += headers

    def publishes(self, name: str | None) -> bool:
        """Whether it is open, and there are SENDs in it."""
        return name in self._open and self._open[name].bytes > 0

    def end(self, name: str) -> list[Step]:
        """Close one; its steps, in order, for COMMIT to carry out."""
        transaction = self._find(name)
        del self._open[name]
        self._frames -= len(transaction.steps)
        self._bytes -= transaction.bytes
        self._headers -= transaction.headers
        return transaction.steps

    def abort_all(self) -> None:
        """Drop all that is open: nothing of it will happen."""
        self._open.clear()
        self._frames = self._bytes = self._headers = 0

    def _find(self, name: str) -> Transaction:
        transaction = self._open.get(name)
        if transaction is None:
            raise Refusal(Refusal.NOT_FOUND, f"transaction {name[:80]!r} is not open")
        return transaction
