"""Misuse of HTTP/2 ends the link of who does it, and says why."""

import logging

import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from trio.testing import MockClock

from daemon.link.guard import PREFACE, FloodError, FrameGuard
from tests.support.links import Puppet, TestSite
from tests.support.played_peer import CONTROL_STREAM, wire

FLOODS = {
    "settings": (wire(SettingsFrame(0, settings={4: 1_048_576}), 300), "a flood of SETTINGS frames"),
    "pings": (wire(PingFrame(0, b"12345678"), 300), "a flood of PING frames"),
    "priorities": (wire(PriorityFrame(CONTROL_STREAM, depends_on=3), 300), "a flood of PRIORITY frames"),
    "resets of streams that are idle or gone": (
        wire(RstStreamFrame(9), 300),
        "flood of RST_STREAM|not HTTP/2",
    ),
    "tiny data": (wire(DataFrame(CONTROL_STREAM, b"\r\n"), 4_000), "a flood of tiny DATA frames"),
    "empty data": (wire(DataFrame(CONTROL_STREAM, b""), 4_000), "a flood of tiny DATA frames"),
    "windows a byte at a time": (
        wire(WindowUpdateFrame(CONTROL_STREAM, window_increment=1), 6_000),
        "a flood of WINDOW_UPDATE frames",
    ),
    "continuations": (
        wire(HeadersFrame(7, b"\x00")) + wire(ContinuationFrame(7, b"\x00" * 10), 300),
        "a flood of CONTINUATION frames",
    ),
    "unknown frames": (b"\x00\x00\x00\xfa\x00\x00\x00\x00\x00" * 300, "a flood of unknown frames"),
    "an oversized frame": (b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", "a frame of 16777215 bytes"),
    "a window beyond its bound": (
        wire(WindowUpdateFrame(CONTROL_STREAM, window_increment=2**31 - 1)),
        "not HTTP/2",
    ),
    "a window of nothing": (wire(WindowUpdateFrame(CONTROL_STREAM, window_increment=0)), "not HTTP/2"),
    "a setting out of bounds": (wire(SettingsFrame(0, settings={5: 1})), "not HTTP/2"),
    "a push": (wire(PushPromiseFrame(CONTROL_STREAM, 2, b"\x82", flags=["END_HEADERS"])), "not HTTP/2"),
    "a reset of a lane": (wire(RstStreamFrame(CONTROL_STREAM)), "the peer reset a stream"),
    "the end of a lane": (
        wire(DataFrame(CONTROL_STREAM, b"", flags=["END_STREAM"])),
        "the peer ended a lane",
    ),
    "a fourth stream": (
        wire(HeadersFrame(7, bytes.fromhex("8387418b00"), flags=["END_HEADERS"])),
        "not HTTP/2",
    ),
    "headers that grow when they are unpacked": (
        wire(HeadersFrame(7, Encoder().encode([("x", "y" * 3_900)] * 500), flags=["END_HEADERS"])),
        "not HTTP/2",
    ),
    "headers that are more than was told": (
        wire(HeadersFrame(CONTROL_STREAM, Encoder().encode([("x", "y" * 1_000)] * 5), flags=["END_HEADERS"])),
        "A header list larger than 4096",
    ),
    "a head that is larger than was told, as it comes": (
        wire(HeadersFrame(CONTROL_STREAM, b" " * 5_000, flags=["END_HEADERS"])),
        "not HTTP/2: a head larger than 4096 bytes",
    ),
    "a head whose end does not come": (
        wire(HeadersFrame(CONTROL_STREAM, b" " * 4_000)) + wire(ContinuationFrame(CONTROL_STREAM, b" " * 97)),
        "not HTTP/2: a head larger than 4096 bytes",
    ),
    "a head of changes of its table": (
        wire(HeadersFrame(CONTROL_STREAM, b" " * 1_000, flags=["END_HEADERS"])),
        "more than 2 updates of the size of its table",
    ),
    "data on no stream": (wire(DataFrame(99, b"x")), "not HTTP/2"),
    "a ping of four bytes": (b"\x00\x00\x04\x06\x00\x00\x00\x00\x00ping", "not HTTP/2"),
}


@pytest.mark.parametrize("attack", FLOODS)
async def test_misuse_of_http2_ends_the_link_of_who_does_it(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, attack: str
) -> None:
    data, reason = FLOODS[attack]
    await zeta.say_raw(data)
    await alpha.broker.until(lambda: any(line.startswith("down zeta") for line in alpha.log))
    [line] = [line for line in alpha.log if line.startswith("down zeta")]
    assert any(one in line for one in reason.split("|")), line
    await zeta.until(lambda: zeta.closed is not None)
    assert line.removeprefix("down zeta: ") in str(zeta.closed)


async def test_rapid_reset_is_a_flood(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    header = bytes.fromhex("8387418b00")
    await zeta.say_raw(
        b"".join(
            wire(HeadersFrame(number, header, flags=["END_HEADERS"])) + wire(RstStreamFrame(number))
            for number in range(7, 207, 2)
        )
    )
    await alpha.broker.until(lambda: any(line.startswith("down zeta") for line in alpha.log))
    assert "link with zeta is down: a flood of RST_STREAM frames" in caplog.text


async def test_a_peer_that_goes_away_says_why(
    autojump_clock: MockClock, alpha: TestSite, zeta: Puppet
) -> None:
    await zeta.say_raw(wire(GoAwayFrame(0, additional_data=b"moving house")))
    await alpha.broker.until(lambda: "down zeta: it says: moving house" in alpha.log)


def test_an_honest_rate_is_never_taken_for_a_flood() -> None:
    guard = FrameGuard(65_536, preface=False, now=0.0)
    acknowledgement = wire(DataFrame(CONTROL_STREAM, b"x" * 90))
    message = wire(DataFrame(5, b"x" * 1_200))
    for second in range(60):
        guard.check(acknowledgement * 5_000 + message * 5_000, float(second))
        guard.check(wire(WindowUpdateFrame(5, window_increment=1), 100), float(second))
        guard.check(wire(PingFrame(0, b"12345678"), 2), float(second))


def test_the_guard_sees_the_same_frames_however_the_bytes_are_split() -> None:
    ping = wire(PingFrame(0, b"12345678"))
    data = PREFACE + ping * 200
    whole = FrameGuard(65_536, preface=True, now=0.0)
    whole.check(data, 0.0)
    split = FrameGuard(65_536, preface=True, now=0.0)
    for position in range(0, len(data), 5):
        split.check(data[position : position + 5], 0.0)
    for guard in (whole, split):
        with pytest.raises(FloodError, match="PING"):
            guard.check(ping, 0.0)
