"""`smqpd backup`: a copy of a site, itself a site directory, made whether the daemon runs or not.

    TARGET/smqpd.toml, smqpd.id, accounts.toml, peers.toml    those that there are
    TARGET/state/smqpd.db                                     the store as it was at one moment
    TARGET/keys/                                              without what is secret, if --no-keys is given
    TARGET/backup.json                                        what belongs to it; see `daemon.backup_manifest`

It is made under another name and renamed when it is whole. The hop log is not part of it. Paths in its
smqpd.toml are those of this layout, so that the copy never runs on files of the site that it was made of.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
import tomlkit
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from daemon.backup_manifest import FORMAT, MANIFEST, Manifest, list_files, write_manifest
from daemon.certificates.files import AUTHORITY_FILE, CERTIFICATE_FILE, REVOCATION_FILE
from daemon.cli.failure import Failure
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, config_file, read_settings
from daemon.private_files import make_directory, sync_directory, write_new
from daemon.settings import Settings
from daemon.state_mark import STORE, mark_path
from daemon.store.backup import DamagedError, StoreCopy, copy_store
from daemon.store.schema import TooNewError
from daemon.version import VERSION

PUBLIC: Final = (CERTIFICATE_FILE, AUTHORITY_FILE, REVOCATION_FILE)
"""Of a keys directory; without its key a certificate of [tls] is of no use."""


class Backup(msgspec.Struct, kw_only=True):
    """What `--json` prints; `files` are relative to `target`."""

    target: str
    files: list[str]
    store: StoreCopy
    keys: bool


def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A directory that does not exist yet.")],
    config: ConfigOption = DEFAULT_CONFIG,
    keys: Annotated[
        bool, typer.Option("--keys/--no-keys", help="With what is secret in keys/, or without it.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Copy a site to TARGET, consistently, whether it runs or not. `smqpd run` can start the copy.

    Guard it like the site: it holds messages, password hashes and, without --no-keys, private keys and the
    administrator's login. `smqpd restore` makes a site of it.
    """
    file, settings = config_file(config), read_settings(config)
    if target.exists() or target.is_symlink():
        raise Failure(f"{target} exists already; a backup overwrites nothing, choose another name")
    made = None
    try:
        make_directory(target.absolute().parent, 0o777)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent))
        (made / "state").mkdir(mode=0o700)
        made_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        store = _copy_store(settings.site.state_directory / STORE, made / "state" / STORE)
        write_new(made / DEFAULT_CONFIG, _in_this_layout(file, settings).encode())
        _copy_file(settings.site.accounts_file, made / "accounts.toml")
        for source, name in (
            (settings.links.peers_file, "peers.toml"),
            (mark_path(file), mark_path(DEFAULT_CONFIG).name),
        ):
            if source.exists():
                _copy_file(source, made / name)
        _copy_keys(settings, made / "keys", keys)
        manifest = Manifest(
            format=FORMAT,
            server_name=settings.site.server_name,
            made_at=made_at,
            version=VERSION,
            keys=keys,
            files=list_files(made),
        )
        for directory in (*(path for path in made.rglob("*") if path.is_dir()), made):
            sync_directory(directory)
        write_manifest(made, manifest)
        sync_directory(made)
        made.rename(target)
        sync_directory(target.absolute().parent)
    except (OSError, sqlite3.Error, DamagedError, TooNewError) as error:
        raise Failure(f"no backup was made: {error}") from None
    finally:
        if made is not None and made.exists():
            shutil.rmtree(made)
    done = Backup(
        target=str(target),
        files=sorted([*(listed.path for listed in manifest.files), MANIFEST]),
        store=store,
        keys=keys,
    )
    if json:
        typer.echo(msgspec.json.encode(done))
    else:
        typer.echo(
            f"Backed up to {target}: {store.size_bytes / 1e6:.1f} MB, messages held: {store.messages};"
            f" {_checked(store)}."
            f"{'' if keys else ' Without private keys: `smqpd restore` says what is to be done.'}"
        )


def _in_this_layout(file: Path, settings: Settings) -> str:
    """The configuration, with the paths that the backup has."""
    document = tomlkit.parse(file.read_text(encoding="utf-8"))
    paths = {
        ("site", "state_directory"): "state",
        ("site", "accounts_file"): "accounts.toml",
        ("links", "keys_directory"): "keys",
        ("links", "peers_file"): "peers.toml",
    }
    for key, own_file in (("certificate", settings.tls.certificate), ("key", settings.tls.key)):
        if own_file is not None:
            paths["tls", key] = f"keys/{own_file.name}"
    changed = False
    for (table, key), path in paths.items():
        own = document.get(table, {})
        if key in own and own[key] != path:
            own[key], changed = path, True
    return document.as_string() if changed else file.read_text(encoding="utf-8")


def _copy_keys(settings: Settings, target: Path, secret: bool) -> None:
    target.mkdir(mode=0o700)
    for source in _key_files(settings):
        if (secret or source.name in PUBLIC) and not (target / source.name).exists():
            _copy_file(source, target / source.name)


def _key_files(settings: Settings) -> Iterator[Path]:
    yield from (path for path in (settings.tls.certificate, settings.tls.key) if path is not None)
    directory = settings.links.keys_directory
    if directory.is_dir():
        yield from (path for path in sorted(directory.iterdir()) if path.is_file())


def _checked(store: StoreCopy) -> str:
    if not store.unreadable:
        return "checked"
    return f"but {store.unreadable} of them cannot be read: they are damaged, as in the site itself"


def _copy_store(source: Path, target: Path) -> StoreCopy:
    columns = (TextColumn("copying the store"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("", total=None)
        return copy_store(source, target, lambda done, total: bars.update(bar, completed=done, total=total))


def _copy_file(source: Path, target: Path) -> None:
    write_new(target, source.read_bytes())
