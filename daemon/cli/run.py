"""`smqpd run`: the daemon, in the foreground.

The process becomes `python -m daemon`: it keeps its id, its descriptors and its environment, and is rid of
the libraries of the command line, which are a quarter of the memory of an idle site.
"""

import os
import sys

from daemon.cli.options import DEFAULT_CONFIG, ConfigOption


def run(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Run a site until SIGTERM or SIGINT; SIGHUP reads its files again."""
    # An installed command does not look for modules in the directory it is started in; a checkout does.
    checkout = "" in sys.path or os.getcwd() in sys.path
    os.execv(sys.executable, [sys.executable, *([] if checkout else ["-P"]), "-m", "daemon", str(config)])
