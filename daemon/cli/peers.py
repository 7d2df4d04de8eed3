"""`smqpd peers` and `smqpd routes`: what a running daemon knows of its links."""

from typing import Annotated

import msgspec
import typer

from daemon.cli.asking import decoded, line
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, state_directory
from daemon.control.client import Question
from daemon.operating.federation import LinkStatus, Route
from daemon.terminal.failure import FAILED, USAGE, Failure
from daemon.terminal.figures import duration_shown
from daemon.terminal.output import JsonOption, show_table
from daemon.terminal.printable import printable
from routing.errors import Refusal
from routing.federation.obstacles import DOWN
from routing.names import check_topic
from routing.peering.news import DESTINATIONS, NEWS
from routing.peering.wants import PATTERNS, WANTS_FROM_NEWS


def peers(
    only_down: Annotated[bool, typer.Option("--only-down", help="Only links that are not up.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show the links of the running site; exit code 1 where one is not up."""
    found = decoded(line(state_directory(config), Question(ask="peers")), list[LinkStatus])
    down = [link for link in found if link.state != "up"]
    shown = down if only_down else found
    if as_json:
        typer.echo(msgspec.json.encode(shown))
    elif shown:
        _show(shown)
    else:
        typer.echo("All links are up." if found else "This site has no peers; see `smqpd peer add --help`.")
    if down:
        raise typer.Exit(FAILED)


def _show(links: list[LinkStatus]) -> None:
    rows = [
        (
            link.peer,
            link.state,
            duration_shown(link.since_s),
            "-" if link.round_trip_s is None else f"{link.round_trip_s * 1000:.1f} ms",
            str(link.waiting),
            str(link.in_flight),
            duration_shown(link.lag_s),
        )
        for link in links
    ]
    columns = ("peer", "state", "for", "round trip", "waiting", "unanswered", "lag")
    show_table(columns, rows, folds=("peer",))
    for link in links:
        if link.why_down:
            typer.echo(printable(f"{link.peer} is {link.trouble}: {link.why_down}"))
        elif link.state == "up":
            if PATTERNS not in link.features:
                typer.echo(
                    f"{link.peer} knows no patterns: in their place it is told of topics that are here"
                )
            if NEWS not in link.features:
                typer.echo(f"{link.peer} is told no news of sites: its smqpd is too old")
            elif WANTS_FROM_NEWS not in link.features:
                typer.echo(f"{link.peer} is told by its peers of all wants, as it takes none from news")
            if DESTINATIONS not in link.features:
                typer.echo(
                    f"{link.peer} knows no destinations: what may come there goes wherever it is wanted"
                )


def routes(
    name: Annotated[str, typer.Argument(metavar="TOPIC|SERVER", help="What a message would be for.")],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show where a message would go from here, and with which Depth at least.

    Where one of mode ALL names the sites that it is for, each is shown with the peer that would see to it,
    and why. Exit code 1 where a link that it would go over, or might, is down.
    """
    try:
        check_topic(name)  # as every name of a server is one, too
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    found = decoded(line(state_directory(config), Question(ask="routes", name=name)), list[Route])
    if as_json:
        typer.echo(msgspec.json.encode(found))
    elif found:
        _show_routes(found)
    else:
        typer.echo("This site has no peers: a message goes no further; see `smqpd peer add --help`.")
    if any(route.obstacle in DOWN or not all(one.up for one in route.destinations) for route in found):
        raise typer.Exit(FAILED)


def _show_routes(found: list[Route]) -> None:
    rows = [
        (
            route.kind,
            route.peer,
            "-" if route.distance is None else str(route.distance),
            printable(f"no: {route.why}") if route.why else "yes",
        )
        for route in found
    ]
    show_table(("for", "peer", "depth", "goes there"), rows, folds=("peer", "goes there"))
    destinations = [
        (one.site, str(one.hops), route.peer, one.why) for route in found for one in route.destinations
    ]
    if destinations:
        typer.echo()
        columns = ("destination of ALL", "links", "by peer", "why")
        show_table(columns, sorted(destinations), folds=("destination of ALL", "by peer", "why"))
    for why in dict.fromkeys(route.why_unnamed for route in found if route.why_unnamed):
        typer.echo(printable(f"ALL goes wherever it is wanted, without destinations: {why}"))
