"""`smqpd top`: how the running site does, again and again."""

import sys
import time
from typing import Annotated

import msgspec
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from daemon.cli.asking import decoded, line
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, state_directory
from daemon.cli.status import about
from daemon.control.operators import AskOverview, AskTopics
from daemon.operating.overview import Overview
from daemon.operating.topics import TopicPage
from daemon.terminal.figures import age_shown, count_shown, rate_shown
from daemon.terminal.output import JsonOption
from daemon.terminal.printable import printable


class _Glance(msgspec.Struct, frozen=True):
    """What `--json` prints each time."""

    overview: Overview
    topics: TopicPage


def top(
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.2, help="Between looks.")] = (
        2.0
    ),
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Looks until the end; 0: for ever.")] = 0,
    topics: Annotated[int, typer.Option("--topics", min=1, max=100, help="That many of the busiest.")] = 15,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show the site and its busiest topics, live; Ctrl-C ends it. In a pipe: one look after the other."""
    state, looks = state_directory(config), 0

    def glance() -> _Glance:
        busiest = AskTopics(order="in", count=topics)
        return _Glance(
            decoded(line(state, AskOverview()), Overview), decoded(line(state, busiest), TopicPage)
        )

    def more() -> bool:
        nonlocal looks
        looks += 1
        if count and looks >= count:
            return False
        time.sleep(every)
        return True

    if as_json or not sys.stdout.isatty():
        while True:
            seen = glance()
            if as_json:
                typer.echo(msgspec.json.encode(seen))
            else:
                Console(highlight=False, width=100).print(_shown(seen))
            sys.stdout.flush()
            if not more():
                return
    with Live(_shown(glance()), screen=True, auto_refresh=False) as live:
        while more():
            live.update(_shown(glance()), refresh=True)


def _shown(seen: _Glance) -> Group:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("topic", "in/s", "out/s", "held", "oldest", "subs"):
        table.add_column(column, overflow="ellipsis" if column == "topic" else "fold", no_wrap=True)
    for topic in seen.topics.topics:
        table.add_row(
            Text(printable(topic.name)),
            rate_shown(topic.in_per_s),
            rate_shown(topic.out_per_s),
            count_shown(topic.held),
            age_shown(topic.oldest_s),
            count_shown(topic.subscriptions),
        )
    return Group(*(Text(each) for each in about(seen.overview)), Text(""), table)
