"""A screen that is drawn again and again: which keys it hears, and how often it looks."""

import os
import pty
import signal

from tests.support.process import ROOT, inherited
from tests.support.terminal import terminal

ONE_LOOK = """
from itertools import count
from rich.text import Text
from daemon.terminal.screen import draw

numbers = count(1)

def look():
    number = next(numbers)
    return lambda columns: Text(f"look {number} at {columns}")

draw(look, every_s=10_000, looks=LOOKS)
"""
ENVIRONMENT = {**inherited(), "PYTHONPATH": str(ROOT)}


def drawing(looks: int) -> list[str]:
    return ["-c", ONE_LOOK.replace("LOOKS", str(looks))]


async def test_keys_that_mean_nothing_have_it_look_no_sooner() -> None:
    async with terminal(drawing(looks=4), ENVIRONMENT) as at:
        await at.shows("look 1 at 80")
        at.type(b"xx \n\x1b[A")
        at.resize(50, 100)
        await at.shows("at 100")
        at.type(b"q")
        assert await at.exit_code() == 0
    assert "look 1 at 100" in at.shown
    assert "look 2" not in at.shown


async def test_a_keyboard_that_is_gone_leaves_it() -> None:
    keyboard, other_end = pty.openpty()
    os.close(other_end)  # each reading of it fails from here on (EIO)
    try:
        async with terminal(drawing(looks=2), ENVIRONMENT, keyboard=keyboard) as at:
            assert await at.exit_code() == 0
    finally:
        os.close(keyboard)
    assert "look 1" in at.shown
    assert "Traceback" not in at.shown


async def test_the_count_of_looks_goes_on_after_a_stop() -> None:
    async with terminal(drawing(looks=1), ENVIRONMENT) as at:
        await at.shows("look 1")
        # where no shell can have it go on, it is not stopped, and goes on by itself
        os.kill(at.process.pid, signal.SIGTSTP)
        assert await at.exit_code() == 0
    assert "look 2" not in at.shown
