"""`smqpd init`: make a site that runs at once."""

import json
import os
import re
import socket
import sqlite3
from pathlib import Path
from shlex import quote
from typing import Annotated, Final

import typer

from daemon.cli.options import config_file, read_settings
from daemon.configuration.discovery import installed_plugins
from daemon.site.admin_login import ADMIN
from daemon.site.directory import make_site
from daemon.site.lock import StateInUseError
from daemon.site.state_mark import accept_state
from daemon.store.schema import TooNewError
from daemon.terminal.failure import USAGE, Failure, because
from daemon.terminal.output import JsonOption
from routing.names import OWN_NAME_EXPECTED, is_own_name

SMQP_PORT: Final = 720
UNPRIVILEGED_PORT: Final = 7720
FIRST_UNPRIVILEGED_PORT: Final = 1024


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Made if need be.")],
    server_name: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Unique in the federation. Default: this machine's name."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="For SMQP on loopback. Default: 720, or 7720 if not root."),
    ] = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept-state",
            help="Of a site that is there: its state is right as it is now; a new one where it is gone.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a site in DIR: configuration, keys, and one administrator, whose password is shown once."""
    if accept:
        if server_name is not None or port is not None:
            raise Failure("--accept-state is for a site that is there, and takes nothing else", USAGE)
        _accept_state(directory, as_json)
        return
    name = server_name or _machine_name()
    if not is_own_name(name):
        raise Failure(f"--server-name {name!r} is not {OWN_NAME_EXPECTED}", USAGE)
    privileged = os.geteuid() == 0
    chosen = port or (SMQP_PORT if privileged else UNPRIVILEGED_PORT)
    try:
        made = make_site(directory, name, chosen, installed_plugins())
    except FileExistsError as error:
        raise Failure(f"{because(error)}; choose another directory, or remove it") from None
    except OSError as error:
        raise Failure(f"cannot make a site in {directory}: {error.strerror}") from None

    if as_json:
        shown = {
            "server": name,
            "config": str(made.config),
            "address": made.address,
            "account": ADMIN,
            "password": made.password,
        }
        typer.echo(json.dumps(shown))
        return
    typer.echo(f"Site {name} is ready in {directory}. It listens on {made.address} only.")
    if port is None and not privileged:
        typer.echo(f"Port {chosen}, since {SMQP_PORT} needs root or a socket unit; --port chooses another.")
    if chosen < FIRST_UNPRIVILEGED_PORT and not privileged:
        typer.echo(f"Port {chosen} needs root or a socket unit to listen on.")
    typer.echo(f"\n  account   {ADMIN}\n  password  {made.password}\n")
    typer.echo("The password is not shown again; keys/admin.toml keeps it for commands on this machine.")
    typer.echo(f"Start it with:  smqpd run --config {quote(str(made.config))}")


def _accept_state(directory: Path, as_json: bool) -> None:
    config = config_file(directory)
    site = read_settings(config).site
    try:
        is_new = accept_state(config, site)
    except StateInUseError as error:
        raise Failure(f"{error}; stop it first") from None
    except (TooNewError, sqlite3.Error, OSError) as error:
        raise Failure(f"{site.state_directory} cannot be used: {because(error)}") from None
    if as_json:
        shown = {"server": site.server_name, "state": str(site.state_directory), "new": is_new}
        typer.echo(json.dumps(shown))
        return
    found = "a new, empty store" if is_new else "the store that is there"
    typer.echo(f"From now on the state of {site.server_name} is {found}, in {site.state_directory}.")


def _machine_name() -> str:
    name = re.sub(r"[^a-z0-9.-]", "-", socket.gethostname().lower()).strip("-.")
    return name or "localhost"
