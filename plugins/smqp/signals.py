"""How SIGINT and SIGTERM end commands that talk to a site."""

import signal
from collections.abc import Awaitable, Callable

import trio

from plugins.smqp.standard_output import StandardOutput

SiteCommand = Callable[[StandardOutput], Awaitable[None]]


async def until_signal(command: SiteCommand) -> int | None:
    """The signal that ended it; None where it came to its end. A second one hurries what it still writes."""
    running, output = trio.CancelScope(), StandardOutput()
    ended_by = None
    failure: Exception | None = None
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal ended_by
                async for number in signals:
                    if ended_by is not None:
                        output.hurry()
                    else:
                        ended_by = number
                        running.cancel()

            nursery.start_soon(watch)
            with running:
                try:
                    await command(output)
                except Exception as error:  # raised again below, where no nursery wraps it in a group
                    failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return ended_by
