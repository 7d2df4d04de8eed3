"""What a running daemon tells the commands of its operator: a Unix socket in the state directory.

Who may open it is who owns the directory: mode 0600, and no other login. One connection is one question,
a line of JSON; the answer is one line or several, and the end of the connection is its end. Who closes
before that wants no more of it.

    {"ask": "status"}                    how the site stands to its files: `daemon.site.standing.Standing`
    {"ask": "reload"}                    the same, after it has read them again
    {"ask": "config-diff"}               what that would change: `daemon.site.difference.Differences`
    {"ask": "peers"}                     the state of every link
    {"ask": "federation"}                all sites that are known: `daemon.control.federation.KnownSite`
    {"ask": "routes", "name": NAME}      where a message for a topic or a server would go
    {"ask": "ping", "name": SERVER}      these three: `daemon.control.reports.Told`, a line each, as they come
    {"ask": "trace", "name": TOPIC}
    {"ask": "why", "name": SMUID}
    {"ask": "awaited", "name": SMUID}    peers that have not answered for it: `daemon.hops.examine.Awaited`
    {"ask": "quarantine-drop", "name": SMUID}   forget what was set aside of it, or of all; how many that were

and what `daemon.control.operators` has. What is none of them is answered as what is refused there is.
"""

import pwd
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from daemon.connections.accepting import accept_all
from daemon.connections.listen import ListenError
from daemon.control.client import QUESTION_BYTES_MAX, SOCKET, AnyQuestion, Question, short_path
from daemon.control.operators import AnyOperatorQuestion, Declined, OperatorQuestion
from routing.errors import Refusal

Tell = Callable[[Any], Awaitable[None]]
"""Sends one line of an answer, a value that JSON can hold."""


PATIENCE_S: Final = 60.0
"""For whoever asks and does not go; beyond what the question allows."""


async def serve_control(
    state_directory: Path,
    answer: Callable[[AnyQuestion, Tell], Awaitable[None]],
    mishap: Callable[[str, Exception], None],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer questions until cancelled. The state directory must be locked.

    Raises ListenError before it has started.

    `answer` is cancelled once whoever asked has gone, or has waited long enough; an error of it is a
    `mishap`, and no answer says so.
    """

    async def connected(stream: trio.SocketStream) -> None:
        async with stream:
            question = None
            with trio.move_on_after(PATIENCE_S):
                try:
                    question = await _question(stream)
                except Refusal as refusal:
                    await _decline(stream, refusal)
            if question is not None:
                try:
                    with trio.move_on_after(PATIENCE_S + question.timeout_s):
                        await _answer(stream, question, answer)
                except Exception as error:
                    mishap(f"the question {_word(question)!r} of an operator", error)

    path = state_directory / SOCKET
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            path.unlink(missing_ok=True)
            with short_path(state_directory) as short:
                await listening.bind(short)
            path.chmod(0o600)
            listening.listen()
        except OSError as error:
            raise ListenError(f"cannot listen for commands on {path}: {error.strerror}") from None
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                await accept_all(connected, [trio.SocketListener(listening)], mishap, handler_nursery=nursery)
        finally:
            path.unlink(missing_ok=True)


def _word(question: AnyQuestion) -> str:
    if isinstance(question, Question):
        return question.ask
    return str(question.__struct_config__.tag)


async def _question(stream: trio.SocketStream) -> AnyQuestion | None:
    """None where the connection ends before the line does. Raises Refusal for what is no question."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            part = await stream.receive_some(QUESTION_BYTES_MAX)
            line += part
            if not part:
                return None
            if len(line) > QUESTION_BYTES_MAX:
                problem = f"a question to the daemon has at most {QUESTION_BYTES_MAX:,} bytes"
                raise Refusal(Refusal.BAD_COMMAND, problem)
        return _read(line, _user(stream))
    except trio.BrokenResourceError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refusal(Refusal.BAD_COMMAND, f"that is no question to this version: {error}") from None


async def _decline(stream: trio.SocketStream, refusal: Refusal) -> None:
    """Answer what was refused, and wait until whoever asked has gone, since what is unread would end it."""
    with suppress(trio.BrokenResourceError):
        await stream.send_all(msgspec.json.encode(Declined(refusal.code, refusal.text)) + b"\n")
        await stream.send_eof()
        while await stream.receive_some(QUESTION_BYTES_MAX):
            pass


def _read(line: bytes, user: str) -> AnyQuestion:
    """Raises MsgspecError, UnicodeDecodeError."""
    asked: AnyQuestion
    try:
        asked = msgspec.json.decode(line, type=Question)
    except msgspec.ValidationError:
        asked = msgspec.json.decode(line, type=AnyOperatorQuestion)
    return msgspec.structs.replace(asked, by=user)


def _user(stream: trio.SocketStream) -> str:
    """Whose process asks; its number where it has no name."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


async def _answer(
    stream: trio.SocketStream, question: AnyQuestion, answer: Callable[[AnyQuestion, Tell], Awaitable[None]]
) -> None:
    async def tell(value: Any) -> None:
        await stream.send_all(msgspec.json.encode(value) + b"\n")

    async def watch() -> None:
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some(QUESTION_BYTES_MAX):
                pass
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        with suppress(trio.BrokenResourceError):
            try:
                await answer(question, tell)
            except Refusal as refusal:
                # of a `Question` no answer says it: the commands check what they ask before they ask it
                if isinstance(question, OperatorQuestion):
                    await tell(Declined(refusal.code, refusal.text))
        nursery.cancel_scope.cancel()
