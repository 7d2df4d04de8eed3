"""The options of commands that work on the files of a site on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.failure import USAGE, Failure
from daemon.cli.options import DEFAULT_CONFIG, read_settings
from daemon.settings import Settings

SiteOption = Annotated[
    Path | None,
    typer.Option("--site", "-s", metavar="DIR", help="The site's directory, with its smqpd.toml."),
]
SiteConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", envvar="SMQPD_CONFIG", help="The site's configuration."),
]


def config_path(site: Path | None, config: Path | None) -> Path:
    """The configuration that the options name; smqpd.toml in this directory where they name none.

    `--site` wins, as either may come from the environment.
    """
    if site is not None:
        if not site.is_dir():
            raise Failure(f"--site {site} is no directory", USAGE)
        return site / DEFAULT_CONFIG
    return config or DEFAULT_CONFIG


def local_settings(site: Path | None, config: Path | None) -> Settings:
    """The settings of the site that the options name. Raises ConfigError, Failure."""
    return read_settings(config_path(site, config))
