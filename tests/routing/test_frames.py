from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from routing.errors import FramingLost, HeaderRefusal, Refusal
from routing.frames import (
    Frame,
    FrameLimits,
    FrameReader,
    check_message,
    decode_message,
    encode_frame,
    encode_head,
    encode_message,
    message_of,
)
from routing.message import Message, Section
from routing.sections import write_section_head
from tests.support.examples import examples
from tests.support.messages import messages
from tests.support.remembered import bytes_kept

LIMITS = FrameLimits(header_bytes_max=1000, headers_max=20, message_bytes_max=500, sections_max=3)
WIDE = FrameLimits(header_bytes_max=65_536, headers_max=200, message_bytes_max=2**24, sections_max=64)
PING = b"PING\r\n\r\n"


def frame(*lines: Any, body: bytes = b"") -> Any:
    return "\r\n".join((*lines, "", "")).encode() + body


def outcomes(*arrivals: Any, limits: Any = LIMITS) -> Any:
    """All frames and refusals that the arrivals give; "lost" ends it."""
    reader = FrameReader(limits)
    found: list[Any] = []
    for data in arrivals:
        reader.feed(data)
        while True:
            try:
                taken = reader.take()
            except FramingLost:
                return [*found, "lost"]
            except Refusal as refusal:
                found.append((refusal.code, refusal.text))
                continue
            if taken is None:
                break
            found.append(taken)
    return found


def all_ways(data: Any, limits: Any = LIMITS) -> Any:
    """The outcome of `data`, the same whole, byte by byte, and with something in front and behind."""
    whole = outcomes(data, limits=limits)
    assert outcomes(*(data[at : at + 1] for at in range(len(data))), limits=limits) == whole
    assert outcomes(data[: len(data) // 2], data[len(data) // 2 :], limits=limits) == whole
    if whole[-1:] != ["lost"]:
        assert outcomes(PING + data + PING, limits=limits) == [Frame("PING"), *whole, Frame("PING")]
    return whole


def test_a_start_line_alone() -> None:
    assert all_ways(b"PING\r\n\r\n") == [Frame("PING")]
    assert all_ways(b"pass ada/desk  two words \r\n\r\n") == [Frame("PASS", "ada/desk  two words ")]


def test_attributes_in_order_with_at_most_one_space_taken_away() -> None:
    assert all_ways(frame("A b", "X:1", "Y: 2", "Z:  3 ", "X: 4", "Priority: 5")) == [
        Frame("A", "b", [("X", "1"), ("Y", "2"), ("Z", " 3 "), ("X", "4"), ("Priority", "5")])
    ]


def test_sections_byte_for_byte() -> None:
    data = (
        frame("PUBLISH t", "Sections: 2")
        + frame("Content-Type: text/plain", "Content-Length: 4", "Content-ID: one", body=b"\r\n\r\n")
        + frame("content-length: 0", "content-type: a/b")
    )
    assert all_ways(data) == [
        Frame(
            "PUBLISH",
            "t",
            [],
            (Section("text/plain", b"\r\n\r\n", (("Content-ID", "one"),)), Section("a/b", b"")),
        )
    ]


@pytest.mark.parametrize("secret", ["sec\x01ret", "sec: \nret", "sec\udce9ret"])
def test_a_start_line_that_cannot_be_written_is_not_quoted(secret: str) -> None:
    with pytest.raises(Refusal) as refusal:
        encode_frame(Frame("PASS", f"ada {secret}", [("Request", "1")]))
    assert "sec" not in refusal.value.text
    assert refusal.value.__context__ is None


def test_empty_lines_in_front_of_a_frame_are_passed_over() -> None:
    assert all_ways(b"\r\n\r\n\r\nPING\r\n\r\n\r\n") == [Frame("PING")]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("no colon", "no colon"),
        ("two words: 1", "two words"),
        (": 1", ""),
        ("X: a\x00b", "X"),
        ("X: a\x1bb", "X"),
    ],
)
def test_a_line_that_cannot_be_read_costs_its_frame_and_no_more(line: Any, names: Any) -> None:
    data = frame("PUBLISH t", line, "Cmuid: 7", "Sections: 1") + frame(
        "Content-Type: a/b", "Content-Length: 3", body=b"abc"
    )
    assert [code for code, _ in all_ways(data)] == [Refusal.BAD_HEADER]
    reader = FrameReader(LIMITS)
    reader.feed(data)
    with pytest.raises(HeaderRefusal) as refusal:
        reader.take()
    assert refusal.value.header == names
    assert reader.refused == Frame("PUBLISH", "t", [("Cmuid", "7")])


def test_bytes_that_are_not_utf_8_cost_their_frame_and_no_more() -> None:
    assert [code for code, _ in all_ways(b"A\r\nX: \xff\r\n\r\n")] == [Refusal.BAD_HEADER]
    assert [code for code, _ in all_ways(b"A\xff\r\n\r\n")] == [Refusal.BAD_FRAME]


@pytest.mark.parametrize(
    "head",
    [
        ["Content-Length: 3"],
        ["Content-Type: nonsense", "Content-Length: 3"],
        ["Content-Type: a/b", "Content-Type: a/b", "Content-Length: 3"],
        ["Content-Type: a/b", "Content-Length: 3", "Content-Encoding: ,"],
        ["Content-Type: a/b", "Content-Length: 3", "Content-Encryption: rot13"],
        ["Content-Type: a/b", "Content-Length: 3", "what"],
    ],
)
def test_a_section_that_cannot_be_read_costs_its_frame_and_no_more(head: Any) -> None:
    data = frame("PUBLISH t", "Sections: 2") + frame("Content-Type: a/b", "Content-Length: 1", body=b"x")
    assert [code for code, _ in all_ways(data + frame(*head, body=b"abc"))] == [Refusal.BAD_HEADER]


@pytest.mark.parametrize(
    "data",
    [
        b"PING\n\n",
        b"PING\nX: 1\r\n\r\n",
        b"PING\rX: 1\r\n\r\n",
        frame("PUBLISH t", "Sections: one"),
        frame("PUBLISH t", "Sections: -1"),
        frame("PUBLISH t", "Sections: 1", "sections: 1"),
        frame("PUBLISH t", "Sections 1"),
        frame("PUBLISH t", " Sections: 1"),
        frame("PUBLISH t", "Content-Length: 5", body=b"hello"),
        frame("PUBLISH t", "Sections: 1") + frame("Content-Type: a/b"),
        frame("PUBLISH t", "Sections: 1") + frame("Content-Type: a/b", "Content-Length: x"),
        frame("PUBLISH t", "Sections: 1") + frame("Content-Type: a/b", *["Content-Length: 1"] * 2),
        frame("PUBLISH t", "Sections: 1") + b"\r\n",
        frame("A", "X: " + "x" * 1000),
        b"A" * 1004,
    ],
)
def test_framing_is_lost_where_the_end_of_a_frame_is_not_known(data: bytes) -> None:
    assert all_ways(data + PING + PING) == ["lost"]


def test_too_much_is_refused_and_passed_over_without_being_kept() -> None:
    section = frame("Content-Type: a/b", "Content-Length: 300", body=b"x" * 300)
    assert [code for code, _ in all_ways(frame("A", "Sections: 2") + section * 2)] == [Refusal.TOO_LARGE]
    assert [code for code, _ in all_ways(frame("A", "Sections: 4") + section * 4)] == [Refusal.TOO_MANY]
    assert [code for code, _ in all_ways(frame("A", *["X: 1"] * 21))] == [Refusal.TOO_MANY]
    reader = FrameReader(LIMITS)
    reader.feed(frame("A", "Sections: 1") + frame("Content-Type: a/b", "Content-Length: 999999999"))
    assert reader.take() is None
    for _ in range(100):
        reader.feed(b"x" * 65536)
        assert reader.take() is None
        assert reader.buffered == 0


def test_a_body_that_comes_in_small_pieces_takes_no_more_than_one_that_comes_in_great_ones() -> None:
    reader = FrameReader(WIDE)
    reader.feed(frame("A", "Sections: 1") + frame("Content-Type: a/b", "Content-Length: 1000000"))

    def send(number: int) -> None:
        reader.feed(number.to_bytes(2))
        assert reader.take() is None

    assert bytes_kept(send, times=20_000) < 2 * 40_000


def test_limits_are_kept_to_the_byte() -> None:
    assert outcomes(b"A" * 1000 + b"\r\n\r\n") == [Frame("A" * 1000)]
    assert all_ways(b"A" * 1000 + b"\r\n\r\n") == [Frame("A" * 1000)]
    assert all_ways(b"A" * 1001 + b"\r\n\r\n") == ["lost"]
    whole = frame("A", "Sections: 1") + frame("Content-Type: a/b", "Content-Length: 500", body=b"x" * 500)
    assert all_ways(whole) == [Frame("A", "", [], (Section("a/b", b"x" * 500),))]


def test_header_lines_of_sections_count_as_those_of_their_frame() -> None:
    section = frame("Content-Type: a/b", "Content-Length: 0", "X: 1", "X: 2")
    assert len(all_ways(frame("A", *["X: 1"] * 14, "Sections: 3") + section * 3)[0].sections) == 3
    many = frame("A", *["X: 1"] * 15, "Sections: 3") + section * 3
    assert all_ways(many) == [(Refusal.TOO_MANY, "more than 20 header lines")]


def test_header_bytes_of_sections_count_as_those_of_their_frame() -> None:
    lines = ("Content-Type: a/b", "Content-Length: 0")
    begun = [frame("A", "Sections: 2"), frame(*lines)]
    left = LIMITS.header_bytes_max - sum(len(part) - len("\r\n\r\n") for part in begun)
    room = left - len("\r\n".join((*lines, "X: ")))
    ends = [frame(*lines, "X: " + "x" * length) for length in (room, room + 1)]
    assert len(all_ways(b"".join((*begun, ends[0])))[0].sections) == 2
    too_long = (Refusal.TOO_LARGE, "the header lines are longer than 1000 bytes")
    assert all_ways(b"".join((*begun, ends[1]))) == [too_long]


def test_header_lines_of_a_frame_that_is_not_whole_are_held_too() -> None:
    reader = FrameReader(LIMITS)
    reader.feed(
        frame("A", "X: " + "x" * 200, "Sections: 2") + frame("Content-Type: a/b", "Content-Length: 0")
    )
    assert reader.take() is None
    assert reader.unfinished_bytes > 200


@given(messages)
def test_a_message_is_read_as_it_was_written(message: Any) -> None:
    wire = encode_message(message)
    assert decode_message(wire) == message
    assert encode_message(decode_message(wire)) == wire
    delivery = b"MESSAGE t\r\nId: 5\r\n" + wire
    (taken,) = outcomes(delivery, limits=WIDE)
    del taken.headers[0]
    assert message_of(taken) == message
    bytewise = outcomes(*(delivery[at : at + 1] for at in range(len(delivery))), limits=WIDE)
    assert bytewise[0].sections == message.sections


@given(messages)
def test_a_head_that_was_encoded_before_its_server_took_it_makes_the_same_wire(message: Any) -> None:
    published = msgspec.structs.replace(message, smuid="", account="", hops=())
    head = encode_head(published)
    assert encode_message(published) == b"".join((head, *wire_sections(published)))
    taken = msgspec.structs.replace(published, smuid="a.example/1-2-3", account="ada:desk@a.example")
    assert encode_message(taken, head) == encode_message(taken)


def wire_sections(message: Any) -> Any:
    return (part for section in message.sections for part in (write_section_head(section), section.body))


@given(messages, st.lists(st.integers(0, 4000), max_size=6).map(sorted))
def test_frames_are_the_same_however_the_bytes_are_split(message: Any, cuts: Any) -> None:
    publish = Frame("PUBLISH", "t", [("X-First", "1")], message.sections)
    data = encode_frame(publish) + b"MESSAGE t\r\n" + encode_message(message) + PING
    parts = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    found = outcomes(*parts, limits=WIDE)
    assert (found[0], len(found), found[2]) == (publish, 3, Frame("PING"))
    assert message_of(found[1]) == message


@given(messages, st.binary(min_size=1, max_size=4))
def test_a_wire_with_something_missing_or_added_is_refused(message: Any, more: Any) -> None:
    wire = encode_message(message)
    for damaged in (wire + more, wire[:-1]):
        with pytest.raises(Refusal):
            decode_message(damaged)


@pytest.mark.parametrize("bad", ["a\r\nX: 1", "a\nb", "a\rb", "a\x00", "a\x7f", "\ud800"])
def test_nothing_that_would_end_a_line_is_ever_written(bad: Any) -> None:
    section = Section("text/plain", b"")
    for message in (
        Message(name=bad),
        Message(cmuid=bad),
        Message(created=bad),
        Message(others=(("X", bad),)),
        Message(sections=(Section(f"text/plain; x={bad}", b""),)),
        Message(sections=(section, Section("text/plain", b"", (("Content-ID", bad),)))),
        Message(sections=(Section("text/plain", b"", (("Content-Length", "1"),)),)),
    ):
        for write in (encode_message, encode_head, check_message):
            with pytest.raises(HeaderRefusal):
                write(message)
    with pytest.raises(Refusal, match="the start line is not"):
        encode_frame(Frame("OK", bad))
    for written in (Frame("OK", "", [("Text", bad)]), Frame("OK", "", [(bad, "x")])):
        with pytest.raises(HeaderRefusal):
            encode_frame(written)


BASE = (
    PING
    + frame("PUBLISH t", "Created: 2026-11-21T10:00:00Z", "Cmuid: 7", "X: ø", "Sections: 2")
    + frame("Content-Type: text/plain", "Content-Length: 5", body=b"hello")
    + frame("Content-Type: a/b", "Content-Length: 2", "Content-ID: x", body=b"\r\n")
    + frame("COMMIT 5 17-40", "Request: 1")
)
mutation = st.tuples(
    st.sampled_from(["replace", "insert", "delete", "repeat"]),
    st.integers(0, len(BASE)),
    st.sampled_from([b"\r\n", b"\n", b"\r\n\r\n", b":", b" ", b"\x00", b"\xff", b"9", b"Sections: 1\r\n"])
    | st.binary(min_size=1, max_size=3),
)


def mutated(changes: Any) -> Any:
    data = BASE
    for kind, at, what in changes:
        if kind == "replace":
            data = data[:at] + what + data[at + len(what) :]
        elif kind == "insert":
            data = data[:at] + what + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + len(what) :]
        else:
            data = data[:at] + data[max(at - 20, 0) :]
    return data


@settings(max_examples=examples(1_000), deadline=None)
@given(st.lists(mutation, min_size=1, max_size=4))
def test_whatever_arrives_the_reader_gives_frames_or_refusals(changes: Any) -> None:
    for found in outcomes(mutated(changes)):
        if isinstance(found, Frame):
            try:
                again = encode_message(message_of(found))
            except Refusal:
                continue
            assert decode_message(again) == message_of(found)


def test_an_empty_line_without_carriage_returns_loses_the_framing_also_before_a_proper_one() -> None:
    data = b"PUBLISH t\r\nCmuid: 1\n\nCreated: x\r\n\r\n"
    assert outcomes(data) == outcomes(*(data[at : at + 1] for at in range(len(data)))) == ["lost"]


def test_an_empty_line_that_is_passed_over_is_no_part_of_what_follows() -> None:
    data = PING + b"\r\n\n"
    assert outcomes(*(data[at : at + 1] for at in range(len(data)))) == outcomes(data) == [Frame("PING")]
    assert all_ways(data + PING) == all_ways(data + b"\n") == [Frame("PING"), "lost"]
    assert all_ways(b"\r\n\nPING\r\n\r\n") == ["lost"]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(mutation, min_size=1, max_size=4))
@example([("insert", 0, b":"), ("insert", len(BASE), b"\n\r\n")])
def test_whatever_arrives_is_the_same_byte_by_byte(changes: Any) -> None:
    data = mutated(changes)
    assert outcomes(*(data[at : at + 1] for at in range(len(data)))) == outcomes(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_wire_or_refused(data: bytes) -> None:
    try:
        message = decode_message(data)
    except Refusal:
        return
    assert decode_message(encode_message(message)) == message
