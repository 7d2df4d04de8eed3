"""Sites as `smqpd init` makes them, whose administrator's logins cost next to nothing to verify.

Of each name one is made by each process of the tests, which copies it: 2 ms of CPU in place of 47, 36 of them
for the hash of that password. What `make_site` does is tested by those who call that.
"""

import tempfile
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from daemon.accounts.accounts_editor import edit
from daemon.configuration.discovery import Installed
from daemon.settings import SiteSettings
from daemon.site.admin_login import ADMIN
from daemon.site.directory import MadeSite, make_site
from daemon.site.state_mark import make_state
from daemon.system import private_files
from tests.support.installed import checkout_plugins
from tests.support.new_store import put_store
from tests.support.passwords import cheap_hash

_PORT: Final = 1
"""Of those that are copied: no other address has it."""

COPIED: Final = ("accounts.toml", "keys/admin.toml", "keys/tls.crt", "keys/tls.key", "smqpd.toml")
"""Store and mark are each site's own."""


class _File(NamedTuple):
    text: str
    mode: int


def made_site(directory: Path, server_name: str, port: int, *, is_bare: bool = False) -> MadeSite:
    """See `daemon.site.directory.make_site`. `is_bare`: its configuration names no front ends."""
    password, files = _made(server_name, is_bare)
    address = f"127.0.0.1:{port}"
    for place in (directory, directory / "keys", directory / "state"):
        private_files.make_directory(place)
    for name, file in files.items():
        text = file.text.replace(f'"127.0.0.1:{_PORT}"', f'"{address}"')
        private_files.write_new(directory / name, text.encode(), file.mode)
    put_store(directory / "state")
    config = directory / "smqpd.toml"
    make_state(config, SiteSettings(server_name=server_name, state_directory=directory / "state"))
    return MadeSite(config, address, password)


@cache
def _made(server_name: str, is_bare: bool) -> tuple[str, dict[str, _File]]:
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made) / "site"
        password = make_site(
            directory, server_name, _PORT, Installed({}) if is_bare else checkout_plugins()
        ).password
        with edit(directory / "accounts.toml") as editor:
            editor.set_password(ADMIN, cheap_hash(password))
        return password, {
            name: _File((directory / name).read_text(), (directory / name).stat().st_mode & 0o777)
            for name in COPIED
        }


def files_below(directory: Path) -> list[str]:
    """Their paths, from there, in order."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
