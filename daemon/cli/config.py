"""`smqpd config`: look at a configuration before a daemon does."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from daemon.accounts_file import read_accounts
from daemon.cli.failure import USAGE, Failure
from daemon.cli.init import SMQP_PORT
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, config_file, read_settings
from daemon.discovery import installed_plugins
from daemon.peers import load_peers
from daemon.settings import Settings
from daemon.site_directory import new_config
from daemon.template import render
from daemon.tls import client_context

app = typer.Typer(help="Check and show a site's configuration.", no_args_is_help=True)


@app.command()
def check(file: Annotated[Path, typer.Argument(metavar="FILE|DIR")] = DEFAULT_CONFIG) -> None:
    """Say whether a daemon would accept FILE, with its accounts, peers and TLS files."""
    file = config_file(file)
    settings = read_settings(file)
    accounts = read_accounts(settings.site.accounts_file)
    check_files(settings)
    front_ends = ", ".join(settings.plugins) or "none"
    found = f"site {settings.site.server_name}, accounts: {len(accounts)}, front ends: {front_ends}"
    typer.echo(f"{file} is good: {found}")


def check_files(settings: Settings) -> None:
    """Whether a daemon would accept the TLS files and the peers of a site. Raises ConfigError."""
    if settings.tls.certificate is not None:
        client_context(settings.tls)
    load_peers(settings.links.peers_file)


@app.command()
def show(
    config: ConfigOption = DEFAULT_CONFIG,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="The configuration of a new site instead; FILE is not read.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print every setting as it is in effect, with its meaning."""
    if defaults:
        if json:
            raise Failure("--defaults has no --json", USAGE)
        typer.echo(new_config("smqp.example", SMQP_PORT, installed_plugins()), nl=False)
        return
    settings = read_settings(config)
    if json:
        typer.echo(msgspec.json.encode(settings, enc_hook=str))
    else:
        typer.echo(render(settings, all_keys=True), nl=False)
