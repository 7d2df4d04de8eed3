"""What is withdrawn from `smqpd sub`: before it is written, and after."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from plugins.smqp.client import Client
from plugins.smqp.standard_output import StandardOutput
from plugins.smqp.sub import receive
from tests.support.patience import until
from tests.support.receiving import OutputFile, ServerInMemory, wish


def removed_before(monkeypatch: pytest.MonkeyPatch, server: ServerInMemory, command: str) -> list[str]:
    """The first message that comes is removed by somebody else before this command of the client is sent."""
    removed: list[str] = []
    send = getattr(Client, command)

    async def remove_first(client: Any, deliveries: Any) -> None:
        if not removed:
            removed.append(deliveries[0].message.smuid)
            async with server.other().connect("operator") as operator:
                await operator.remove("t", removed[0])
            await trio.testing.wait_all_tasks_blocked()
        await send(client, deliveries)

    monkeypatch.setattr(Client, command, remove_first)
    return removed


async def test_what_is_withdrawn_before_it_is_written_is_not_written_and_does_not_count(
    server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: Any
) -> None:
    removed_before(monkeypatch, server, "received")
    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive, server, "desk", wish(2), StandardOutput())
        for text in (b"one", b"two", b"three"):
            await publish(text)
    assert output.written == b"two\nthree\n"
    assert output.said.getvalue() == ""


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], Any]) -> list[int]:
    """This is done before a credit of none is sent, at the first time; each credit that is sent."""
    credits: list[int] = []
    subscribe = Client.subscribe

    async def subscribe_later(client: Any, topic: str, options: Any) -> None:
        if options.credit == 0 and 0 not in credits:
            await do()
            await trio.testing.wait_all_tasks_blocked()
        credits.append(options.credit)
        await subscribe(client, topic, options)

    monkeypatch.setattr(Client, "subscribe", subscribe_later)
    return credits


async def test_what_is_withdrawn_after_it_was_received_is_not_written_and_another_is_asked_for(
    server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: Any
) -> None:
    removed = await publish(b"one")

    async def remove() -> None:
        async with server.other().connect("operator") as operator:
            await operator.remove("t", removed)

    credits = meanwhile(monkeypatch, remove)
    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive, server, "desk", wish(1), StandardOutput())
        await until(lambda: 0 in credits, credits)
        await publish(b"two")
    assert output.written == b"two\n"
    assert output.said.getvalue() == ""
    assert credits == [1, 0, 1, 0]


async def test_what_is_withdrawn_while_what_came_with_it_is_committed_is_not_written(
    server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: Any
) -> None:
    monkeypatch.setattr("plugins.smqp.sub.BATCH_MAX", 1)
    removed = [await publish(text) for text in (b"one", b"two", b"three")][1]
    commit = Client.commit

    async def remove_first(client: Any, deliveries: Any) -> None:
        monkeypatch.setattr(Client, "commit", commit)
        async with server.other().connect("operator") as operator:
            await operator.remove("t", removed)
        await trio.testing.wait_all_tasks_blocked()
        await commit(client, deliveries)

    monkeypatch.setattr(Client, "commit", remove_first)
    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive, server, "desk", wish(3), StandardOutput())
        await output.has_written()
        await publish(b"four")
    assert output.written == b"one\nthree\nfour\n"
    assert output.said.getvalue() == ""


async def test_what_is_withdrawn_once_it_is_written_is_said_to_be(
    server: Any, output: OutputFile, publish: Callable[..., Any], monkeypatch: Any
) -> None:
    removed = removed_before(monkeypatch, server, "commit")
    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive, server, "desk", wish(2), StandardOutput())
        for text in (b"one", b"two"):
            await publish(text)
    assert output.written == b"one\ntwo\n"
    assert output.said.getvalue() == (
        f"smqpd: written, and withdrawn before it was committed (removed): {removed[0]}\n"
    )
