"""STOMP frames: bytes in, frames out, and back. No I/O.

A frame is a command line, header lines, an empty line, a body and a NUL; any number of line ends may
stand between frames (they are heart-beats). A line ends with LF or CR LF. With a content-length the body
may hold any byte; without one it ends at the first NUL. Of a repeated header the first counts.

What differs by version is how a header line is written:

    1.0     as it is; values may be padded with spaces, which are no part of them
    1.1     `\\n`, `\\c` and `\\\\` stand for LF, colon and backslash
    1.2     the same, and `\\r` for CR
    any     CONNECT, STOMP and CONNECTED are never escaped

A colon that a client left unescaped in a value is taken as part of the value. Source: STOMP 1.2 "STOMP
Frames", "Value Encoding", "Repeated Header Entries".
"""

import re
from typing import Final, Literal

import msgspec

from routing.errors import FramingLost, Refusal

Version = Literal["1.0", "1.1", "1.2"]
VERSIONS: Final[tuple[Version, ...]] = ("1.0", "1.1", "1.2")

NEVER_ESCAPED: Final = frozenset({"CONNECT", "STOMP", "CONNECTED"})

_UNESCAPED: Final[dict[Version, dict[str, str]]] = {
    "1.0": {},
    "1.1": {"\\n": "\n", "\\c": ":", "\\\\": "\\"},
    "1.2": {"\\n": "\n", "\\c": ":", "\\\\": "\\", "\\r": "\r"},
}
_ESCAPED: Final[dict[Version, dict[int, str]]] = {
    # 1.0 has no escapes: what would break a line is made readable, since it cannot be made right.
    "1.0": str.maketrans({"\n": "\\n", "\r": "\\r", "\0": "\\0"}),
    "1.1": str.maketrans({"\n": "\\n", ":": "\\c", "\\": "\\\\", "\0": "\ufffd"}),
    "1.2": str.maketrans({"\n": "\\n", ":": "\\c", "\\": "\\\\", "\r": "\\r", "\0": "\ufffd"}),
}
_NEEDS_ESCAPE: Final = re.compile(r"[\n\r:\\\0]")
_NUL: Final = 0  # bytes are searched for a number three times as fast as for a string of one
_CR: Final = ord("\r")
_SPACE: Final = ord(" ")
_BACKSLASH: Final = ord("\\")
_LINE_ENDS: Final = frozenset(b"\r\n")
_empty_line: Final = re.compile(rb"\n\r?\n").search
_RECEIPT: Final = re.compile(rb"[^\n\0]*\n(?:(?!\r?\n)[^\n\0]+\n)*?receipt:([^\r\n\0]*)")
_ESCAPE: Final = re.compile(r"\\(?:.|$)", re.DOTALL)


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame; `headers` in the order in which they came, each name once."""

    command: str
    headers: dict[str, str]
    body: bytes = b""


class DecoderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one frame may hold.

    Attributes:
        header_bytes_max: command and all header lines together.
        header_line_bytes_max: one header line.
        headers_max: header lines.
        body_bytes_max: the body.
    """

    header_bytes_max: int
    header_line_bytes_max: int
    headers_max: int
    body_bytes_max: int


def escape(text: str, version: Version) -> str:
    """A header name or value as `version` writes it."""
    return text.translate(_ESCAPED[version]) if _NEEDS_ESCAPE.search(text) else text


def escape_name(name: str, version: Version) -> str:
    """A header's name as `version` writes it; in 1.0 a colon, which would end it, is made readable too."""
    written = escape(name, version)
    return written.replace(":", "\\c") if version == "1.0" else written


def unescape(text: str, version: Version) -> str:
    """The reverse of `escape`; in 1.0 nothing is escaped. Raises FramingLost on an undefined escape."""
    if version == "1.0" or "\\" not in text:
        return text
    table = _UNESCAPED[version]

    def one(match: re.Match[str]) -> str:
        try:
            return table[match[0]]
        except KeyError:
            raise FramingLost(f"{match[0]!r} is not an escape of STOMP {version}") from None

    return _ESCAPE.sub(one, text)


def encode(command: str, headers: dict[str, str], body: bytes = b"", *, version: Version = "1.2") -> bytes:
    """One frame as bytes. The caller gives content-length where there is a body."""
    if command in NEVER_ESCAPED:
        # What was not escaped must not break out of its line.
        lines = [f"{name}:{value}".replace("\n", " ").replace("\0", " ") for name, value in headers.items()]
    else:
        lines = [f"{escape_name(name, version)}:{escape(value, version)}" for name, value in headers.items()]
    return "\n".join((command, *lines, "\n")).encode() + body + b"\0"


class Decoder:
    """Cuts a byte stream into frames.

    `feed` what came, then call `next_frame` until it returns None. Errors are FramingLost: nothing that
    follows can be read, and every further call raises it again.

    Attributes:
        version: to be set once it is negotiated; it counts for the frames after that.
        receipt: after an error, what the frame at fault asked for, as far as that can be read.
    """

    def __init__(self, limits: DecoderLimits) -> None:
        self.version: Version = "1.2"
        self.receipt: str | None = None
        self.limit(limits)
        self._data = b""
        self._at = 0  # where in _data the next frame begins
        self._more = bytearray()  # came after _data, not yet joined to it
        self._wanted = 0  # no use to look again before this many bytes are here from _at on ...
        self._needle = False  # ... or before a line end (in the headers) or a NUL has come
        self._searched = 0  # bytes from _at on before which no empty line begins
        self._head: tuple[str, dict[str, str], int, int] | None = None  # parsed, its body not yet here
        self._error: FramingLost | None = None

    @property
    def buffered_bytes(self) -> int:
        """What was fed and is not yet part of a frame that was returned."""
        return len(self._data) - self._at + len(self._more)

    @property
    def unfinished(self) -> tuple[str, dict[str, str]] | None:
        """Command and headers of a frame whose body has not come whole; None where there is none."""
        return None if self._head is None else self._head[:2]

    @property
    def unfinished_bytes(self) -> int:
        """What is held of a frame that is not whole, or will be once its body of a stated length is."""
        return max(self._wanted, self.buffered_bytes)

    def limit(self, limits: DecoderLimits) -> None:
        """Keep to other limits from now on, also in what has not been looked at of a frame that has begun."""
        self._body_bytes_max = limits.body_bytes_max
        self._header_bytes_max = limits.header_bytes_max
        self._header_line_bytes_max = limits.header_line_bytes_max
        self._headers_max = limits.headers_max

    def feed(self, data: bytes | bytearray) -> None:
        """Take bytes as they came from the stream."""
        if self._at == len(self._data) and not self._more:
            self._data, self._at = bytes(data), 0
            return
        if self._needle and (b"\0" in data or (self._head is None and b"\n" in data)):
            self._needle = False
        if self._more or self._needle or self.buffered_bytes + len(data) < self._wanted:
            self._more += data
        else:
            self._data, self._at = self._data[self._at :] + data, 0

    def next_frame(self) -> Frame | None:
        """The next whole frame, or None until more is fed.

        Raises FramingLost (bad-frame, too-large, too-many): the connection must be closed.
        """
        if self._error is not None:
            raise self._error
        if not self._data and not self._more:
            return None
        if self._more and not self._join():
            return None
        try:
            head = self._head or self._next_head()
            if head is None:
                return None
            command, headers, offset, length = head
            data = self._data
            start = self._at + offset
            end = start + length if length >= 0 else data.find(b"\0", start)
            if not 0 <= end < len(data):
                self._wait_for_body(head)
                return None
            if length < 0:
                if end - start > self._body_bytes_max:
                    raise self._body_too_large(command)
            elif data[end]:
                raise FramingLost(f"the {length} bytes of the body of {command} are not followed by NUL")
        except FramingLost as error:
            self._error = error
            self.receipt = self._stated_receipt()
            raise
        self._head = None
        self._wanted = 0
        self._at = end + 1
        if self._at == len(data):
            self._data, self._at = b"", 0  # what was a large frame is not kept until the next one
        return Frame(command, headers, data[start:end])

    def _wait_for_body(self, head: tuple[str, dict[str, str], int, int]) -> None:
        command, _, offset, length = head
        self._head = head
        if length >= 0:
            self._wanted = offset + length + 1
        elif self.buffered_bytes - offset > self._body_bytes_max:
            raise self._body_too_large(command)
        else:
            self._needle = True

    def _join(self) -> bool:
        """Make one piece of all that came; False where it is known not to be enough yet."""
        if self.buffered_bytes < self._wanted:
            return False
        if self._needle:
            limit = self._header_bytes_max
            if self._head is not None:
                limit = self._head[2] + self._body_bytes_max
            if self.buffered_bytes <= limit:
                return False
            self._needle = False
        self._data, self._at = self._data[self._at :] + self._more, 0
        self._more.clear()
        return True

    def _next_head(self) -> tuple[str, dict[str, str], int, int] | None:
        """Command, headers, where from _at the body begins, and its length (-1: up to the first NUL)."""
        data, at = self._data, self._at
        size = len(data)
        while at < size and data[at] in _LINE_ENDS:
            at += 1
        self._at = at
        if at == size:
            return None
        empty_line = _empty_line(data, at + self._searched)
        if empty_line is None:
            if data.find(_NUL, at + self._searched) >= 0:
                raise FramingLost("a frame ended before the empty line that ends its headers")
            # neither CRs count, nor what may be a part of the end of the head
            head_bytes = size - at - data.endswith(b"\n")
            if (
                head_bytes > self._header_bytes_max
                and head_bytes - data.count(_CR, at) > self._header_bytes_max
            ):
                raise self._head_too_large()
            self._searched = max(size - at - 2, 0)
            self._needle = True
            return None
        self._searched = 0
        head = data[at : empty_line.start()]
        if _CR in head:
            head = head.removesuffix(b"\r").replace(b"\r\n", b"\n")
        if _NUL in head:
            raise FramingLost("a frame ended before the empty line that ends its headers")
        if len(head) > self._header_bytes_max:
            raise self._head_too_large()
        command, headers = self._headers(head)
        length = -1
        stated = headers.get("content-length")
        if stated is not None:
            if not (stated.isascii() and stated.isdigit()):
                raise FramingLost(f"content-length: {stated[:80]!r} is not a number of bytes")
            # Twenty digits hold any length there is; more of them would only cost time.
            length = int(stated) if len(stated) <= 20 else self._body_bytes_max + 1
            if length > self._body_bytes_max:
                raise self._body_too_large(command)
        return command, headers, empty_line.end() - at, length

    def _headers(self, head: bytes) -> tuple[str, dict[str, str]]:
        try:
            lines = head.decode().split("\n")
        except UnicodeDecodeError:
            raise FramingLost("the headers are not UTF-8") from None
        command = lines.pop(0)
        if len(lines) > self._headers_max:
            text = f"the frame has {len(lines)} headers, at most {self._headers_max} are taken"
            raise FramingLost(text, Refusal.TOO_MANY)
        longest = self._header_line_bytes_max
        if len(head) > longest and any(len(line.encode()) > longest for line in lines):
            raise FramingLost(f"a header line has more than {longest} bytes", Refusal.TOO_LARGE)
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                # a passcode may stand there, and an ERROR ends in logs
                which = f"of {command}" if command in NEVER_ESCAPED else repr(line[:80])
                raise FramingLost(f"the header line {which} has no colon")
            if name not in headers:
                headers[name] = value
        version = self.version
        if version == "1.0":
            if _SPACE in head:
                headers = {name: value.strip(" ") for name, value in headers.items()}
        elif _BACKSLASH in head and command not in NEVER_ESCAPED:
            escaped, headers = headers, {}
            for name, value in escaped.items():
                headers.setdefault(unescape(name, version), unescape(value, version))
        if "" in headers:
            raise FramingLost("a header has no name")
        return command, headers

    def _head_too_large(self) -> FramingLost:
        text = f"the headers have more than {self._header_bytes_max} bytes"
        return FramingLost(text, Refusal.TOO_LARGE)

    def _body_too_large(self, command: str) -> FramingLost:
        text = f"the body of {command} has more than {self._body_bytes_max} bytes"
        return FramingLost(text, Refusal.TOO_LARGE)

    def _stated_receipt(self) -> str | None:
        """What the frame that begins at _at asked for; as it is written, where its escapes are wrong."""
        match = _RECEIPT.match(self._data, self._at, self._at + self._header_bytes_max)
        if match is None:
            return None
        written = match[1].decode(errors="replace")
        try:
            return unescape(written, self.version)
        except FramingLost:
            return written
