"""`smqpd pub`: publishes a body, files, or each line of a file, and says what became of it.

Many messages are on their way at a time; results are printed in the order in which they were published.
"""

import json
import mimetypes
import select
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon.frontend import SubscribeOptions
from daemon.terminal.failure import FAILED, Failure, tell
from plugins.smqp.client import Client, Publication
from plugins.smqp.incoming import Receipt, read_receipt
from plugins.smqp.profile import Profile
from routing.message import Message, Section

OUTSTANDING_MAX: Final = 1_000
CHUNK_BYTES: Final = 262_144
STDIN: Final = Path("-")
DEFAULT_TYPE: Final = "application/octet-stream"
TEXT_TYPE: Final = "text/plain; charset=utf-8"


class Work(msgspec.Struct, frozen=True):
    """What to publish.

    Attributes:
        message: the headers of each message; a Sequence rises, and a Cmuid is given a number, with `lines`.
        bodies: one section each, all in one message; with `lines` each line of them is a message.
        content_type: of sections for which nothing better is known; None to guess.
        wait_receipt_s: how long to wait for each receipt; None for not at all.
    """

    topic: str
    message: Message
    body: bytes | None
    files: tuple[Path, ...]
    lines: bool
    content_type: str | None
    wait_receipt_s: float | None
    json: bool


async def publish(profile: Profile, channel: str, work: Work) -> None:
    """Do it. Raises Failure, Refusal, ConnectionLost; what was printed before was published."""
    async with profile.connect(channel) as client:
        results = _Results(work)
        receipts = _Receipts(client) if work.wait_receipt_s is not None else None
        if receipts is not None:
            await client.subscribe(client.topic, SubscribeOptions(durable=False))
        async for messages in _messages(work):
            await _publish_all(client, messages, results, receipts)
        results.end()


async def _publish_all(
    client: Client, messages: list[Message], results: "_Results", receipts: "_Receipts | None"
) -> None:
    on_their_way: deque[Publication] = deque()
    for message in messages:
        on_their_way.append(await client.publish_soon(results.work.topic, message))
        if len(on_their_way) >= OUTSTANDING_MAX:
            await _report(on_their_way.popleft(), results, receipts)
    while on_their_way:
        await _report(on_their_way.popleft(), results, receipts)
    results.flush()


class _Receipts:
    """Receipts as they come to the system topic, by the Smuid of what they are for."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found: dict[str, Receipt] = {}

    async def wait(self, smuid: str) -> Receipt:
        """That of a message which this client has published."""
        while smuid not in self._found:
            deliveries = await self._client.take()
            for delivery in deliveries:
                if (receipt := read_receipt(delivery.message)) is not None:
                    self._found[receipt.smuid] = receipt
            await self._client.commit(deliveries)
        return self._found.pop(smuid)


class _Results:
    """Writes what became of each message: its Smuid at least, since it is stored.

    Where that cannot be written, what is on its way still gets its answer; then `flush` tells of it.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self._unwritten: list[str] = []
        self._failed: OSError | None = None
        self._due_to_nobody: list[str] = []
        self._without_receipt: list[str] = []

    def add(self, publication: Publication, reply: dict[str, str], receipt: Receipt | None) -> None:
        """Write what became of a stored message; `receipt` is None where none came, or was waited for."""
        smuid = reply.get("smuid", "")
        due_to_nobody = reply.get("due") == "0"
        waited = self.work.wait_receipt_s is not None
        if due_to_nobody:
            self._due_to_nobody.append(smuid)
        if waited and receipt is None:
            self._without_receipt.append(smuid)
        if self.work.json:
            found: dict[str, object] = {"smuid": smuid, "cmuid": publication.cmuid}
            found |= {"repeated": "repeated" in reply}
            found |= {"receipt": None if receipt is None else str(receipt)} if waited else {}
            found |= {"due": 0} if due_to_nobody else {}
            line = json.dumps(found)
        else:
            line = smuid if receipt is None else f"{smuid} {receipt}"
        self._unwritten.append(smuid)
        if self._failed is None:
            try:
                sys.stdout.write(line + "\n")
            except OSError as error:
                self._failed = error

    def flush(self) -> None:
        """Have it written. Raises Failure, which names what is stored, and BrokenPipeError."""
        if self._failed is None:
            try:
                sys.stdout.flush()
            except OSError as error:
                self._failed = error
        if isinstance(self._failed, BrokenPipeError):
            raise self._failed
        if self._failed is not None and self._unwritten:
            stored = f"stored: {_in_short(self._unwritten)}"
            raise Failure(f"standard output cannot be written: {self._failed.strerror}; {stored}")
        self._unwritten.clear()

    def end(self) -> None:
        """Say on stderr what of it is no failure, and yet not what was meant. Raises Failure."""
        if self._due_to_nobody:
            gone = _in_short(self._due_to_nobody)
            if self.work.message.depth:
                nobody, far = "nobody at any site that it may go to subscribes", ""
            else:
                nobody, far = "nobody at this site subscribes", "; --depth lets it go to others"
            text = f"{nobody} to {self.work.topic}, and nothing waits there without --timeout{far}: {gone}"
            tell(text)
        if self._without_receipt:
            missing = _in_short(self._without_receipt)
            raise Failure(f"no receipt within {self.work.wait_receipt_s:g} s for {missing}", FAILED)


def _in_short(smuids: list[str]) -> str:
    return smuids[0] if len(smuids) == 1 else f"{len(smuids)} messages, {smuids[0]} to {smuids[-1]}"


async def _report(publication: Publication, results: _Results, receipts: _Receipts | None) -> None:
    reply = await publication.wait()
    if not results.work.message.guarantee:
        return
    receipt = None
    if receipts is not None:
        with trio.move_on_after(results.work.wait_receipt_s or 0):
            receipt = await receipts.wait(reply.get("smuid", ""))
    results.add(publication, reply, receipt)


async def _messages(work: Work) -> AsyncIterator[list[Message]]:
    """All messages, as many at a time as have come."""
    if not work.lines:
        yield [
            msgspec.structs.replace(work.message, sections=tuple([part async for part in _sections(work)]))
        ]
        return
    number = 0
    async for lines in _lines(work):
        yield [_line(work, number + at, body) for at, body in enumerate(lines)]
        number += len(lines)


def _line(work: Work, number: int, body: bytes) -> Message:
    first = work.message
    return msgspec.structs.replace(
        first,
        sequence=None if first.sequence is None else first.sequence + number,
        cmuid=f"{first.cmuid}-{number + 1}" if first.cmuid else "",
        sections=(Section(work.content_type or TEXT_TYPE, body),),
    )


async def _sections(work: Work) -> AsyncIterator[Section]:
    if work.body is not None:
        yield Section(work.content_type or TEXT_TYPE, work.body)
    for path in work.files:
        with _opened(path) as file:
            body = b"".join([part async for part in _parts(path, file)])
        if path == STDIN:
            yield Section(work.content_type or TEXT_TYPE, body)
        else:
            guessed = mimetypes.guess_type(path.name)[0] or DEFAULT_TYPE
            yield Section(work.content_type or guessed, body, (("Content-Description", path.name),))


async def _lines(work: Work) -> AsyncIterator[list[bytes]]:
    for path in work.files:
        with _opened(path) as file:
            rest = b""
            async for chunk in _parts(path, file):
                *lines, rest = (rest + chunk).split(b"\n")
                if lines:
                    yield [line.removesuffix(b"\r") for line in lines]
            if rest:
                yield [rest]


async def _parts(path: Path, file: FileIO) -> AsyncIterator[bytes]:
    """What is in a file, as it comes. Raises Failure."""
    try:
        # A read may wait for ever for a terminal or a pipe; cancelled, its thread is left to itself.
        while part := await trio.to_thread.run_sync(_read, file, abandon_on_cancel=True):
            yield part
    except OSError as error:
        what = "standard input" if path == STDIN else path
        raise Failure(f"{what} cannot be read: {error.strerror}") from None


def _read(file: FileIO) -> bytes:
    while (part := file.read(CHUNK_BYTES)) is None:
        select.select([file], [], [])  # whoever shares a terminal with us may have set it so
    return part


@contextmanager
def _opened(path: Path) -> Iterator[FileIO]:
    """Without a buffer: Python takes its lock at exit, and a thread that is left to itself may hold it."""
    if path == STDIN:
        yield FileIO(0, closefd=False)
        return
    try:
        file = FileIO(path)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None
    with file:
        yield file
