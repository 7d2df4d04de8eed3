"""Subscriptions that end for others than their subscribers. XEP-0060 8.8.2, 8.9.2."""

from pathlib import Path
from typing import Any

import pytest

from daemon.accounts.changing import change_file
from plugins.xmpp.service import Service
from routing.rights import Rights
from tests.support.full_disk import no_file_beyond
from tests.support.patience import until
from tests.support.xmpp import COMPONENT_NAME, XmppClient, XmppServer, xmpp_site
from tests.support.xmpp_collections import ALL, PLAIN, collect
from tests.support.xmpp_pubsub import ada, configure, create, form, pubsub, put, subscribe, within

NODE = "weather.dover"
WHITELIST = {"pubsub#access_model": "whitelist"}


def workers(server: XmppServer, site: Any) -> list[XmppClient]:
    """Who may subscribe to everything, and no more."""
    rights = Rights(subscribe=("#",))
    change_file(site.broker.settings.site.accounts_file, lambda editor: editor.set_rights("bob", rights))
    site.take_on()
    return [server.client(f"worker{number}@shakespeare.lit/desk") for number in (1, 2)]


def bare(client: XmppClient) -> str:
    return client.jid.partition("/")[0]


async def subscribe_all(*clients: XmppClient) -> None:
    for each in clients:
        assert (await each.iq("set", subscribe(each.jid, None, NODE))).get("type") == "result"


async def leave(service: Service, client: XmppClient) -> None:
    service.clients[client.jid].session.close()
    await until(lambda: client.jid not in service.clients)


def ending(*jids: str) -> str:
    """What an owner says, so that none of them subscribes any more."""
    listed = "".join(f"<subscription jid='{jid}' subscription='none'/>" for jid in jids)
    return pubsub(f"<subscriptions node='{NODE}'>{listed}</subscriptions>", "#owner")


async def ended(client: XmppClient) -> bool:
    return bool(within(await client.receive(), "e:event/e:subscription").get("subscription") == "none")


@pytest.mark.parametrize("by", ["an owner", "a whitelist"])
@pytest.mark.parametrize("first", [ALL, NODE])
async def test_who_is_away_and_collects_is_unsubscribed_from_the_node_alone(
    tmp_path: Path, by: str, first: str
) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        owner, (one, other) = ada(server), workers(server, site)
        await create(owner, NODE, **PLAIN)
        if first == ALL:
            await collect(one)
        await subscribe_all(one, other)
        if first == NODE:
            await collect(one)
        await leave(service, one)
        if by == "an owner":
            answer = await owner.iq("set", ending(one.jid, other.jid))
        else:
            answer = await configure(owner, NODE, **WHITELIST)
        assert answer.get("type") == "result"
        for each in (one, other):
            assert await ended(each)
        assert service.registry.of_node(NODE) == []
        assert [each.topic for each in site.durable_subscriptions("xmpp/")] == [ALL]


async def test_who_is_named_twice_is_unsubscribed_and_told_once(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        owner, (one, other) = ada(server), workers(server, site)
        await create(owner, NODE, **PLAIN)
        await subscribe_all(one, other)
        await leave(service, one)
        answer = await owner.iq("set", ending(one.jid, other.jid, bare(one), bare(other)))
        assert answer.get("type") == "result"
        for each in (one, other):
            assert await ended(each)
            assert each.quiet()


@pytest.mark.parametrize("by", ["configure", "affiliations"])
async def test_whoever_may_not_receive_is_unsubscribed_though_the_owners_session_ends_in_the_middle(
    tmp_path: Path, by: str
) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        owner, (one, other) = ada(server), workers(server, site)
        await create(owner, NODE, **PLAIN)
        await subscribe_all(one, other)
        await leave(service, one)
        outcasts = "".join(
            f"<affiliation jid='{each.jid.partition('/')[0]}' affiliation='outcast'/>"
            for each in (one, other)
        )
        content = form("node_config", **WHITELIST) if by == "configure" else outcasts
        changes = pubsub(f"<{by} node='{NODE}'>{content}</{by}>", "#owner")
        with no_file_beyond((tmp_path / "smqpd.db-wal").stat().st_size):
            await owner.send(f"<iq type='set' id='r' to='{COMPONENT_NAME}'>{changes}</iq>")
            await until(lambda: site.broker.store_failed is not None)
            service.clients[owner.jid].session.close()
            assert (await owner.answer("r")).get("type") == "error"
        for each in (one, other):
            assert await ended(each)
        assert site.durable_subscriptions("xmpp/") == []
        await until(lambda: site.broker.store_failed is None)
        await put(owner, NODE, "item")
        assert other.quiet()
