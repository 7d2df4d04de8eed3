"""`smqpd quarantine`: messages that the site could not read or handle, and has set aside.

`list` and `dump` read the store itself, whether the daemon runs or not; `drop` asks the daemon where it runs.
"""

import sqlite3
import sys
from typing import Annotated, Any

import msgspec
import typer

from daemon.cli.asking import value
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, read_settings
from daemon.control.client import SLOW_S, Question
from daemon.settings import STORE, Settings
from daemon.site.lock import StateInUseError, running_pid, state_lock
from daemon.store import quarantine
from daemon.store.quarantine import Quarantined
from daemon.terminal.failure import FAILED, USAGE, Failure, because
from daemon.terminal.figures import time_shown
from daemon.terminal.output import JsonOption, show_table
from daemon.terminal.printable import printable
from routing.errors import HeaderRefusal
from routing.names import parse_smuid

app = typer.Typer(
    no_args_is_help=True, help="Messages that could not be read, or handled, and were set aside."
)


class Dropped(msgspec.Struct, frozen=True):
    """What `drop --json` prints."""

    dropped: int


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Show what was set aside, the oldest first, and why."""
    found: list[Quarantined] = _read(read_settings(config), quarantine.quarantined)
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    if not found:
        typer.echo("Nothing was set aside.")
        return
    rows = [
        (time_shown(one.at_us // 1_000_000), printable(one.topic), str(one.size), printable(one.smuid))
        for one in found
    ]
    show_table(("when", "topic", "bytes", "Smuid"), rows, folds=("topic", "Smuid"))
    for one in found:
        typer.echo(printable(f"{one.smuid}: {one.reason}"))


@app.command()
def dump(
    smuid: Annotated[str, typer.Argument(metavar="SMUID", help="As `smqpd quarantine list` shows it.")],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Write what there is of a message to stdout: header lines and bodies, byte for byte as it was found."""
    _check(smuid)
    wire: bytes | None = _read(read_settings(config), lambda execute: quarantine.wire_of(execute, smuid))
    if wire is None:
        raise Failure(f"{smuid} is not in the quarantine; `smqpd quarantine list` shows what is", FAILED)
    if sys.stdout.isatty():
        for line in wire.decode(errors="backslashreplace").splitlines():
            typer.echo(printable(line))
    else:
        sys.stdout.buffer.write(wire)
        sys.stdout.buffer.flush()


@app.command()
def drop(
    smuid: Annotated[str, typer.Argument(metavar="[SMUID]", help="As `list` shows it.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All that was set aside.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Forget a message that was set aside, for good."""
    if bool(smuid) == every:
        raise Failure("name one message, or all of them with --all", USAGE)
    if smuid:
        _check(smuid)
    count = _drop(read_settings(config), smuid)
    if as_json:
        typer.echo(msgspec.json.encode(Dropped(count)))
    else:
        typer.echo(f"Forgotten: {count}.")
    if smuid and not count:
        raise Failure(f"{smuid} is not in the quarantine", FAILED)


def _check(smuid: str) -> None:
    try:
        parse_smuid(smuid)
    except HeaderRefusal as refusal:
        raise Failure(refusal.text, USAGE) from None


def _read(settings: Settings, reading: quarantine.Query) -> Any:
    path = settings.site.state_directory / STORE
    try:
        return quarantine.read(path, reading)
    except (OSError, sqlite3.Error) as error:
        raise Failure(
            f"the store cannot be read: {because(error)}; run this as the user of the daemon"
        ) from None


def _drop(settings: Settings, smuid: str) -> int:
    state = settings.site.state_directory
    try:
        if running_pid(state) is not None:
            return value(settings, Question(ask="quarantine-drop", name=smuid, timeout_s=SLOW_S), int)
        if not state.is_dir():
            raise FileNotFoundError(f"there is no store at {state / STORE}")
        with state_lock(state):
            return quarantine.drop(state / STORE, smuid)
    except (OSError, StateInUseError, sqlite3.Error) as error:
        raise Failure(f"nothing was forgotten: {because(error)}") from None
