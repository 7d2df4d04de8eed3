"""How the commands of an operator ask a running daemon; `daemon.control.socket` says what is asked."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from daemon.control.operators import AnyOperatorQuestion
from routing.federation.enquiry import LEFT_S_MAX
from routing.message import DeliveryMode
from routing.numbers import Depth

SOCKET: Final = "control"
QUESTION_BYTES_MAX: Final = 4_096
ANSWER_BYTES_MAX: Final = 64 * 2**20
"""In one line."""

PATIENCE_S: Final = 20.0
"""Beyond what the question allows. A daemon that is up has little to do for an answer, but may have to wait
for its turn on a machine that is busy; one that hangs is what a watchdog is for."""

SLOW_S: Final = 40.0
"""So much longer may take what has it read files: a reload, or all that was set aside."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked.

    Attributes:
        name: a topic, a server or a Smuid.
        timeout_s: how long answers of other sites are waited for.
        by: the user of the machine that asks, as the socket says; what stands in the line is not believed.
        mode, depth, deliver: of a trace, see `routing.federation.enquiry.Trace`.
    """

    ask: Literal[
        "status",
        "reload",
        "config-diff",
        "peers",
        "federation",
        "routes",
        "ping",
        "trace",
        "awaited",
        "why",
        "quarantine-drop",
    ]
    name: str = ""
    timeout_s: Annotated[float, msgspec.Meta(ge=0, le=LEFT_S_MAX)] = 0.0
    mode: DeliveryMode = "ALL"
    depth: Depth = -1
    deliver: bool = False
    by: str = ""


AnyQuestion = Question | AnyOperatorQuestion


class NotRunningError(Exception):
    """No daemon answers."""


class ForbiddenError(NotRunningError):
    """This user may not ask, so whether one would answer is not known."""


@contextmanager
def short_path(directory: Path) -> Iterator[str]:
    """The path of the socket, however long the directory's is: a socket's may have about 100 bytes."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


@contextmanager
def _connected(state_directory: Path, patience_s: float) -> Iterator[socket.socket]:
    with short_path(state_directory) as path, socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(patience_s)
        stream.connect(path)
        yield stream


def is_there(state_directory: Path) -> bool:
    """Whether a daemon takes questions there, as far as this user can see. Blocks."""
    try:
        with _connected(state_directory, PATIENCE_S):
            return True
    except OSError:
        return False


def ask(state_directory: Path, question: AnyQuestion, patience_s: float = PATIENCE_S) -> bytes:
    """A daemon's answer of one line, as JSON. Blocks. Raises NotRunningError, ForbiddenError."""
    return next(ask_all(state_directory, question, patience_s))


def ask_all(state_directory: Path, question: AnyQuestion, patience_s: float = PATIENCE_S) -> Iterator[bytes]:
    """The lines of a daemon's answer, as they come; at least one. Blocks.

    Raises NotRunningError, ForbiddenError.
    """
    answered, longest_s = False, patience_s + question.timeout_s
    try:
        with _connected(state_directory, longest_s) as stream:
            stream.sendall(msgspec.json.encode(question) + b"\n")
            with stream.makefile("rb") as lines:
                while line := lines.readline(ANSWER_BYTES_MAX):
                    if not line.endswith(b"\n"):
                        long = f"gives an answer of more than {ANSWER_BYTES_MAX:,} bytes in a line"
                        why = long if len(line) == ANSWER_BYTES_MAX else "ended before its answer did"
                        raise NotRunningError(f"the daemon in {state_directory} {why}")
                    answered = True
                    yield line
    except PermissionError:
        raise ForbiddenError(f"this user may not ask the daemon in {state_directory}") from None
    except TimeoutError:
        why = f"it takes longer than {longest_s:.3g} s"
        raise NotRunningError(f"no daemon answers in {state_directory}: {why}") from None
    except OSError as error:
        raise NotRunningError(f"no daemon answers in {state_directory}: {error.strerror or error}") from None
    if not answered:
        raise NotRunningError(f"the daemon in {state_directory} gives no answer")
