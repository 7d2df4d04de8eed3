"""XMPP at two sites that are linked: what is retracted at one is told at the other."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import trio

from daemon.frontend import Identity, Site
from plugins.xmpp.serving import serve
from plugins.xmpp.settings import XmppSettings
from plugins.xmpp.wire.namespaces import SHIM
from tests.support.federated import federated_site
from tests.support.links import MemoryNetwork
from tests.support.patience import PATIENCE_S
from tests.support.site import BrokerSite
from tests.support.xmpp import COMPONENT_NAME, RULES, SECRET, XmppClient, XmppServer
from tests.support.xmpp_pubsub import PUBSUB, SMQP, ada, create, notified, pubsub, subscribe, within

PLAIN = {f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"}
FAR = f"<headers xmlns='{SMQP}'><header name='Depth'>-1</header></headers>"


@asynccontextmanager
async def two_sites(directory: Path) -> AsyncIterator[tuple[XmppClient, XmppClient, list[Any]]]:
    """A client of each, and the sites."""
    network, clients, peers = MemoryNetwork(), list[XmppClient](), {"alpha": "beta", "beta": "alpha"}
    async with AsyncExitStack() as stack:
        sites = [
            await stack.enter_async_context(federated_site(network, directory, name, [peer]))
            for name, peer in peers.items()
        ]
        nursery = await stack.enter_async_context(trio.open_nursery())
        for site in sites:
            await site.linked(peers[site.name])
            server = XmppServer()
            nursery.start_soon(server.run)
            settings = XmppSettings(component=COMPONENT_NAME, accounts=RULES)
            broker_site = cast(Site, BrokerSite(site.broker, site.name))
            await nursery.start(partial(serve, broker_site, settings, server.connect, SECRET))
            client = ada(server)
            await create(client, "news", **PLAIN)
            clients.append(client)
        yield clients[0], clients[1], sites
        nursery.cancel_scope.cancel()


async def publish(client: XmppClient, id: str, content: str = "<a xmlns='urn:a'/>") -> None:
    item = f"<item id='{id}'>{content}{FAR}</item>"
    answer = await client.iq("set", pubsub(f"<publish node='news'>{item}</publish>"))
    assert answer.get("type") == "result"


async def retract(client: XmppClient, id: str) -> None:
    text = pubsub(f"<retract node='news'><item id='{id}'/></retract>")
    assert (await client.iq("set", text)).get("type") == "result"


async def retracted(client: XmppClient) -> str:
    gone = within(await client.receive(), "e:event/e:items/e:retract")
    return str(gone.get("id"))


async def test_a_retraction_is_told_at_the_other_site(tmp_path: Path) -> None:
    async with two_sites(tmp_path) as (here, there, sites):
        for client in (here, there):
            await client.iq("set", subscribe(client.jid, None, "news"))
        await sites[0].wanted("ALL", "news")
        await publish(here, "one")
        assert (await notified(here)).get("id") == (await notified(there)).get("id") == "one"
        await retract(here, "one")
        assert await retracted(here) == await retracted(there) == "one"
        answer = await there.iq("get", pubsub("<items node='news'/>"))
        assert not list(answer.iter(f"{{{PUBSUB}}}item"))


async def test_a_collection_holds_what_is_published_at_the_other_site(tmp_path: Path) -> None:
    async with two_sites(tmp_path) as (here, there, sites):
        assert (await there.iq("set", subscribe(there.jid, None, "news.#"))).get("type") == "result"
        await sites[0].wanted("ALL", "news")
        for item in ("one", "two"):
            await publish(here, item)
            stanza = await there.receive()
            assert within(stanza, "e:event/e:items/e:item").get("id") == item
            assert within(stanza, f".//{{{SHIM}}}header[@name='Collection']").text == "news.#"
        await retract(here, "one")
        assert await retracted(there) == "one"


async def test_an_item_that_a_newer_one_replaces_is_not_retracted(tmp_path: Path) -> None:
    async with two_sites(tmp_path) as (here, there, sites):
        await there.iq("set", subscribe(there.jid, None, "news"))
        await sites[0].wanted("ALL", "news")
        for number in range(3):
            await publish(here, "one", f"<a xmlns='urn:a'>{number}</a>")
            assert (await notified(there))[0].text == str(number)
        with trio.fail_after(PATIENCE_S):
            while sites[1].broker.held > 1:
                await there.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        await publish(here, "two")
        assert (await notified(there)).get("id") == "two"
        await retract(here, "one")
        assert await retracted(there) == "one"


async def test_what_another_protocol_removes_is_retracted(tmp_path: Path) -> None:
    async with two_sites(tmp_path) as (here, there, sites):
        await there.iq("set", subscribe(there.jid, None, "news"))
        await sites[0].wanted("ALL", "news")
        await publish(here, "one")
        await notified(there)
        session = sites[0].broker.open_session(Identity("ada"), "desk", protocol="smqp", remote="")
        [held] = session.entries("news")
        session.remove("news", held.smuid)
        assert await retracted(there) == "one"
        session.close()


async def test_nothing_is_told_where_the_owner_does_not_want_it(tmp_path: Path) -> None:
    async with two_sites(tmp_path) as (here, there, sites):
        await there.iq("set", subscribe(there.jid, None, "news"))
        await sites[0].wanted("ALL", "news")
        values = "<field var='pubsub#notify_retract'><value>0</value></field>"
        form = f"<x xmlns='jabber:x:data' type='submit'>{values}</x>"
        await there.iq("set", pubsub(f"<configure node='news'>{form}</configure>", "#owner"))
        await publish(here, "one")
        await notified(there)
        await retract(here, "one")
        await publish(here, "two")
        assert (await notified(there)).get("id") == "two"
