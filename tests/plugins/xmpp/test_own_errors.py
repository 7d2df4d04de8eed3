"""Errors of smqpd's own in the tasks of the component: each begins anew, and the front end goes on."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from plugins.xmpp.delivery.client import Client
from plugins.xmpp.delivery.clients import Clients
from plugins.xmpp.delivery.finishing import Finishing
from plugins.xmpp.delivery.looking import Looking
from plugins.xmpp.delivery.repeating import Repeating
from plugins.xmpp.service import Service
from plugins.xmpp.wire.component import Component
from tests.support.patience import PATIENCE_S
from tests.support.xmpp import xmpp_site
from tests.support.xmpp_pubsub import ada, put


def failing_at_first(task: Callable[..., Awaitable[None]], begun: list[object]) -> Any:
    async def run(owner: object, *args: object) -> None:
        begun.append(owner)
        if len(begun) == 1:
            raise TypeError("a task that is broken")
        await task(owner, *args)

    return run


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Component, "run"),
        (Repeating, "run"),
        (Finishing, "run"),
        (Clients, "close_idle"),
        (Looking, "run"),
        (Service, "keep_watch"),
    ],
)
async def test_a_task_that_fails_begins_anew_and_items_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(owner, name, failing_at_first(getattr(owner, name), begun))
    async with xmpp_site(tmp_path) as (server, _, site):
        with trio.fail_after(PATIENCE_S):
            while len(begun) < 2:
                await trio.sleep(0.01)
        assert (await put(ada(server), "work", "a")).get("type") == "result"
        assert site.broker.mishaps.count == 1


async def test_a_client_whose_session_fails_is_answered_and_logs_in_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(Client, "answered", failing_at_first(Client.answered, begun))
    async with xmpp_site(tmp_path) as (server, _, site):
        client, other = ada(server), ada(server, "phone")
        with trio.fail_after(PATIENCE_S):
            await put(client, "work", "a")
        assert (await put(other, "work", "b")).get("type") == "result"
        assert site.broker.mishaps.count == 1
        assert (await put(client, "work", "c")).get("type") == "result"
