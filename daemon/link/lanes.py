"""HTTP/2 as a link uses it: three long-lived streams, the lanes, and nothing else. No I/O.

The site that dialled is the client and opens, in its first flight,

    POST https://NAME/link/control
    POST https://NAME/link/urgent
    POST https://NAME/link/bulk

each answered 200; then bytes flow in both directions of each until the connection ends. Each lane has its
own flow control window, and the window of the whole connection is their sum, so that a lane that is not
read holds up no other. A fourth stream, a reset, the end of a lane, trailers or a push end the connection:
no peer of ours does that. The reason for an end travels in GOAWAY's debug data, in words, and its kind in
the error code. Source: RFC 9113.
"""

import logging
from collections.abc import Mapping
from typing import Final, Literal

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import msgspec
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from daemon.connections.http2 import bound
from daemon.link.guard import FloodError, FrameGuard
from routing.link.units import Lane

FRAME_BYTES_MAX: Final = 65_536
WINDOW_BYTES: Final = {Lane.CONTROL: 1_048_576, Lane.URGENT: 1_048_576, Lane.BULK: 4_194_304}
HEADER_LIST_BYTES_MAX: Final = 4_096
QUOTED_BYTES_MAX: Final = 80
REASON_BYTES_MAX: Final = 400
_INITIAL_WINDOW_BYTES: Final = 1_048_576
_CONNECTION_WINDOW_BYTES: Final = 65_535  # what RFC 9113 gives a connection before any update

_PATHS: Final = {f"/link/{lane.name.lower()}".encode(): lane for lane in Lane}


logging.getLogger("hpack").setLevel(logging.INFO)  # it would log each header of each lane


class LaneData(msgspec.Struct, frozen=True):
    """Bytes of a lane; `flow_bytes` of its window are used until they are given back with `credit`."""

    lane: Lane
    data: bytes
    flow_bytes: int


ClosingKind = Literal["", "linked", "error"]
"""`linked`: there is a link already, which a peer of 0.1 says in words alone; `error`: a rule was broken."""

_CODES: Final[Mapping[ClosingKind, ErrorCodes]] = {
    "": ErrorCodes.NO_ERROR,
    "linked": ErrorCodes.CANCEL,
    "error": ErrorCodes.ENHANCE_YOUR_CALM,
}
_KINDS: Final[Mapping[int, ClosingKind]] = {int(code): kind for kind, code in _CODES.items()}


class PeerClosed(msgspec.Struct, frozen=True):
    """The peer ended the connection, and said why ("" if it did not)."""

    reason: str
    kind: ClosingKind = ""


LaneEvent = LaneData | PeerClosed


class LaneError(Exception):
    """The peer broke the rules of HTTP/2 or of this file; the connection must be closed."""


class Lanes:
    """One end of a connection: feed what arrives, take what is to be sent.

    Attributes:
        closed: whether either side has said GOAWAY, so that nothing more can be sent.
    """

    def __init__(self, *, dialled: bool, peer: str, now: float) -> None:
        """`peer` is the name of the other site, for the request."""
        self.closed = False
        self._outgoing = b""
        self._guard = FrameGuard(FRAME_BYTES_MAX, preface=not dialled, now=now)
        self._stream_of: dict[Lane, int] = {}
        self._lane_of: dict[int, Lane] = {}
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=dialled))
        self._http.local_settings = h2.settings.Settings(
            client=dialled,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.MAX_CONCURRENT_STREAMS: len(Lane),
                SettingCodes.INITIAL_WINDOW_SIZE: _INITIAL_WINDOW_BYTES,
                SettingCodes.MAX_FRAME_SIZE: FRAME_BYTES_MAX,
                SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_LIST_BYTES_MAX,
            },
        )
        self._http.max_inbound_frame_size = FRAME_BYTES_MAX
        bound(self._http, HEADER_LIST_BYTES_MAX)
        self._http.initiate_connection()
        self._http.increment_flow_control_window(sum(WINDOW_BYTES.values()) - _CONNECTION_WINDOW_BYTES)
        if dialled:
            for path, lane in _PATHS.items():
                stream = self._http.get_next_available_stream_id()
                self._http.send_headers(
                    stream,
                    [
                        (b":method", b"POST"),
                        (b":scheme", b"https"),
                        (b":authority", peer.encode()),
                        (b":path", path),
                    ],
                )
                self._open(lane, stream)

    def receive(self, data: bytes, now: float) -> list[LaneEvent]:
        """Take what has arrived. Raises LaneError."""
        try:
            self._guard.check(data, now)
            received = self._http.receive_data(data)
        except FloodError as flood:
            raise LaneError(str(flood)) from None
        except (h2.exceptions.ProtocolError, ValueError, IndexError, KeyError) as error:
            # Header blocks and frames that h2 cannot decode surface as any of these.
            raise LaneError(f"not HTTP/2: {error}") from None
        if any(isinstance(event, h2.events.ConnectionTerminated) for event in received):
            self.closed = True
        events: list[LaneEvent] = []
        for event in received:
            self._take(event, events)
        return events

    def credit(self, lane: Lane, flow_bytes: int) -> None:
        """Let the peer send as many bytes more in the lane as have been consumed."""
        if not self.closed:
            self._http.acknowledge_received_data(flow_bytes, self._stream_of[lane])

    def capacity(self, lane: Lane) -> int:
        """Bytes that the lane can take now; 0 while it is not open."""
        stream = self._stream_of.get(lane)
        return 0 if stream is None else max(self._http.local_flow_control_window(stream), 0)

    def send(self, lane: Lane, data: memoryview) -> None:
        """Put bytes, at most `capacity`, into the lane."""
        stream = self._stream_of[lane]
        size = self._http.max_outbound_frame_size
        for start in range(0, len(data), size):
            self._http.send_data(stream, data[start : start + size])

    def close(self, reason: str, kind: ClosingKind = "") -> None:
        """Say why nothing more is said; only what `outgoing` still gives is sent after this."""
        self.closed = True
        try:
            self._http.close_connection(_CODES[kind], additional_data=reason.encode()[:REASON_BYTES_MAX])
        except h2.exceptions.ProtocolError:
            # After an error of the peer's h2 has already queued a GOAWAY of its own.
            return

    @property
    def has_outgoing(self) -> bool:
        """Whether `outgoing` would give anything."""
        self._outgoing += self._http.data_to_send()
        return bool(self._outgoing)

    def outgoing(self) -> bytes:
        """What is to be sent now."""
        data, self._outgoing = self._outgoing + self._http.data_to_send(), b""
        return data

    def _take(self, event: h2.events.Event, events: list[LaneEvent]) -> None:
        match event:
            case h2.events.DataReceived():
                lane = self._lane_of.get(event.stream_id)
                if lane is not None:
                    events.append(LaneData(lane, bytes(event.data), event.flow_controlled_length))
            case h2.events.RequestReceived() if not self.closed:
                self._accept(event)
            case h2.events.ResponseReceived():
                status = dict(event.headers).get(b":status", b"")
                if status != b"200":
                    raise LaneError(f"a lane was answered {_quoted(status)}")
            case h2.events.ConnectionTerminated():
                kind = _KINDS.get(int(event.error_code or 0), "error")
                events.append(PeerClosed(_reason(event), kind))
            case h2.events.StreamReset() if not self.closed:  # else the reason stands in its GOAWAY
                if event.remote_reset:
                    raise LaneError("the peer reset a stream")
                raise LaneError(f"not HTTP/2: the peer broke the rules of a stream ({event.error_code})")
            case h2.events.StreamEnded() | h2.events.TrailersReceived():
                raise LaneError("the peer ended a lane")

    def _accept(self, event: h2.events.RequestReceived) -> None:
        headers = dict(event.headers)
        path = headers.get(b":path", b"")
        lane = _PATHS.get(path)
        if lane is None or headers.get(b":method") != b"POST":
            raise LaneError(f"a request for {_quoted(path)}, which is no lane")
        if lane in self._stream_of:
            raise LaneError(f"a second request for {_quoted(path)}")
        self._http.send_headers(event.stream_id, [(b":status", b"200")])
        self._open(lane, event.stream_id)

    def _open(self, lane: Lane, stream: int) -> None:
        self._stream_of[lane] = stream
        self._lane_of[stream] = lane
        more = WINDOW_BYTES[lane] - _INITIAL_WINDOW_BYTES
        if more > 0:
            self._http.increment_flow_control_window(more, stream)


def _quoted(value: bytes) -> str:
    """What a peer said, for a log and for the peer."""
    return repr(value[:QUOTED_BYTES_MAX].decode(errors="replace"))


def _reason(event: h2.events.ConnectionTerminated) -> str:
    text = (event.additional_data or b"")[:REASON_BYTES_MAX].decode(errors="replace")
    if not text and event.error_code != ErrorCodes.NO_ERROR:
        return f"HTTP/2 error {int(event.error_code or 0)}"
    return text
