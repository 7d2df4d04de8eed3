"""The program `smqpd`: runs a command, and says in one line on stderr, and by its exit code, how it failed.

Commands raise `Failure`, `ConfigError` or `Refusal` for what their user can understand; anything else is a
mistake of ours and shows its traceback. An interrupt ends a command at any moment without a word, with 130;
so does SIGTERM, with 143, and, with 141, a reader of our output that has enough. All are what a shell says
of a program that these signals ended; but what was half made is removed before.
"""

import io
import os
import signal
import sys


def main() -> None:
    """Run the command that `sys.argv` names, and exit."""
    _open_what_is_closed()
    # Half of the time of a command is imports, and in the middle of one there is nothing to be cleaned up.
    signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    from daemon.cli import command_tree
    from daemon.settings import ConfigError
    from daemon.terminal import failure, output
    from routing.errors import Refusal

    _buffer_what_is_printed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # a path is printed as it was given
    exit_code, why = failure.FAILED, ""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(failure.TERMINATED))
        exit_code = command_tree.run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        exit_code = failure.INTERRUPTED
    except (BrokenPipeError, command_tree.ClosedPipeError):
        exit_code = failure.CLOSED_PIPE
    except failure.Failure as error:
        exit_code, why = error.exit_code, str(error)
    except ConfigError as error:
        why = str(error)
    except Refusal as refusal:
        why = refusal.text
        if refusal.code in (Refusal.FORBIDDEN, Refusal.BAD_LOGIN):
            exit_code = failure.REFUSED
    except OSError as error:
        if not output.is_refused(error):
            raise
        exit_code, why = failure.FAILED, f"standard output cannot be written: {error.strerror}"
    failure.ignore_signals()
    output.flush()
    if why:
        failure.tell(why)
    sys.exit(exit_code)


def _open_what_is_closed() -> None:
    """Where the caller has closed stdin or stdout, have them refuse to be read or written.

    A file or socket that is opened would else take their place, and get what is printed.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            refusing = {"stdin": os.O_WRONLY, "stdout": os.O_RDONLY}
            os.open(os.devnull, refusing.get(name, os.O_RDWR))
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))


def _buffer_what_is_printed() -> None:
    """Where Python was to use no buffer (PYTHONUNBUFFERED), use one that is written at the end of each line.

    Without one, a write that takes a part, as on a disk that is nearly full, loses the rest, and no error is
    raised.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(sys.stdout.buffer, io.RawIOBase):
        descriptor, encoding = sys.stdout.fileno(), sys.stdout.encoding
        sys.stdout = open(descriptor, "w", buffering=1, encoding=encoding, closefd=False)  # noqa: SIM115 # to the end
