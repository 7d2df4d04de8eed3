"""How commands that change the files of a site have it take the change on, and say what it did."""

import signal
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from daemon.cli.asking import decoded
from daemon.cli.options import config_file
from daemon.configuration.config import load
from daemon.configuration.discovery import installed_plugins
from daemon.control.client import SLOW_S, ForbiddenError, NotRunningError, Question, ask
from daemon.settings import ConfigError, Settings
from daemon.site.finding import Finding, Part
from daemon.site.lock import running_pid, signal_running
from daemon.site.standing import Standing, said
from daemon.terminal.failure import UNREACHABLE, Failure

PATIENCE_S: Final = 60.0
"""For a daemon that starts, and answers once it has read its store."""

TRY_EVERY_S: Final = 0.1
"""While it starts, and does not answer yet."""


def tell(config: Path, state_directory: Path, done: str, parts: Collection[Part]) -> str:
    """Have the site that runs there read its files again, after those of `parts` have changed.

    `done` is the change, as a sentence; returned with what the site did, to be printed. Whatever else is to
    be said of the site's files goes to stderr. Raises Failure where it did not take the change on, or
    where that is not known.
    """
    standing = _standing(state_directory, done)
    if standing is None:
        warn(_next_start(config, done))
        return f"{done} The site does not run; this holds from its next start."
    own = [finding for finding in standing.not_taken_on if finding.part in (*parts, "everything")]
    warn([finding for finding in standing.findings if finding not in own])
    if own:
        reasons = "; ".join(finding.problem for finding in own)
        raise Failure(f"{done} But the site has not taken it on, and goes on as before: {reasons}")
    return f"{done} The site has taken it on."


def reload(state_directory: Path) -> Standing:
    """How the site stands after it has read its files again.

    Raises NotRunningError, ForbiddenError, and Failure where another version of smqpd runs.
    """
    return _asked(state_directory, Question(ask="reload", timeout_s=SLOW_S))


def status(state_directory: Path) -> Standing:
    """How the site stands to the files as it has read them. Raises as `reload` does."""
    return _asked(state_directory, Question(ask="status"))


def warn(findings: Collection[Finding]) -> None:
    """Say each on stderr."""
    for finding in findings:
        typer.echo(f"smqpd: warning: {said(finding)}", err=True)


def _asked(state_directory: Path, question: Question) -> Standing:
    return decoded(ask(state_directory, question), Standing)


def _standing(state_directory: Path, done: str) -> Standing | None:
    """None where no site runs, and none is about to."""
    gives_up_at = time.monotonic() + PATIENCE_S
    try:
        while running_pid(state_directory) is not None:
            try:
                return reload(state_directory)
            except ForbiddenError:
                raise
            except Failure as failure:  # the change is made, whatever version runs
                text = f"{done} But whether the site has taken it on is not known: {failure}"
                raise Failure(text, failure.exit_code) from None
            except NotRunningError as error:
                if time.monotonic() >= gives_up_at:
                    signal_running(state_directory, signal.SIGHUP)
                    raise Failure(
                        f"{done} But whether the site has taken it on is not known: {error}; see its log, or"
                        " ask again with `smqpd reload`",
                        UNREACHABLE,
                    ) from None
            time.sleep(TRY_EVERY_S)
    except (PermissionError, ForbiddenError):
        raise Failure(
            f"{done} But this user may not tell the site, if it runs: have it read its files again with"
            " `smqpd reload` as the user that it runs as"
        ) from None
    return None


def _next_start(config: Path, done: str) -> list[Finding]:
    """Why a start would be refused. Raises Failure where the site may run in another place."""
    from daemon.site.examination import examine  # with the libraries of a whole site

    file, installed = config_file(config), installed_plugins()
    try:
        settings = load(file, installed)
    except ConfigError as error:
        return [Finding("configuration", "refused", str(error))]
    _refuse_lost(file, settings, done)
    refused = examine(file, settings, installed, datetime.now(UTC)).refused
    return [
        Finding(finding.part, "warning", f"the next start would be refused: {finding.problem}")
        for finding in refused
    ]


def _refuse_lost(file: Path, settings: Settings, done: str) -> None:
    """Raise Failure where the state that the site had is elsewhere: it may run there."""
    from daemon.site.state_mark import LostStateError, check_state

    try:
        check_state(file, settings.site)
    except LostStateError as error:
        raise Failure(
            f"{done} But whether the site runs, and has taken it on, is not known; send it SIGHUP if it does:"
            f" {error}",
            UNREACHABLE,
        ) from None
    except ConfigError:  # among the reasons against a start
        pass
