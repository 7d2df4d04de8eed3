"""What operators do to accounts where the site may write their file; see `daemon.operating`.

The rules are those of `smqpd account`: `daemon.accounts.changing`. Whoever asks is an account that may
change the site, by what the file says at the moment of the change: it may have lost that while it waited. The
file is changed first, and then taken on as by a reload; both are finished also where whoever asked goes
meanwhile.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from daemon.accounts.accounts_file import Account, ChangedMeanwhileError, NoSuchAccountError, read_accounts
from daemon.accounts.changing import NobodyLeftError, change_file, check_new, operators, why_fixed
from daemon.accounts.passwords import generate_password, hash_password
from daemon.operating.accounts import CONFLICT, AccountSettings, PasswordChanged
from daemon.operating.operations import Actor
from daemon.settings import ConfigError
from routing.errors import Refusal
from routing.quotas import OwnQuotas
from routing.rights import Rights

if TYPE_CHECKING:
    from daemon.accounts.accounts_editor import AccountsEditor

_log = logging.getLogger(__name__)

PATIENCE_S: Final = 5.0
"""For a command that changes the file at the moment."""

TakeOn = Callable[[Actor], list[str]]
"""Has the site take its accounts on, as a reload; returns why it has not."""

KeepLogin = Callable[[str, str], str]
"""Puts the password of an account where the site keeps a login of it for commands on its machine; returns
what is to be said of that, "" where it keeps none. Blocks."""


class AccountActions:
    """Changes the accounts of one site."""

    def __init__(self, path: Callable[[], Path], take_on: TakeOn, keep_login: KeepLogin) -> None:
        self._path = path
        self._take_on = take_on
        self._keep_login = keep_login
        self._turn = trio.Lock()

    @property
    def fixed(self) -> str:
        """See `daemon.operating.operations.Operations.accounts_fixed`."""
        return why_fixed(self._path())

    async def add(self, name: str, password: str, wanted: AccountSettings, by: Actor) -> str:
        """See `daemon.operating.operations.Operations.add_account`."""
        made = "" if password else generate_password()

        def change(phc: str, editor: "AccountsEditor") -> None:
            check_new(name, editor.accounts)
            account = Account(
                password=phc,
                disabled=bool(wanted.disabled),
                rights=wanted.rights or Rights(),
                quotas=wanted.quotas or OwnQuotas(),
            )
            editor.add(name, account)

        await self._change(change, f"Added the account {name}.", by, password=password or made)
        await self._kept_login(name, password or made)
        return made

    async def set(
        self, name: str, wanted: AccountSettings, by: Actor, version: str, *, leave_nobody: bool
    ) -> None:
        """See `daemon.operating.operations.Operations.set_account`."""

        def change(phc: str, editor: "AccountsEditor") -> None:
            if version:
                editor.check_version(name, version)
            if wanted.disabled is not None:
                editor.set_disabled(name, wanted.disabled)
            if wanted.rights is not None:
                editor.set_rights(name, wanted.rights)
            if wanted.quotas is not None:
                editor.set_quotas(name, wanted.quotas)

        await self._change(change, f"Changed the account {name}.", by, leave_nobody=leave_nobody)

    async def set_password(self, name: str, password: str, by: Actor) -> PasswordChanged:
        """See `daemon.operating.operations.Operations.set_password`."""
        made = "" if password else generate_password()

        def change(phc: str, editor: "AccountsEditor") -> None:
            editor.set_password(name, phc)

        await self._change(change, f"Changed the password of {name}.", by, password=password or made)
        return PasswordChanged(made=made, login=await self._kept_login(name, password or made))

    async def _kept_login(self, name: str, password: str) -> str:
        with trio.CancelScope(shield=True):
            login = await trio.to_thread.run_sync(self._keep_login, name, password)
        if login:
            _log.info("%s", login)
        return login

    async def remove(self, name: str, by: Actor, version: str, *, leave_nobody: bool) -> None:
        """See `daemon.operating.operations.Operations.remove_account`."""

        def change(phc: str, editor: "AccountsEditor") -> None:
            if version:
                editor.check_version(name, version)
            editor.remove(name)

        await self._change(change, f"Removed the account {name}.", by, leave_nobody=leave_nobody)

    async def _change(
        self,
        change: Callable[[str, "AccountsEditor"], None],
        done: str,
        by: Actor,
        *,
        password: str | None = None,
        leave_nobody: bool = False,
    ) -> None:
        """With a `password`, `change` is given its hash. Raises Refusal."""
        if why := self.fixed:
            raise Refusal(Refusal.NOT_AVAILABLE, f"accounts cannot be changed here: {why}")
        async with self._turn:  # one hash at a time, too
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._write, change, password, by, leave_nobody)
                _log.info("%s: by %s", done.rstrip("."), by)
                problems = self._take_on(by)
        if problems:
            text = f"{done} But the site has not taken it on, and goes on as before: {'; '.join(problems)}"
            raise Refusal(Refusal.NOT_AVAILABLE, text)

    def _write(
        self,
        change: Callable[[str, "AccountsEditor"], None],
        password: str | None,
        by: Actor,
        leave_nobody: bool,
    ) -> None:
        """Blocks."""
        path = self._path()

        def made(editor: "AccountsEditor") -> None:
            _check_operator(by, editor.accounts)
            change(phc, editor)

        try:
            _check_operator(by, read_accounts(path))  # before the work of a hash
            phc = "" if password is None else hash_password(password)
            change_file(path, made, leave_nobody=leave_nobody, patience_s=PATIENCE_S)
        except NoSuchAccountError as error:
            raise Refusal(Refusal.NOT_FOUND, str(error)) from None
        except ChangedMeanwhileError as error:
            raise Refusal(CONFLICT, str(error)) from None
        except NobodyLeftError:
            text = "nobody could change this site on its page any more; that has to be wanted"
            raise Refusal(CONFLICT, text) from None
        except ConfigError as error:
            raise Refusal(Refusal.NOT_AVAILABLE, f"the accounts cannot be changed: {error}") from None
        except BlockingIOError:
            raise Refusal(Refusal.NOT_AVAILABLE, "a command changes the accounts right now") from None
        except OSError as error:
            raise Refusal(Refusal.NOT_AVAILABLE, f"{path}: cannot be changed: {error.strerror}") from None
        except ValueError as error:
            raise Refusal(Refusal.BAD_COMMAND, str(error)) from None


def _check_operator(by: Actor, accounts: Mapping[str, Account]) -> None:
    if by.name not in operators(accounts):
        raise Refusal(Refusal.FORBIDDEN, f"{by.name} may not change this site any more")
