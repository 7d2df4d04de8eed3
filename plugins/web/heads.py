"""What a head over HTTP/2 may take of who is nobody yet, where h2 and hpack bound only the headers in it."""

from collections.abc import Iterable
from typing import Any, Final

from h2.exceptions import DenialOfServiceError
from h2.frame_buffer import FrameBuffer
from hpack import Decoder, HPACKDecodingError
from hpack.struct import HeaderTuple

UPDATES_MAX: Final = 2
"""Changes of its table that a head may begin with: to the smallest size, and to the last (RFC 7541 4.2)."""

LENGTH_BYTES: Final = 3
"""At the beginning of a frame (RFC 9113 4.1)."""


class FramesBounded(FrameBuffer):
    """The frames of a client. A head is decoded only once its last frame has come, and is kept until then.

    Of a frame that says that it is too long nothing is kept.
    """

    def __init__(self, head_bytes_max: int) -> None:
        super().__init__(server=True)
        self._head_bytes_max = head_bytes_max

    def __next__(self) -> Any:
        if len(self._data) >= LENGTH_BYTES:
            self._validate_frame_length(int.from_bytes(self._data[:LENGTH_BYTES]))
        return super().__next__()

    def _update_header_buffer(self, f: Any) -> Any:
        if self._headers_buffer and f is not None:
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
