"""What a running daemon tells the commands of its operator: a Unix socket in the state directory.

Who may open it is who owns the directory: mode 0600, and no other login. One connection is one question,
a line of JSON, and one answer, likewise; then it is closed.

    {"ask": "peers"}                     the state of every link
    {"ask": "routes", "name": NAME}      where a message for a topic or a server would go
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import trio

SOCKET: Final = "control"
QUESTION_BYTES_MAX: Final = 4_096
ANSWER_BYTES_MAX: Final = 64 * 2**20
PATIENCE_S: Final = 10.0


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked; `name` is a topic or a server."""

    ask: Literal["peers", "routes"]
    name: str = ""


class NotRunningError(Exception):
    """No daemon answers."""


@contextmanager
def _short(directory: Path) -> Iterator[str]:
    """The socket's path, however long the directory's is: a socket's may have about 100 bytes."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


async def serve_control(
    state_directory: Path,
    answer: Callable[[Question], Any],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer questions until cancelled. The state directory must be locked. Raises OSError."""

    async def connected(stream: trio.SocketStream) -> None:
        with trio.move_on_after(PATIENCE_S):
            async with stream:
                try:
                    line = await stream.receive_some(QUESTION_BYTES_MAX)
                    question = msgspec.json.decode(bytes(line), type=Question)
                except (trio.BrokenResourceError, msgspec.MsgspecError):
                    return
                try:
                    await stream.send_all(msgspec.json.encode(answer(question)))
                except trio.BrokenResourceError:
                    return

    path = state_directory / SOCKET
    path.unlink(missing_ok=True)
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        with _short(state_directory) as short:
            await listening.bind(short)
        path.chmod(0o600)
        listening.listen()
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                await trio.serve_listeners(
                    connected, [trio.SocketListener(listening)], handler_nursery=nursery
                )
        finally:
            path.unlink(missing_ok=True)


def ask(state_directory: Path, question: Question) -> bytes:
    """A daemon's answer, as JSON. Blocks. Raises NotRunningError."""
    try:
        with _short(state_directory) as short, socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE_S)
            stream.connect(short)
            stream.sendall(msgspec.json.encode(question))
            parts, size = [], 0
            while size < ANSWER_BYTES_MAX and (part := stream.recv(65_536)):
                parts.append(part)
                size += len(part)
    except OSError as error:
        raise NotRunningError(f"no daemon answers in {state_directory}: {error.strerror or error}") from None
    if not parts:
        raise NotRunningError(f"the daemon in {state_directory} gives no answer")
    return b"".join(parts)
