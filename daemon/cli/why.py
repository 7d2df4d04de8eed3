"""`smqpd why`: what became of a message, told by this site's hop log, which needs no daemon.

One that runs is asked for what no log has: of which peers an answer is awaited. With `--ask-peers` it asks
all other sites, see `daemon.cli.why_everywhere`.
"""

import time
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.text import Text

from daemon.cli.asking import TimeoutOption, decoded, line
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, read_settings
from daemon.cli.why_everywhere import ask_everybody, show_journey
from daemon.control.client import Question
from daemon.hops.examine import Awaited, Findings, examine, moment, with_awaited
from daemon.settings import HOPS
from daemon.site.lock import running_pid
from daemon.terminal.failure import FAILED, USAGE, Failure, because
from daemon.terminal.figures import counted
from daemon.terminal.output import Console, JsonOption, show_table
from daemon.terminal.printable import printable
from routing.durations import duration
from routing.errors import HeaderRefusal
from routing.hops import HopRecord

HEARTBEATS: Final = 2
SLACK_S: Final = 60.0
"""Within so many of its intervals, and this, a site that can write its log has written a heartbeat.

What it wrote last is no later than now by more than this, or the clock was set back since: then the time of
that tells nothing.
"""


ANSWERS_WITHIN_S: Final = 2.0
"""The log tells what became of a message also where its daemon hangs."""


def why(
    smuid: Annotated[str, typer.Argument(metavar="SMUID", help="As `smqpd pub` prints it.")],
    ask_peers: Annotated[
        bool, typer.Option("--ask-peers", help="Ask all sites that can be reached; needs the daemon.")
    ] = False,
    timeout_s: TimeoutOption = 10.0,
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Say what became of a message at this site, from its hop log, or at all sites that answer."""
    settings = read_settings(config)
    if ask_peers:
        show_journey(ask_everybody(settings, smuid, timeout_s), as_json=json)
        return
    state = settings.site.state_directory
    try:
        has_ended = _has_ended(state)
        now_us, slack_us = time.time_ns() // 1000, int(SLACK_S * 1e6)
        beats_us = now_us - int(HEARTBEATS * settings.hops.heartbeat_s * 1e6) - slack_us
        report = examine(
            state / HOPS,
            smuid,
            has_ended=has_ended,
            is_behind=lambda newest: not has_ended and not beats_us <= newest.time_us <= now_us + slack_us,
        )
    except HeaderRefusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    except OSError as error:
        raise Failure(
            f"cannot read the hop log: {because(error)}; run this as the user of the daemon"
        ) from None
    if not has_ended:
        report = with_awaited(report, _awaited(state, smuid))
    if json:
        typer.echo(msgspec.json.encode(report))
    else:
        _show(report)
    if not report.records:
        raise typer.Exit(FAILED)


def _awaited(state_directory: Path, smuid: str) -> list[Awaited]:
    """What the daemon knows besides; nothing where it does not say, as one of an earlier version."""
    try:
        answer = line(state_directory, Question(ask="awaited", name=smuid), ANSWERS_WITHIN_S)
        return decoded(answer, list[Awaited])
    except Failure:
        return []


def _has_ended(state_directory: Path) -> bool:
    """Whether no daemon runs, as far as this user may know."""
    try:
        return running_pid(state_directory) is None
    except OSError:
        return False


def _show(report: Findings) -> None:
    console = Console()
    if report.records:
        first = report.records[0]
        date = moment(first.time_us).partition(" ")[0]
        title = f"{report.smuid} at {first.server}, topic {first.topic}, {date} (UTC)"
        console.print(Text(printable(title), style="bold"), soft_wrap=True)
        rows = [
            (
                moment(record.time_us).removeprefix(f"{date} "),
                "" if record is first else duration(record.time_us - first.time_us),
                Text(record.event, style="bold" if record.final else ""),
                _who(record),
                printable(_more(record)),
            )
            for record in report.records
        ]
        show_table(("time", "after", "event", "who", "more"), rows, folds=("who", "more"))
        console.print()
    console.print(Text(printable(report.verdict)), soft_wrap=True)
    passed_over = ", ".join(
        f"{count} {what}" for what, count in msgspec.structs.asdict(report.unread).items() if count
    )
    if passed_over:
        console.print(
            Text(f"Part of the log could not be read ({passed_over.replace('_', ' ')}).", style="dim")
        )


def _who(record: HopRecord) -> str:
    return printable(record.account or record.subscription or record.peer)


def _more(record: HopRecord) -> str:
    parts = [record.reason, record.outcome, f"by {record.pattern}" if record.pattern else ""]
    if record.attempt > 1:
        parts.append(f"attempt {record.attempt}")
    if record.receipt:
        parts.append(f"{'asks for ' if record.event == 'published' else ''}receipt {record.receipt}")
    if record.event in ("published", "received"):
        parts += [
            counted(record.size, "byte"),
            f"priority {record.priority}" if record.priority else "",
            f"mode {record.mode}",
            "" if record.guarantee else "no guarantee",
            f"hops {', '.join(record.hops)}" if record.hops else "",
        ]
    return "; ".join(part for part in parts if part)
