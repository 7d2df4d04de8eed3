"""The command `smqpd`: the core's own commands, and those that installed packages add.

A package adds a command by an entry point of the group `smqpd.commands` that names a `typer.Typer` (a
group) or a function (one command). `daemon.cli.main` runs it, and says how it ended.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import EntryPoint
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from daemon.configuration.discovery import installed_commands
from daemon.system.version import VERSION
from daemon.terminal.failure import INTERRUPTED, Failure, because

CORE: Final = {
    "init": "daemon.cli.init:init",
    "run": "daemon.cli.run:run",
    "why": "daemon.cli.why:why",
    "hops": "daemon.cli.hops:app",
    "quarantine": "daemon.cli.quarantine:app",
    "backup": "daemon.cli.backup:backup",
    "restore": "daemon.cli.restore:restore",
    "account": "daemon.cli.account:app",
    "config": "daemon.cli.config:app",
    "cert": "daemon.cli.cert:app",
    "peer": "daemon.cli.peer:app",
    "reload": "daemon.cli.status:reload",
    "status": "daemon.cli.status:status",
    "check": "daemon.cli.check:app",
    "top": "daemon.cli.top:top",
    "topics": "daemon.cli.topics:topics",
    "topic": "daemon.cli.topics:app",
    "dead": "daemon.cli.dead:app",
    "sessions": "daemon.cli.sessions:sessions",
    "session": "daemon.cli.sessions:app",
    "peers": "daemon.cli.peers:peers",
    "routes": "daemon.cli.peers:routes",
    "federation": "daemon.cli.federation:federation",
    "ping": "daemon.cli.ping:ping",
    "trace": "daemon.cli.trace:app",
}
"""Where each is found. Only what is asked for is imported: half of the time of a command is imports."""

SHARED: Final = ("trace",)
"""Groups of the core that packages add commands to, by a group of the same name."""


VERSION_OPTION: Final = "--version"
VALIDATORS_WORDS: Final = "Value error, "
"""What the library that typer reads values with puts before what is wrong with one."""

INSTALL_COMPLETION: Final = "install_completion"
COMPLETION: Final = "_SMQPD_COMPLETE"
"""Set where a shell completes, as typer has it."""

VALUES: Final = {
    "<%Y-%m-%d>": "YYYY-MM-DD",
    "<int>": "N",
    "<int range>": "N",
    "<float>": "N",
    "<float range>": "N",
    "<str>": "TEXT",
    "<list[str]>": "TEXT",
    "<path>": "PATH",
}
"""What the help calls the value of an option that has no name of its own, in the place of typer's word."""


class ClosedPipeError(Exception):
    """Whoever read our output has gone. (Click would make of a BrokenPipeError an exit code of its own.)"""


class Commands(TyperGroup):
    """The whole command line."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """See `click.Command`."""
        with _told_apart():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """See `click.Command`."""
        with _told_apart():
            return super().invoke(ctx)


@contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ClosedPipeError from None
    except SystemExit as end:  # of the console that shows the help
        if isinstance(end.__context__, BrokenPipeError):
            raise ClosedPipeError from None
        raise


def build_app(named: str = "") -> typer.Typer:
    """The command line: whole, or what is needed of it where the first word after `smqpd` is `named`."""
    app = typer.Typer(
        name="smqpd",
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help="A federated message router.")(_options)
    # What packages add is not loaded for a command of the core: a daemon has no use for their libraries.
    alone = named == VERSION_OPTION or (named in CORE and named not in SHARED)
    commands, broken = ({}, {}) if alone else installed_commands()
    for name in [named] if named in CORE else [] if alone or named in commands else CORE:
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


def _named() -> str:
    """The command that is to be run, or whose arguments a shell completes; "" where it completes its name."""
    if COMPLETION not in os.environ:
        return sys.argv[1] if sys.argv[1:2] else ""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()
    return words[1] if len(words) > 2 or (len(words) == 2 and line[-1].isspace()) else ""


def tree(named: str = "") -> Any:
    """Likewise, as a command of click that takes texts in UTF-8, and whose help names values as people do."""
    command = typer.main.get_command(build_app(named))
    _show_in_words(command)
    _check_values(command)
    return command


def run() -> int:
    """Run the command that `sys.argv` names. Returns its exit code; raises what it raises."""
    command = tree(_named())
    try:
        # Else typer would frame what it says of wrong usage, in several lines.
        exit_code = command(prog_name="smqpd", standalone_mode=False)
    except typer.TyperException as error:
        message = error.format_message().rstrip(".")
        if not message:  # a group without a command has shown its help
            return error.exit_code
        context = getattr(error, "ctx", None)
        asked = context.command_path if context is not None else "smqpd"
        raise Failure(f"{message}; see `{asked} --help`", error.exit_code) from None
    except typer.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise Failure("the input ended before it was answered") from None
        return INTERRUPTED  # at a prompt
    return exit_code if isinstance(exit_code, int) else 0


def _show_in_words(command: Any, parent: Any = None) -> None:
    """Have its help name values as people do: typer's shows types of Python, and even flags with `<bool>`."""
    context = typer.Context(command, parent=parent, **command.context_settings)
    for option in (*command.params, command.get_help_option(context)):
        if isinstance(variables := getattr(option, "envvar", None), list):
            option.get_error_hint = partial(_hint, option.opts, variables)
        if getattr(option, "is_flag", False):
            option.metavar = ""
        elif option.param_type_name == "option" and option.metavar is None:
            option.metavar = VALUES.get(option.display_type_rich(ctx=context))
        elif option.param_type_name == "argument":
            option.metavar = option.metavar or option.name.upper()
            option.display_type_rich = _nothing  # its name is shown before it
            option._usage_display_name = partial(_as_usual, option)
    for one in getattr(command, "commands", {}).values():
        _show_in_words(one, context)


def _hint(names: list[str], variables: list[str]) -> str:
    """What messages name an option with several environment variables by; typer has Python's list there."""
    shown = [" / ".join(f"'{name}'" for name in names) for names in (names, variables)]
    return f"{shown[0]} (env var: {shown[1]})"


def _check_values(command: Any) -> None:
    """Have it refuse texts that are not UTF-8 as wrong usage; paths, and what is read as bytes, may be so."""
    for option in command.params:
        if option.type_descriptor.annotation in (str, list[str]):
            option.process_value = partial(_as_text, option, option.process_value)
        elif option.name == INSTALL_COMPLETION:
            option.process_value = partial(_installed, option.process_value)
        else:
            option.process_value = partial(_as_value, option.process_value)
    for one in getattr(command, "commands", {}).values():
        _check_values(one)


def _as_value(process: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    try:
        return process(ctx, value)
    except typer.BadParameter as error:
        error.message = error.message.removeprefix(VALIDATORS_WORDS)
        raise


def _as_text(option: Any, process: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    try:
        for text in [value] if isinstance(value, str) else value or ():
            text.encode()
    except UnicodeEncodeError as error:
        raise typer.BadParameter(f"{error.object!r} is not text in UTF-8", ctx=ctx, param=option) from None
    return _as_value(process, ctx, value)


def _installed(process: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    """For the option by which typer writes to files of the shell in the user's home directory."""
    try:
        return process(ctx, value)
    except OSError as error:
        if error.filename is None:  # of what is printed
            raise
        raise Failure(f"completion cannot be installed: {because(error)}") from None


def _as_usual(argument: Any) -> str:
    """What has to be given stands without typer's braces, as in all manuals."""
    name: str = argument.display_name_raw
    shown = name if argument.required or name.startswith("[") else f"[{name}]"
    return f"{shown}..." if argument.nargs != 1 else shown


def _nothing(ctx: Any) -> None:
    """Shown in the place of a type."""


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


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"smqpd {VERSION}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            VERSION_OPTION, help="Show the version and exit.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """What stands before the command."""


def _unavailable(name: str, reason: str) -> Any:
    def unavailable() -> None:
        raise Failure(f"{name} is not available: {reason}")

    return unavailable
