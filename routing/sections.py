"""Content sections: the Content-* header lines in front of each body, read and written.

    Content-Type: text/plain; charset="ISO-8859-4"
    Content-Length: 5
    <empty line>
    <5 bytes, any>

Content-Type and Content-Length are required. Another section, or the next frame, follows the last byte of
the body directly. Without a Content-Length that can be read nobody knows where that is: the framing is
lost; every other fault leaves the connection usable.

Heads of sections repeat from message to message, so short ones are kept in a bounded cache, read and
written. Source: SMQP draft, Content-*.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from routing.errors import FramingLost, HeaderRefusal
from routing.headers import Headers, check_writable, is_header_name
from routing.message import Section

CONTENT_LENGTH_MAX: Final = 10**12 - 1  # more is taken for a mistake rather than skipped
_CACHED_HEAD_BYTES_MAX: Final = 256
_CACHED_HEADS: Final = 1024

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}"
_is_media_type = re.compile(rf"{_TOKEN}/{_TOKEN}(?: *;.*)?").fullmatch
_is_codings = re.compile(rf"{_TOKEN}(?: *, *{_TOKEN})*").fullmatch
_is_scheme = re.compile(rf"{_TOKEN}/{_TOKEN}").fullmatch

_MEDIA_TYPE_EXPECTED = "a media type such as text/plain"

_CONTENT_RULES: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "content-description": ("one line of text", lambda value: True),
    "content-id": ("a name for the section, not empty", str.strip),
    "content-encoding": ("codings separated by commas, as gzip", lambda value: _is_codings(value.strip())),
    "content-encryption": ("method/version", lambda value: _is_scheme(value.strip())),
}

SectionHead = tuple[str, int, tuple[tuple[str, str], ...]]


def split_header(line: str) -> tuple[str, str]:
    """A header line to (name, value). Raises HeaderRefusal (its value may hold no control characters),
    or FramingLost where the line may have been meant to say how much content follows.
    """
    name, colon, value = line.partition(":")
    if not colon or not is_header_name(name):
        if name.strip().lower().startswith(("sections", "content-length")):
            raise FramingLost(f"the line {line[:80]!r} cannot be read")
        raise HeaderRefusal(name, value, "a header line (Name: value)")
    check_writable((line,))
    return name, value[1:] if value[:1] == " " else value


def read_section_head(head: bytes) -> SectionHead:
    """The lines in front of a body to content type, body length in bytes, and the other headers in order.

    Raises HeaderRefusal where `content_length` still can find the end of the body, else FramingLost.
    """
    return _read_cached(head) if len(head) <= _CACHED_HEAD_BYTES_MAX else _read(head)


def content_length(head: bytes) -> int:
    """The Content-Length alone, of a head that was refused. Raises FramingLost."""
    length = None
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            if length is not None:
                raise FramingLost("Content-Length is there twice in one section")
            length = _read_length(value.decode("latin-1").strip())
    if length is None:
        raise FramingLost("a section has no Content-Length")
    return length


def write_section_head(section: Section) -> bytes:
    """The lines in front of the body, the empty line included.

    Raises HeaderRefusal for what no reader would take.
    """
    if len(section.content_type) <= _CACHED_HEAD_BYTES_MAX and not section.headers:
        return _write_cached(section.content_type, len(section.body))
    return _write(section.content_type, len(section.body), section.headers)


def _read(head: bytes) -> SectionHead:
    content_type: str | None = None
    length: int | None = None
    headers: Headers = []
    seen: set[str] = set()
    try:
        text = head.decode()
    except UnicodeDecodeError:
        content_length(head)
        raise HeaderRefusal("Content-Type", repr(head[:60]), "in UTF-8 (the head of the section)") from None
    lines = text.split("\r\n")
    if any("\r" in line or "\n" in line for line in lines):
        raise FramingLost("lines end with CR LF, and hold no CR or LF alone")
    for line in lines:
        name, value = split_header(line)
        folded = name.lower()
        if folded in seen:
            if folded == "content-length":
                raise FramingLost("Content-Length is there twice in one section")
            raise HeaderRefusal(name, value, "sent once in a section")
        if folded == "content-length":
            length = _read_length(value.strip())
        elif folded == "content-type":
            if _is_media_type(value) is None:
                raise HeaderRefusal(name, value, _MEDIA_TYPE_EXPECTED)
            content_type = value
        else:
            _check_content_header(name, value)
            headers.append((name, value))
        if folded.startswith("content-"):
            seen.add(folded)
    if length is None:
        raise FramingLost("a section has no Content-Length")
    if content_type is None:
        raise HeaderRefusal("Content-Type", "", _MEDIA_TYPE_EXPECTED + ", required in each section")
    return content_type, length, tuple(headers)


def _check_content_header(name: str, value: str) -> None:
    rule = _CONTENT_RULES.get(name.lower())
    if rule is not None and not rule[1](value):
        raise HeaderRefusal(name, value, rule[0])


def _read_length(text: str) -> int:
    if not (text.isdigit() and text.isascii() and len(text) <= 20 and int(text) <= CONTENT_LENGTH_MAX):
        raise FramingLost(f"Content-Length: {text[:40]!r} is not a number of bytes")
    return int(text)


def _write(content_type: str, length: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    if _is_media_type(content_type) is None:
        raise HeaderRefusal("Content-Type", content_type, _MEDIA_TYPE_EXPECTED)
    lines = [f"Content-Type: {content_type}", f"Content-Length: {length}"]
    seen = {"content-type", "content-length"}
    for name, value in headers:
        folded = name.lower()
        if folded in seen or not is_header_name(name):
            raise HeaderRefusal(name, value, "a header that a section may carry here")
        _check_content_header(name, value)
        if folded.startswith("content-"):
            seen.add(folded)
        lines.append(f"{name}: {value}")
    check_writable(lines)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@lru_cache(maxsize=_CACHED_HEADS)
def _read_cached(head: bytes) -> SectionHead:
    return _read(head)


@lru_cache(maxsize=_CACHED_HEADS)
def _write_cached(content_type: str, length: int) -> bytes:
    return _write(content_type, length, ())
