"""What is installed beside the core: front ends and commands, found by entry points.

A package adds a front end by an entry point of the group `smqpd.plugins` that names an object with the
attributes of `daemon.frontend.Plugin`, and a command by one of the group `smqpd.commands` that names a
`typer.Typer` or a plain function. An entry whose import fails (an extra that is not installed) is kept
with the reason, so that only who asks for it is told.
"""

import sys
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # commands that ask a running site need none of it
    from daemon.frontend import Plugin


class Installed(msgspec.Struct, frozen=True):
    """Front ends by name, and why others cannot be loaded."""

    plugins: "dict[str, Plugin]"
    broken: dict[str, str] = {}


def installed_plugins() -> Installed:
    """Load every front end that is installed."""
    loaded, broken = _load("smqpd.plugins")
    return Installed(loaded, broken)


def installed_commands() -> tuple[dict[str, Any], dict[str, str]]:
    """Load every command that is installed: those that work, and why others do not, by name."""
    return _load("smqpd.commands")


def _load(group: str) -> tuple[dict[str, Any], dict[str, str]]:
    loaded: dict[str, Any] = {}
    broken: dict[str, str] = {}
    for entry in sorted(_entry_points(group, tuple(sys.path)), key=lambda entry: entry.name):
        try:
            loaded[entry.name] = entry.load()
        except (ImportError, AttributeError) as error:
            broken[entry.name] = str(error)
    return loaded, broken


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Those that are installed there: found once, since a file is read of each package."""
    return entry_points(group=group)
