"""`smqpd config`: look at a configuration before a daemon does."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from daemon.cli.as_daemon import as_user, daemon_user, unreadable, user_name
from daemon.cli.asking import decoded, line, value
from daemon.cli.init import SMQP_PORT
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, config_file, read_settings, state_directory
from daemon.configuration.config import load
from daemon.configuration.discovery import installed_plugins
from daemon.configuration.template import render
from daemon.control.client import Question
from daemon.control.operators import AskOverview
from daemon.operating.overview import Overview
from daemon.settings import ConfigError, Settings
from daemon.site.difference import Differences
from daemon.site.directory import new_config
from daemon.site.examination import examine, listening
from daemon.site.finding import Finding
from daemon.site.lock import running_pid
from daemon.terminal.failure import FAILED, USAGE, Failure, tell
from daemon.terminal.output import JsonOption, json_line
from daemon.terminal.printable import printable

app = typer.Typer(help="Check and show a site's configuration.", no_args_is_help=True)


class ConfigReport(msgspec.Struct, kw_only=True):
    """What `--json` prints; `user` is whose rights it was checked with."""

    file: str
    user: str
    good: bool
    findings: list[Finding]


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(metavar="FILE|DIR", help="In the place of --site.")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Say what a daemon would make of FILE, with its accounts, peers, keys, front ends and state.

    Ends with 1 where it would refuse something, or could not use it; what is only to be seen to is a warning.
    """
    file = config_file(file or config)
    findings, summary, user = _examined(file)
    errors = [finding for finding in findings if finding.level != "warning"]
    if json:
        typer.echo(json_line(ConfigReport(file=str(file), user=user, good=not errors, findings=findings)))
    else:
        for finding in findings:
            tell(f"{'warning: ' if finding.level == 'warning' else ''}{finding.problem}")
    if errors:
        raise typer.Exit(FAILED)
    if not json:
        warnings = f"; warnings: {len(findings)}" if findings else ""
        typer.echo(f"{file} is good: {summary}{warnings}")


def _examined(file: Path) -> tuple[list[Finding], str, str]:
    """What was found, with the rights of the daemon's user; the site in few words; and who that is.

    Raises Failure.
    """
    installed, own = installed_plugins(), os.geteuid()

    def look() -> tuple[list[Finding], str]:
        try:
            read = load(file, installed)
        except ConfigError as error:
            return [_refused(error)], ""
        now = datetime.now(UTC)
        found = examine(file, read, installed, now)
        found.findings += listening(read, _own_ports(read))
        about = f"accounts: {len(found.accounts or ())}, front ends: {', '.join(read.plugins) or 'none'}"
        return found.everything(now), f"site {read.site.server_name}, {about}"

    try:
        settings = load(file, installed)
    except ConfigError as error:
        return [_refused(error)], "", user_name(own)
    uid = daemon_user(settings)
    if own == uid:
        return *look(), user_name(uid)
    if own == 0:
        look()  # what has to be imported is imported by root, who may read the libraries
        try:
            with as_user(uid):
                return *look(), user_name(uid)
        except OSError as error:
            reason = f"root may not act as {user_name(uid)} here ({error.strerror})"
            raise Failure(f"not checked: {reason}; run it as {user_name(uid)}") from None
    closed = ", ".join(map(str, unreadable(settings)))
    if closed:
        raise Failure(
            f"not checked: {user_name(own)} may not read {closed}; run it as {user_name(uid)}, whose site it"
            " is, or as root"
        )
    findings, summary = look()
    findings = [finding for finding in findings if finding.part != "state"]
    findings.append(Finding("state", "warning", f"not checked: the state is {user_name(uid)}'s"))
    return findings, summary, user_name(own)


def _refused(error: ConfigError) -> Finding:
    return Finding("configuration", "refused", str(error))


def _own_ports(settings: Settings) -> list[int] | None:
    """Where the site listens, if it runs; None where that is not known."""
    if not _runs(settings):
        return []
    try:
        found = value(settings, AskOverview(), Overview).listening
    except Failure:
        return None
    ports = (address.rpartition(":")[2] for address in found)
    return [int(port) for port in ports if port.isdecimal()]


def _runs(settings: Settings) -> bool:
    """Whether the site runs, or may, as this user cannot see it."""
    try:
        return running_pid(settings.site.state_directory) is not None
    except OSError:
        return True


@app.command()
def show(
    config: ConfigOption = DEFAULT_CONFIG,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="The configuration of a new site instead; FILE is not read.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print every setting as it is in FILE, or else by default, with its meaning."""
    if defaults:
        if json:
            raise Failure("--defaults has no --json", USAGE)
        typer.echo(new_config("smqp.example", SMQP_PORT, installed_plugins()), nl=False)
        return
    settings = read_settings(config)
    if json:
        typer.echo(json_line(settings, enc_hook=str))
    else:
        typer.echo(render(settings, all_keys=True), nl=False)


@app.command()
def diff(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Show what a reload would change at the running site; ends with 1 where it would not take on all."""
    answer = line(state_directory(config), Question(ask="config-diff"))
    found = decoded(answer, Differences)
    if as_json:
        typer.echo(answer)
    else:
        for each in found.differences:
            restart = " (with the next start)" if each.takes == "restart" else ""
            typer.echo(printable(f"{each}{restart}"))
        if not found.differences:
            typer.echo("Nothing would change.")
    if found.refused:
        reasons = "; ".join(f"{finding.part}: {finding.problem}" for finding in found.refused)
        raise Failure(f"would not be taken on: {reasons}")
