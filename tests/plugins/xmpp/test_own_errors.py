"""Errors of smqpd's own in the tasks of the component: each begins anew, and the front end goes on."""

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
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
from tests.support.full_disk import no_file_beyond
from tests.support.patience import PATIENCE_S, until
from tests.support.xmpp import xmpp_site
from tests.support.xmpp_pubsub import SMQP, ada, configure, create, error_of, form, pubsub, put


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


@contextmanager
def no_mode_can_be_stored(directory: Path) -> Iterator[None]:
    """As where the store is damaged at the place of the topics' own settings."""
    with sqlite3.connect(directory / "smqpd.db") as store:
        store.execute(
            "CREATE TRIGGER damaged BEFORE INSERT ON topic"
            " BEGIN SELECT RAISE(ABORT, 'as a damaged page would'); END"
        )
    yield
    with sqlite3.connect(directory / "smqpd.db") as store:
        store.execute("DROP TRIGGER damaged")


async def test_a_node_whose_mode_cannot_be_stored_is_not_made(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        with no_mode_can_be_stored(tmp_path):
            answer = await ada(server).iq("set", pubsub("<create node='news'/>"))
            assert error_of(answer) == ("wait", "internal-server-error")
            assert site.topic_count == 0
        await create(ada(server), "news")


async def test_a_node_whose_mode_cannot_be_stored_is_as_it_was(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        await create(ada(server), "news", **{"pubsub#title": "News"})
        [before] = site.annotated_topics("xmpp")
        wanted = {"pubsub#title": "For all", f"{{{SMQP}}}queueing": "0"}
        with no_mode_can_be_stored(tmp_path):
            assert error_of(await configure(ada(server), "news", **wanted)) == (
                "wait",
                "internal-server-error",
            )
            assert site.annotated_topics("xmpp") == [before]
    async with xmpp_site(tmp_path) as (server, _, site):
        assert site.annotated_topics("xmpp") == [before]
        assert (await configure(ada(server), "news", **wanted)).get("type") == "result"


async def test_what_a_second_owner_has_configured_stays_though_it_is_what_the_first_could_not(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        owners = ada(server), ada(server, "phone")
        await create(owners[0], "news", **{"pubsub#title": "News"})
        wanted = form("node_config", **{"pubsub#title": "For all", f"{{{SMQP}}}queueing": "0"})
        text = pubsub(f"<configure node='news'>{wanted}</configure>", "#owner")
        with no_mode_can_be_stored(tmp_path):
            with no_file_beyond((tmp_path / "smqpd.db-wal").stat().st_size):
                for owner in owners:
                    await owner.send(f"<iq type='set' id='r'>{text}</iq>")
                    # which is answered after that has been looked at
                    await owner.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
                await until(lambda: site.broker.store_failed is not None)
            answers = [(await each.answer("r")).get("type") for each in owners]
        assert answers == ["error", "result"]
        [news] = site.annotated_topics("xmpp")
        assert '"title":"For all"' in news.annotations["xmpp"]
