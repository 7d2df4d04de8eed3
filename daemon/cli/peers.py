"""`smqpd peers` and `smqpd routes`: what a running daemon knows of its links."""

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from daemon.cli.asking import value
from daemon.cli.failure import USAGE, Failure
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, read_settings
from daemon.cli.printable import printable
from daemon.control import Question
from daemon.hops.fate import duration
from daemon.link.port import LinkStatus
from daemon.routes import Route
from routing.errors import Refusal
from routing.names import check_topic


def peers(
    only_down: Annotated[bool, typer.Option("--only-down", help="Only links that are not up.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show the links of the running site."""
    found = value(read_settings(config), Question(ask="peers"), list[LinkStatus])
    if only_down:
        found = [link for link in found if link.state != "up"]
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    columns = ("peer", "state", "for", "round trip", "waiting", "unanswered", "lag")
    table = Table(*columns, box=None, pad_edge=False)
    table.columns[0].overflow = "fold"
    for column in table.columns[1:]:
        column.no_wrap = True
    for link in found:
        table.add_row(
            link.peer,
            link.state,
            duration(round(link.since_s * 1e6)),
            "-" if link.round_trip_s is None else f"{link.round_trip_s * 1000:.1f} ms",
            str(link.waiting),
            str(link.in_flight),
            "-" if link.lag_s is None else duration(round(link.lag_s * 1e6)),
        )
    console = Console()
    console.print(table)
    for link in found:
        if link.why_down:
            console.print(Text(printable(f"{link.peer} is down: {link.why_down}")), soft_wrap=True)


def routes(
    name: Annotated[str, typer.Argument(metavar="TOPIC|SERVER", help="What a message would be for.")],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show where a message would go from here, and with which Depth at least."""
    try:
        check_topic(name)  # as every name of a server is one, too
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    found = value(read_settings(config), Question(ask="routes", name=name), list[Route])
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    table = Table("for", "peer", "depth", "goes there")
    for route in found:
        distance = "-" if route.distance is None else str(route.distance)
        table.add_row(route.kind, route.peer, distance, f"no: {route.why}" if route.why else "yes")
    Console().print(table)
