"""`smqpd top`: how the running site does, again and again."""

import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from daemon.cli.asking import decoded, line
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, state_directory
from daemon.cli.status import about
from daemon.control.operators import AskOverview, AskTopics
from daemon.operating.overview import Overview
from daemon.operating.topics import TopicPage
from daemon.terminal import screen
from daemon.terminal.figures import count_shown, duration_shown, rate_shown
from daemon.terminal.output import FOLDED_COLUMNS_MIN, Console, JsonOption, show_table
from daemon.terminal.printable import printable

EVERY_S_MAX: Final = 86_400.0
COLUMNS: Final = ("topic", "in/s", "out/s", "held", "oldest", "subs")


class _Glance(msgspec.Struct, frozen=True):
    """What `--json` prints each time."""

    overview: Overview
    topics: TopicPage


def top(
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.2, max=EVERY_S_MAX, help="Between looks.")
    ] = 2.0,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Looks until the end; 0: for ever.")] = 0,
    topics: Annotated[int, typer.Option("--topics", min=1, max=100, help="That many of the busiest.")] = 15,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show the site and its busiest topics, live, until q or Ctrl-C. In a pipe: one look after the other."""
    state = state_directory(config)

    def glance() -> _Glance:
        busiest = AskTopics(order="in", count=topics)
        return _Glance(
            decoded(line(state, AskOverview()), Overview), decoded(line(state, busiest), TopicPage)
        )

    if not as_json and Console().can_be_drawn_on:
        screen.draw(lambda: partial(_drawn, glance()), every_s=every, looks=count)
        return
    looks = 0
    while True:
        seen = glance()
        if as_json:
            typer.echo(msgspec.json.encode(seen))
        else:
            _print(seen)
        sys.stdout.flush()
        looks += 1
        if looks == count:
            return
        time.sleep(every)


def _print(seen: _Glance) -> None:
    typer.echo("\n".join(about(seen.overview)) + "\n")
    show_table(COLUMNS, _rows(seen), folds=("topic",))
    typer.echo("")


def _drawn(seen: _Glance, columns: int) -> Group:
    """Each line stays one: what is too long for a screen of so many columns is cut, names first."""
    rows = _rows(seen)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    others = sum(2 + max(map(len, column)) for column in [*zip(COLUMNS, *rows, strict=True)][1:])
    name_columns = max(columns - others, FOLDED_COLUMNS_MIN)
    for column in COLUMNS:
        table.add_column(
            column, overflow="ellipsis", no_wrap=True, max_width=name_columns if column == "topic" else None
        )
    for row in rows:
        table.add_row(*map(Text, row))
    lines = (Text(each, no_wrap=True, overflow="ellipsis") for each in about(seen.overview))
    return Group(*lines, Text(""), table)


def _rows(seen: _Glance) -> list[Sequence[str]]:
    return [
        (
            printable(topic.name),
            rate_shown(topic.in_per_s),
            rate_shown(topic.out_per_s),
            count_shown(topic.held),
            duration_shown(topic.oldest_s),
            count_shown(topic.subscriptions),
        )
        for topic in seen.topics.topics
    ]
