"""Makes a site: a directory with all that `smqpd run` needs.

smqpd.toml      the configuration, commented
accounts.toml   one account, `admin`, with every right
keys/admin.toml its login, for the command line on this machine
keys/tls.crt, keys/tls.key   a certificate that the site made for itself
state/          what the daemon keeps: an empty store
smqpd.id        which store that is, see `daemon.site.state_mark`
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from daemon.accounts.accounts_editor import HEADER, AccountsEditor
from daemon.accounts.accounts_file import Account
from daemon.accounts.passwords import generate_password, hash_password
from daemon.certificates.identity import host_of
from daemon.certificates.self_signed import make_self_signed
from daemon.configuration.discovery import Installed
from daemon.configuration.template import render, render_commented
from daemon.settings import STORE, Settings, SiteSettings, TlsSettings
from daemon.site.admin_login import ADMIN, LOGIN, login_text
from daemon.site.state_mark import make_state, mark_path
from daemon.system import private_files
from routing.rights import EVERYTHING

CONFIG_HEADER: Final = """\
# The configuration of one smqpd site. A line that begins with `# name = ` shows a default. Paths are
# relative to this file.
#
# After a change: `smqpd config check`, then `smqpd reload`, which says what the running site has taken on.
# What stands in [site], [hops], [links] and [plugins] takes effect with the next start, everything else at
# once, as do accounts, rights, peers and certificates.

"""


class MadeSite(msgspec.Struct, frozen=True):
    """What `make_site` made; `password` is the administrator's, kept nowhere else but in keys/admin.toml."""

    config: Path
    address: str
    password: str


def make_site(directory: Path, server_name: str, port: int, installed: Installed) -> MadeSite:
    """Make a site that listens on loopback. Raises FileExistsError where there is one, and OSError.

    What else there is stays, as the keys for links that `smqpd cert issue` has made for the site. Where it
    fails, or is interrupted, what it has made is removed.
    """
    store = f"state/{STORE}"
    own = ("smqpd.toml", "accounts.toml", "keys/tls.key", "keys/tls.crt", LOGIN, store)
    wanted = directory.absolute()
    directories = (wanted / "state", wanted / "keys", wanted, *wanted.parents)
    missing = [path for path in directories if not path.exists()]
    private_files.make_directory(directory)
    with private_files.alone(directory):
        for name in own:
            if (directory / name).exists():
                raise FileExistsError(f"{directory / name} exists already")
        has_mark = mark_path(directory / "smqpd.toml").exists()
        try:
            return _make(directory, server_name, port, installed)
        except BaseException:
            for name in (*own, f"{store}-wal", f"{store}-shm", *(() if has_mark else ("smqpd.id",))):
                (directory / name).unlink(missing_ok=True)
            for path in missing:
                with suppress(OSError):  # somebody else has put something into it
                    path.rmdir()
            raise


def _make(directory: Path, server_name: str, port: int, installed: Installed) -> MadeSite:
    keys = directory / "keys"
    for made in (keys, directory / "state"):
        private_files.make_directory(made)

    password = generate_password()
    accounts = AccountsEditor.parse(HEADER)
    accounts.add(ADMIN, Account(password=hash_password(password), rights=EVERYTHING))
    private_files.write_new(directory / "accounts.toml", accounts.text().encode())

    certificate, key = make_self_signed(host_of(server_name))
    private_files.write_new(keys / "tls.key", key)
    private_files.write_new(keys / "tls.crt", certificate, 0o644)

    address = f"127.0.0.1:{port}"
    private_files.write_new(directory / LOGIN, login_text(address, password).encode())
    config = directory / "smqpd.toml"
    private_files.write_new(config, new_config(server_name, port, installed).encode(), 0o644)
    make_state(config, SiteSettings(server_name=server_name, state_directory=directory / "state"))
    for made in (keys, directory, directory.absolute().parent):
        private_files.sync_directory(made)
    return MadeSite(config, address, password)


def new_config(server_name: str, port: int, installed: Installed) -> str:
    """The configuration of a new site: defaults, SMQP on loopback at `port`, its own certificate.

    Front ends that are not enabled by default follow as comments.
    """
    enabled: dict[str, msgspec.Struct] = {}
    others: dict[str, msgspec.Struct] = {}
    for name, plugin in installed.plugins.items():
        (enabled if plugin.enabled_by_default else others)[name] = plugin.settings()
    if "smqp" in enabled:
        enabled["smqp"] = msgspec.structs.replace(enabled["smqp"], listen=(f"127.0.0.1:{port}",))
    settings = Settings(
        site=SiteSettings(server_name=server_name),
        tls=TlsSettings(certificate=Path("keys/tls.crt"), key=Path("keys/tls.key")),
        plugins=enabled,
    )
    tables = [render(settings), *(render_commented(f"plugins.{name}", others[name]) for name in others)]
    return CONFIG_HEADER + "\n".join(tables)
