"""`smqpd reload` and `smqpd status`: a running site reads its files again, and says how it stands to them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import typer

from daemon.cli import telling
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, config_file, read_settings
from daemon.configuration.config import read_toml
from daemon.control.socket import NotRunningError
from daemon.settings import ConfigError, SiteSettings
from daemon.site.standing import Standing, said
from daemon.terminal.failure import FAILED, UNREACHABLE, Failure
from daemon.terminal.output import JsonOption


def reload(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Have the running site read its files again; ends with 1 where it has not taken on all of them."""
    standing = _standing(config, telling.reload)
    refused = standing.not_taken_on
    if as_json:
        typer.echo(msgspec.json.encode(standing))
    else:
        telling.warn([finding for finding in standing.findings if finding not in refused])
    if refused:
        reasons = "; ".join(f"{finding.part}: {finding.problem}" for finding in refused)
        raise Failure(f"not taken on, and as it was before: {reasons} (everything else is taken on)")
    if not as_json:
        typer.echo("Reloaded.")


def status(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Show how the running site does; ends with 1 where it has not taken on its files, or cannot use them."""
    standing = _standing(config, telling.status)
    if as_json:
        typer.echo(msgspec.json.encode(standing))
    else:
        typer.echo(f"{standing.server} runs, smqpd {standing.version}: {standing.counts}")
        for finding in standing.findings:
            level = "" if finding.level == "refused" else f"{finding.level}: "
            typer.echo(level + said(finding))
    if any(finding.level != "warning" for finding in standing.findings):
        raise typer.Exit(FAILED)


def _standing(config: Path, ask: Callable[[Path], Standing]) -> Standing:
    try:
        return ask(_state_directory(config))
    except NotRunningError as error:
        raise Failure(str(error), UNREACHABLE) from None


def _state_directory(config: Path) -> Path:
    """Where the site is asked; also where its configuration is bad, since it then goes on with the rest."""
    file = config_file(config)
    try:
        return read_settings(file).site.state_directory
    except ConfigError:
        try:
            site: Any = read_toml(file).get("site")
            named = str(site["state_directory"])
        except (ConfigError, KeyError, TypeError):
            named = str(SiteSettings(server_name="x").state_directory)
        return file.absolute().parent / Path(named).expanduser()
