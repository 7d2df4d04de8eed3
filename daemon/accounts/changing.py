"""Changes of the accounts of a site, by commands and by the site itself alike: what is refused, and why.

Where a change would leave nobody who may change the site on its page, whoever asked for it is told: the page
before it is made (`NobodyLeftError`), a command afterwards, since who has the machine can always add one.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.accounts.accounts_file import ACCOUNT_EXPECTED, ACCOUNT_NAME, Account

if TYPE_CHECKING:
    from daemon.accounts.accounts_editor import AccountsEditor

Change = Callable[["AccountsEditor"], None]


class NobodyLeftError(Exception):
    """Nobody could change the site on its page any more; nothing was changed."""


def check_new(name: str, accounts: Mapping[str, Account]) -> None:
    """Raise ValueError, saying why, where no account of this name can be added."""
    if not ACCOUNT_NAME.fullmatch(name):
        raise ValueError(f"{name[:80]} cannot be an account: {ACCOUNT_EXPECTED}")
    if name in accounts:
        raise ValueError(f"there is an account {name} already")


def change_file(
    path: Path, change: Change, *, leave_nobody: bool = True, patience_s: float | None = None
) -> bool:
    """Change the file, whole or not at all; whether nobody is left now who may change the site on its page.

    Blocks, while another editor is at it for at most `patience_s` (None: as long as that takes). Raises what
    `change` and `accounts_editor.edit` raise, and NobodyLeftError.
    """
    from daemon.accounts.accounts_editor import edit  # a site starts without the library that it needs

    with edit(path, patience_s) as editor:
        before = operators(editor.accounts)
        change(editor)
        nobody_left = bool(before) and not operators(editor.accounts)
        if nobody_left and not leave_nobody:
            raise NobodyLeftError
    return nobody_left


def operators(accounts: Mapping[str, Account]) -> list[str]:
    """The accounts that may log in, and change the site on its page."""
    return [name for name, each in accounts.items() if each.rights.operate == "change" and not each.disabled]


def why_fixed(path: Path) -> str:
    """Why this process cannot replace the accounts file; "" where it can."""
    try:
        owner = path.stat().st_uid
    except OSError as error:
        return f"{path}: {error.strerror}"
    if not os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
        return f"the site may not write to {path.parent}"
    if os.geteuid() not in (0, owner):
        return f"{path} belongs to another user than the site runs as"
    return ""
