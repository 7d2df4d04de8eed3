"""The administrator's login in a site's directory, keys/admin.toml: for the command line on that machine."""

from pathlib import Path
from typing import Final

import msgspec

from daemon.configuration.template import toml_value
from daemon.connections.listen import split_address
from daemon.settings import Settings
from daemon.system import private_files

ADMIN: Final = "admin"
LOGIN: Final = "keys/admin.toml"

_FRONT_END: Final = "smqp"
_THIS_MACHINE: Final = {None: "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where to connect to what listens on every address."""


class _Login(msgspec.Struct, frozen=True):
    server: str
    account: str


def login_text(address: str, password: str, account: str = ADMIN) -> str:
    """What stands in the file."""
    return (
        "# A login for `smqpd` on this machine. Whoever can read this file is the administrator.\n"
        f"server = {toml_value(address)}\naccount = {toml_value(account)}\n"
        f"password = {toml_value(password)}\n"
    )


def is_login_of(directory: Path, account: str) -> bool:
    """Whether the file of the site in `directory` is there, can be read, and is for this account."""
    try:
        return msgspec.toml.decode((directory / LOGIN).read_bytes(), type=_Login).account == account
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False


def keep_password(directory: Path, settings: Settings, account: str, password: str) -> bool:
    """Put another password into the file of the site in `directory`; whether it is for this account.

    One that is missing is made for the administrator, where the site listens for such logins. Raises OSError.
    """
    path = directory / LOGIN
    try:
        login = msgspec.toml.decode(path.read_bytes(), type=_Login)
    except FileNotFoundError:
        address = _address(settings)
        if account != ADMIN or not address:
            return False
        if not path.parent.exists():
            private_files.make_directory(path.parent)
            private_files.give_to_owner_of(directory, path.parent)
    except (msgspec.DecodeError, UnicodeDecodeError):  # whatever it is, it is not what a site was made with
        return False
    else:
        if login.account != account:
            return False
        address = login.server
    private_files.replace(path, login_text(address, password, account).encode(), 0o600)
    return True


def _address(settings: Settings) -> str:
    """Where the site takes SMQP without TLS; "" where it does not."""
    listen: tuple[str, ...] = getattr(settings.plugins.get(_FRONT_END), "listen", ())
    if not listen:
        return ""
    there, port = split_address(listen[0])
    host = _THIS_MACHINE.get(there) or str(there)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
