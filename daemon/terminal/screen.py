"""A screen that a command draws anew again and again: as wide as it is now, left by q, stopped by Ctrl-Z.

The terminal shows what it showed before once the command has ended or is stopped, however that came.
"""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count
from typing import Any, Final, NoReturn

from rich.console import RenderableType
from rich.live import Live

LEAVES: Final = b"qQ"

_SIGNALS: Final = (signal.SIGTSTP, signal.SIGWINCH)
_ENDS: Final = (signal.SIGHUP, signal.SIGQUIT)
"""Of these, `daemon.cli.main` says nothing: a process ends at once."""


def draw(look: Callable[[], Callable[[int], RenderableType]], *, every_s: float, looks: int) -> None:
    """Show what `look` says, as it is drawn for so many columns, until q is pressed or after so many `looks`.

    0 looks are any number. What `look` raises ends it. Ctrl-C raises KeyboardInterrupt, and a signal that
    would end the process SystemExit.
    """
    sights = (look() for _ in (range(looks) if looks else count()))
    with _noticed() as noticed:
        while _on_screen(noticed, sights, every_s) is signal.SIGTSTP:
            _stop()


def _on_screen(
    noticed: int, sights: Iterator[Callable[[int], RenderableType]], every_s: float
) -> signal.Signals | None:
    """Until it is left or nothing more is to be seen; SIGTSTP where it is to be stopped."""
    first = next(sights, None)
    if first is None:
        return None
    with ExitStack() as screen:
        keys = screen.enter_context(_keys())
        live = screen.enter_context(Live(screen=True, auto_refresh=False))
        for seen in chain([first], sights):
            live.update(seen(live.console.width), refresh=True)
            due_at = time.monotonic() + every_s
            while (left_s := due_at - time.monotonic()) > 0:
                pressed, signals = _wait(keys, noticed, left_s)
                if signal.SIGTSTP in signals:
                    return signal.SIGTSTP
                if any(key in LEAVES for key in pressed):
                    return None
                if signals:
                    live.update(seen(live.console.width), refresh=True)
    return None


def _wait(keys: int | None, noticed: int, seconds: float) -> tuple[bytes, bytes]:
    """Keys, or numbers of signals, or nothing once the time is over. A terminal that is gone leaves, too."""
    ready, _, _ = select.select([noticed] if keys is None else [noticed, keys], [], [], seconds)
    pressed = _pressed(keys) if keys is not None and keys in ready else b""
    return pressed, os.read(noticed, 100) if noticed in ready else b""


def _pressed(keys: int) -> bytes:
    try:
        return os.read(keys, 100) or LEAVES
    except OSError:  # EIO: whoever had the terminal has gone without us
        return LEAVES


@contextmanager
def _noticed() -> Iterator[int]:
    """A descriptor to read numbers of signals from, which do nothing else meanwhile.

    Those that end the process have what is left be as it was before; whoever ignores one (nohup) still does.
    """
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, lambda *_: None) for number in _SIGNALS
    }
    before |= {
        number: signal.signal(number, _end) for number in _ENDS if signal.getsignal(number) == signal.SIG_DFL
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
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _end(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _stop() -> None:
    """As Ctrl-Z does, until a shell has it go on."""
    noticing = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, noticing)
