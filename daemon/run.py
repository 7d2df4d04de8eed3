"""Starts a site as a process: lock, logs, signals, and what the service manager wants to hear.

    SIGTERM, SIGINT   drain and stop; a second one stops without waiting for connections
    SIGHUP            read configuration, accounts, peers and certificates again; bad files change nothing

Exit code 0 after a clean stop, 1 where it could not start or something of ours failed.
"""

import gc
import logging
import os
import signal
import socket
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon import log
from daemon.cli.failure import Failure
from daemon.config import ConfigError, load
from daemon.discovery import Installed, installed_plugins
from daemon.listen import ListenError
from daemon.lock import StateInUseError, state_lock
from daemon.settings import Settings
from daemon.site import RunningSite, StartError, serve_site
from daemon.systemd import Notifier, passed_sockets
from daemon.version import VERSION

logger = logging.getLogger(__name__)

FIXED: Final = ("site", "hops", "links", "plugins")
"""Tables that only a start reads."""

STATUS_S: Final = 10.0

YOUNG_OBJECTS_MAX: Final = 10_000
"""Between looks for cycles; the interpreter's 700 are a few messages."""


def main(config: Path, settings: Settings) -> None:
    """Run the site of `settings`, which were read from `config`, until it is told to stop.

    Raises Failure where it cannot start.
    """
    log.set_up(settings.log)
    notifier = Notifier(os.environ)
    passed = passed_sockets(os.environ)
    if not settings.plugins:
        raise Failure("no front end is enabled, nobody could connect; see [plugins] in the configuration")
    # From the lock on `smqpd account` may send it; before it is listened for there is nothing to reload.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: asked.append(number))
    try:
        with state_lock(settings.site.state_directory):
            trio.run(_run, config, settings, notifier, passed, asked)
    except OSError as error:
        raise Failure(f"{settings.site.state_directory} cannot be used: {error}") from None
    except StateInUseError as error:
        raise Failure(str(error)) from None
    except BaseExceptionGroup as group:
        expected, unexpected = group.split((ConfigError, StartError, ListenError))
        if unexpected is not None:
            raise unexpected from None
        assert expected is not None
        raise Failure(str(_first(expected))) from None


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def _run(
    config: Path,
    settings: Settings,
    notifier: Notifier,
    passed: dict[str, list[socket.socket]],
    asked: list[int],
) -> None:
    """`asked`: signals to stop that came too early, and may come too late, to be heard here."""
    installed = installed_plugins()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:

            async def serve(task_status: trio.TaskStatus[RunningSite]) -> None:
                await serve_site(settings, installed.plugins, passed, task_status)
                nursery.cancel_scope.cancel()

            notifier.status("reading the store")
            site = await nursery.start(serve)
            _spare_the_collector()
            for name in passed:
                logger.warning("the socket that was passed as %r belongs to no front end", name)
            logger.info("smqpd %s runs the site %s: %s", VERSION, site.server_name, site.status)
            notifier.ready(site.status)
            nursery.start_soon(notifier.watchdog, trio.lowlevel.checkpoint)
            nursery.start_soon(_tell_status, notifier, site)
            if asked:  # before anybody listened
                site.stop()
            async for number in signals:
                if number == signal.SIGHUP:
                    notifier.reloading()
                    reload(config, site, installed)
                    notifier.ready(site.status)
                else:
                    logger.info("%s: stopping; %s", signal.Signals(number).name, site.status)
                    notifier.stopping(f"draining; {site.status}")
                    site.stop()
    logger.info("stopped")


def _spare_the_collector() -> None:
    """Look no more for cycles in what is there by now: modules, for 30 ms each time, and what waits on disk.

    What of it is done with goes all the same, by its reference count.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)


def reload(config: Path, site: RunningSite, installed: Installed) -> None:
    """Read all files again, and say in the log what became of it. Bad files change nothing."""
    before = site.settings
    try:
        settings = load(config, installed)
        kept = {table: getattr(before, table) for table in FIXED}
        site.reload(msgspec.structs.replace(settings, **kept))
    except (ConfigError, OSError) as error:  # OSError: a site that begins to link writes to its disk
        logger.error("not reloaded, everything stays as it was: %s", error)
        return
    log.set_up(settings.log)
    logger.info("reloaded")
    for table in FIXED:
        if getattr(settings, table) != getattr(before, table):
            logger.warning("[%s] has changed; that takes effect with the next start", table)


async def _tell_status(notifier: Notifier, site: RunningSite) -> None:
    while True:
        await trio.sleep(STATUS_S)
        notifier.status(site.status)
