"""What commands print: JSON or tables that lose nothing, on standard output that may fail.

In a pipe or a file a line is as long as it has to be, and plain unless FORCE_COLOR is set. At a terminal what
is long is folded within its column; where that is too narrow for the rest, the other columns are folded, too.
"""

import errno
import json
import os
import select
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Any, Final

import msgspec
import rich.console
import typer
from rich.table import Table
from rich.text import Text

UNFOLDED_COLUMNS: Final = 100_000
FOLDED_COLUMNS_MIN: Final = 12
"""What a column that is folded has at least, before others are folded as well."""

REFUSALS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What writing to an output that is open may end with, but for a pipe that nobody reads."""


JsonOption = Annotated[bool, typer.Option("--json", help="For programs: one JSON value on stdout.")]


class Console(rich.console.Console):
    """Standard output, or standard error, for text with styles."""

    def __init__(self, *, stderr: bool = False) -> None:
        is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
        super().__init__(
            stderr=stderr,
            highlight=False,
            width=None if is_terminal else UNFOLDED_COLUMNS,
            soft_wrap=not is_terminal,
            force_terminal=None if is_terminal or os.environ.get("FORCE_COLOR") else False,
        )
        self.can_be_drawn_on: Final = is_terminal and self.is_terminal and not self.is_dumb_terminal
        """Whether it is a terminal with a cursor: no pipe, whatever it passes for, and not TERM=dumb."""

    def on_broken_pipe(self) -> None:
        """Leave it to `daemon.cli.main`, as everything else that is printed does."""
        raise BrokenPipeError


def json_line(value: Any, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    """`value` as JSON for stdout; in a path that is not UTF-8 odd bytes are escaped as Python does it."""
    try:
        return msgspec.json.encode(value, enc_hook=enc_hook)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, enc_hook=enc_hook)).encode()


def show_table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, folds: Collection[str] = ()
) -> None:
    """Print a table; the columns `folds` are those that are folded first. Nothing is cut."""
    console = Console()
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    header = [Text(column) for column in columns]
    if not console.is_terminal:
        for line in _aligned([header, *cells]):
            typer.echo(line)
        return
    kept = sum(
        min(width, FOLDED_COLUMNS_MIN) if column in folds else width
        for column, width in zip(columns, _widths([header, *cells]), strict=True)
    )
    fits = kept + 2 * len(columns) <= console.width
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=fits and column not in folds)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _widths(rows: Sequence[Sequence[Text]]) -> list[int]:
    return [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]


def _aligned(rows: Sequence[Sequence[Text]]) -> Iterable[str]:
    widths = _widths(rows)
    for row in rows:
        padded = (cell.plain + " " * (width - cell.cell_len) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def write(data: bytes) -> None:
    """Write all of it to standard output, in a thread that may be left to itself. Raises OSError.

    Past the buffer, in which nothing may be: Python takes its lock at exit, and that thread may hold it.
    """
    left = memoryview(data)
    descriptor = sys.stdout.fileno()
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # whoever shares a terminal with us may have set it so
            select.select([], [descriptor], [])


def is_refused(error: OSError) -> bool:
    """Whether it is standard output that cannot be written. Commands say of their own files what is wrong."""
    return error.filename is None and error.errno in REFUSALS


def flush() -> None:
    """Write what is left, before the end. What cannot be goes nowhere: Python would complain once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
