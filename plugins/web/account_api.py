"""Accounts by the API: what is sent, and what is done."""

from typing import Any

import msgspec

from daemon.frontend import AccountSettings, AccountStatus, Operations
from plugins.web.actions import actor
from plugins.web.endpoints import get, post, taken


class NewAccount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An account to be added; without a `password` one is made, and told in the answer alone."""

    name: str
    password: str = ""
    settings: AccountSettings = AccountSettings()


class AccountChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an account is to become; null stays as it is.

    With a `version`, as `/api/accounts` told it, only where nobody has changed it since. `leave_nobody` where
    nobody shall be left who may change the site on its page.
    """

    name: str
    settings: AccountSettings
    version: str = ""
    leave_nobody: bool = False


class NewPassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another password for an account; where it is empty one is made, and told in the answer alone."""

    name: str
    password: str = ""


class AccountRemoval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An account to be removed; `version` and `leave_nobody` as for a change."""

    name: str
    version: str = ""
    leave_nobody: bool = False


class AccountChanged(msgspec.Struct, frozen=True):
    """It was done.

    Attributes:
        password: the one that was made, "" for none.
        login: what is to be said of the file in which the site keeps a login of this account for commands on
            its machine; "" where it keeps none.
    """

    account: str
    password: str = ""
    login: str = ""


class AccountsFixed(msgspec.Struct, frozen=True):
    """Why accounts can be changed by `smqpd account` alone; "" where they can be changed here."""

    why: str


class AccountApi:
    """Of one site."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self.endpoints = (
            get("/api/accounts", "All accounts, by name.", self._accounts, list[AccountStatus]),
            get(
                "/api/accounts/fixed",
                "Whether accounts can be changed here.",
                self._accounts_fixed,
                AccountsFixed,
            ),
            post("/api/account/add", "Add an account.", self._add_account, AccountChanged, takes=NewAccount),
            post(
                "/api/account/change",
                "Change what it may do; its sessions follow.",
                self._change_account,
                AccountChanged,
                takes=AccountChange,
            ),
            post(
                "/api/account/password",
                "Give it another password.",
                self._set_password,
                AccountChanged,
                takes=NewPassword,
            ),
            post(
                "/api/account/remove",
                "Remove it, and end its sessions.",
                self._remove_account,
                AccountChanged,
                takes=AccountRemoval,
            ),
        )

    async def _accounts(self, request: Any) -> Any:
        return await self._operations.accounts()

    async def _accounts_fixed(self, request: Any) -> Any:
        return AccountsFixed(self._operations.accounts_fixed())

    async def _add_account(self, request: Any) -> Any:
        wanted, by = await taken(request, NewAccount), actor(request)
        made = await self._operations.add_account(wanted.name, wanted.password, wanted.settings, by)
        return AccountChanged(wanted.name, made)

    async def _change_account(self, request: Any) -> Any:
        wanted, by = await taken(request, AccountChange), actor(request)
        version, leave_nobody = wanted.version, wanted.leave_nobody
        await self._operations.set_account(
            wanted.name, wanted.settings, by, version=version, leave_nobody=leave_nobody
        )
        return AccountChanged(wanted.name)

    async def _set_password(self, request: Any) -> Any:
        wanted = await taken(request, NewPassword)
        done = await self._operations.set_password(wanted.name, wanted.password, actor(request))
        return AccountChanged(wanted.name, done.made, done.login)

    async def _remove_account(self, request: Any) -> Any:
        wanted, by = await taken(request, AccountRemoval), actor(request)
        await self._operations.remove_account(
            wanted.name, by, version=wanted.version, leave_nobody=wanted.leave_nobody
        )
        return AccountChanged(wanted.name)
