"""Forms about accounts, read: rights as patterns, quotas as numbers; and what they do."""

from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse

from daemon.frontend import RIGHTS, AccountSettings, Operating, OwnQuotas, Rights
from plugins.web.actions import Fields, actor
from plugins.web.login import WebUser
from plugins.web.pages import Pages, account_address
from routing.errors import Refusal

OPERATING: Final[dict[str, Operating]] = {"": "", "look": "look", "change": "change"}
FRACTIONS: Final = ("publish_rate_per_s_max",)


class AccountForms:
    """As `plugins.web.actions.Actions`, for accounts."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._operations = pages.site.operations

    async def add(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """A new account."""
        name, password, by = fields.get("name", "").strip(), fields.get("password", ""), actor(request)
        made = await self._operations.add_account(name, password, read_settings(fields), by)
        return self._show_password(request, user, name, f"Added {name}.", made)

    async def change(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """Set the rights and quotas of an account."""
        return await self._set(request, user, fields, read_settings(fields), "Changed")

    async def disable(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """Refuse its logins."""
        return await self._set(request, user, fields, AccountSettings(disabled=True), "Disabled")

    async def enable(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """Let it log in again."""
        return await self._set(request, user, fields, AccountSettings(disabled=False), "Enabled")

    async def set_password(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """The one of the form, or one that is made and shown once."""
        name, password = fields.get("name", ""), fields.get("password", "")
        changed = await self._operations.set_password(name, password, actor(request))
        login = f" {changed.login}." if changed.login else ""
        done = f"Changed the password of {name}.{login}"
        shown = self._show_password(request, user, name, done, changed.made)
        if user.session and name == user.identity.account:
            shown.headers.append("set-cookie", self._pages.logins.renewed(request, user))
        return shown

    async def remove(self, request: Any, user: WebUser, fields: Fields) -> Any:
        """Remove an account, for good."""
        name, version = fields.get("name", ""), fields.get("version", "")
        leave_nobody = bool(fields.get("leave_nobody"))
        await self._operations.remove_account(
            name, actor(request), version=version, leave_nobody=leave_nobody
        )
        self._pages.note(user, f"Removed {name}.")
        return RedirectResponse("/accounts", 303)

    async def _set(
        self, request: Any, user: WebUser, fields: Fields, wanted: AccountSettings, done: str
    ) -> Any:
        name, by = fields.get("name", ""), actor(request)
        await self._operations.set_account(
            name,
            wanted,
            by,
            version=fields.get("version", ""),
            leave_nobody=bool(fields.get("leave_nobody")),
        )
        self._pages.note(user, f"{done} {name}.")
        return RedirectResponse(account_address(name), 303)

    def _show_password(self, request: Any, user: WebUser, name: str, done: str, made: str) -> Any:
        """Straight in the answer, where it was made here: nothing keeps it for another."""
        self._pages.note(user, done)
        if not made:
            return RedirectResponse(account_address(name), 303)
        return self._pages.show(request, "password.html", "A password, shown once", name=name, password=made)


def read_settings(fields: Fields) -> AccountSettings:
    """What a form says of rights and quotas. Raises Refusal."""
    patterns = {right: tuple(fields.get(right, "").split()) for right in RIGHTS}
    operate = OPERATING.get(fields.get("operate", ""), "")
    try:
        return AccountSettings(rights=Rights(**patterns, operate=operate), quotas=_quotas(fields))
    except ValueError as error:  # msgspec's, too
        raise Refusal(Refusal.BAD_COMMAND, str(error)) from None


def _quotas(fields: Fields) -> OwnQuotas:
    given: dict[str, float] = {}
    for name in OwnQuotas.__struct_fields__:
        text = fields.get(name, "").strip()
        if text:
            try:
                given[name] = float(text) if name in FRACTIONS else int(text)
            except ValueError:
                raise ValueError(f"{name} is a number, 0 for no limit, and not {text[:40]!r}") from None
    return msgspec.convert(given, OwnQuotas)
