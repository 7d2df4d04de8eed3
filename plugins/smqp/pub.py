"""`smqpd pub`: publishes a body, files, or each line of a file, and says what became of it.

Many messages are on their way at a time; results are printed in the order in which they were published.
"""

import json
import mimetypes
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon.cli.failure import FAILED, Failure
from daemon.frontend import SubscribeOptions
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
        receipts = _Receipts(client) if work.wait_receipt_s is not None else None
        if receipts is not None:
            await client.subscribe(client.topic, SubscribeOptions(durable=False))
        async for messages in _messages(work):
            await _publish_all(client, messages, work, receipts)


async def _publish_all(
    client: Client, messages: list[Message], work: Work, receipts: "_Receipts | None"
) -> None:
    on_their_way: deque[Publication] = deque()
    for message in messages:
        on_their_way.append(await client.publish_soon(work.topic, message))
        if len(on_their_way) >= OUTSTANDING_MAX:
            await _report(on_their_way.popleft(), work, receipts)
    while on_their_way:
        await _report(on_their_way.popleft(), work, receipts)
    sys.stdout.flush()


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


async def _report(publication: Publication, work: Work, receipts: _Receipts | None) -> None:
    reply = await publication.wait()
    if not work.message.guarantee:
        return
    smuid = reply.get("smuid", "")
    receipt = None
    if receipts is not None:
        with trio.move_on_after(work.wait_receipt_s or 0):
            receipt = await receipts.wait(smuid)
        if receipt is None:
            raise Failure(f"no receipt for {smuid} within {work.wait_receipt_s:g} s", FAILED)
    if work.json:
        found = {"smuid": smuid, "cmuid": publication.cmuid, "repeated": "repeated" in reply}
        line = json.dumps(found if receipt is None else {**found, "receipt": str(receipt)})
    else:
        line = smuid if receipt is None else f"{smuid} {receipt}"
    sys.stdout.write(line + "\n")


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
            body = await _in_thread(file.read)
        if path == STDIN:
            yield Section(work.content_type or TEXT_TYPE, body)
        else:
            guessed = mimetypes.guess_type(path.name)[0] or DEFAULT_TYPE
            yield Section(work.content_type or guessed, body, (("Content-Description", path.name),))


async def _lines(work: Work) -> AsyncIterator[list[bytes]]:
    for path in work.files:
        with _opened(path) as file:
            rest = b""
            while chunk := await _in_thread(partial(file.read1, CHUNK_BYTES)):
                *lines, rest = (rest + chunk).split(b"\n")
                if lines:
                    yield [line.removesuffix(b"\r") for line in lines]
            if rest:
                yield [rest]


async def _in_thread(read: Callable[[], bytes]) -> bytes:
    """A read may wait for ever for a terminal or a pipe; cancelled, its thread is left to itself."""
    return await trio.to_thread.run_sync(read, abandon_on_cancel=True)


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    if path == STDIN:
        yield sys.stdin.buffer  # type: ignore[misc]  # typeshed calls it a BinaryIO
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None
    with file:
        yield file
