"""A change of the accounts file, and the running site that takes it on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from daemon.accounts.accounts_file import (
    ACCOUNT_EXPECTED,
    ACCOUNT_NAME,
    ChangedMeanwhileError,
    NoSuchAccountError,
)
from daemon.accounts.changing import Change, change_file
from daemon.cli.completing import complete_account
from daemon.cli.options import read_settings
from daemon.cli.telling import tell
from daemon.terminal.failure import Failure
from daemon.terminal.printable import printable


def _checked(name: str) -> str:
    if not ACCOUNT_NAME.fullmatch(name):
        raise typer.BadParameter(f"{printable(name[:80])!r} is none: {ACCOUNT_EXPECTED}")
    return name


AccountName = Annotated[
    str, typer.Argument(metavar="NAME", callback=_checked, autocompletion=complete_account)
]
AnyAccountName = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]",
        callback=lambda name: name and _checked(name),
        autocompletion=complete_account,
        show_default=False,
    ),
]
"""Absent: all of them."""


def change_accounts(
    config: Path, done: str, change: Change, written: Callable[[], None] = lambda: None
) -> str:
    """Change the accounts of a site, and have it take that on; returns what to print. Raises Failure.

    `written` is called once the file has the change, whether the site takes it on or not.
    """
    site = read_settings(config).site
    try:
        nobody_left = change_file(site.accounts_file, change)
    except (NoSuchAccountError, FileExistsError, ChangedMeanwhileError) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{site.accounts_file}: cannot be changed: {error.strerror}") from None
    written()
    said = tell(config, site.state_directory, done, ["accounts"])
    if nobody_left:
        typer.echo("smqpd: warning: no account may change the site on its page any more", err=True)
    return said


@contextmanager
def secret_shown(
    title: str, secret: str, as_json: bool, say: Callable[[], None]
) -> Iterator[Callable[[], None]]:
    """Show what was made for an account, "" for nothing, once its file has it; see `change_accounts`.

    As JSON it is shown with what became of the change; where the site does not take that on, by `say`, since
    nobody could find it out afterwards.
    """
    is_written = False

    def written() -> None:
        nonlocal is_written
        is_written = True
        if secret and not as_json:
            typer.echo(f"{title}: {secret}")

    try:
        yield written
    except Failure:
        if secret and as_json and is_written:
            say()
        raise
