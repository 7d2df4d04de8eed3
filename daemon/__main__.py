"""The daemon's own process: `python -m daemon FILE`, which is what `smqpd run` becomes."""

import sys
from pathlib import Path

from daemon.cli.failure import USAGE, Failure, fail
from daemon.config import ConfigError, load
from daemon.discovery import installed_plugins
from daemon.run import main

if __name__ == "__main__":
    try:
        if len(sys.argv) != 2:
            raise Failure("usage: python -m daemon FILE", USAGE)
        config = Path(sys.argv[1])
        main(config, load(config, installed_plugins()))
    except Failure as failure:
        fail(str(failure), failure.exit_code)
    except ConfigError as error:
        fail(str(error))
