"""The front ends of this checkout, whether or not it is installed."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from daemon.configuration.discovery import Installed

ROOT: Final = Path(__file__).parent.parent.parent
VERSION: Final[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
"""Of this checkout."""


def checkout_plugins() -> Installed:
    """Those that pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = project["entry-points"]["smqpd.plugins"]
    return Installed(
        {name: EntryPoint(name, target, "smqpd.plugins").load() for name, target in sorted(named.items())}
    )
