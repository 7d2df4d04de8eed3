"""A change of the accounts file, and the running site that takes it on."""

from collections.abc import Callable
from functools import partial
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
from daemon.terminal.failure import CLOSED_PIPE, FAILED, Failure, because
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


class Secret:
    """What is made for an account, "" for nothing, and shown once: nobody could find it out afterwards.

    It is shown as soon as the file has it, but as JSON with what became of the change, which `say` prints.
    Where standard output cannot be written all else is done even so, and then said, with how one gets another
    `again`.
    """

    def __init__(
        self, title: str, secret: str, as_json: bool, say: Callable[[str], None], again: str
    ) -> None:
        self._title = title
        self._secret = secret
        self._as_json = as_json
        self._say = say
        self._again = again
        self._is_written = False
        self._unshown: OSError | None = None

    def change(self, config: Path, done: str, change: Change, follow: Callable[[], str] = lambda: "") -> None:
        """Change the accounts, and print what `change_accounts` returns, with what `follow` does and says.

        Raises Failure.
        """
        try:
            said = change_accounts(config, done, change, self._written) + follow()
        except Failure as failure:
            if self._is_written and self._secret and self._as_json:
                self._show(partial(self._say, done))
            if self._unshown is None:
                raise
            raise Failure(f"{failure}; and {self._lost()}", failure.exit_code) from None
        if self._secret and self._as_json:
            self._show(partial(self._say, said))
        elif self._unshown is None:
            self._say(said)
        if self._unshown is not None:
            is_closed = isinstance(self._unshown, BrokenPipeError)
            raise Failure(f"{said} But {self._lost()}", CLOSED_PIPE if is_closed else FAILED)

    def _written(self) -> None:
        self._is_written = True
        if self._secret and not self._as_json:
            self._show(partial(typer.echo, f"{self._title}: {self._secret}"))

    def _show(self, show: Callable[[], None]) -> None:
        try:
            show()
        except OSError as error:
            self._unshown = error

    def _lost(self) -> str:
        assert self._unshown is not None
        return (
            f"the {self._title.lower()} was not shown, as standard output cannot be written:"
            f" {because(self._unshown)}; {self._again}"
        )
