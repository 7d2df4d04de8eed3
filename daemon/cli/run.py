"""`smqpd run`: the daemon, in the foreground.

The process becomes `python -m daemon`: it keeps its id, its descriptors and its environment, and is rid of
the libraries of the command line, which are a quarter of the memory of an idle site.
"""

import os
import signal
import sys

from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, config_file


def run(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Run a site until SIGTERM or SIGINT; SIGHUP and `smqpd reload` read its files again."""
    file = config_file(config)
    # An installed command does not look for modules in the directory it is started in; a checkout does.
    checkout = "" in sys.path or os.getcwd() in sys.path
    flags = [] if checkout else ["-P"]
    # What comes while the new interpreter starts waits until it can be taken.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.execv(sys.executable, [sys.executable, *flags, "-m", "daemon", str(file)])
