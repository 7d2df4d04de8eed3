"""The daemon's own process: `python -m daemon FILE`, which is what `smqpd run` becomes."""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Run the site whose configuration the one argument names."""
    # As long as nothing has begun, an interrupt has nothing to be cleaned up after.
    signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # see `daemon.cli.run`
    from daemon.configuration.config import load
    from daemon.configuration.discovery import installed_plugins
    from daemon.settings import ConfigError
    from daemon.site.run import main as run
    from daemon.system.allocator import share_one_heap
    from daemon.terminal.failure import USAGE, Failure, fail

    try:
        if len(sys.argv) != 2:
            raise Failure("usage: python -m daemon FILE", USAGE)
        config = Path(sys.argv[1])
        share_one_heap()
        run(config, load(config, installed_plugins()))
    except Failure as failure:
        fail(str(failure), failure.exit_code)
    except ConfigError as error:
        fail(str(error))
    finally:
        # Nothing is left to be stopped; the interpreter's end would else make a signal the way it ended.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
