"""What the lanes say of a peer that does not know them."""

import h2.config
import h2.connection
import pytest

from daemon.link.lanes import LaneError, Lanes


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (b"/", "a request for '/', which is no lane"),
        ("/ü".encode() + b"x" * 100, f"a request for '/ü{'x' * 77}', which is no lane"),
    ],
)
def test_a_request_for_what_is_no_lane_is_quoted_as_people_write_it(path: bytes, said: str) -> None:
    stranger = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    stranger.initiate_connection()
    headers = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"beta"), (b":path", path)]
    stranger.send_headers(1, headers)
    with pytest.raises(LaneError) as error:
        Lanes(dialled=False, peer="alpha", now=0.0).receive(stranger.data_to_send(), 0.0)
    assert str(error.value) == said
