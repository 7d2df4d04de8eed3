"""Options that several commands share, and what they read."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from daemon.configuration.config import load, read_path, read_toml
from daemon.configuration.discovery import installed_plugins
from daemon.control.client import is_there
from daemon.settings import ConfigError, Settings, SiteSettings
from daemon.terminal.failure import Failure, because, forbidden


def _config_option(*names: str) -> Any:
    return typer.Option(
        *names,
        metavar="FILE|DIR",
        envvar=["SMQPD_SITE", "SMQPD_CONFIG"],
        readable=False,  # `config_file` says who may read it
        help="The site's configuration, or its directory with smqpd.toml.",
    )


ConfigOption = Annotated[Path, _config_option("--config", "-c", "--site", "-s")]
CheckedConfigOption = Annotated[Path, _config_option("--config", "--site", "-s")]
"""Of checks, where `-c` is for what is critical, as in all plugins of Nagios."""
DEFAULT_CONFIG = Path("smqpd.toml")


def config_file(config: Path) -> Path:
    """The file that `--config` or `--site` names. Raises Failure where there is none that may be read."""
    file = config / DEFAULT_CONFIG if os.path.isdir(config) else config
    advice = "--config names a site's configuration, `smqpd init DIR` makes a site"
    try:
        file.stat()
    except FileNotFoundError:
        raise Failure(f"there is no {file}; {advice}") from None
    except PermissionError:
        raise forbidden(file) from None
    except OSError as error:
        raise Failure(f"{because(error)}; {advice}") from None
    if not os.access(file, os.R_OK, effective_ids=True):
        raise forbidden(file)
    return file


def read_settings(config: Path) -> Settings:
    """The configuration that `--config` or `--site` names. Raises ConfigError, Failure."""
    return load(config_file(config), installed_plugins())


def state_directory(config: Path) -> Path:
    """Where the site is asked; also where the rest of its configuration is bad, since it then goes on.

    Of a file that cannot be read at all it is known only where a site answers in the default directory: else
    it may run in one of its own. Raises ConfigError, Failure.
    """
    file = config_file(config)
    default = str(SiteSettings(server_name="x").state_directory)
    try:
        site = read_toml(file).get("site")
    except ConfigError as error:
        if is_there(usual := read_path(file, "site.state_directory", default)):
            return usual
        problem = f"{error.problem}; its state directory is therefore not known"
        raise ConfigError(file, error.key, problem) from None
    named = site.get("state_directory", default) if isinstance(site, dict) else default
    return read_path(file, "site.state_directory", named)
