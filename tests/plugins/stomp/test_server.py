"""Heart-beats, silence, clients that do not read, and streams that break. Time is virtual."""

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from daemon.broker.session import BrokerSession
from daemon.frontend import Limits, SessionEvent
from plugins.stomp.codec import encode
from routing.errors import Refusal
from tests.support.patience import pass_time
from tests.support.site import BrokerSite
from tests.support.sockets import socket_pair
from tests.support.stomp import ConnectStomp, StompClient


async def test_the_server_sends_heart_beats_as_often_as_was_agreed(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await client.connect(heart_beat="0,2000")
    for _ in range(3):
        await pass_time(mock_clock, 2)
        assert await client.stream.receive_some(10) == b"\n"


async def test_what_is_sent_anyway_is_a_heart_beat_too(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await client.connect(heart_beat="0,2000")
    await client.subscribe("/topic/a")
    for _ in range(4):
        await pass_time(mock_clock, 1.5)
        await client.send("SEND", {"destination": "/topic/a"})
        await client.expect("MESSAGE")
    assert client.heart_beats == 0


@pytest.mark.parametrize("pair", [memory_stream_pair, socket_pair])
async def test_what_is_answered_with_nothing_keeps_no_heart_beat_back(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock, pair: Any
) -> None:
    """A SEND without a receipt is answered by the broker, but not to the client."""
    client, other = connect("1.2", pair=pair), connect("1.2", pair=pair)
    async with client.stream, other.stream:
        await client.connect(heart_beat="0,2000")
        await other.connect()
        for _ in range(8):
            await client.send("SEND", {"destination": "/queue/a", "persistent": "true"})
            await other.ask("SEND", {"destination": "/queue/a"})
            await pass_time(mock_clock, 1.5)
        await client.send("BEGIN", {"transaction": "t", "receipt": "r"})
        got = b""
        while b"\0" not in got:
            got += await client.stream.receive_some(100)
    assert got.startswith(b"\n\n\n\nRECEIPT")


async def test_silence_is_counted_from_the_last_that_came(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    """Two and a half intervals, though the wait for more had begun before it came."""
    client = connect()
    await client.connect(heart_beat="2000,0")
    await pass_time(mock_clock, 1)
    await client.raw(b"\n")
    began, ended = trio.current_time(), []

    async def watch() -> None:
        assert await client.stream.receive_some(100) == b""
        ended.append(trio.current_time() - began)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await pass_time(mock_clock, 4.9)
        assert not ended
        await pass_time(mock_clock, 0.2)
        assert ended == [pytest.approx(5, abs=0.11)]


async def test_no_more_heart_beats_are_agreed_to_than_the_server_allows(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await client.connect(heart_beat="0,1")
    await pass_time(mock_clock, 1)
    assert await client.stream.receive_some(10) == b"\n"


async def test_a_client_that_misses_its_heart_beats_is_dropped(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await client.connect(heart_beat="2000,0")
    await pass_time(mock_clock, 4.9)
    await client.ask("SEND", {"destination": "/queue/a"})
    await pass_time(mock_clock, 5.1)
    await client.expect_end()


async def test_a_client_that_beats_stays(connect: ConnectStomp, mock_clock: trio.testing.MockClock) -> None:
    client = connect()
    await client.connect(heart_beat="2000,0")
    for _ in range(5):
        await pass_time(mock_clock, 4)
        await client.raw(b"\n")
    await client.ask("SEND", {"destination": "/queue/a"})


async def test_without_heart_beats_a_client_may_be_silent_for_ever(
    ada: StompClient, mock_clock: trio.testing.MockClock
) -> None:
    await pass_time(mock_clock, 1_000_000)
    await ada.ask("SEND", {"destination": "/queue/a"})


async def test_a_client_of_1_0_is_told_of_no_heart_beats_and_has_none(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect("1.0")
    connected = await client.connect(heart_beat="2000,2000")
    assert "heart-beat" not in connected.headers
    await pass_time(mock_clock, 1_000)
    await client.ask("SEND", {"destination": "/queue/a"})
    assert client.heart_beats == 0


async def test_who_stops_within_a_frame_is_told_and_dropped_however_long_it_was_silent_between_frames(
    ada: StompClient, mock_clock: trio.testing.MockClock
) -> None:
    idle_s = Limits().idle_timeout_s
    await ada.send("SEND", {"destination": "/queue/a"})
    await pass_time(mock_clock, 3 * idle_s)
    await ada.raw(b"SEND\ndestination:/queue/a\n")
    await pass_time(mock_clock, idle_s - 1)
    await ada.raw(b"\nbody\0SEND\n")
    await pass_time(mock_clock, idle_s - 1)
    await ada.raw(b"destination:/queue/a\n")
    await pass_time(mock_clock, 1.1)
    await ada.refused(Refusal.NOT_AVAILABLE)
    await ada.expect_end()


async def test_a_client_that_does_not_log_in_is_told_and_dropped(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await client.raw(b"CONNECT\naccept-version:1.2\n")
    await pass_time(mock_clock, 15.1)
    await client.refused(Refusal.NOT_LOGGED_IN)


async def test_who_was_refused_a_login_hears_nothing_more(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await client.raw(b"CONNECT\naccept-version:1.2\n")
    await pass_time(mock_clock, 14)
    await client.raw(b"login:ada\npasscode:x\nheart-beat:x\n\n\0")
    await client.expect("ERROR", message=Refusal.BAD_HEADER)
    await pass_time(mock_clock, 3)
    await client.expect_end()


async def test_a_client_that_does_not_read_is_dropped_and_costs_nobody_else_anything(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    slow, quick = connect(pair=lockstep_stream_pair), connect()
    await slow.connect()
    await quick.connect()
    for client in (slow, quick):
        await client.subscribe("/topic/news")
    for number in range(3):
        await quick.send("SEND", {"destination": "/topic/news"}, b"%d" % number)
        assert (await quick.expect("MESSAGE")).body == b"%d" % number
    await pass_time(mock_clock, 60.1)
    with pytest.raises(trio.BrokenResourceError):
        await slow.send("SEND", {"destination": "/topic/news"})
    await quick.ask("SEND", {"destination": "/queue/a"})


async def test_a_client_that_does_not_read_is_not_read_from(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect(pair=lockstep_stream_pair)
    await client.connect()
    await client.send("BEGIN", {"transaction": "t", "receipt": "1"})
    with trio.move_on_after(1) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, "ABORT", {"transaction": "t", "receipt": "2"})
            await pass_time(mock_clock, 1)
    assert scope.cancelled_caught


class ReluctantSession:
    """A session whose events wait until they may come."""

    def __init__(self, session: BrokerSession) -> None:
        self.may_answer = trio.Event()
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def events(self) -> list[SessionEvent]:
        await self.may_answer.wait()
        return await self._session.events()


class TestUnanswered:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(unanswered_per_session_max=2)

    async def test_a_client_to_which_many_answers_are_owed_is_not_read_from(
        self, connect: ConnectStomp, site: BrokerSite, mock_clock: trio.testing.MockClock
    ) -> None:
        sessions = []

        def open_session(identity: Any, channel: str, **options: Any) -> Any:
            session = site.broker.open_session(identity, channel, **options)
            sessions.append(ReluctantSession(session))
            return sessions[-1]

        site.open_session = open_session  # type: ignore[method-assign]
        client, sent = connect(pair=lockstep_stream_pair), []
        await client.connect()

        async def send() -> None:
            for number in range(6):
                await client.send("SEND", {"destination": "/queue/a", "receipt": str(number)})
                sent.append(number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await pass_time(mock_clock, 1)
            assert sent == [0, 1]
            sessions[0].may_answer.set()
            answers = [(await client.expect("RECEIPT")).headers["receipt-id"] for _ in range(6)]
        assert answers == [str(number) for number in range(6)]

    async def test_of_what_came_together_no_more_is_carried_out_than_may_be_unanswered(
        self, connect: ConnectStomp, site: BrokerSite
    ) -> None:
        sessions, published = [], []

        class CountingSession(ReluctantSession):
            def publish(self, *arguments: Any, **options: Any) -> None:
                published.append(arguments)
                self._session.publish(*arguments, **options)

        def open_session(identity: Any, channel: str, **options: Any) -> Any:
            sessions.append(CountingSession(site.broker.open_session(identity, channel, **options)))
            return sessions[-1]

        site.open_session = open_session  # type: ignore[method-assign]
        client = connect()
        await client.connect()
        await client.raw(encode("SEND", {"destination": "/queue/a", "receipt": "r"}) * 6)
        await wait_all_tasks_blocked()
        assert len(published) == 2
        sessions[0].may_answer.set()
        for _ in range(6):
            await client.expect("RECEIPT")

    async def test_where_no_answer_comes_for_long_the_connection_ends(
        self, connect: ConnectStomp, site: BrokerSite, mock_clock: trio.testing.MockClock
    ) -> None:
        def open_session(identity: Any, channel: str, **options: Any) -> Any:
            return ReluctantSession(site.broker.open_session(identity, channel, **options))

        site.open_session = open_session  # type: ignore[method-assign]
        client = connect()
        await client.connect()
        for number in range(2):
            await client.send("SEND", {"destination": "/queue/a", "receipt": str(number)})
        await pass_time(mock_clock, 301)
        assert b"could answer nothing" in (await client.expect("ERROR")).body


async def test_after_the_last_frame_the_server_waits_for_the_client_to_close_but_not_for_ever(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await client.connect()
    await client.ask("DISCONNECT")
    await client.expect_end()
    await client.raw(b"SEND\ndestination:/queue/a\n\n\0")
    await pass_time(mock_clock, 2.1)
    with pytest.raises(trio.BrokenResourceError):
        await client.raw(b"\n")


async def test_a_stream_that_breaks_ends_the_session_and_frees_what_it_held(connect: ConnectStomp) -> None:
    first, second = connect(), connect()
    await first.connect()
    await first.subscribe("/queue/a", ack="client")
    await first.send("SEND", {"destination": "/queue/a", "persistent": "true"})
    await first.expect("MESSAGE")
    await first.stream.send_stream.aclose()
    await first.stream.receive_stream.aclose()
    await second.connect()
    await second.subscribe("/queue/a")
    await second.expect("MESSAGE", delivery_count="2")


async def test_a_frame_that_has_begun_has_to_go_on(
    connect: ConnectStomp, mock_clock: trio.testing.MockClock
) -> None:
    client = connect()
    await client.connect()
    await pass_time(mock_clock, 1_000)
    await client.raw(b"SEND\ndestination:/queue/a\ncontent-length:1000000\n\n")
    for _ in range(10):
        await client.raw(b"x")
        await pass_time(mock_clock, 29)
    await client.raw(b"x")
    await pass_time(mock_clock, 29)
    error = await client.refused("not-available")
    assert error.body == b"no complete frame for 300 s\n"


async def test_who_leaves_while_the_site_can_answer_nothing_is_let_go(
    connect: ConnectStomp, site: BrokerSite, mock_clock: trio.testing.MockClock
) -> None:
    def open_session(identity: Any, channel: str, **options: Any) -> Any:
        return ReluctantSession(site.broker.open_session(identity, channel, **options))

    site.open_session = open_session  # type: ignore[method-assign]
    client = connect()
    await client.connect()
    await client.send("SEND", {"destination": "/queue/a", "receipt": "1"})
    await client.send("DISCONNECT", {"receipt": "2"})
    await pass_time(mock_clock, 61)
    await client.expect("RECEIPT", receipt_id="2")
    await client.expect_end()
