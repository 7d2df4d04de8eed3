"""Nodes of which all together is much: whoever looks, what is held at once is a page of it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon.broker import browsing
from daemon.frontend import Identity, SubscribeOptions
from plugins.xmpp.wire.namespaces import RESULT_SET
from routing.message import Message, Section
from tests.support.held_at_once import held_at_once
from tests.support.xmpp import XmppClient, xmpp_site
from tests.support.xmpp_pubsub import ITEMS, PUBSUB, SMQP, ada, configure, create, error_of, pubsub

COUNT = 300
SIZE = 2**16
PAGE_BYTES = 4 * SIZE
ANSWER_BYTES = 10 * SIZE
"""Of which an answer has half for items."""

HELD_MAX = 5 * PAGE_BYTES + 5 * ANSWER_BYTES
"""Two pages, each as it was stored and as it was read from that; and an answer on its way."""

IDS = [f"item-{number}" for number in range(COUNT)]
PLAIN = {f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"}


@asynccontextmanager
async def large_site(
    directory: Path, monkeypatch: pytest.MonkeyPatch, config: Mapping[str, str] = PLAIN
) -> AsyncIterator[Any]:
    """A node of large items, none of which is in memory; gives (server, service, site)."""
    monkeypatch.setattr(browsing, "PAGE_BYTES_MAX", PAGE_BYTES)
    async with xmpp_site(directory) as (server, _, site):
        await create(ada(server), "large", **config)
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        for id in IDS:
            body = Section("text/plain", id.encode() + b" " * (SIZE - len(id)))
            session.publish("large", Message(sections=(body,), others=(("Item-Id", id),)), request=id)
        answers = 0
        while answers < COUNT:
            answers += len(await session.events())
        session.close()
    async with xmpp_site(directory, send_bytes_max=ANSWER_BYTES) as every:
        yield every


async def paged(client: XmppClient, place: str, on: str) -> list[list[str | None]]:
    """All that is shown by pages, each of which begins behind, or ends in front of, the one before."""
    pages, turn = list[list[str | None]](), ""
    while True:
        rsm = f"<set xmlns='{RESULT_SET}'><max>70</max><{on}>{turn}</{on}></set>"
        answer = await client.iq("get", pubsub(f"<items node='large'/>{rsm}"))
        assert answer.findtext(f".//{{{RESULT_SET}}}count") == str(COUNT)
        page = [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")]
        if not page:
            return pages
        pages.append(page)
        turn = answer.findtext(f".//{{{RESULT_SET}}}{place}", "")


async def test_large_items_are_paged_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with large_site(tmp_path, monkeypatch) as (server, _, _):
        with held_at_once() as forwards:
            pages = await paged(ada(server), "last", "after")
        assert [id for page in pages for id in page] == IDS
        with held_at_once() as backwards:
            pages = await paged(ada(server), "first", "before")
        assert [id for page in reversed(pages) for id in page] == IDS
        assert {len(page) for page in pages[:-1]} == {4}
        assert max(forwards.bytes, backwards.bytes) < HELD_MAX


async def test_the_names_of_large_items_are_many_on_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with large_site(tmp_path, monkeypatch) as (server, _, _):
        with held_at_once() as looking:
            answer = await ada(server).iq("get", f"<query xmlns='{ITEMS}' node='large'/>")
        assert [item.get("name") for item in answer.iter(f"{{{ITEMS}}}item")] == IDS[:100]
        assert looking.bytes < HELD_MAX


async def test_large_items_that_are_named_or_have_to_go_are_not_held_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with large_site(tmp_path, monkeypatch) as (server, _, _):
        client = ada(server)

        def named(ids: list[str]) -> str:
            return "".join(f"<item id='{id}'/>" for id in ids)

        with held_at_once() as looking:
            answer = await client.iq("get", pubsub(f"<items node='large'>{named(IDS[:9])}</items>"))
            assert [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")] == IDS[:9]
            answer = await client.iq("get", pubsub(f"<items node='large'>{named(IDS[:20])}</items>"))
            assert error_of(answer) == ("cancel", "internal-server-error")
            answer = await client.iq("set", pubsub(f"<retract node='large'>{named(IDS[:100])}</retract>"))
            assert answer.get("type") == "result"
            assert (await configure(client, "large", **{"pubsub#max_items": "2"})).get("type") == "result"
        answer = await client.iq("get", pubsub("<items node='large'/>"))
        assert [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")] == IDS[-2:]
        assert looking.bytes < HELD_MAX


async def test_large_items_that_others_have_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with large_site(tmp_path, monkeypatch, config={}) as (server, _, site):
        worker = site.open_session(Identity(account="bob"), "desk", protocol="test", remote="")
        worker.subscribe("large", SubscribeOptions(credit=COUNT - 1, accepts="ONE"))
        client, shown = ada(server), [IDS[-1]]
        answer = await client.iq("get", pubsub("<items node='large'/>"))
        assert [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")] == shown
        with held_at_once() as looking:
            answer = await client.iq("get", f"<query xmlns='{ITEMS}' node='large'/>")
            assert [item.get("name") for item in answer.iter(f"{{{ITEMS}}}item")] == shown
        assert looking.bytes < PAGE_BYTES + 2 * SIZE
        worker.close()
