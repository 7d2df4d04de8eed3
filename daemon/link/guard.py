"""What no honest peer does with HTTP/2, seen in the frame headers alone, before anything is parsed.

A frame costs far more to handle than to send, and some make the receiver answer: pings, settings, resets
(rapid reset), empty or tiny data, endless header continuations, windows opened a byte at a time. Each
kind has a budget of frames, which refills with time. The budgets are ten times and more what a link of
this daemon has ever been seen to need; whoever exceeds one is an attacker, or broken.

Source: RFC 9113 section 10.5; CVE-2019-9511 to 9518, CVE-2023-44487, CVE-2024-27316.
"""

from typing import Final

import msgspec

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9

DATA: Final = 0x0
WINDOW_UPDATE: Final = 0x8
NAMES: Final = {
    0x1: "HEADERS",
    0x2: "PRIORITY",
    0x3: "RST_STREAM",
    0x4: "SETTINGS",
    0x5: "PUSH_PROMISE",
    0x6: "PING",
    0x7: "GOAWAY",
    0x9: "CONTINUATION",
}

SMALL_BYTES: Final = 512
TINY_BYTES: Final = 32
"""Less than any unit of the link protocol but WELCOME: such data frames count as much as ten."""
TINY_COST: Final = 10


class FloodError(Exception):
    """The peer misuses HTTP/2; the text says how. The connection must be closed."""


class _Budget(msgspec.Struct):
    """So many frames at once, and so many more each second."""

    burst: float
    per_s: float
    left: float
    at: float

    def take(self, cost: float, now: float) -> bool:
        self.left = min(self.left + (now - self.at) * self.per_s, self.burst) - cost
        self.at = now
        return self.left >= 0


class FrameGuard:
    """Follows the frame headers of what a peer sends."""

    def __init__(self, frame_bytes_max: int, *, preface: bool, now: float) -> None:
        """`frame_bytes_max` is what this side's SETTINGS allow; `preface`: the peer is the client."""
        self._frame_bytes_max = frame_bytes_max
        self._preface = PREFACE if preface else b""
        self._skip = 0
        self._head = b""
        self._small_data = _Budget(30_000, 10_000, 30_000, now)
        self._windows = _Budget(5_000, 1_000, 5_000, now)
        self._others = _Budget(200, 10, 200, now)

    def check(self, data: bytes, now: float) -> None:
        """Look at received bytes, however they are split. Raises FloodError."""
        position = min(len(self._preface), len(data))
        if data[:position] != self._preface[:position]:
            raise FloodError("it does not speak HTTP/2")
        self._preface = self._preface[position:]
        while position < len(data):
            if self._skip:
                passed = min(self._skip, len(data) - position)
                self._skip -= passed
                position += passed
                continue
            wanted = HEADER_BYTES - len(self._head)
            self._head += data[position : position + wanted]
            position += wanted
            if len(self._head) == HEADER_BYTES:
                self._skip = int.from_bytes(self._head[:3], "big")
                self._charge(self._head[3], self._skip, now)
                self._head = b""

    def _charge(self, kind: int, length: int, now: float) -> None:
        if length > self._frame_bytes_max:
            raise FloodError(f"a frame of {length} bytes, {self._frame_bytes_max} are allowed")
        if kind == DATA:
            cost = TINY_COST if length < TINY_BYTES else 1
            if length < SMALL_BYTES and not self._small_data.take(cost, now):
                raise FloodError("a flood of tiny DATA frames")
        elif kind == WINDOW_UPDATE:
            if not self._windows.take(1, now):
                raise FloodError("a flood of WINDOW_UPDATE frames")
        elif not self._others.take(1, now):
            raise FloodError(f"a flood of {NAMES.get(kind, 'unknown')} frames")
