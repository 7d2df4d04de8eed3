"""`smqpd restore`: a site made of a backup.

All of the backup is checked before anything is changed. The site is made beside its place under another name,
and renamed when it is whole; one that was there is kept under a name of its own.
"""

import itertools
import os
import shutil
import sqlite3
import tempfile
from datetime import UTC, datetime
from os.path import samestat
from pathlib import Path
from shlex import quote
from typing import Annotated

import msgspec
import typer

from daemon.certificates.files import KEY_FILE
from daemon.certificates.identity import host_of
from daemon.certificates.self_signed import make_self_signed
from daemon.cli.options import DEFAULT_CONFIG
from daemon.configuration.config import load
from daemon.configuration.discovery import installed_plugins
from daemon.link.peers_file import load_peers
from daemon.settings import STORE, ConfigError, Settings
from daemon.site.admin_login import ADMIN, LOGIN
from daemon.site.examination import examine
from daemon.site.lock import StateInUseError, running_pid, state_lock
from daemon.store.backup import BackupResult, DamagedError, check_store, raise_numbers
from daemon.store.backup_manifest import MANIFEST, Manifest, UnfitError, read_manifest
from daemon.store.schema import TooNewError
from daemon.system.private_files import exchange, give_to, make_directory, sync_directory, write_new
from daemon.terminal.failure import FAILED, Failure, because, ignore_signals
from daemon.terminal.figures import bytes_shown
from daemon.terminal.output import JsonOption, json_line


class Restored(msgspec.Struct, kw_only=True):
    """What `--json` prints.

    Attributes:
        made_at: what was done at the site after that is not in it.
        replaced: where the site that was there is now; "" where there was none.
        starts: whether it would start as it is.
        to_do: what is missing, and what to do about it.
    """

    site: str
    server_name: str
    made_at: str
    store: BackupResult
    replaced: str
    starts: bool
    to_do: list[str]


def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="As `smqpd backup` made it.")],
    site: Annotated[Path, typer.Argument(metavar="SITE", help="The directory to make.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="SITE is there, and does not run: keep it under another name.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Make the site SITE of a backup, once all of that has been checked.

    What the site has finished since the backup comes again, and what was published since then is not there.
    Exit code 1 where nothing was restored, and where the site does not start before what is said is done.
    An interrupt ends it only as long as nothing of SITE has changed; after that it says what it did.
    """
    made = None
    try:
        manifest = read_manifest(backup)
        store = check_store(backup / "state" / STORE)
        load(backup / DEFAULT_CONFIG, installed_plugins())
        _refuse_inside(site, backup)
        is_there = _is_there(site, replace)
        make_directory(site.absolute().parent, 0o777)
        made = Path(tempfile.mkdtemp(prefix=f".{site.name}.", dir=site.absolute().parent))
        _copy(backup, manifest, made)
        raise_numbers(made / "state" / STORE, _state_of(site) / STORE if is_there else None)
        starts, to_do = _complete(made, site)
        for directory in (*(path for path in made.rglob("*") if path.is_dir()), made):
            sync_directory(directory)
        give_to((site if is_there else site.absolute().parent).stat(), made)
        ignore_signals()  # from here on it is done, or fails
        replaced = _put(made, site) if is_there else ""
        if not is_there:
            made.rename(site)
    except (OSError, sqlite3.Error, UnfitError, DamagedError, TooNewError, StateInUseError) as error:
        raise Failure(f"nothing was restored: {because(error)}") from None
    except ConfigError as error:
        raise Failure(f"nothing was restored, no site could run with it: {because(error)}") from None
    finally:
        if made is not None and made.exists():
            shutil.rmtree(made)
    try:
        sync_directory(site.absolute().parent)
    except OSError as error:
        where = f", and the site that was there is in {replaced}" if replaced else ""
        said = f"{site} is restored{where}; but that may not outlast a power cut: {because(error)}"
        raise Failure(said) from None
    done = Restored(
        site=str(site),
        server_name=manifest.server_name,
        made_at=manifest.made_at,
        store=store,
        replaced=replaced,
        starts=starts,
        to_do=to_do,
    )
    if json:
        typer.echo(json_line(done))
    else:
        _tell(done)
    if not done.starts:
        raise typer.Exit(FAILED)


def _refuse_inside(site: Path, backup: Path) -> None:
    """Raise Failure where the site would take the place of its own backup, or stand in it."""
    if site.resolve().is_relative_to(backup.resolve()):
        is_same = site.resolve() == backup.resolve()
        where = "is the backup itself" if is_same else f"is inside the backup {backup}"
        raise Failure(f"{site} {where}, which stays as it is; choose another place")


def _is_there(site: Path, replace: bool) -> bool:
    """Whether there is something in the place of the site. Raises Failure where that must not be touched."""
    if not site.exists() and not site.is_symlink():
        return False
    if site.is_dir() and site.samefile(Path.cwd()):
        raise Failure(f"{site} is the directory that this runs in; run it in another one")
    if site.absolute().is_mount():
        raise Failure(f"{site} is a mount point, and stays one; choose a name below it")
    if site.is_dir() and not any(site.iterdir()):
        return True
    if not site.is_dir() or site.is_symlink():
        raise Failure(f"{site} is there, and is no directory; choose another name")
    pid = running_pid(_state_of(site))
    if pid is not None:
        raise Failure(f"{site} runs, as process {pid}; stop it first")
    if not replace:
        raise Failure(f"{site} is there; choose another name, or --replace, which keeps it under another")
    return True


def _state_of(site: Path) -> Path:
    try:
        return load(site / DEFAULT_CONFIG, installed_plugins()).site.state_directory
    except ConfigError:  # as much as can be known of it
        return site / "state"


def _copy(backup: Path, manifest: Manifest, made: Path) -> None:
    for file in manifest.files:
        target = made / file.path
        target.parent.mkdir(mode=0o700, exist_ok=True)
        write_new(target, b"")
        with (backup / file.path).open("rb") as source, target.open("r+b") as copy:
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fsync(copy.fileno())
    # It was read a second time: what changed in between is noticed.
    write_new(made / MANIFEST, (backup / MANIFEST).read_bytes())
    read_manifest(made)
    (made / MANIFEST).unlink()


def _complete(made: Path, site: Path) -> tuple[bool, list[str]]:
    """Make what a site can make for itself; returns whether it starts then, and what only people can do."""
    config, installed = made / DEFAULT_CONFIG, installed_plugins()
    settings = load(config, installed)
    name, to_do = settings.site.server_name, []
    settings.links.keys_directory.mkdir(mode=0o700, exist_ok=True)
    certificate, key = settings.tls.certificate, settings.tls.key
    if key is not None and certificate is not None and not key.exists():
        certificate.unlink(missing_ok=True)
        new_certificate, new_key = make_self_signed(host_of(name))
        write_new(key, new_key)
        write_new(certificate, new_certificate, 0o644)
        to_do.append(
            "The key of [tls] is not in the backup, and the site has a new certificate, signed by itself:"
            " give that to its clients, or copy the old key and certificate over it"
        )
    refused = examine(config, settings, installed, datetime.now(UTC)).refused
    starts = not refused
    if not (settings.links.keys_directory / KEY_FILE).exists() and _has_links(settings):
        refused = [finding for finding in refused if finding.part != "keys"]
        to_do.append(
            f"The key for links is not in the backup: copy {KEY_FILE} from the old site, or have a new one"
            f" issued, `smqpd cert issue {name} --replace`, and copy its files to keys/"
        )
    to_do += [f"It does not start yet: {one.problem}".replace(str(made), str(site)) for one in refused]
    if not (made / LOGIN).exists():
        to_do.append(
            f"The administrator's login, {LOGIN}, is not in the backup: `smqpd account passwd {ADMIN}` gives"
            " another password, and makes it"
        )
    return starts, to_do


def _has_links(settings: Settings) -> bool:
    return bool(settings.links.listen or load_peers(settings.links.peers_file))


def _put(made: Path, site: Path) -> str:
    """Put the new site in the place of what is there; returns where that is now.

    In one step, so that there is always one; in two where the file system knows none.
    """
    if not any(site.iterdir()):
        site.rmdir()
        made.rename(site)
        return ""
    place, now = site.absolute(), f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
    names = itertools.chain([f"{place.name}.{now}"], (f"{place.name}.{now}-{n}" for n in itertools.count(2)))
    kept = next(path for path in map(place.with_name, names) if not path.exists())
    old = site.stat()
    with state_lock(_state_of(site)):
        try:
            made.rename(kept)
            if not exchange(kept, site):
                kept.rename(made)
                site.rename(kept)
                sync_directory(kept.parent)  # the new one is not to be there, and the old one not
                made.rename(site)
        except OSError:
            if not site.exists():
                kept.rename(site)
            elif kept.exists() and samestat(site.stat(), old):
                kept.rename(made)  # which the caller removes
            raise
    return str(kept)


def _tell(done: Restored) -> None:
    typer.echo(
        f"Restored {done.site}: site {done.server_name} as it was at {done.made_at},"
        f" {bytes_shown(done.store.size_bytes)}, messages held: {done.store.messages};"
        f" {done.store.verdict}."
    )
    if done.replaced:
        typer.echo(f"The site that was there is in {done.replaced} now.")
    for one in done.to_do:
        typer.echo(f"{one}.")
    typer.echo(f"Start it with:  smqpd run --config {quote(str(Path(done.site) / DEFAULT_CONFIG))}")
