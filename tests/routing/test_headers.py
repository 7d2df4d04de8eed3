from typing import Any

import pytest

from routing.errors import HeaderRefusal
from routing.headers import (
    HEADER_RULES,
    is_reserved,
    parse_headers,
    read_seconds,
    write_headers,
    write_seconds,
)
from routing.message import INFINITE, Message


def read(*lines: Any) -> Any:
    return Message(**parse_headers([tuple(line.split(": ", 1)) for line in lines]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Name: New Release", Message(name="New Release")),
        ('Name: New Release; charset="iso-8859-4"', Message(name="New Release", charset="iso-8859-4")),
        ("Name: a; b; charset=utf-8", Message(name="a; b", charset="utf-8")),
        ("Name: a; charset=", Message(name="a; charset=")),
        ("Priority: 10", Message(priority=10)),
        ("Pri: 10", Message(priority=10)),
        ("PRIORITY:  10 ".replace(":  ", ": "), Message(priority=10)),
        ("Created: 2026-11-21T10:00:00Z", Message(created="2026-11-21T10:00:00Z")),
        ("Created: 2026-11-21T10:00:00.123456789Z", Message(created="2026-11-21T10:00:00.123456789Z")),
        ("Created: 2026-11-21T10:00:00.5+00:00", Message(created="2026-11-21T10:00:00.5+00:00")),
        ("Created: 2026-11-21T10:00:00.5 GMT", Message(created="2026-11-21T10:00:00.5 GMT")),
        ("Receipt: all", Message(receipt="ALL")),
        ("Reply: Yes", Message(reply=True)),
        ("Timeout: 0.25", Message(timeout_s=0.25)),
        ("Timeout: INF", Message(timeout_s=INFINITE)),
        ("timeout: infinite", Message(timeout_s=INFINITE)),
        ("Depth: -1", Message(depth=-1)),
        ("Sequence: 007", Message(sequence=7)),
        ("Seq: 7", Message(sequence=7)),
        ("Guarantee: NO", Message(guarantee=False)),
        ("Guar: no", Message(guarantee=False)),
        ("Delivery: ONE", Message(delivery="ONE")),
        ("Hops: smqp.net,host.com,smqp.org:1232", Message(hops=("smqp.net", "host.com", "smqp.org:1232"))),
        ("Hops: smqp.net, host.com", Message(hops=("smqp.net", "host.com"))),
        ("MIME-Version: 1.0", Message(mime_version="1.0")),
        ("Smuid: a/0193abcdef01-1-1", Message(smuid="a/0193abcdef01-1-1")),
        ("Cmuid: 17", Message(cmuid="17")),
        ("Account: ada:desk@a", Message(account="ada:desk@a")),
        ("X-Mine:  two spaces ".replace(":  ", ": "), Message(others=(("X-Mine", "two spaces "),))),
    ],
)
def test_a_header_is_read(line: Any, message: Any) -> None:
    assert read(line) == message


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Name", "x" * 129),
        ("Priority", "0"),
        ("Priority", "1.5"),
        ("Priority", "+1"),
        ("Priority", "٣"),
        ("Priority", "2147483648"),
        ("Priority", ""),
        ("Created", "yesterday"),
        ("Created", "2026-11-21"),
        ("Created", "2026-11-21T10:00:00"),
        ("Created", "2026-11-21T10:00:00+01:00"),
        ("Created", "2026-02-29T10:00:00Z"),
        ("Created", "2026-11-21T25:00:00Z"),
        ("Created", "2026-11-21 10:00:00Z"),
        ("Receipt", "SOME"),
        ("Reply", "1"),
        ("Timeout", "-1"),
        ("Timeout", "1e3"),
        ("Timeout", "nan"),
        ("Depth", "-2"),
        ("Depth", "--1"),
        ("Sequence", "0"),
        ("Guarantee", "TRUE"),
        ("Delivery", "NONE"),
        ("Hops", "a,,b"),
        ("Hops", "a b"),
        ("MIME-Version", "1"),
        ("Smuid", "a/b"),
        ("Cmuid", "a b"),
        ("Account", "ada"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused_by_name_value_and_expectation(
    header: Any, value: Any
) -> None:
    with pytest.raises(HeaderRefusal) as refusal:
        read(f"{header}: {value}")
    assert (refusal.value.header, refusal.value.value) == (header, value)
    assert refusal.value.expected
    assert header in refusal.value.text


@pytest.mark.parametrize("rule", HEADER_RULES, ids=lambda rule: rule.names[0])
def test_a_known_header_comes_once_under_all_its_names(rule: Any) -> None:
    good = {
        "smuid": "a/0193abcdef01-1-1",
        "account": "ada:desk@a",
        "created": "2026-11-21T10:00:00Z",
        "hops": "a",
        "receipt": "ONE",
        "delivery": "ONE",
        "reply": "YES",
        "guarantee": "NO",
        "ends_group": "YES",
        "mime_version": "1.0",
    }.get(rule.field, "1")
    for name in rule.names:
        with pytest.raises(HeaderRefusal) as refusal:
            read(f"{rule.names[0]}: {good}", f"{name.lower()}: {good}")
        assert refusal.value.header == name.lower()


@pytest.mark.parametrize("rule", HEADER_RULES, ids=lambda rule: rule.names[0])
def test_what_the_table_says_of_an_absent_header_is_the_default_of_a_message(rule: Any) -> None:
    assert rule.field in Message.__struct_fields__
    assert not any(line.startswith(rule.names[0]) for line in write_headers(Message()))


def test_unknown_headers_are_carried_unchanged_and_in_order_even_when_repeated() -> None:
    others = (("X-B", " 1"), ("x-a", "2 "), ("X-B", ""))
    message = Message(**parse_headers([("X-B", " 1"), ("Priority", "1"), ("x-a", "2 "), ("X-B", "")]))
    assert message.others == others
    assert write_headers(message)[1:] == ["X-B:  1", "x-a: 2 ", "X-B: "]


@pytest.mark.parametrize("name", ["priority", "Seq", "SECTIONS", "Content-Type", "content-anything"])
def test_no_unknown_header_can_pose_as_one_of_smqp(name: Any) -> None:
    assert is_reserved(name)
    with pytest.raises(HeaderRefusal):
        write_headers(Message(others=((name, "1"),)))


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ø", "x" * 129, "a\r\nb"])
def test_no_header_is_written_under_a_name_that_cannot_be_read(name: Any) -> None:
    with pytest.raises(HeaderRefusal):
        write_headers(Message(others=((name, "1"),)))


@pytest.mark.parametrize("message", [Message(name="x" * 129), Message(name='a; charset="b"')])
def test_a_name_that_would_be_read_as_another_is_not_written(message: Any) -> None:
    with pytest.raises(HeaderRefusal, match="Name"):
        write_headers(message)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 0.25, 1e-9, 86400.5, 4_999_999_999.999, INFINITE])
def test_seconds_are_written_as_they_are_read(seconds: float) -> None:
    assert read_seconds(write_seconds(seconds)) == seconds
    assert "e" not in write_seconds(seconds)
