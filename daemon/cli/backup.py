"""`smqpd backup`: a copy of a site, itself a site directory, made whether the daemon runs or not.

    TARGET/smqpd.toml, smqpd.id, accounts.toml, peers.toml    those that there are
    TARGET/state/smqpd.db                                     the store as it was at one moment
    TARGET/keys/                                              without what is secret, if --no-keys is given
    TARGET/backup.json                                        see `daemon.store.backup_manifest`

It is made under another name and renamed when it is whole. The hop log is not part of it. Paths in its
smqpd.toml are those of this layout, so that the copy never runs on files of the site that it was made of:
each file that the configuration names is in keys/, those of front ends too.
"""

import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import tomlkit
import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from daemon.certificates.files import AUTHORITY_FILE, CERTIFICATE_FILE, REVOCATION_FILE
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, config_file, read_settings
from daemon.settings import STORE, Settings
from daemon.site.state_mark import mark_path
from daemon.store.backup import BackupResult, DamagedError, copy_store
from daemon.store.backup_manifest import FORMAT, MANIFEST, Manifest, list_files, write_manifest
from daemon.store.schema import TooNewError
from daemon.system.private_files import make_directory, sync_directory, write_new
from daemon.system.version import VERSION
from daemon.terminal.failure import Failure, because
from daemon.terminal.figures import bytes_shown
from daemon.terminal.output import Console, JsonOption, json_line

PUBLIC: Final = (CERTIFICATE_FILE, AUTHORITY_FILE, REVOCATION_FILE)
"""Of a keys directory, by name; without its key a certificate of [tls] is of no use."""


class Backup(msgspec.Struct, kw_only=True):
    """What `--json` prints; `files` are relative to `target`."""

    target: str
    files: list[str]
    store: BackupResult
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
    if os.path.lexists(target):
        raise Failure(f"{target} exists already; a backup overwrites nothing, choose another name")
    state = settings.site.state_directory
    if target.resolve().is_relative_to(state.resolve()):
        raise Failure(f"{target} is inside the state directory, which is the daemon's; choose another place")
    made = None
    try:
        make_directory(target.absolute().parent, 0o777)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent))
        (made / "state").mkdir(mode=0o700)
        made_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        store = _copy_store(state / STORE, made / "state" / STORE)
        key_files = _key_files(settings)
        write_new(made / DEFAULT_CONFIG, _in_this_layout(file, settings, key_files).encode())
        _copy_file(settings.site.accounts_file, made / "accounts.toml")
        for source, name in (
            (settings.links.peers_file, "peers.toml"),
            (mark_path(file), mark_path(DEFAULT_CONFIG).name),
        ):
            if source.exists():
                _copy_file(source, made / name)
        _copy_keys(settings, key_files, made / "keys", keys)
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
        raise Failure(f"no backup was made: {because(error)}") from None
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
        typer.echo(json_line(done))
    else:
        typer.echo(
            f"Backed up to {target}: {bytes_shown(store.size_bytes)}, messages held: {store.messages};"
            f" {store.verdict}."
            f"{'' if keys else ' Without private keys: `smqpd restore` says what is to be done.'}"
        )


def _in_this_layout(file: Path, settings: Settings, key_files: Mapping[Path, str]) -> str:
    """The configuration, with the paths that the backup has."""
    text = file.read_text(encoding="utf-8")
    document = tomlkit.parse(text)
    places: dict[tuple[str, ...], tuple[Path, str]] = {
        ("site", "state_directory"): (settings.site.state_directory, "state"),
        ("site", "accounts_file"): (settings.site.accounts_file, "accounts.toml"),
        ("links", "keys_directory"): (settings.links.keys_directory, "keys"),
        ("links", "peers_file"): (settings.links.peers_file, "peers.toml"),
    }
    for name, own_file in _named_files(settings).items():
        places[name] = own_file, f"keys/{key_files[own_file]}"
    changed = False
    for name, (path, place) in places.items():
        table: Any = document
        for word in name[:-1]:
            table = table.get(word, {})
        default = os.path.relpath(path, file.absolute().parent)
        if table.get(name[-1], default) != place:
            table[name[-1]], changed = place, True
    return document.as_string() if changed else text


def _copy_keys(settings: Settings, key_files: Mapping[Path, str], target: Path, secret: bool) -> None:
    target.mkdir(mode=0o700)
    public = {settings.links.keys_directory / name for name in PUBLIC} - {settings.tls.key}
    for source, name in key_files.items():
        if secret or source in public:
            _copy_file(source, target / name)


def _key_files(settings: Settings) -> dict[Path, str]:
    """What the directory keys/ of a backup has, and by which name: also what the site has elsewhere."""
    directory = settings.links.keys_directory
    found = sorted(directory.iterdir()) if directory.is_dir() else []
    names = {path: path.name for path in found if path.is_file()}
    for path in _named_files(settings).values():
        if path not in names:
            taken = set(names.values())
            others = (f"{number}-{path.name}" for number in itertools.count(2))
            names[path] = next(name for name in itertools.chain([path.name], others) if name not in taken)
    return names


def _named_files(settings: Settings) -> dict[tuple[str, ...], Path]:
    """The files that the configuration names one by one, with what is secret, by their keys there."""
    tables: dict[tuple[str, ...], msgspec.Struct] = {("tls",): settings.tls}
    tables |= {("plugins", name): own for name, own in settings.plugins.items()}
    return {
        (*table, key): path
        for table, own in tables.items()
        for key, path in msgspec.structs.asdict(own).items()
        if isinstance(path, Path)
    }


def _copy_store(source: Path, target: Path) -> BackupResult:
    columns = (TextColumn("copying the store"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.can_be_drawn_on) as bars:
        bar = bars.add_task("", total=None)
        return copy_store(source, target, lambda done, total: bars.update(bar, completed=done, total=total))


def _copy_file(source: Path, target: Path) -> None:
    write_new(target, source.read_bytes())
