"""`smqpd sessions` and `smqpd session`: who is logged in, and an end to it."""

import json
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from daemon.cli.asking import decoded, line
from daemon.cli.completing import complete_account, complete_session
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, state_directory
from daemon.configuration.config import nearest
from daemon.control.operators import AskAccounts, AskSessions, OrderClosing
from daemon.operating.accounts import AccountStatus
from daemon.operating.sessions import SessionStatus
from daemon.terminal.failure import FAILED, Failure
from daemon.terminal.figures import bytes_shown, count_shown, duration_shown
from daemon.terminal.output import JsonOption, show_table
from daemon.terminal.printable import printable
from routing.numbers import NUMBER_MAX

app = typer.Typer(no_args_is_help=True, help="Sessions of clients.")


@app.callback()
def _group() -> None:
    """Keeps `close` a command of its group, the only one that it has."""


def sessions(
    account: Annotated[
        str,
        typer.Option("--account", metavar="NAME", help="Only of this one.", autocompletion=complete_account),
    ] = "",
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show who is logged in: since when, from where, what each has in flight, and who does not read."""
    found = decoded(line(state_directory(config), AskSessions()), list[SessionStatus])
    shown = [session for session in found if account in ("", session.account)]
    if account and not shown:
        _refuse_unknown(config, account)
    if as_json:
        typer.echo(msgspec.json.encode(shown))
        return
    if not shown:
        typer.echo(f"{account} is not logged in." if account else "Nobody is logged in.")
        return
    now = time.time()
    rows = [
        (
            str(session.id),
            session.protocol,
            printable(f"{session.account}:{session.channel}"),
            printable(session.remote),
            duration_shown(max(now - session.opened_at, 0.0)),
            count_shown(session.subscriptions),
            count_shown(session.in_flight),
            f"{bytes_shown(session.unsent_bytes)}{_slow(session)}" if session.unsent else "-",
        )
        for session in shown
    ]
    columns = ("id", "protocol", "account", "from", "for", "subs", "in flight", "unsent")
    show_table(columns, rows, folds=("account", "from"))


def _refuse_unknown(config: Path, account: str) -> None:
    known = [each.name for each in decoded(line(state_directory(config), AskAccounts()), list[AccountStatus])]
    if account not in known:
        raise Failure(f"there is no account {account}{nearest(account, known)}", FAILED)


def _slow(session: SessionStatus) -> str:
    return "" if session.paused_s is None else f", does not read for {duration_shown(session.paused_s)}"


@app.command()
def close(
    id: Annotated[
        int,
        typer.Argument(
            metavar="ID",
            min=1,
            max=NUMBER_MAX,
            help="As `smqpd sessions` shows it.",
            autocompletion=complete_session,
        ),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """End a session; its client may come back, unless its account is disabled."""
    closed = decoded(line(state_directory(config), OrderClosing(id=id)), bool)
    if as_json:
        typer.echo(json.dumps({"closed": closed}))
    elif closed:
        typer.echo(f"Closed session {id}.")
    if not closed:
        raise Failure(f"there is no session {id}; see `smqpd sessions`", FAILED)
