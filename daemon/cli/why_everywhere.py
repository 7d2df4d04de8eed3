"""`smqpd why SMUID --ask-peers`: the way of a message over all sites, its times, and what is not known."""

import msgspec
import typer
from rich.text import Text
from rich.tree import Tree

from daemon.cli.asking import told
from daemon.control.client import Question
from daemon.control.journey import journey
from daemon.control.reports import End, Report
from daemon.hops.examine import moment
from daemon.operating.journeys import Journey, JourneyStop
from daemon.settings import Settings
from daemon.terminal.failure import FAILED, USAGE, Failure
from daemon.terminal.output import Console
from daemon.terminal.printable import printable
from routing.durations import duration
from routing.errors import HeaderRefusal
from routing.names import parse_smuid


class Everywhere(msgspec.Struct, kw_only=True):
    """What `--json` prints: the way, and all that the sites have said."""

    journey: Journey
    reports: list[Report]


def ask_everybody(settings: Settings, smuid: str, timeout_s: float) -> Everywhere:
    """Ask this site's daemon, and through it all others. Raises Failure."""
    try:
        parse_smuid(smuid)
    except HeaderRefusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    reports, end = [], End((), 0.0)
    for one in told(settings, Question(ask="why", name=smuid, timeout_s=timeout_s)):
        if isinstance(one, End):
            end = one
        else:
            reports.append(one.report)
    return Everywhere(journey=journey(smuid, reports, end.unanswered), reports=reports)


def show_journey(found: Everywhere, *, as_json: bool) -> None:
    """Print it. Raises typer.Exit where no site has a record of the message, or some cannot be asked."""
    way = found.journey
    if as_json:
        typer.echo(msgspec.json.encode(found))
    else:
        _show(way)
    if way.gaps or (way.began is None and not way.apart):
        raise typer.Exit(FAILED)


def _show(way: Journey) -> None:
    console = Console()
    roots = [*([way.began] if way.began is not None else []), *way.apart]
    if roots:
        title = f"{way.smuid}, topic {way.topic}"
        console.print(Text(printable(title), style="bold"), soft_wrap=True)
        for root in roots:
            tree = Tree(_label(root), guide_style="dim")
            _grow(tree, root)
            console.print(tree)
    else:
        console.print("No record of it at any site that answered.")
    if way.never:
        console.print(Text(printable(f"Never there: {', '.join(way.never)}.")), soft_wrap=True)
    if way.gaps:
        console.print(Text("Not known:", style="bold"))
        for gap in way.gaps:
            console.print(Text(printable(f"  {gap.server}: {gap.why}")), soft_wrap=True)
    else:
        console.print("Every site has answered: nothing of it is unknown.")


def _grow(tree: Tree, stop: JourneyStop) -> None:
    for other in stop.beyond:
        _grow(tree.add(_label(other)), other)


def _label(stop: JourneyStop) -> Text:
    label = Text(printable(stop.server), style="bold")
    times = []
    if stop.came_us is not None:
        times.append(moment(stop.came_us))
    if stop.after_us:
        times.append(f"{duration(stop.after_us)} after it was published")
    if stop.link_us is not None:
        times.append(f"{duration(stop.link_us)} on the link")
    label.append(f"  {', '.join(times)}" if times else "", style="not bold dim")
    told = stop.verdict or "nothing is known of what it did with it."
    label.append(f"\n{printable(told)}", style="not bold")
    if stop.again:
        label.append(f"\ncame again from {printable(', '.join(stop.again))}", style="not bold dim")
    return label
