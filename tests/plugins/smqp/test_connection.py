"""The lower half of the client, where several tasks of a program use one connection."""

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, wait_all_tasks_blocked

from plugins.smqp.connection import RECEIVE_BYTES, UNSENT_BYTES_MAX, ConnectionLost, FrameConnection

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
