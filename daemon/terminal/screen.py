"""A screen that a command draws anew again and again: as wide as it is now, left by q, stopped by Ctrl-Z.

The terminal shows what it showed before once the command has ended or is stopped, however that came.
"""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.live import Live

LEAVES: Final = (b"q", b"Q")

_SIGNALS: Final = (signal.SIGTSTP, signal.SIGWINCH)


def can_be_drawn() -> bool:
    """Whether stdout is a terminal that has a screen: no pipe, whatever it passes for, and not TERM=dumb."""
    console = Console()
    return sys.stdout.isatty() and console.is_terminal and not console.is_dumb_terminal


def draw(look: Callable[[], Callable[[int], RenderableType]], *, every_s: float, looks: int) -> None:
    """Show what `look` says, as it is drawn for so many columns, until q is pressed or after so many `looks`.

    0 looks are any number. What `look` raises ends it. Ctrl-C raises KeyboardInterrupt.
    """
    with _noticed() as noticed:
        left = looks or -1
        while left and _on_screen(noticed, look, every_s, left) is signal.SIGTSTP:
            _stop()


def _on_screen(
    noticed: int, look: Callable[[], Callable[[int], RenderableType]], every_s: float, looks: int
) -> signal.Signals | None:
    """Until it is left; SIGTSTP where it is to be stopped."""
    seen = look()
    with ExitStack() as screen:
        keys = screen.enter_context(_keys())
        live = screen.enter_context(Live(screen=True, auto_refresh=False))
        while True:
            live.update(seen(live.console.width), refresh=True)
            pressed, signals = _wait(keys, noticed, every_s)
            if signal.SIGTSTP in signals:
                return signal.SIGTSTP
            if pressed in LEAVES or (not signals and (looks := looks - 1) == 0):
                return None
            if not signals:
                seen = look()


def _wait(keys: int | None, noticed: int, seconds: float) -> tuple[bytes, bytes]:
    """A key, or numbers of signals, or nothing once the time is over."""
    ready, _, _ = select.select([noticed] if keys is None else [noticed, keys], [], [], seconds)
    pressed = os.read(keys, 1) if keys is not None and keys in ready else b""
    return pressed, os.read(noticed, 100) if noticed in ready else b""


@contextmanager
def _noticed() -> Iterator[int]:
    """A descriptor to read numbers of signals from, which do nothing else meanwhile."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, lambda *_: None) for number in _SIGNALS
    }
    woken = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(ours)
        os.close(theirs)


@contextmanager
def _keys() -> Iterator[int | None]:
    """Have the terminal give each key at once, and show none. None where nobody can press one."""
    if not sys.stdin.isatty():
        yield None
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _stop() -> None:
    """As Ctrl-Z does, until a shell has it go on."""
    noticing = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, noticing)
