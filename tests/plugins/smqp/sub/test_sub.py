"""`smqpd sub` over connections that end."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from daemon.frontend import SubscribeOptions
from daemon.terminal.failure import UNREACHABLE, Failure
from plugins.smqp.client import Client, LoginRefused
from plugins.smqp.connection import ConnectionLost
from plugins.smqp.standard_output import GRACE_S, StandardOutput
from plugins.smqp.sub import Wish, receive
from routing.errors import Refusal
from routing.message import Message, Section
from routing.quotas import Quotas
from tests.support.patience import pass_time, until
from tests.support.receiving import OutputFile, once_written, wish
from tests.support.site import BrokerSite


async def test_sub_goes_on_over_another_connection_and_says_so(
    server: Any, output: OutputFile, publish: Callable[..., Any]
) -> None:
    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive, server, "desk", wish(2), StandardOutput())
        await publish(b"one")
        await output.has_written()
        server.refuses = 1
        server.cut()
        await publish(b"two")
    assert output.written == b"one\ntwo\n"
    assert server.attempts == 3
    assert output.said.getvalue().splitlines() == [
        "smqpd: no connection: lost: the server closed the connection; trying again until there is one",
        "smqpd: connected again",
    ]


async def test_an_interrupt_leaves_time_to_read_what_is_being_written_and_no_more(
    server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: Any, mock_clock: Any
) -> None:
    text = b"x" * 1_000_000
    await publish(text)
    written_to = []  # closed at the end: a write that was left to itself may go on, into what has its number

    async def interrupted(reads_then: bool) -> bytes:
        """What is read of it after a pause, once `sub` was interrupted while it was writing."""
        reads, writes = os.pipe()
        written_to.append(writes)
        monkeypatch.setattr(output, "fileno", lambda: writes)
        interrupt, ended = trio.CancelScope(), trio.Event()

        async def run() -> None:
            with interrupt:
                await receive(server, "desk", wish(None), StandardOutput())
            ended.set()

        async with trio.open_nursery() as nursery, trio.lowlevel.FdStream(reads) as reader:
            nursery.start_soon(run)
            await trio.lowlevel.wait_readable(reads)
            interrupt.cancel()
            await pass_time(mock_clock, GRACE_S / 2)
            assert not ended.is_set()
            read = b""
            while reads_then and not read.endswith(b"\n"):
                read += await reader.receive_some()
            if not reads_then:
                await pass_time(mock_clock, GRACE_S / 2)
                assert ended.is_set()
        return read

    assert await interrupted(reads_then=False) == b""
    assert output.said.getvalue() == (
        "smqpd: standard output was not read on, and may end within a message; that is not committed\n"
    )
    assert await interrupted(reads_then=True) == text + b"\n"
    assert len(output.said.getvalue().splitlines()) == 1
    for writes in written_to:
        os.close(writes)


async def test_what_is_written_and_was_not_committed_is_not_written_again(
    server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    once_written(monkeypatch, output, b"one\n", server.cut)
    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive, server, "desk", wish(2), StandardOutput())
        await publish(b"one")
        await output.has_written()
        await publish(b"two")
    assert output.written == b"one\ntwo\n"


async def test_sub_goes_on_over_another_connection_where_its_session_is_to_end(
    site: BrokerSite, server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: Any
) -> None:
    """What it asks before BYE has come is refused."""

    def stop() -> None:
        site.broker.draining = True

    once_written(monkeypatch, output, b"one\n", stop)
    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive, server, "desk", wish(2), StandardOutput())
        await publish(b"one")
        await until(lambda: "trying again" in output.said.getvalue(), output.said)
        site.broker.draining = False
        await publish(b"two")
    assert output.written == b"one\ntwo\n"
    assert output.said.getvalue().splitlines() == [
        "smqpd: no connection: not-available: the site is stopping; trying again until there is one",
        "smqpd: connected again",
    ]


async def test_what_comes_again_after_something_new_is_not_written_again_either(
    server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(b"one")
    await publish(b"another", topic="u")
    take, later = Client.take, list[Any]()

    async def take_the_last_later(client: Any) -> Any:
        if later:
            return [later.pop()]
        *came, last = await take(client)
        if not came:
            return [last]
        later.append(last)
        return came

    def lose_both() -> None:
        monkeypatch.setattr(Client, "take", take_the_last_later)
        server.refuses = 1_000
        server.cut()

    once_written(monkeypatch, output, b"one\nanother\n", lose_both)
    async with trio.open_nursery() as receiving:
        receiving.start_soon(
            receive, server, "desk", Wish(("t", "u"), SubscribeOptions(), 4, None, "text"), StandardOutput()
        )
        await output.has_written()
        await publish(b"two")
        server.refuses = 0
        await until(lambda: output.written.endswith(b"two\n"), output)
        await publish(b"three")
    assert output.written == b"one\nanother\ntwo\nthree\n"


async def test_what_a_connection_took_with_it_is_no_message_of_the_count(
    server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = Client.received

    async def cut_first(client: Any, deliveries: Any) -> None:
        monkeypatch.setattr(Client, "received", stores)
        server.cut()
        await stores(client, deliveries)

    monkeypatch.setattr(Client, "received", cut_first)
    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive, server, "desk", wish(2), StandardOutput())
        await publish(b"one")
        await publish(b"two")
    assert sorted(output.written.split()) == [b"one", b"two"]


async def test_a_subscription_that_another_has_meanwhile_is_not_taken_back(
    server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: Any
) -> None:
    monkeypatch.setattr("plugins.smqp.sub.BATCH_MAX", 1)
    for text in (b"one", b"two"):
        await publish(text)
    async with server.other().connect("desk") as other:
        commit = Client.commit

        async def taken_first(client: Any, deliveries: Any) -> None:
            await other.subscribe("t")
            await trio.testing.wait_all_tasks_blocked()
            await commit(client, deliveries)

        monkeypatch.setattr(Client, "commit", taken_first)
        with pytest.raises(Failure, match="replaced"):
            await receive(server, "desk", wish(2), StandardOutput())
        await other.ping()
        assert not other.has_ended
    assert output.written == b"one\n"
    assert "withdrawn before it was committed (replaced)" in output.said.getvalue()


@pytest.mark.parametrize("ends", ["lost", "not-available"])
async def test_a_count_that_is_written_and_not_committed_is_said_to_be(
    site: BrokerSite,
    server: Any,
    output: OutputFile,
    publish: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    ends: str,
) -> None:
    """Nobody waits for a site that is gone, for a message that is written."""

    def end() -> None:
        site.broker.draining = ends == "not-available"  # COMMIT is refused
        if ends == "lost":
            server.cut()

    once_written(monkeypatch, output, b"one\n", end)
    await publish(b"one")
    written = "written, but perhaps to come again, as it is not known to be committed: 1"
    with pytest.raises(Failure, match=f"no connection: {ends}: .*; {written}") as failure:
        await receive(server, "desk", wish(1), StandardOutput())
    assert failure.value.exit_code == UNREACHABLE
    assert (output.written, server.attempts) == (b"one\n", 1)


async def test_sub_does_not_try_again_where_it_may_not_log_in_any_more(
    site: BrokerSite, server: Any, output: OutputFile, publish: Callable[..., Any]
) -> None:
    async with trio.open_nursery() as receiving:

        async def refused() -> None:
            with pytest.raises(Refusal) as refusal:
                await receive(server, "desk", wish(2), StandardOutput())
            assert refusal.value.code == Refusal.BAD_LOGIN

        receiving.start_soon(refused)
        await publish(b"one")
        await output.has_written()
        server.refuses = 1
        server.cut()
        site.disable_all()


@pytest.mark.parametrize("quotas", [Quotas(sessions_max=1)])
async def test_sub_tries_again_where_its_account_is_logged_in_as_often_as_it_may(
    server: Any, output: OutputFile, publish: Callable[..., Any]
) -> None:
    """As it is until the site knows that the connection is lost, which nobody may have told it."""
    await publish(b"one")
    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive, server, "desk", wish(2), StandardOutput())
        await output.has_written()
        server.cut()
        await trio.testing.wait_all_tasks_blocked()
        async with server.other().connect("other") as client:
            await until(lambda: "login refused" in output.said.getvalue())
            await client.publish("t", Message(sections=(Section("text/plain", b"two"),), delivery="ONE"))
    assert output.written == b"one\ntwo\n"
    assert output.said.getvalue().splitlines()[1:] == [
        "smqpd: login refused: ada is logged in 1 times, as often as it may (sessions_max);"
        " trying again until it is not",
        "smqpd: connected again",
    ]


@pytest.mark.parametrize("quotas", [Quotas(sessions_max=1)])
async def test_sub_does_not_wait_for_a_first_login(server: Any, output: OutputFile) -> None:
    async with server.other().connect("other"):
        with pytest.raises(LoginRefused):
            await receive(server, "desk", wish(1), StandardOutput())
    assert server.attempts == 1


async def test_a_first_connection_that_cannot_be_made_ends_sub(server: Any, output: OutputFile) -> None:
    server.refuses = 1
    with pytest.raises(ConnectionLost):
        await receive(server, "desk", wish(1), StandardOutput())
    assert server.attempts == 1


async def test_a_silence_lasts_over_the_end_of_a_connection(
    server: Any, output: OutputFile, publish: Callable[..., Any], mock_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as receiving:

        async def silent() -> None:
            with pytest.raises(ConnectionLost):
                await receive(server, "desk", wish(None, timeout_s=0.4), StandardOutput())

        receiving.start_soon(silent)
        await publish(b"one")
        await output.has_written()
        server.refuses = 1_000
        server.cut()
        while receiving.child_tasks:
            await pass_time(mock_clock, 0.1)


async def test_a_short_silence_does_not_begin_before_the_subscription_is_there(
    site: BrokerSite, server: Any, output: OutputFile
) -> None:
    await receive(server, "desk", wish(None, timeout_s=0.0), StandardOutput())
    assert output.written == b""
    assert [held.topic for held in site.durable_subscriptions("")] == ["t"]
