"""`smqpd federation`: all sites that a running daemon knows of."""

import json
from collections.abc import Iterable
from typing import Annotated

import msgspec
import typer

from daemon.cli.asking import decoded, line
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, state_directory
from daemon.control.client import Question
from daemon.operating.federation import KnownSite, link_remarks, links_between
from daemon.terminal.failure import FAILED, USAGE, Failure
from daemon.terminal.figures import duration_shown
from daemon.terminal.output import JsonOption, show_table
from routing.peering.news import why_silent


def federation(
    dot: Annotated[
        bool, typer.Option("--dot", help="A graph for Graphviz; links that are down are dashed.")
    ] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show all sites that are known, as they tell each other of their links and of what they want.

    Exit code 1 where there is no way to one of them.
    """
    if dot and as_json:
        raise Failure("--dot and --json are two answers; give one", USAGE)
    found = decoded(line(state_directory(config), Question(ask="federation")), list[KnownSite])
    if as_json:
        typer.echo(msgspec.json.encode(found))
    elif dot:
        typer.echo("\n".join(_graph(found)))
    elif len(found) > 1:
        _show(found)
    else:
        typer.echo("This site has no peers, and knows of no other; see `smqpd peer add --help`.")
    if any(site.hops is None for site in found):
        raise typer.Exit(FAILED)


def _show(found: list[KnownSite]) -> None:
    remarks = link_remarks(found)
    rows = [
        (
            site.site,
            "no way" if site.hops is None else str(site.hops),
            site.source or "-",
            duration_shown(site.age_s),
            "-" if site.wants is None else f"{site.wants}{'+' * site.wants_missing}",
            ", ".join(_with(link.peer, remarks[site.site, link.peer]) for link in site.links) or "-",
        )
        for site in found
    ]
    show_table(
        ("site", "hops", "heard from", "age", "wants", "links"), rows, folds=("site", "heard from", "links")
    )
    if any(site.wants_missing for site in found):
        typer.echo("+ of these it is not known yet what else they want")
    for site in found:
        if site.age_s is None and site.hops != 0:
            typer.echo(why_silent(site.site))


def _with(peer: str, remarks: str) -> str:
    return f"{peer} ({remarks})" if remarks else peer


def _graph(found: list[KnownSite]) -> Iterable[str]:
    yield "graph federation {"
    for site in found:
        yield f"  {json.dumps(site.site)};"
    for one, other, up in links_between(found):
        yield f"  {json.dumps(one)} -- {json.dumps(other)}{'' if up else ' [style=dashed]'};"
    yield "}"
