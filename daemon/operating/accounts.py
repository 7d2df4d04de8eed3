"""Accounts, what they may do, and what they use."""

from typing import Final

import msgspec

from routing.quotas import OwnQuotas, Quotas
from routing.rights import Rights

CONFLICT: Final = "conflict"
"""Code of a refusal: what was to be changed is another by now, or what comes of it has to be wanted."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an account may do something; `why` names the pattern or the rule that says so."""

    allowed: bool
    why: str


class PasswordChanged(msgspec.Struct, frozen=True, kw_only=True):
    """An account has another password.

    Attributes:
        made: the one that was made, "" where one was given.
        login: what is to be said of the site's own login for commands on its machine, where that is of this
            account; else "".
    """

    made: str = ""
    login: str = ""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What an account uses of that which quotas bound.

    Attributes:
        held_messages, held_bytes: that it has published at this site and that are held.
        unfinished_bytes: memory for what is no message yet, or not on disk.
    """

    sessions: int = 0
    held_messages: int = 0
    held_bytes: int = 0
    unfinished_bytes: int = 0


class AccountStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An account.

    Attributes:
        sessions: of it that are open.
        quotas: those that hold, 0 for no limit; `own` are those that it has itself.
        tokens: their names.
        version: names what it may do, for `Operations.set_account`.
    """

    name: str
    disabled: bool
    rights: Rights
    sessions: int
    quotas: Quotas
    own: OwnQuotas
    used: Used
    tokens: tuple[str, ...]
    version: str


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an account is to be, or to become; None leaves that as it is."""

    disabled: bool | None = None
    rights: Rights | None = None
    quotas: OwnQuotas | None = None
