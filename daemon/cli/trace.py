"""`smqpd trace TOPIC`: a probe goes where a message to the topic would go, and each site reports it.

The trace jobs of `smqpd[trace]` are in the same group (`smqpd trace run`, `smqpd trace route` ...): what is
none of the group's commands is a topic, and `smqpd trace topic TOPIC` is for one that is called as they are.
"""

from typing import Annotated, Any, Literal

import msgspec
import typer
from typer.core import TyperGroup

from daemon.cli.asking import TimeoutOption, told
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, read_settings
from daemon.control.client import Question
from daemon.control.reports import End, Heard, Report, Unanswered
from daemon.terminal.failure import FAILED, USAGE, Failure
from daemon.terminal.figures import counted
from daemon.terminal.output import JsonOption
from daemon.terminal.printable import printable
from routing.errors import Refusal
from routing.names import check_topic
from routing.numbers import SMALL_MAX

TOPIC = "topic"


class TopicGroup(TyperGroup):
    """A group of commands in which anything else is a topic."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `click.Command`."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [TOPIC, *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    cls=TopicGroup,
    no_args_is_help=True,
    subcommand_metavar="TOPIC | COMMAND [ARGS]...",
    help="Follow a probe to a topic (`smqpd trace TOPIC`), or the messages of the past from hop logs.",
)


class Traced(msgspec.Struct, kw_only=True):
    """What `--json` prints.

    Attributes:
        sites: that the probe has reached, each once.
        subscriptions: at all of them, that a message would go to.
        unanswered: sites that were asked and have not reported.
    """

    topic: str
    sites: list[str]
    subscriptions: int
    reports: list[Heard]
    unanswered: tuple[Unanswered, ...]
    took_s: float


@app.command(TOPIC)
def topic(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Such as weather.oslo.")],
    depth: Annotated[
        int, typer.Option(min=-1, max=SMALL_MAX, help="Links it may go at most; -1: any number.")
    ] = -1,
    delivery: Annotated[Literal["ALL", "ONE"], typer.Option(help="As that of a message.")] = "ALL",
    deliver: Annotated[
        bool, typer.Option("--deliver", help="Deliver it to the subscriptions that it finds.")
    ] = False,
    timeout_s: TimeoutOption = 5.0,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Send a probe where a message to TOPIC would go; each site on the way reports it at once.

    It is a dry run, and nobody gets anything, unless --deliver is given: then each site that it reaches gives
    a short message of its own to the subscriptions there.
    """
    try:
        check_topic(topic)
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    question = Question(
        ask="trace", name=topic, timeout_s=timeout_s, mode=delivery, depth=depth, deliver=deliver
    )
    reports: list[Heard] = []
    end = End((), 0.0)
    for one in told(read_settings(config), question):
        if isinstance(one, End):
            end = one
            continue
        reports.append(one)
        if not as_json:
            for line in _lines(one, delivery):
                typer.echo(printable(line))
    arrived = [heard.report for heard in reports if heard.report.outcome == "reached"]
    traced = Traced(
        topic=topic,
        sites=sorted({report.at for report in arrived}),
        subscriptions=sum(report.subscriptions for report in arrived),
        reports=reports,
        unanswered=end.unanswered,
        took_s=end.after_s,
    )
    if as_json:
        typer.echo(msgspec.json.encode(traced))
    else:
        typer.echo(_in_words(traced, deliver))
    if traced.unanswered:
        missing = ", ".join(f"{one.site} (asked by {one.asker})" for one in traced.unanswered)
        raise Failure(f"no report within {timeout_s:g} s from {printable(missing)}", FAILED)
    cut_off = [
        f"{one.peer} (from {heard.report.at})"
        for heard in reports
        for one in heard.report.passed_over
        if one.is_down
    ]
    if cut_off:
        raise Failure(f"not reached, since the link is down: {printable(', '.join(cut_off))}", FAILED)


def _lines(heard: Heard, mode: str) -> list[str]:
    report = heard.report
    way = f"{report.source} > {report.at}" if report.source else report.at
    lines = [f"{heard.after_s * 1000:8.2f} ms  {way:<34} {_found(report, mode)}"]
    lines += [
        f"{'':13}{'':34} not to {one.peer}: {one.why}" for one in report.passed_over if not one.is_source
    ]
    return lines


def _found(report: Report, mode: str) -> str:
    match report.outcome:
        case "reached":
            count = report.subscriptions
            here = counted(count, "subscription") if count else "no subscriptions"
            if mode == "ONE" and count:
                here = f"one of {here}"
            parts = [here if not report.smuid else f"{here}, delivered as {report.smuid}"]
        case "wider":
            parts = ["was here with less depth"]
        case "duplicate":
            return "has been here"
        case "loop":
            return "has come from here"
        case "busy":
            return "no answer: too much was asked"
        case _:
            return f"{report.outcome}: {report.reason}"
    if report.reason:
        parts.append(report.reason)
    if report.asked:
        parts.append(f"on to {', '.join(report.asked)}")
    return "; ".join(parts)


def _in_words(traced: Traced, deliver: bool) -> str:
    sites, count = len(traced.sites), traced.subscriptions
    reached = f"{counted(sites, 'site')}, {counted(count, 'subscription')}"
    dry = "" if deliver else " A dry run: nobody got anything."
    return f"{traced.topic}: {reached}, in {traced.took_s * 1000:.1f} ms.{dry}"
