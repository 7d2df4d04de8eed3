"""The command `smqpd`: the core's own commands, and those that installed packages add.

A package adds a command by an entry point of the group `smqpd.commands` that names a `typer.Typer` (a
group) or a function (one command). Commands raise `Failure`, `ConfigError` or `Refusal` for what their
user can understand; anything else is a mistake of ours and shows its traceback.
"""

import os
import sys
from importlib.metadata import EntryPoint
from typing import Annotated, Any, Final

import typer

from daemon.cli.failure import FAILED, REFUSED, Failure, fail
from daemon.config import ConfigError
from daemon.discovery import installed_commands
from daemon.version import VERSION
from routing.errors import Refusal

CORE: Final = {
    "init": "daemon.cli.init:init",
    "run": "daemon.cli.run:run",
    "why": "daemon.cli.why:why",
    "backup": "daemon.cli.backup:backup",
    "account": "daemon.cli.account:app",
    "config": "daemon.cli.config:app",
    "cert": "daemon.cli.cert:app",
    "peer": "daemon.cli.peer:app",
    "peers": "daemon.cli.peers:peers",
    "routes": "daemon.cli.peers:routes",
    "ping": "daemon.cli.ping:ping",
    "trace": "daemon.cli.trace:app",
}
"""Where each is found. Only what is asked for is imported: half of the time of a command is imports."""

SHARED: Final = ("trace",)
"""Groups of the core that packages add commands to, by a group of the same name."""


def build_app() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        name="smqpd",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help="A federated message router.")(_options)
    named = sys.argv[1] if sys.argv[1:2] else ""
    # What packages add is not loaded for a command of the core: a daemon has no use for their libraries.
    commands, broken = ({}, {}) if named in CORE and named not in SHARED else installed_commands()
    for name in [named] if named in CORE else [] if named in commands else CORE:
        command = EntryPoint(name, CORE[name], "").load()
        _add(
            app,
            name,
            _joined(command, commands.pop(name)) if name in SHARED and name in commands else command,
        )
    for name, command in commands.items():
        _add(app, name, command)
    for name, reason in broken.items():
        app.command(name, help=f"Not available: {reason}", hidden=True)(_unavailable(name, reason))
    return app


def _joined(core: typer.Typer, added: typer.Typer) -> typer.Typer:
    """One group with the commands of both, and otherwise that of the core."""
    shown = core.info.subcommand_metavar
    both = typer.Typer(cls=core.info.cls, no_args_is_help=True, help=core.info.help, subcommand_metavar=shown)
    both.add_typer(core)
    both.add_typer(added)
    return both


def _add(app: typer.Typer, name: str, command: Any) -> None:
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


def main() -> None:
    """Run the command that `sys.argv` names, and exit."""
    try:
        # Else typer would frame what it says of wrong usage, in several lines.
        exit_code = build_app()(prog_name="smqpd", standalone_mode=False)
        sys.exit(exit_code if isinstance(exit_code, int) else 0)
    except typer.TyperException as error:
        message = error.format_message().rstrip(".")
        if not message:  # a group without a command has shown its help
            sys.exit(error.exit_code)
        context = getattr(error, "ctx", None)
        asked = context.command_path if context is not None else "smqpd"
        fail(f"{message}; see `{asked} --help`", error.exit_code)
    except typer.Abort:
        fail("interrupted")
    except Failure as failure:
        fail(str(failure), failure.exit_code)
    except ConfigError as error:
        fail(str(error))
    except Refusal as refusal:
        fail(refusal.text, REFUSED if refusal.code in (Refusal.FORBIDDEN, Refusal.BAD_LOGIN) else FAILED)
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"smqpd {VERSION}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """What stands before the command."""


def _unavailable(name: str, reason: str) -> Any:
    def unavailable() -> None:
        raise Failure(f"{name} is not available: {reason}")

    return unavailable
