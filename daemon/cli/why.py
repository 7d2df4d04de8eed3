"""`smqpd why`: what became of a message at this site, told by its hop log alone; needs no daemon."""

import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from daemon.cli.failure import FAILED, USAGE, Failure
from daemon.cli.local_site import SiteConfigOption, SiteOption, local_settings
from daemon.cli.options import JsonOption
from daemon.cli.printable import printable
from daemon.hops.fate import Fate, duration, judge
from daemon.hops.reader import HopLogReader, Unread
from daemon.site import HOPS
from routing.errors import HeaderRefusal
from routing.hops import HopRecord
from routing.names import parse_smuid

LAST_TIME_US: Final = 253_402_300_799_999_999
"""The end of the year 9999: a record that says more is shown without a date."""

WHO_WIDTH: Final = 40
"""Rather than break a usual address over lines, the last column is made narrow."""


class Report(msgspec.Struct, kw_only=True):
    """What `--json` prints.

    Attributes:
        state: see `daemon.hops.fate.State`; `unknown` where the log has no record of the message.
        verdict: the same in words.
        covered: whether the log reaches back to the birth of the message.
        unread: what of the log could not be read, and might have told more.
    """

    smuid: str
    state: str
    verdict: str
    covered: bool
    fate: Fate | None
    records: list[HopRecord]
    unread: Unread


def why(
    smuid: Annotated[str, typer.Argument(metavar="SMUID", help="As `smqpd pub` prints it.")],
    site: SiteOption = None,
    config: SiteConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Say what became of a message at this site, from its hop log."""
    directory = local_settings(site, config).site.state_directory / HOPS
    try:
        report = examine(directory, smuid)
    except HeaderRefusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    except OSError as error:
        raise Failure(f"cannot read the hop log: {error}; run this as the user of the daemon") from None
    if json:
        typer.echo(msgspec.json.encode(report))
    else:
        _show(report)
    if not report.records:
        raise typer.Exit(FAILED)


def examine(directory: Path, smuid: str) -> Report:
    """Read the hop log in `directory` for one message. Raises HeaderRefusal (no Smuid) and OSError."""
    reader = HopLogReader(directory)
    records = reader.find(smuid)
    ends = HopLogReader(directory)
    first, last = ends.first(), ends.last()
    born_us = parse_smuid(smuid).birth_ms * 1000
    covered = first is not None and first.time_us <= born_us
    if records and last is not None:
        fate = judge(records, last.boot)
        state, verdict = str(fate.state), fate.verdict
    else:
        fate, state = None, "unknown"
        verdict = _unknown(directory, born_us, first, last)
    return Report(
        smuid=smuid,
        state=state,
        verdict=verdict,
        covered=covered,
        fate=fate,
        records=records,
        unread=reader.unread,
    )


def _unknown(directory: Path, born_us: int, first: HopRecord | None, last: HopRecord | None) -> str:
    if first is None or last is None:
        return f"No record of it: the hop log in {directory} is empty."
    if born_us < first.time_us:
        return (
            f"No record of it, but it was born {_time(born_us)} and the log only goes back to"
            f" {_time(first.time_us)}: what happened before is no longer kept."
        )
    if born_us > last.time_us:
        return (
            f"No record of it: it was born {_time(born_us)}, after the last record of the log,"
            f" {_time(last.time_us)}."
        )
    return f"No record of it, though the log covers its birth, {_time(born_us)}: this site never had it."


def _show(report: Report) -> None:
    console = Console(highlight=False)
    if report.records:
        first = report.records[0]
        date = _time(first.time_us).partition(" ")[0]
        title = f"{report.smuid} at {first.server}, topic {first.topic}, {date} (UTC)"
        console.print(Text(printable(title), style="bold"), soft_wrap=True)
        table = Table("time", "after", "event", "who", "more", box=None, pad_edge=False, header_style="dim")
        for column in table.columns[:3]:
            column.no_wrap = True
        table.columns[3].min_width = min(max(len(_who(record)) for record in report.records), WHO_WIDTH)
        for record in report.records:
            table.add_row(
                _time(record.time_us).removeprefix(f"{date} "),
                "" if record is first else duration(record.time_us - first.time_us),
                Text(record.event, style="bold" if record.final else ""),
                Text(_who(record), overflow="fold"),
                Text(printable(_more(record)), overflow="fold"),
            )
        console.print(table)
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
    parts = [record.reason, record.outcome]
    if record.attempt > 1:
        parts.append(f"attempt {record.attempt}")
    if record.receipt:
        parts.append(f"receipt {record.receipt}")
    if record.event in ("published", "received"):
        parts += [
            f"{record.size} bytes",
            f"priority {record.priority}" if record.priority else "",
            f"mode {record.mode}",
            "" if record.guarantee else "no guarantee",
            f"hops {', '.join(record.hops)}" if record.hops else "",
        ]
    return "; ".join(part for part in parts if part)


def _time(us: int) -> str:
    if not 0 <= us <= LAST_TIME_US:
        return f"{us} us"
    moment = datetime.datetime.fromtimestamp(us // 1_000_000, datetime.UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{us % 1_000_000:06d}"
