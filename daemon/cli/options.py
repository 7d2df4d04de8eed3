"""Options that several commands share, and what they read."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.config import load
from daemon.discovery import installed_plugins
from daemon.settings import Settings

ConfigOption = Annotated[
    Path,
    typer.Option("--config", "-c", metavar="FILE", envvar="SMQPD_CONFIG", help="The site's configuration."),
]
DEFAULT_CONFIG = Path("smqpd.toml")

JsonOption = Annotated[bool, typer.Option("--json", help="For programs: one JSON value on stdout.")]


def read_settings(config: Path) -> Settings:
    """The configuration in FILE. Raises ConfigError."""
    return load(config, installed_plugins())
