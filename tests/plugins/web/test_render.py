"""How bodies and numbers are shown."""

import json

import msgspec
import pytest

from daemon.frontend import Browsed
from plugins.web.render import body, hexdump, number, rate


def section(content_type: str, data: bytes, whole: int | None = None) -> Browsed:
    return Browsed(content_type=content_type, headers=(), size=whole or len(data), body=data)


DEEP = b"[" * 500 + b"1," * 500 + b"1" + b"]" * 500
"""JSON that is 500 times as long where it is indented."""


@pytest.mark.parametrize(
    ("given", "kind", "shown"),
    [
        (section("text/plain", b"a\nb"), "text", "a\nb"),
        (section("application/json", b'{"a":[1]}'), "json", '{\n  "a": [\n    1\n  ]\n}'),
        (section("application/json", b"{"), "text", "{"),
        (section("application/json", b"[" * 4_000), "text", "[" * 4_000),
        (section("application/json", DEEP), "text", DEEP.decode()),
        (section("application/json", b'["\\ud800"]'), "text", '["\\ud800"]'),
        (
            section("application/json", b"[" * 9 + b"]" * 9),
            "json",
            json.dumps(json.loads("[" * 9 + "]" * 9), indent=2),
        ),
        (section("application/xml", b"<a/>"), "text", "<a/>"),
        (section("text/plain", "é".encode()[:1], 100), "text", ""),
        (section("text/plain", b"\xff"), "hex", "000000  ff" + " " * 45 + "  ."),
        (section("text/plain", b"a\0"), "hex", hexdump(b"a\0")),
        (section("text/plain", b""), "text", ""),
    ],
)
def test_bodies_are_shown_as_what_they_are(given: Browsed, kind: str, shown: str) -> None:
    assert body(given) == (kind, shown)


def test_numbers_are_shown_for_people() -> None:
    assert number(1_234_567) == "1\u202f234\u202f567"
    assert (rate(0.0), rate(0.25), rate(12_345.6)) == ("0/s", "0.25/s", "12\u202f346/s")


def test_the_types_of_the_api_can_be_encoded() -> None:
    assert msgspec.json.encode(section("a/b", b"x"))
