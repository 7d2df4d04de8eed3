"""Pages from templates; how numbers, times and bodies are shown to people."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from daemon.frontend import COUNTERS, TOPIC_COUNTERS, Browsed
from daemon.terminal.figures import bytes_shown, duration_shown, exactly, rate_shown, time_shown

HERE: Final = Path(__file__).parent
HEX_BYTES: Final = 1_024
JSON_CHARACTERS_MAX: Final = 65_536
"""JSON that is longer where it is indented is shown as it came: what is nested deeply grows to a thousand
times its length."""


@cache
def make_environment() -> Any:
    """The templates, which escape all that is put into them, and know no name that they are not given."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(counters=COUNTERS, topic_counters=TOPIC_COUNTERS)
    environment.filters.update(
        number=number,
        size=bytes_shown,
        rate=rate,
        exactly=exactly,
        duration=duration_shown,
        when=time_shown,
        query=query,
        body=body,
    )
    return environment


def number(value: float) -> str:
    """The number with thin groups of thousands."""
    return _thin(f"{value:,.0f}")


def rate(per_s: float) -> str:
    """Messages a second, as commands show them, with thin groups of thousands."""
    return f"{_thin(rate_shown(per_s, '0'))}/s"


def _thin(figures: str) -> str:
    return figures.replace(",", "\u202f")


def query(values: dict[str, Any]) -> str:
    """What follows the `?` of an address; what is empty is left out."""
    return urlencode({name: value for name, value in values.items() if value not in ("", None)})


def body(section: Browsed) -> tuple[str, str]:
    """How a body is shown, `json`, `text` or `hex`, and that."""
    shown = section.body
    whole = len(shown) == section.size
    try:
        text = shown.decode()
    except UnicodeDecodeError as error:
        # the last character may have been cut in two
        if whole or error.start < len(shown) - 3:
            return "hex", hexdump(shown[:HEX_BYTES])
        text = shown[: error.start].decode()
    if "json" in section.content_type.lower() and whole:
        indented = _indented(text)
        if indented is not None:
            return "json", indented
    if any(ord(each) < 32 and each not in "\t\r\n" for each in text):
        return "hex", hexdump(shown[:HEX_BYTES])
    return "text", text


def _indented(text: str) -> str | None:
    """None for what is no JSON, cannot be encoded, or is too long where it is indented."""
    room = JSON_CHARACTERS_MAX
    parts: list[str] = []
    try:
        for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(text)):
            part.encode()  # an escape may stand for half a character
            room -= len(part)
            if room < 0:
                return None
            parts.append(part)
    except (ValueError, RecursionError):
        return None
    return "".join(parts)


def hexdump(data: bytes) -> str:
    """Sixteen bytes a line, and what of them is ASCII."""
    lines = []
    for at in range(0, len(data), 16):
        line = data[at : at + 16]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in line)
        lines.append(f"{at:06x}  {line.hex(' '):<47}  {letters}")
    return "\n".join(lines)
