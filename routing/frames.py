"""SMQP's one frame, and the message as it lies in it and in the store.

    PUBLISH weather.oslo            start line: a command, and its arguments
    Created: 2026-11-21T10:00:00Z   attributes and headers, one a line
    Sections: 1                     how many content sections follow; absent: none
                                    an empty line
    Content-Type: text/plain        each section: its header lines,
    Content-Length: 5
                                    an empty line,
    hello                           and as many bytes as Content-Length says

Lines end with CR LF and are UTF-8 without control characters (a tab is allowed). Empty lines in front of
a start line are passed over. Nothing separates a body from what follows it.

A *wire* is the part of a frame that is the message: its header lines (`Sections` among them), the empty
line, its sections. A MESSAGE frame is a start line, the delivery's attributes and a wire, which is why a
delivery costs no encoding of the message: its head was encoded once, when it was accepted.

The reader cuts bytes into frames. Where a frame can be read to its end but not be understood, that frame
alone is refused; where its end is not known, the framing is lost. Source: SMQP draft, in whose style the
frame is ours; routing contract 2.
"""

from typing import Final

import msgspec

from routing.errors import FramingLost, HeaderRefusal, Refusal
from routing.headers import (
    KNOWN_SPELLINGS,
    Headers,
    check_numbers,
    check_writable,
    is_header_name,
    is_writable,
    parse_headers,
    write_headers,
)
from routing.message import Message, Section
from routing.sections import content_length, read_section_head, split_header, write_section_head

_CONTROLS: Final = bytes(byte for byte in (*range(32), 127) if byte != 9)
_SPELLINGS: Final = KNOWN_SPELLINGS | {"For"}
"""Also of what stands before each message between sites."""
_SECTIONS_DIGITS_MAX: Final = 6  # more is taken for a mistake rather than skipped
_SMALL_BYTES: Final = 1_024  # a piece that is no greater is put together with those beside it


class FrameLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader takes; a head or section head that is longer loses the framing, the rest does not.

    Attributes:
        header_bytes_max: all header lines of a frame, with those of its sections.
        headers_max: these lines, without the two that each section has in any case.
        message_bytes_max: the bodies.
    """

    header_bytes_max: int
    headers_max: int
    message_bytes_max: int
    sections_max: int


class Frame(msgspec.Struct):
    """One frame. `headers` are the attribute and header lines in order, without `Sections`."""

    command: str
    arguments: str = ""
    headers: Headers = []
    sections: tuple[Section, ...] = ()


class _Open(msgspec.Struct):
    """A frame whose head has been read and whose sections have not all come.

    Attributes:
        header_bytes, header_lines: of its head, and those of the sections that are there.
    """

    frame: Frame
    missing: int
    refusal: Refusal | None
    header_bytes: int
    header_lines: int
    sections: list[Section] = []
    body_bytes: int = 0


class FrameReader:
    """Cuts bytes into frames, however they are split: `feed`, then `take` until it returns None.

    `refused` is what could be read of the frame that `take` last refused: its command, its arguments and
    those of its headers that could be read, so that an answer can say which one it was. `limits` may be
    changed between two calls, as after a login.
    """

    def __init__(self, limits: FrameLimits) -> None:
        self.refused = Frame("")
        self.limits = limits
        self._data = b""
        self._position = 0  # of the first byte not yet read
        self._scanned = 0  # no empty line ends before here
        self._chunks: list[bytes | bytearray] = []  # fed, not yet joined to _data
        self._chunk_bytes = 0
        self._wanted = 0  # unread bytes without which `take` cannot go on
        self._skip = 0  # bytes of a refused body that are still to come; nothing else is held then
        self._open: _Open | None = None

    def feed(self, data: bytes) -> None:
        """Take what has arrived."""
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if data:
            chunks = self._chunks
            if not chunks or len(data) > _SMALL_BYTES:
                chunks.append(data)
            elif isinstance(chunks[-1], bytearray):  # each by itself would take many times what it holds
                chunks[-1] += data
            else:
                chunks.append(bytearray(data))
            self._chunk_bytes += len(data)

    def take(self) -> Frame | None:
        """The next frame; None while it is not complete.

        Raises Refusal for a frame that could be cut out but not be read: it is gone, the next call
        takes the next one. Raises FramingLost where the reader can go on no more.
        """
        if self._skip or (self._chunks and not self._join()):
            return None
        unfinished = self._open
        if unfinished is None:
            unfinished = self._take_head()
            if unfinished is None:
                return None
        if unfinished.missing:
            if not self._take_sections(unfinished):
                self._open = unfinished
                return None
            unfinished.frame.sections = tuple(unfinished.sections)
        self._open = None
        if self._position == len(self._data):
            self._data = b""  # what was a large frame is not kept until the next one
            self._position = self._scanned = 0
        if unfinished.refusal is not None:
            self.refused = unfinished.frame
            raise unfinished.refusal
        return unfinished.frame

    @property
    def unfinished(self) -> Frame | None:
        """The frame whose head has been read and whose sections have not all come; None if there is none.

        A refused one is none any more: what is still to come of it is passed over.
        """
        return self._open.frame if self._open is not None and self._open.refusal is None else None

    @property
    def unfinished_bytes(self) -> int:
        """Bytes that are held, or will be once the section that has begun is whole."""
        unfinished = self._open
        if unfinished is None or unfinished.refusal is not None:
            return self.buffered
        return unfinished.header_bytes + unfinished.body_bytes + max(self._wanted, self.buffered)

    def refuse(self, refusal: Refusal) -> None:
        """Have the unfinished frame refused: it is passed over, and `take` raises this once it has ended."""
        assert self._open is not None
        self._open.refusal = refusal
        self._open.sections.clear()
        self._open.body_bytes = self._wanted = 0

    @property
    def buffered(self) -> int:
        """Bytes held that no frame has taken yet."""
        return len(self._data) - self._position + self._chunk_bytes

    def _join(self) -> bool:
        rest = len(self._data) - self._position
        if rest + self._chunk_bytes < self._wanted:
            return False
        if rest == 0 and len(self._chunks) == 1:
            self._data = bytes(self._chunks[0])
        else:
            self._data = b"".join((self._data[self._position :], *self._chunks))
        self._scanned = max(self._scanned - self._position, 0)
        self._position = self._wanted = self._chunk_bytes = 0
        self._chunks.clear()
        return True

    def _end_of_head(self) -> int:
        """Where the empty line after the head at `_position` begins; -1 where it has not come."""
        data, position = self._data, self._position
        end = data.find(b"\r\n\r\n", max(position, self._scanned))
        if (len(data) - 3 if end < 0 else end) - position > self.limits.header_bytes_max:
            raise FramingLost(self._headers_too_long(), Refusal.TOO_LARGE)
        if data.find(b"\n\n", max(position, self._scanned), len(data) if end < 0 else end) >= 0:
            raise FramingLost("lines end with CR LF, not with LF alone")
        if end < 0:
            self._scanned = max(position, len(data) - 3)
        return end

    def _take_head(self) -> _Open | None:
        # before the end is looked for: an empty line that is passed over is no part of what follows it
        while self._data.startswith(b"\r\n", self._position):
            self._position += 2
        end = self._end_of_head()
        if end < 0:
            return None
        head = self._data[self._position : end]
        self._position = end + 4
        lines, clean = _split_lines(head)
        headers, missing, refusal = _read_lines(lines, 1, clean)
        if not clean and refusal is None:
            refusal = Refusal(Refusal.BAD_FRAME, "the start line is not UTF-8 without control characters")
        command, _, arguments = lines[0].partition(" ")
        if refusal is None:
            if len(headers) > self.limits.headers_max:
                refusal = self._too_many_headers()
            elif missing > self.limits.sections_max:
                refusal = Refusal(Refusal.TOO_MANY, f"more than {self.limits.sections_max} sections")
        return _Open(Frame(command.upper(), arguments, headers), missing, refusal, len(head), len(headers))

    def _too_many_headers(self) -> Refusal:
        return Refusal(Refusal.TOO_MANY, f"more than {self.limits.headers_max} header lines")

    def _headers_too_long(self) -> str:
        return f"the header lines are longer than {self.limits.header_bytes_max} bytes"

    def _take_sections(self, unfinished: _Open) -> bool:
        while unfinished.missing:
            end = self._end_of_head()
            if end < 0:
                return False
            head = self._data[self._position : end]
            try:
                content_type, length, headers = read_section_head(head)
            except HeaderRefusal as refusal:
                content_type, length, headers = "", content_length(head), ()
                unfinished.refusal = unfinished.refusal or refusal
            unfinished.refusal = unfinished.refusal or self._too_much(
                unfinished.header_bytes + len(head),
                unfinished.header_lines + len(headers),
                unfinished.body_bytes + length,
            )
            body_end = end + 4 + length
            if unfinished.refusal is not None:
                unfinished.sections.clear()
                self._skip = max(body_end - len(self._data), 0)
                self._position = min(body_end, len(self._data))
            elif body_end > len(self._data):
                self._wanted = body_end - self._position
                return False
            else:
                unfinished.sections.append(Section(content_type, self._data[end + 4 : body_end], headers))
                unfinished.header_bytes += len(head)
                unfinished.header_lines += len(headers)
                unfinished.body_bytes += length
                self._position = body_end
            unfinished.missing -= 1
            if self._skip:
                return False
        return True

    def _too_much(self, header_bytes: int, header_lines: int, body_bytes: int) -> Refusal | None:
        """Why a frame is refused that has so much with the section that has begun; None where it is not."""
        limits = self.limits
        if body_bytes > limits.message_bytes_max:
            return Refusal(Refusal.TOO_LARGE, f"the bodies are more than {limits.message_bytes_max} bytes")
        if header_bytes > limits.header_bytes_max:
            return Refusal(Refusal.TOO_LARGE, self._headers_too_long())
        return self._too_many_headers() if header_lines > limits.headers_max else None


def encode_frame(frame: Frame) -> bytes:
    """The frame as bytes. Raises HeaderRefusal for a line that would not be read back as it was meant.

    For the start line, which may hold a password, it is a Refusal (bad-frame) that quotes none of it.
    """
    start = f"{frame.command} {frame.arguments}" if frame.arguments else frame.command
    lines = [start]
    for name, value in frame.headers:
        if name not in KNOWN_SPELLINGS and not (is_header_name(name) and name.lower() != "sections"):
            raise HeaderRefusal(name, value, "a header line's name")
        lines.append(f"{name}: {value}")
    try:
        return _encode(lines, frame.sections)
    except HeaderRefusal:
        if is_writable(start):
            raise
    raise Refusal(
        Refusal.BAD_FRAME, "the start line is not one line of UTF-8 text without control characters"
    )


def encode_message(message: Message, head: bytes = b"") -> bytes:
    """The wire of a message. Raises HeaderRefusal for what would not be read back as it was meant.

    Among `others` that is every name for which `routing.headers.is_reserved` holds: a front end whose
    protocol has such names keeps them out. `head` is what `encode_head` made of the message before its
    server gave it a Smuid and an Account.
    """
    if not head:
        return _encode(write_headers(message), message.sections)
    at = head.index(b"\r\n") + 2 if message.cmuid else 0
    smuid, account = f"Smuid: {message.smuid}\r\n".encode(), f"Account: {message.account}\r\n".encode()
    return _join(b"".join((smuid, head[:at], account, head[at:])), message.sections)


def encode_head(message: Message) -> bytes:
    """The header lines of a message that no server has taken yet, to be given to `encode_message` later.

    Raises HeaderRefusal as `check_message` does: what has been encoded has been checked.
    """
    check_numbers(message)
    head = _encode_head(write_headers(message), len(message.sections))
    for section in message.sections:
        write_section_head(section)
    return head


def check_message(message: Message) -> None:
    """Raises HeaderRefusal where `encode_message` would, for less where there is only usual text.

    Also for numbers that `decode_message` would not take: what is stored has to be read again.
    """
    check_numbers(message)
    if message.others or message.name is not None or message.mime_version is not None:
        _encode(write_headers(message), ())
    else:
        check_writable((f"Cmuid: {message.cmuid}", f"Created: {message.created}"))
    for section in message.sections:
        write_section_head(section)


def decode_message(wire: bytes) -> Message:
    """The message of a wire. Raises Refusal for bytes that are not exactly one."""
    end = 0 if wire.startswith(b"\r\n") else wire.find(b"\r\n\r\n") + 2
    if end == 1:
        raise FramingLost("the message's header lines have no end")
    headers: Headers = []
    missing = 0
    if end:
        lines, clean = _split_lines(wire[: end - 2])
        headers, missing, refusal = _read_lines(lines, 0, clean)
        if refusal is not None:
            raise refusal
    position = end + 2
    sections: list[Section] = []
    for _ in range(missing):
        end = wire.find(b"\r\n\r\n", position)
        if end < 0:
            raise FramingLost("a section of the message has no end")
        content_type, length, others = read_section_head(wire[position:end])
        position = end + 4 + length
        sections.append(Section(content_type, wire[end + 4 : position], others))
    if position != len(wire):
        raise FramingLost("the message is longer or shorter than its lengths say")
    return Message(**parse_headers(headers), sections=tuple(sections))


def message_of(frame: Frame) -> Message:
    """The message of a frame all of whose headers are the message's. Raises HeaderRefusal."""
    return Message(**parse_headers(frame.headers), sections=frame.sections)


def _split_lines(head: bytes) -> tuple[list[str], bool]:
    """The lines, and whether they are UTF-8 without control characters."""
    try:
        lines = head.decode().split("\r\n")
        clean = True
    except UnicodeDecodeError:
        lines = head.decode(errors="surrogateescape").split("\r\n")
        clean = False
    if len(head.translate(None, _CONTROLS)) != len(head) - 2 * (len(lines) - 1):
        clean = False
        if any("\r" in line or "\n" in line for line in lines):
            raise FramingLost("lines end with CR LF, and hold no CR or LF alone")
    return lines, clean


def _read_lines(lines: list[str], start: int, clean: bool) -> tuple[Headers, int, Refusal | None]:
    """The headers without `Sections`, the number of sections, and the first fault. Raises FramingLost."""
    headers: Headers = []
    sections = -1
    refusal: Refusal | None = None
    for line in lines[start:]:
        name, colon, value = line.partition(": ")
        if clean and colon:
            if name in _SPELLINGS:
                headers.append((name, value))
                continue
            if name == "Sections" and value == "1" and sections < 0:
                sections = 1
                continue
        try:
            name, value = split_header(line)
        except HeaderRefusal as first:
            refusal = refusal or first
            continue
        folded = name.lower()
        if folded == "sections":
            if sections >= 0:
                raise FramingLost("Sections is there twice")
            sections = _read_sections(value.strip())
        elif folded == "content-length":
            raise FramingLost("Content-Length belongs to a section, and Sections says how many follow")
        else:
            headers.append((name, value))
    return headers, max(sections, 0), refusal


def _read_sections(value: str) -> int:
    if not (value.isdigit() and value.isascii() and len(value) <= _SECTIONS_DIGITS_MAX):
        raise FramingLost(f"Sections: {value[:40]!r} is not a number of sections")
    return int(value)


def _encode(lines: list[str], sections: tuple[Section, ...]) -> bytes:
    return _join(_encode_head(lines, len(sections)), sections)


def _encode_head(lines: list[str], sections: int) -> bytes:
    """The lines, how many sections follow, and the empty line."""
    if sections:
        lines.append(f"Sections: {sections}")
    if not lines:
        return b"\r\n"
    lines.append("\r\n")
    try:
        head = "\r\n".join(lines).encode()
    except UnicodeEncodeError:
        head = b""
    if len(head.translate(None, _CONTROLS)) != len(head) - 2 * len(lines) or not head:
        check_writable(lines[:-1])
        raise AssertionError("a head that cannot be written has a line that cannot")
    return head


def _join(head: bytes, sections: tuple[Section, ...]) -> bytes:
    if not sections:
        return head
    if len(sections) == 1:
        return b"".join((head, write_section_head(sections[0]), sections[0].body))
    parts = [head]
    for section in sections:
        parts += (write_section_head(section), section.body)
    return b"".join(parts)
