"""`smqpd pub`: publishes a body, files, or each line of a file, and says what became of it.

Many messages are on their way at a time; results are printed in the order in which they were published. Once
one is refused no more are published, and what is on its way gets its answer.
"""

import json
import mimetypes
import secrets
import select
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from io import FileIO
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon.frontend import SubscribeOptions
from daemon.terminal.failure import FAILED, REFUSED, Failure, tell
from plugins.smqp.client import (
    Client,
    Publication,
    SubscriptionEnded,
    lost_where_refused,
    passing_over_lost,
)
from plugins.smqp.connection import ConnectionLost
from plugins.smqp.incoming import Delivery, Receipt, read_receipt
from plugins.smqp.profile import Profile
from plugins.smqp.standard_output import StandardOutput
from routing.errors import Refusal
from routing.message import Message, Section

OUTSTANDING_MAX: Final = 1_000
CHUNK_BYTES: Final = 262_144
OTHERS_DELAY_S: Final = 0.1  # until what another run waits for is offered again
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


async def publish(profile: Profile, channel: str, work: Work, output: StandardOutput) -> None:
    """Do it. Raises Failure, Refusal, ConnectionLost; what was printed before was published."""
    async with profile.connect(channel) as client:
        results = _Results(work, output)
        receipts = _Receipts(client, work) if work.wait_receipt_s is not None else None
        if receipts is not None:
            # With a Cmuid the channel is that of other runs, too, and a name is a run's own.
            options = SubscribeOptions(durable=False, name=f"pub-{secrets.token_hex(6)}")
            await client.subscribe(client.topic, options)
        async with aclosing(_messages(work)) as all_messages:
            async for first, messages in all_messages:
                try:
                    await _publish_all(client, first, messages, results, receipts)
                except trio.Cancelled:
                    results.tell_unwritten()
                    raise
                if results.has_failed:
                    break
        results.end(None if receipts is None else receipts.ended)


async def _publish_all(
    client: Client, first: int, messages: list[Message], results: "_Results", receipts: "_Receipts | None"
) -> None:
    """Publish messages, the first of them with this number, until one fails; on return all have an answer.

    Cancelled, it still writes what is known to be stored.
    """
    on_their_way: deque[tuple[int, Publication]] = deque()
    try:
        for number, message in enumerate(messages, first):
            if results.has_failed:
                break
            results.last = number
            try:
                on_their_way.append((number, await client.publish_soon(results.work.topic, message)))
            except (Refusal, ConnectionLost) as error:
                results.failed(number, error)
            if len(on_their_way) >= OUTSTANDING_MAX:
                await _report(*on_their_way[0], results, receipts)
                on_their_way.popleft()
        while on_their_way:
            await _report(*on_their_way[0], results, receipts)
            on_their_way.popleft()
    finally:
        with trio.CancelScope(shield=True):  # after an interrupt, where nothing has to be waited for
            for number, publication in on_their_way:
                if publication.is_done:
                    await _report(number, publication, results, None)
        await results.write()
    results.check_written()


class _Receipts:
    """Receipts as they come to the system topic, by the Smuid of what they are for.

    Each comes to one of the runs in a channel, which gives back what is another's.

    Attributes:
        ended: why no more come; None while they may.
    """

    def __init__(self, client: Client, work: Work) -> None:
        self.ended: SubscriptionEnded | ConnectionLost | None = None
        self._client = client
        self._work = work
        self._found: dict[str, Receipt] = {}

    def has_come(self, smuid: str) -> bool:
        """Whether `wait` has nothing to wait for."""
        return smuid in self._found or self.ended is not None

    async def wait(self, smuid: str) -> Receipt | None:
        """That of a message which this client has published; None where no more come."""
        while not self.has_come(smuid):
            try:
                with lost_where_refused():
                    await self._take()
            except (SubscriptionEnded, ConnectionLost) as error:
                self.ended = error
        return self._found.pop(smuid, None)

    async def _take(self) -> None:
        own: list[Delivery] = []
        others: list[Delivery] = []
        for delivery in await self._client.take():
            (own if self._is_own(delivery.message) else others).append(delivery)
        for delivery in own:
            if (receipt := read_receipt(delivery.message)) is not None:
                self._found[receipt.smuid] = receipt
        with passing_over_lost():  # a receipt that has gone to another run says what it says
            await self._client.commit(own)
        with passing_over_lost():
            await self._client.give_back(others, delay_s=OTHERS_DELAY_S, outcome="released")

    def _is_own(self, message: Message) -> bool:
        """Whether it is for this run: by its Cmuid, or as the channel is, where none was given."""
        given, cmuid = self._work.message.cmuid, dict(message.others).get("Receipt-Cmuid", "")
        return not given or cmuid == given or (self._work.lines and cmuid.startswith(f"{given}-"))


class _Results:
    """Writes what became of each message: its Smuid at least, since it is stored.

    Where that cannot be written, what is on its way still gets its answer; then `check_written` tells of it.

    Attributes:
        last: the number of the last message that was published, or was to be.
    """

    def __init__(self, work: Work, output: StandardOutput) -> None:
        self.work = work
        self.last = 0
        self._output = output
        self._errors: list[tuple[int, Refusal | ConnectionLost]] = []
        self._unwritten: list[tuple[str, str]] = []  # a Smuid, and the line with it
        self._failed: OSError | None = None
        self._is_abandoned = False  # a write, which nobody reads
        self._due_to_nobody: list[str] = []
        self._without_receipt: list[str] = []

    @property
    def has_failed(self) -> bool:
        """Whether a message has: no more are to be published."""
        return bool(self._errors)

    def failed(self, number: int, error: Refusal | ConnectionLost) -> None:
        """Note that a message was refused, or that the connection ended before it was answered."""
        self._errors.append((number, error))

    def add(self, publication: Publication, reply: dict[str, str], receipt: Receipt | None) -> None:
        """Have `write` tell of a stored message; `receipt` is None where none came, or was waited for."""
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
        self._unwritten.append((smuid, line))

    async def write(self) -> None:
        """Write what was added, as `StandardOutput.write` does; nothing more where that was cancelled."""
        if not self._unwritten or self._failed is not None or self._is_abandoned:
            return
        data = "".join(f"{line}\n" for _, line in self._unwritten).encode()
        try:
            await self._output.write([data])
        except trio.Cancelled:
            self._is_abandoned = True
            raise
        except OSError as error:
            self._failed = error
        else:
            self._unwritten.clear()

    def tell_unwritten(self) -> None:
        """Name on stderr what is stored and could not be written, if anything."""
        if self._unwritten:
            tell(self._unwritten_as_text())

    def check_written(self) -> None:
        """Raises Failure, or BrokenPipeError, where what is stored could not be written, and names that."""
        if isinstance(self._failed, BrokenPipeError):
            self.tell_unwritten()
            raise self._failed
        if self._failed is not None:
            raise Failure(self._unwritten_as_text())

    def _unwritten_as_text(self) -> str:
        why = "was not read on" if self._failed is None else f"cannot be written: {self._failed.strerror}"
        return f"standard output {why}; stored: {_in_short([smuid for smuid, _ in self._unwritten])}"

    def end(self, no_more_receipts: SubscriptionEnded | ConnectionLost | None) -> None:
        """Say on stderr what is not as it was meant. Raises Failure, Refusal, ConnectionLost.

        `no_more_receipts`: why none come; None where they may.
        """
        if self._due_to_nobody:
            gone = _in_short(self._due_to_nobody)
            if self.work.message.depth:
                nobody, far = "nobody at any site that it may go to subscribes", ""
            else:
                nobody, far = "nobody at this site subscribes", "; --depth lets it go to others"
            text = f"{nobody} to {self.work.topic}, and nothing waits there without --timeout{far}: {gone}"
            tell(text)
        if self._without_receipt:
            missing = (
                f"no receipt within {self.work.wait_receipt_s:g} s for {_in_short(self._without_receipt)}"
            )
            if no_more_receipts is not None:
                missing = f"no receipt for {_in_short(self._without_receipt)}: {no_more_receipts}"
            if not self._errors and not isinstance(no_more_receipts, ConnectionLost):
                raise Failure(missing, FAILED)
            tell(missing)
        if self._errors:
            self._end_failed()
        if isinstance(no_more_receipts, ConnectionLost):
            raise no_more_receipts

    def _end_failed(self) -> None:
        """Name each line that was not stored, those together which were refused alike."""
        if not self.work.lines:
            raise self._errors[0][1]
        alike: list[tuple[int, int, Refusal | ConnectionLost]] = []
        for number, error in sorted(self._errors, key=lambda each: each[0]):
            if alike and alike[-1][1] == number - 1 and str(alike[-1][2]) == str(error):
                alike[-1] = (alike[-1][0], number, error)
            else:
                alike.append((number, number, error))
        is_forbidden, lost = False, None
        for first, last, error in alike:
            lines, are = (f"lines {first} to {last}", "are") if last > first else (f"line {first}", "is")
            if isinstance(error, Refusal):
                tell(f"{lines} {are} refused: {error.text}")
                is_forbidden |= error.code == Refusal.FORBIDDEN
            else:
                tell(f"{lines} had no answer, and may be stored or not")
                lost = error
        if lost is not None:
            raise lost
        text = f"no line after line {self.last} was published"
        raise Failure(text, REFUSED if is_forbidden else FAILED)


def _in_short(smuids: list[str]) -> str:
    return smuids[0] if len(smuids) == 1 else f"{len(smuids)} messages, {smuids[0]} to {smuids[-1]}"


async def _report(
    number: int, publication: Publication, results: _Results, receipts: _Receipts | None
) -> None:
    if not publication.is_done:  # it may be a while
        await results.write()
    try:
        reply = await publication.wait()
    except (Refusal, ConnectionLost) as error:
        results.failed(number, error)
        return
    if not results.work.message.guarantee:
        return
    receipt = None
    if receipts is not None:
        smuid = reply.get("smuid", "")
        if not receipts.has_come(smuid):
            await results.write()
        with trio.move_on_after(results.work.wait_receipt_s or 0):
            receipt = await receipts.wait(smuid)
    results.add(publication, reply, receipt)


async def _messages(work: Work) -> AsyncGenerator[tuple[int, list[Message]], None]:
    """All messages, as many at a time as have come, after the number of the first of them."""
    if not work.lines:
        sections = tuple([part async for part in _sections(work)])
        yield 1, [msgspec.structs.replace(work.message, sections=sections)]
        return
    number = 0
    async with aclosing(_lines(work)) as all_lines:
        async for lines in all_lines:
            yield number + 1, [_line(work, number + at, body) for at, body in enumerate(lines)]
            number += len(lines)


def _line(work: Work, number: int, body: bytes) -> Message:
    first = work.message
    return msgspec.structs.replace(
        first,
        sequence=None if first.sequence is None else first.sequence + number,
        cmuid=f"{first.cmuid}-{number + 1}" if first.cmuid else "",
        sections=(Section(work.content_type or TEXT_TYPE, body),),
    )


async def _sections(work: Work) -> AsyncGenerator[Section, None]:
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


async def _lines(work: Work) -> AsyncGenerator[list[bytes], None]:
    for path in work.files:
        with _opened(path) as file:
            rest = b""
            async with aclosing(_parts(path, file)) as parts:
                async for chunk in parts:
                    *lines, rest = (rest + chunk).split(b"\n")
                    if lines:
                        yield [line.removesuffix(b"\r") for line in lines]
            if rest:
                yield [rest]


async def _parts(path: Path, file: FileIO) -> AsyncGenerator[bytes, None]:
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
