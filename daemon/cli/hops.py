"""`smqpd hops check`: whether the hop log of a site is all there. Needs no daemon, and disturbs none."""

from typing import Final

import msgspec
import typer
from rich.text import Text

from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, read_settings
from daemon.hops.coverage import FileDamage, Gap
from daemon.hops.examine import written
from daemon.hops.reader import HopLogReader
from daemon.settings import HOPS
from daemon.terminal.failure import FAILED, Failure, because
from daemon.terminal.figures import counted
from daemon.terminal.output import Console, JsonOption
from daemon.terminal.printable import printable

GAPS_SHOWN_MAX: Final = 100

app = typer.Typer(no_args_is_help=True, help="Look after this site's hop log.")


class HopsReport(msgspec.Struct, kw_only=True):
    """What was found: `first` and `last` are record numbers, 0 in an empty log."""

    files: int
    first: int
    last: int
    missing: int
    gaps: list[Gap]
    damage: list[FileDamage]


@app.callback()
def _group() -> None:
    """Keep `check` a command of its own, though there is no other."""


@app.command()
def check(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Read all of the hop log, and say which records are missing and which files are damaged.

    Ends with 1 where there are any.
    """
    directory = read_settings(config).site.state_directory / HOPS
    reader = HopLogReader(directory)
    try:
        found = reader.check()
    except OSError as error:
        raise Failure(
            f"cannot read the hop log: {because(error)}; run this as the user of the daemon"
        ) from None
    first, last = found or (0, 0)
    checked = HopsReport(
        files=len(reader.files()),
        first=first,
        last=last,
        missing=sum(gap.count for gap in reader.gaps),
        gaps=reader.gaps,
        damage=reader.damage,
    )
    if as_json:
        typer.echo(msgspec.json.encode(checked))
    else:
        _show(checked)
    if checked.gaps or checked.damage:
        raise typer.Exit(FAILED)


def _show(checked: HopsReport) -> None:
    console = Console()
    for gap in checked.gaps[:GAPS_SHOWN_MAX]:
        numbers = f"{gap.first}" if gap.count == 1 else f"{gap.first} to {gap.last}"
        console.print(Text(f"missing: {numbers}{written(gap.after_us, gap.before_us)}"), soft_wrap=True)
    if (more := len(checked.gaps) - GAPS_SHOWN_MAX) > 0:
        console.print(f"missing: and {more:,} times more, which --json has")
    for one in checked.damage:
        console.print(Text(printable(f"damaged: {one.file}: {one.what}")), soft_wrap=True)
    if not checked.last:
        nothing = "The hop log has no record that can be read."
        console.print(nothing if checked.gaps or checked.damage else "The hop log is empty.")
        return
    state = f"{checked.missing} are missing" if checked.missing else "none is missing"
    damaged = "; something is damaged" if checked.damage else ""
    files = counted(checked.files, "file")
    console.print(f"Records {checked.first} to {checked.last} in {files}: {state}{damaged}.", soft_wrap=True)
