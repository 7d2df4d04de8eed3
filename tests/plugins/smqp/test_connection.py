"""The lower half of the client, where several tasks of a program use one connection."""

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from plugins.smqp.connection import (
    PING_TIMEOUT_S,
    RECEIVE_BYTES,
    UNSENT_BYTES_MAX,
    ConnectionLost,
    FrameConnection,
)
from routing.frames import Frame, encode_frame
from routing.message import Section

SOON_S = 20.0  # of virtual time; before the first ping
MUCH = bytes(UNSENT_BYTES_MAX + 1)


async def test_all_who_wait_for_room_go_on_once_there_is_some(autojump_clock: MockClock) -> None:
    ours, theirs = lockstep_stream_pair()
    connection = FrameConnection(ours, lambda frame: None)
    async with trio.open_nursery() as running:
        running.start_soon(connection.run)
        with trio.fail_after(SOON_S):
            async with trio.open_nursery() as senders:
                for _ in range(3):
                    senders.start_soon(connection.send, MUCH)
                await wait_all_tasks_blocked()
                came = 0
                while came < 3 * len(MUCH):
                    came += len(await theirs.receive_some(RECEIVE_BYTES))
        running.cancel_scope.cancel()


async def test_all_who_wait_for_room_are_told_that_the_connection_has_ended(
    autojump_clock: MockClock,
) -> None:
    ours, theirs = lockstep_stream_pair()
    connection = FrameConnection(ours, lambda frame: None)
    reasons: list[str] = []

    async def send() -> None:
        with pytest.raises(ConnectionLost) as lost:
            await connection.send(MUCH)
        reasons.append(lost.value.reason)

    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            await connection.send(b"PING\r\n\r\n")
            await wait_all_tasks_blocked()  # this is on its way, and what comes now has to wait
            for _ in range(3):
                nursery.start_soon(send)
            await wait_all_tasks_blocked()
            await trio.aclose_forcefully(theirs)
    assert reasons == ["lost"] * 3


async def test_who_waits_is_told_that_the_program_itself_has_left_the_connection(
    autojump_clock: MockClock,
) -> None:
    ours, _theirs = lockstep_stream_pair()
    connection = FrameConnection(ours, lambda frame: None)
    reasons: list[str] = []

    async def ask() -> None:
        with pytest.raises(ConnectionLost) as lost:
            await connection.request("PING", "", [])
        reasons.append(lost.value.reason)

    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as asking, trio.open_nursery() as running:
            running.start_soon(connection.run)
            asking.start_soon(ask)
            await wait_all_tasks_blocked()
            running.cancel_scope.cancel()
    assert reasons == ["closed"]


SLOW_S = PING_TIMEOUT_S - 1  # for RECEIVE_BYTES
LATE_S = 3_600.0  # who waits longer waits for ever
PONG = b"PONG\r\nRequest: 1\r\n\r\n"


async def test_a_server_that_takes_a_large_message_slowly_is_not_silent(autojump_clock: MockClock) -> None:
    ours, theirs = lockstep_stream_pair()
    connection = FrameConnection(ours, lambda frame: None)
    connection.idle_s = 3.0
    with trio.fail_after(LATE_S):
        async with trio.open_nursery() as running:
            running.start_soon(connection.run)
            running.start_soon(connection.send, MUCH)
            came = 0
            while came < len(MUCH):
                await trio.sleep(SLOW_S)
                came += len(await theirs.receive_some(min(RECEIVE_BYTES, len(MUCH) - came)))
            assert b"PING" in await theirs.receive_some(RECEIVE_BYTES)
            await theirs.send_all(PONG)
            await wait_all_tasks_blocked()
            connection.check()
            running.cancel_scope.cancel()


async def test_a_server_that_takes_no_more_of_a_large_message_is_silent(autojump_clock: MockClock) -> None:
    ours, theirs = lockstep_stream_pair()
    connection = FrameConnection(ours, lambda frame: None)
    connection.idle_s = 3.0
    with trio.fail_after(LATE_S):
        async with trio.open_nursery() as running:
            running.start_soon(connection.run)
            running.start_soon(connection.send, MUCH)
            await trio.sleep(SLOW_S)
            await theirs.receive_some(RECEIVE_BYTES)
            taken_at = trio.current_time()
            await connection.lost.wait()
            assert trio.current_time() - taken_at == pytest.approx(PING_TIMEOUT_S)
    with pytest.raises(ConnectionLost, match="silent"):
        connection.check()


async def test_a_server_whose_large_message_comes_slowly_is_not_silent(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    came: list[Frame] = []
    connection = FrameConnection(ours, came.append)
    connection.idle_s = 3.0
    data = encode_frame(Frame("MESSAGE", "t", [], (Section("text/plain", MUCH),)))
    with trio.fail_after(LATE_S):
        async with trio.open_nursery() as running:
            running.start_soon(connection.run)
            for at in range(0, len(data), RECEIVE_BYTES):
                await trio.sleep(SLOW_S)
                await theirs.send_all(data[at : at + RECEIVE_BYTES])
            await theirs.send_all(PONG)
            await wait_all_tasks_blocked()
            connection.check()
            assert [frame.sections[0].body for frame in came] == [MUCH]
            running.cancel_scope.cancel()


async def test_what_comes_may_have_more_headers_than_a_client_may_send(autojump_clock: MockClock) -> None:
    """As an item of XMPP, in which each of 64 sections may have as many as a frame."""
    ours, theirs = memory_stream_pair()
    came: list[Frame] = []
    connection = FrameConnection(ours, came.append)
    headers = tuple((f"X-{number}", "x" * 300) for number in range(200))
    sent = Frame("MESSAGE", "t", [], (Section("text/plain", b"hello", headers),) * 64)
    async with trio.open_nursery() as running:
        running.start_soon(connection.run)
        await theirs.send_all(encode_frame(sent))
        await wait_all_tasks_blocked()
        assert came == [sent]
        running.cancel_scope.cancel()
