"""What the settings of the other end may cost, on connections of links and of the page."""

from struct import pack

import h2.config
import h2.connection
import h2.settings
import pytest

from daemon.connections.http2 import TABLE_BYTES_MAX, bound
from tests.support.held_at_once import held_at_once

GET = ((":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a"))
KNOWN = [code.value for code in h2.settings.SettingCodes]


def settings_frames(settings: dict[int, int]) -> bytes:
    """So many that each fits into what a frame may have."""
    stated, frames = [pack(">HL", *each) for each in settings.items()], b""
    for start in range(0, len(stated), 2_000):
        body = b"".join(stated[start : start + 2_000])
        frames += len(body).to_bytes(3) + b"\4" + bytes(5) + body
    return frames


@pytest.fixture
def connection() -> h2.connection.H2Connection:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    bound(connection, 1_000)
    connection.initiate_connection()
    connection.receive_data(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    return connection


def test_how_much_of_a_body_has_still_to_come_is_told() -> None:
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    frames = bound(server, 1_000)
    client = h2.connection.H2Connection(h2.config.H2Configuration())
    client.initiate_connection()
    client.send_headers(1, [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a")])
    head = client.data_to_send()
    client.send_data(1, b"x" * 1_000)
    body = client.data_to_send()
    missing = []
    for piece in (head[:20], head[20:], body[:5], body[5:9], body[9:300], body[300:]):
        server.receive_data(piece)
        missing.append(frames.missing_of_data)
    assert missing == [0, 0, 0, 1_000, 709, 0]


def test_settings_that_nobody_knows_are_not_kept(connection: h2.connection.H2Connection) -> None:
    unknown = settings_frames({code: 1 for code in range(65_536) if code not in KNOWN})
    with held_at_once() as held:
        for start in range(0, len(unknown), 10_000):
            connection.receive_data(unknown[start : start + 10_000])
            connection.data_to_send()
    assert held.bytes < 5_000_000


def test_those_that_are_known_are_kept_to(connection: h2.connection.H2Connection) -> None:
    window, table = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE, h2.settings.SettingCodes.HEADER_TABLE_SIZE
    connection.receive_data(settings_frames({window: 7, table: 100}))
    assert connection.remote_settings.initial_window_size == 7
    assert connection.encoder.header_table_size == 100


def test_no_more_headers_of_ours_are_remembered_than_hpack_begins_with(
    connection: h2.connection.H2Connection,
) -> None:
    connection.receive_data(settings_frames({h2.settings.SettingCodes.HEADER_TABLE_SIZE: 2**32 - 1}))
    assert connection.encoder.header_table_size == TABLE_BYTES_MAX == 4_096


def test_a_head_says_of_changes_of_the_table_the_smallest_and_the_last(
    connection: h2.connection.H2Connection,
) -> None:
    """And so takes no longer for who has sent settings alone for a while."""
    table = h2.settings.SettingCodes.HEADER_TABLE_SIZE
    for number in range(1_000):
        connection.receive_data(settings_frames({table: 100 + number % 2}))
    client = h2.connection.H2Connection(h2.config.H2Configuration())
    client.initiate_connection()
    client.send_headers(1, [*GET], end_stream=True)
    settings_and_head = client.data_to_send().removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    connection.receive_data(settings_and_head)  # its settings are those of RFC 9113: 4,096
    connection.data_to_send()
    connection.send_headers(1, [(":status", "200")], end_stream=True)
    head = connection.data_to_send()[9:]
    assert head.hex() == "3f45" + "3fe11f" + "88"  # 100, 4,096, and the status 200
