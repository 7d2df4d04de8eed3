"""`smqpd backup`: a copy of a site, itself a site directory, made while the daemon runs.

    TARGET/smqpd.toml, accounts.toml    as they are, and peers.toml if the site has one
    TARGET/state/smqpd.db               the store as it was at one moment
    TARGET/keys/                        only with --keys

It is made under another name and renamed when it is whole. The hop log is not part of it.
"""

import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from daemon.cli.failure import Failure
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, config_file, read_settings
from daemon.private_files import make_directory, sync_directory, write_new
from daemon.state_mark import STORE
from daemon.store.backup import DamagedError, StoreCopy, copy_store


class Backup(msgspec.Struct, kw_only=True):
    """What `--json` prints; `files` are relative to `target`."""

    target: str
    files: list[str]
    store: StoreCopy


def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A directory that does not exist yet.")],
    config: ConfigOption = DEFAULT_CONFIG,
    keys: Annotated[
        bool, typer.Option("--keys", help="Also copy keys/: guard the backup like them.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Copy a site to TARGET, consistently, while it runs. `smqpd run` can start the copy."""
    file, settings = config_file(config), read_settings(config)
    if target.exists() or target.is_symlink():
        raise Failure(f"{target} exists already; a backup overwrites nothing, choose another name")
    made = None
    try:
        make_directory(target.absolute().parent, 0o777)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent))
        (made / "state").mkdir(mode=0o700)
        store = _copy_store(settings.site.state_directory / STORE, made / "state" / STORE)
        _copy_file(file, made / "smqpd.toml")
        _copy_file(settings.site.accounts_file, made / "accounts.toml")
        if settings.links.peers_file.exists():
            _copy_file(settings.links.peers_file, made / "peers.toml")
        if keys:
            (made / "keys").mkdir(mode=0o700)
            for key in sorted((file.parent / "keys").iterdir()):
                if key.is_file():
                    _copy_file(key, made / "keys" / key.name)
        files = sorted(path for path in made.rglob("*") if path.is_file())
        for directory in (*(path for path in made.iterdir() if path.is_dir()), made):
            sync_directory(directory)
        made.rename(target)
        sync_directory(target.absolute().parent)
    except (OSError, sqlite3.Error, DamagedError) as error:
        raise Failure(f"no backup was made: {error}") from None
    finally:
        if made is not None and made.exists():
            shutil.rmtree(made)
    done = Backup(target=str(target), files=[str(path.relative_to(made)) for path in files], store=store)
    if json:
        typer.echo(msgspec.json.encode(done))
    else:
        typer.echo(
            f"Backed up to {target}: {store.size_bytes / 1e6:.1f} MB, messages held: {store.messages};"
            f" {_checked(store)}.{'' if keys else ' Without the keys.'}"
        )


def _checked(store: StoreCopy) -> str:
    if not store.unreadable:
        return "checked"
    return f"but {store.unreadable} of them cannot be read: their checksums are wrong, as in the site itself"


def _copy_store(source: Path, target: Path) -> StoreCopy:
    columns = (TextColumn("copying the store"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("", total=None)
        return copy_store(source, target, lambda done, total: bars.update(bar, completed=done, total=total))


def _copy_file(source: Path, target: Path) -> None:
    write_new(target, source.read_bytes())
