"""That a site's state is the one that it had: a file beside its configuration names its store.

A state directory that is gone (a mount that failed, a folder that was moved) would else be begun anew without
a word, and what it held forgotten. `smqpd init` makes mark and store together, so a mark without its store is
a loss. A site that was made otherwise gets its mark from the first daemon that may write there.
"""

import logging
import sqlite3
from pathlib import Path
from shlex import quote
from typing import Final

from daemon.settings import STORE, ConfigError, SiteSettings
from daemon.site.lock import state_lock
from daemon.store.ownership import Ownership, new_identity, read_ownership
from daemon.store.schema import TooNewError
from daemon.store.store import Store, make_store
from daemon.system import private_files

_log = logging.getLogger(__name__)

INSTALLATION: Final = "installation"
"""In the state directory: a random word by which two sites of one name differ."""

_HEADER: Final = "# The store that belongs to this site; `smqpd init --accept-state` writes it anew.\n"


class LostStateError(ConfigError):
    """The state directory is not the one that this site had."""


def mark_path(config: Path) -> Path:
    """The mark of the site with this configuration: `smqpd.id` beside `smqpd.toml`."""
    return config.with_suffix(".id")


def check_state(config: Path, site: SiteSettings) -> None:
    """Raise LostStateError where the state directory is not the one that this site had; changes nothing.

    Raises ConfigError where that cannot be told.
    """
    path = site.state_directory / STORE
    mark = _read(config)
    owner = _owner(config, site)
    if mark is None:
        return
    if owner is None:
        raise LostStateError(
            path,
            "",
            f"is {'empty' if path.exists() else 'gone'}, but this site had a store ({mark_path(config)} says"
            f" so): mount {site.state_directory}, or restore a backup (`smqpd restore`); to begin anew"
            f" without what it held, {_accept(config)}",
        )
    if owner.identity not in ("", mark):
        raise LostStateError(
            path,
            "",
            f"is another store than this site had ({mark_path(config)} says which): put that one back; to go"
            f" on with the one that is there, {_accept(config)}",
        )


def _owner(config: Path, site: SiteSettings) -> Ownership | None:
    """Whose the store is; None where there is none. Raises ConfigError where it is another server's."""
    path = site.state_directory / STORE
    try:
        owner = read_ownership(path)
    except FileNotFoundError:
        return None
    except (TooNewError, sqlite3.Error, OSError) as error:
        raise ConfigError(path, "", f"the store cannot be used: {error}") from None
    if owner.server_name not in ("", site.server_name):
        raise LostStateError(
            path,
            "",
            f"is the store of {owner.server_name}, but server_name in [site] is {site.server_name}: set that"
            " back, since others hold Smuids and addresses of the old name; to begin anew under the new one,"
            f" move {site.state_directory} away, then {_accept(config)}",
        )
    return owner


def _accept(config: Path) -> str:
    return f"`smqpd init {quote(str(config))} --accept-state`"


def own_state(config: Path, site: SiteSettings, store: Store) -> None:
    """Make store and site know each other, where they do not yet. Raises sqlite3.Error."""
    mark = _read(config)
    identity = store.own(site.server_name, mark or new_identity())
    if mark is None:
        try:
            private_files.sync_directory(site.state_directory)
            _write(config, identity)
        except OSError as error:  # a service may write nothing but its state
            _log.debug("%s cannot be written: %s", mark_path(config), error)


def accept_state(config: Path, site: SiteSettings) -> bool:
    """Make the state that is there the site's, an empty one where there is none: whether it is new.

    Raises ConfigError for the store of another site, StateInUseError, TooNewError, sqlite3.Error and OSError.
    """
    with state_lock(site.state_directory):
        is_new = _owner(config, site) is None
        make_state(config, site)
        private_files.give_to_owner_of(config.absolute().parent, site.state_directory)
    return is_new


def make_state(config: Path, site: SiteSettings) -> None:
    """Make the store and its mark. Raises TooNewError, sqlite3.Error and OSError."""
    identity = make_store(site.state_directory / STORE, site.server_name, new_identity())
    private_files.sync_directory(site.state_directory)  # a mark without its store would keep it from starting
    _write(config, identity)


def _read(config: Path) -> str | None:
    """The identity in the mark; None where there is no mark."""
    path = mark_path(config)
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(path, "", f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    words = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if len(words) != 1:
        raise ConfigError(path, "", "expected one line, the identity of the site's store")
    return words[0]


def _write(config: Path, identity: str) -> None:
    private_files.replace(mark_path(config), f"{_HEADER}{identity}\n".encode(), 0o644)
