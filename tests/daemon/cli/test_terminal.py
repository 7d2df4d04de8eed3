"""The terminals that the tests of commands have."""

import os

from tests.support.terminal import terminal

HALVES = """
import os, tty
character = "\u65e5".encode()
tty.setraw(0)
os.write(1, b"half: " + character[:2])
os.read(0, 1)
os.write(1, character[2:])
"""


async def test_a_character_that_comes_in_two_parts_is_one() -> None:
    async with terminal(["-c", HALVES], dict(os.environ)) as at:
        await at.shows("half: ")
        at.type(b"x")
        assert await at.exit_code() == 0
    assert at.shown == "half: \u65e5"
