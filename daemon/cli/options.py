"""Options that several commands share, and what they read."""

import os
from pathlib import Path
from typing import Annotated

import typer

from daemon.configuration.config import load
from daemon.configuration.discovery import installed_plugins
from daemon.settings import Settings
from daemon.terminal.failure import Failure

ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        "--site",
        "-s",
        metavar="FILE|DIR",
        envvar="SMQPD_CONFIG",
        help="The site's configuration, or its directory with smqpd.toml.",
    ),
]
DEFAULT_CONFIG = Path("smqpd.toml")


def config_file(config: Path) -> Path:
    """The file that `--config` or `--site` names. Raises Failure where there is none."""
    file = config / DEFAULT_CONFIG if os.path.isdir(config) else config
    try:
        file.stat()
    except FileNotFoundError:
        advice = "--config names a site's configuration, `smqpd init DIR` makes a site"
        raise Failure(f"there is no {file}; {advice}") from None
    except OSError:  # whoever reads it says what is wrong
        pass
    return file


def read_settings(config: Path) -> Settings:
    """The configuration that `--config` or `--site` names. Raises ConfigError, Failure."""
    return load(config_file(config), installed_plugins())
