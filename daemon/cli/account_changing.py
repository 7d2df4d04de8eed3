"""A change of the accounts file, and the running site that takes it on."""

from collections.abc import Callable
from pathlib import Path

from daemon.accounts.accounts_file import AccountsEditor, NoSuchAccountError, edit
from daemon.cli.options import read_settings
from daemon.cli.telling import tell
from daemon.terminal.failure import Failure


def change_accounts(config: Path, done: str, change: Callable[[AccountsEditor], None]) -> str:
    """Change the accounts of a site, and have it take that on; returns what to print. Raises Failure."""
    site = read_settings(config).site
    try:
        with edit(site.accounts_file) as editor:
            change(editor)
    except (NoSuchAccountError, FileExistsError) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{site.accounts_file}: cannot be changed: {error.strerror}") from None
    return tell(config, site.state_directory, done, ["accounts"])
