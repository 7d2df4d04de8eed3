"""What HTTP/2 may take of who may be anybody, where h2 and hpack bound only the headers in a head."""

from collections.abc import Iterable
from typing import Any, Final

from h2.connection import H2Connection
from h2.exceptions import DenialOfServiceError
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes, Settings
from hpack import Decoder, Encoder, HPACKDecodingError
from hpack.struct import HeaderTuple
from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame, PushPromiseFrame

UPDATES_MAX: Final = 2
"""Changes of its table that a head may begin with: to the smallest size, and to the last (RFC 7541 4.2)."""

LENGTH_BYTES: Final = 3
"""At the beginning of a frame, before its type (RFC 9113 4.1)."""

FRAME_HEAD_BYTES: Final = 9
"""What comes before the payload of a frame."""

TABLE_BYTES_MAX: Final = 4_096
"""Of the headers of ours that the other end is to remember, and we with it; it may offer up to 4 GiB."""

KNOWN: Final = frozenset(SettingCodes)


def bound(connection: H2Connection, head_bytes_max: int) -> "FramesBounded":
    """Bound what comes on a connection, to which nothing has come yet. Returns what holds its frames.

    A head has at most so many bytes, as it comes and as HPACK counts its headers.
    """
    is_client = connection.config.client_side
    connection.incoming_buffer = frames = FramesBounded(head_bytes_max, from_client=not is_client)
    connection.decoder = UpdatesBounded(head_bytes_max)
    connection.encoder = ChangesJoined()
    connection.remote_settings = SettingsKnown(client=not is_client)
    return frames


class FramesBounded(FrameBuffer):
    """The frames that come. A head is decoded only once its last frame has come, and is kept until then.

    Of a frame that says that it is too long nothing is kept.
    """

    def __init__(self, head_bytes_max: int, *, from_client: bool) -> None:
        super().__init__(server=from_client)
        self._head_bytes_max = head_bytes_max

    def __next__(self) -> Any:
        if len(self._data) >= LENGTH_BYTES:
            self._validate_frame_length(int.from_bytes(self._data[:LENGTH_BYTES]))
        return super().__next__()

    @property
    def missing_of_data(self) -> int:
        """Bytes that have still to come of the frame that has begun, where that is of a body."""
        if len(self._data) < FRAME_HEAD_BYTES or self._data[LENGTH_BYTES] != DataFrame.type:
            return 0
        return FRAME_HEAD_BYTES + int.from_bytes(self._data[:LENGTH_BYTES]) - len(self._data)

    def _update_header_buffer(self, f: Any) -> Any:
        if isinstance(f, HeadersFrame | PushPromiseFrame | ContinuationFrame):
            head_bytes = sum(len(frame.data) for frame in self._headers_buffer) + f.body_len
            if head_bytes > self._head_bytes_max:
                raise DenialOfServiceError(f"a head larger than {self._head_bytes_max} bytes")
        return super()._update_header_buffer(f)


class UpdatesBounded(Decoder):
    """Decodes heads: what counts for no header is work, too."""

    def __init__(self, head_bytes_max: int) -> None:
        super().__init__(head_bytes_max)
        self._updates = 0

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        """See `hpack.Decoder`."""
        self._updates = 0
        return super().decode(data, raw)

    def _update_encoding_context(self, data: bytes | memoryview) -> int:
        self._updates += 1
        if self._updates > UPDATES_MAX:
            raise HPACKDecodingError(f"more than {UPDATES_MAX} updates of the size of its table")
        return super()._update_encoding_context(data)


class ChangesJoined(Encoder):
    """Encodes heads. However often the size of its table changes between two, a head says so twice at most.

    RFC 7541 4.2 asks for the smallest and the last. hpack says each, in a time that is quadratic in how many
    there are; and who sends settings alone has any number of them wait for the next head.
    """

    @property
    def header_table_size(self) -> int:
        """See `hpack.Encoder`."""
        return self.header_table.maxsize

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        self.header_table.maxsize = value
        if self.header_table.resized:
            self.table_size_changes = [min([*self.table_size_changes, value]), value]


class SettingsKnown(Settings):
    """What the other end states; of what nobody knows, which may be 65,000 settings, nothing is kept."""

    def __setitem__(self, key: SettingCodes | int, value: int) -> None:
        if key == SettingCodes.HEADER_TABLE_SIZE:
            value = min(value, TABLE_BYTES_MAX)
        if key in KNOWN:
            super().__setitem__(key, value)
