"""Whatever arrives: each frame becomes a command or an error that a client can read, and nothing else."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.settings import Limits
from plugins.smqp import replies
from plugins.smqp.conversation import frame_limits
from plugins.smqp.incoming import read_refusal
from plugins.smqp.protocol import read_command, reply_key
from plugins.smqp.requests import Command
from routing.errors import FramingLost, HeaderRefusal, Refusal
from routing.frames import FrameReader
from tests.support.examples import examples
from tests.support.smqp_peer import frame, publish

LIMITS = frame_limits(Limits(frame_header_bytes_max=2_000, frame_headers_max=20, sections_max=3))
SCENES = (
    frame("PASS ada/desk two words", "Request: 1"),
    frame("SUBSCRIBE weather.oslo", "Credit: 5", "Accept: ONE", "Lock: 2.5", "Subscription: x"),
    publish("weather.oslo", "c1", "Priority: 3", "Timeout: 0.5", "X-Ø: ø"),
    frame("RECEIVED 5 17-40") + frame("COMMIT 5 17-40", "Request: 2"),
    frame("RETURN 5", "Reason: no", "Delay: 1"),
    frame("REMOVE t a/0193abcdef01-1-1") + frame("SET TOPIC TIMEOUT t INFINITE"),
    frame("CONNECTTO bob/desk [::1]:4711") + frame("PING") + frame("QUIT"),
)
PIECES = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b": ",
    b" ",
    b"\x00",
    b"\xff",
    b"\xc2\x85",
    b"-",
    b"99999999999999999999",
    b"Sections: 1\r\n",
    b"Content-Length: 3\r\n",
    b"Cmuid: 1\r\n",
    b"Request: \r\n",
    b"/",
    b"*",
    b"INF",
]
change = st.tuples(
    st.sampled_from(["replace", "insert", "delete", "repeat"]),
    st.integers(0, 400),
    st.sampled_from(PIECES) | st.binary(min_size=1, max_size=3),
)


def changed(data: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    for kind, at, piece in changes:
        at %= len(data) + 1
        if kind == "replace":
            data = data[:at] + piece + data[at + len(piece) :]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + len(piece) :]
        else:
            data = data[:at] + data[max(at - 30, 0) :]
    return data


def commands_and_errors(data: Any) -> Iterator[Any]:
    """What the server would make of it: commands, and the bytes of its errors."""
    reader = FrameReader(LIMITS)
    reader.feed(data)
    while True:
        taken = None
        try:
            taken = reader.take()
            if taken is None:
                return
            yield read_command(taken)
        except FramingLost as lost:
            yield lost, replies.error(("", ""), lost)
            return
        except Refusal as refusal:
            yield refusal, replies.error(reply_key(taken or reader.refused), refusal)


@settings(max_examples=examples(1_000), deadline=None)
@given(st.lists(st.sampled_from(SCENES), min_size=1, max_size=3), st.lists(change, min_size=1, max_size=5))
def test_each_frame_is_a_command_or_an_error_that_can_be_read(scenes: Any, changes: Any) -> None:
    for found in commands_and_errors(changed(b"".join(scenes), changes)):
        if isinstance(found, Command):
            assert found.word
            continue
        refusal, error = found
        reader = FrameReader(frame_limits(Limits()))
        reader.feed(error)
        read = reader.take()
        assert read is not None
        assert read.command == "ERROR"
        assert reader.take() is None
        again = read_refusal(read)
        assert again.code == refusal.code
        assert isinstance(again, HeaderRefusal) == isinstance(refusal, HeaderRefusal)
