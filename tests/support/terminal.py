"""A command at a terminal: what is typed at it, and what it shows."""

import codecs
import fcntl
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from tests.support.forked import Forked
from tests.support.patience import PATIENCE_S

CTRL_C: Final = b"\x03"


class Terminal:
    """A terminal with a command in it; `shown` is all that it has shown by now."""

    def __init__(self, process: Forked, descriptor: int) -> None:
        self.process = process
        self.shown = ""
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._descriptor, keys)

    def resize(self, rows: int, columns: int) -> None:
        """Make it larger or smaller; the command is told."""
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def echoes(self) -> bool:
        """Whether it shows what is typed, and gives it line by line, as for a shell."""
        wanted = termios.ECHO | termios.ICANON
        return bool(termios.tcgetattr(self._descriptor)[3] & wanted == wanted)

    async def shows(self, text: str) -> None:
        """Wait until it has shown this."""
        while text not in self.shown:
            assert await self._more(), f"it has ended, and has shown {self.shown!r}"

    async def exit_code(self) -> int:
        """Wait for the end."""
        with trio.fail_after(PATIENCE_S):
            while await self._more():
                pass
            return await self.process.wait()

    async def _more(self) -> bool:
        with trio.fail_after(PATIENCE_S):
            await trio.lowlevel.wait_readable(self._descriptor)
        try:
            part = os.read(self._descriptor, 65_536)
        except OSError:  # Linux: nobody has the other end any more
            return False
        self.shown += self._decoder.decode(part)
        return bool(part)


@asynccontextmanager
async def terminal(
    arguments: list[str],
    environment: dict[str, str],
    *,
    columns: int = 80,
    kind: str = "xterm",
    keyboard: int | None = None,
) -> AsyncIterator[Terminal]:
    """Run Python with these arguments at a terminal, its own session with it.

    It is killed at the end where it runs still. `keyboard` is what it reads in the place of what is typed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: value for name, value in environment.items() if name not in ("COLUMNS", "NO_COLOR")}

    try:
        process = Forked.start(
            arguments,
            env={**kept, "TERM": kind},
            stdin=theirs if keyboard is None else keyboard,
            stdout=theirs,
            stderr=theirs,
            terminal=True,
        )
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            if process.poll() is None:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
    finally:
        os.close(ours)
