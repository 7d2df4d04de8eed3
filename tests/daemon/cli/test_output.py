"""Tables: nothing of them is cut, at terminals of any width and in pipes."""

import re

import pytest

from tests.support import forked
from tests.support.process import ROOT, inherited
from tests.support.terminal import terminal

SHOW = """
from daemon.terminal.output import show_table
show_table(
    ("name", "state", "more"),
    [("a-name-that-is-quite-long.federation.example", "up", " ".join(f"w{n:02}" for n in range(60)))],
    folds=("name", "more"),
)
"""
WORDS = [f"w{number:02}" for number in range(60)]
ROWS = [
    "name" + " " * 42 + "state  more",
    "a-name-that-is-quite-long.federation.example  up     " + " ".join(WORDS),
]
COMMAND = ["-c", SHOW]
ENVIRONMENT = {**inherited(), "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("columns", [200, 80, 40, 16])
@pytest.mark.parametrize("kind", ["xterm", "dumb"])
async def test_at_a_terminal_a_table_is_folded_and_nothing_of_it_is_cut(columns: int, kind: str) -> None:
    async with terminal(COMMAND, ENVIRONMENT, columns=columns, kind=kind) as at:
        assert await at.exit_code() == 0
    width = 80 if kind == "dumb" else columns
    assert all(len(line) <= width for line in _plain(at.shown).splitlines())
    assert "\u2026" not in at.shown
    assert sorted(_letters(at.shown)) == sorted(
        _letters("name state more a-name-that-is-quite-long.federation.example up " + " ".join(WORDS))
    )


@pytest.mark.parametrize(
    "more", [{}, {"COLUMNS": "40"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TTY_COMPATIBLE": "1"}]
)
async def test_in_a_pipe_a_row_is_a_line(more: dict[str, str]) -> None:
    done = await forked.run(COMMAND, env={**ENVIRONMENT, **more})
    assert done.stdout.decode().splitlines() == ROWS


async def test_in_a_pipe_who_wants_colors_has_them_and_a_row_is_a_line() -> None:
    done = await forked.run(COMMAND, env={**ENVIRONMENT, "FORCE_COLOR": "1"})
    shown = done.stdout.decode()
    assert "\x1b[" in shown
    assert [line.rstrip() for line in _plain(shown).splitlines()] == ROWS


def _plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def _letters(shown: str) -> str:
    return "".join(_plain(shown).split())
