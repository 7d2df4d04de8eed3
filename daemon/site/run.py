"""Starts a site as a process: lock, logs, signals, and what the service manager wants to hear.

    SIGTERM, SIGINT   drain and stop; a second one stops without waiting for connections of clients or peers
    SIGHUP            read configuration, accounts, peers and certificates again, as `smqpd reload` asks for;
                      the log says what became of it

Exit code 0 after a clean stop, 1 where it could not start or something of ours failed.
"""

import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import trio

from daemon.broker.lifetime import StartError
from daemon.configuration.discovery import installed_plugins
from daemon.connections.listen import ListenError
from daemon.settings import ConfigError, Settings
from daemon.site.examination import check_listening, examine
from daemon.site.lock import StateInUseError, state_lock
from daemon.site.site import RunningSite, check_files, serve_site
from daemon.system import log, open_files
from daemon.system.huge_pages import use_huge_pages
from daemon.system.outlasting import OutlastingMemory
from daemon.system.systemd import Notifier, Passed, passed
from daemon.system.version import VERSION
from daemon.terminal.failure import Failure, because

_log = logging.getLogger(__name__)

STATUS_S: Final = 10.0

PASSWORDS_MEMORY: Final = "passwords"
"""What the service manager keeps for `daemon.accounts.remembered_passwords`, where there is one that does."""

YOUNG_OBJECTS_MAX: Final = 10_000
"""Between looks for cycles; the interpreter's 700 are a few messages."""


def main(config: Path, settings: Settings) -> None:
    """Run the site of `settings`, which were read from `config`, until it is told to stop.

    Raises Failure where it cannot start.
    """
    log.set_up(settings.log)
    notifier = Notifier(os.environ)
    given = passed(os.environ)
    # From the lock on others may send it; before it is listened for there is nothing to reload.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: asked.append(number))
    try:
        if not settings.site.state_directory.exists():
            _check_start(config, settings, given)
        with state_lock(settings.site.state_directory):
            trio.run(_run, config, settings, notifier, given, asked)
    except OSError as error:
        raise Failure(f"{settings.site.state_directory} cannot be used: {because(error)}") from None
    except (StateInUseError, StartError, ListenError) as error:
        raise Failure(str(error)) from None
    except BaseExceptionGroup as group:
        expected, unexpected = group.split((ConfigError, StartError, ListenError))
        if unexpected is not None:
            raise unexpected from None
        assert expected is not None
        raise Failure(str(_first(expected))) from None


def _check_start(config: Path, settings: Settings, given: Passed) -> None:
    """Look at what would refuse the start, so that one that is refused makes no state directory.

    Raises StartError and ListenError.
    """
    check_files(
        config, examine(config, settings, installed_plugins(), datetime.now(UTC), passed=given.sockets)
    )
    if not given.sockets:
        check_listening(settings)


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def _run(
    config: Path,
    settings: Settings,
    notifier: Notifier,
    given: Passed,
    asked: list[int],
) -> None:
    """`asked`: signals to stop that came too early, and may come too late, to be heard here."""
    installed = installed_plugins()
    if (problem := open_files.allow(settings.limits.connections_max)) is not None:
        _log.warning("%s", problem)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:

            async def serve(task_status: trio.TaskStatus[RunningSite]) -> None:
                memory = notifier.outlasting(PASSWORDS_MEMORY, given.kept)
                memory = memory or OutlastingMemory.named(settings.site.state_directory)
                await serve_site(
                    config, settings, installed, notifier, given.sockets, task_status, memory=memory
                )
                nursery.cancel_scope.cancel()

            notifier.status("reading the store")
            site = await nursery.start(serve)
            _spare_the_collector()
            use_huge_pages()
            for name in given.sockets:
                _log.warning("the socket that was passed as %r belongs to no front end", name)
            _log.info("smqpd %s runs the site %s: %s", VERSION, site.server_name, site.standing.line)
            for address in site.listening:
                _log.info("listens: %s", address)
            notifier.ready(site.standing.line)
            nursery.start_soon(tell_manager, notifier, lambda: site.standing.line, site.keep_going)
            if asked:  # before anybody listened
                site.stop()
            async for number in signals:
                if number == signal.SIGHUP:
                    try:
                        site.reload("SIGHUP")
                    except Exception as error:
                        site.mishap("a reload", error)
                else:
                    _log.info("%s: stopping; %s", signal.Signals(number).name, site.standing.line)
                    notifier.stopping(f"draining; {site.standing.line}")
                    site.stop()
    if dropped := site.broker.held - site.broker.held_guaranteed:
        _log.info("dropped with the stop, as they had no guarantee: %d messages", dropped)
    _log.info("stopped")


def _spare_the_collector() -> None:
    """Look no more for cycles in what is there by now: modules, for 30 ms each time, and what waits on disk.

    What of it is done with goes all the same, by its reference count.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)


async def tell_manager(
    notifier: Notifier,
    line: Callable[[], str],
    keep_going: Callable[[str, Callable[[], Awaitable[object]]], Awaitable[None]],
) -> None:
    """Tell the service manager that the site lives, and how it stands. Runs until cancelled."""

    async def tell_status() -> None:
        while True:
            await trio.sleep(STATUS_S)
            notifier.status(line())

    async with trio.open_nursery() as nursery:
        alive = partial(notifier.watchdog, trio.lowlevel.checkpoint)
        nursery.start_soon(keep_going, "the sign of life", alive)
        nursery.start_soon(keep_going, "what the service manager is told", tell_status)
