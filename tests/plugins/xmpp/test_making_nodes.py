"""Nodes that come to be: created, by their first item, by a subscription; XEP-0060 6.1.3.12, 7.1.5, 8.1."""

import math
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from tests.support.xmpp import XmppClient, xmpp_site
from tests.support.xmpp_pubsub import (
    INFO,
    NS,
    SMQP,
    ada,
    child,
    create,
    error_of,
    fields,
    form,
    notified,
    pubsub,
    put,
    subscribe,
)


async def publish_as(who: XmppClient, node: str, **wanted: str) -> Element:
    """An item for a node that is to be as wanted."""
    item = f"<publish node='{node}'><item><a xmlns='urn:a'/></item></publish>"
    options = f"<publish-options>{form('publish-options', **wanted)}</publish-options>"
    return await who.iq("set", pubsub(item + options))


async def test_a_node_is_made_once(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "orders")
        answer = await client.iq("set", pubsub("<create node='orders'/>"))
        assert error_of(answer) == ("cancel", "conflict")


async def test_a_node_that_its_first_item_makes_is_as_the_publisher_wants_it(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client, eve = ada(server), server.client("eve@shakespeare.lit/x")

        kept = {f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "true"}
        for _ in range(2):
            assert (await publish_as(client, "state", **kept)).get("type") == "result"
        topic = site.broker._router._state.topics["state"]
        assert (topic.mode, topic.timeout_s, topic.messages) == ("ALL", math.inf, 2)
        # who may not make it so gets nothing published either
        assert error_of(await publish_as(eve, "eve.state", **kept)) == ("auth", "forbidden")
        answer = await publish_as(client, "other", **{"pubsub#access_model": "presence"})
        assert error_of(answer) == ("cancel", "conflict")
        assert answer.find("c:error/pe:precondition-not-met", NS) is not None
        assert not {"eve.state", "other"} & set(site.broker._router._state.topics)


async def test_a_queue_keeps_its_items_and_says_so(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "work", **{"pubsub#persist_items": "1"})
        answer = await client.iq("get", pubsub("<configure node='work'/>", "#owner"))
        assert fields(next(answer.iter("{jabber:x:data}x")))["pubsub#persist_items"] == "1"
        answer = await publish_as(client, "work", **{"pubsub#persist_items": "1"})
        assert answer.get("type") == "result"
        text = f"<configure node='work'>{form('node_config', **{'pubsub#persist_items': '0'})}</configure>"
        assert error_of(await client.iq("set", pubsub(text, "#owner"))) == ("modify", "not-acceptable")


@pytest.mark.parametrize("made_by", ["creating", "publishing"])
async def test_a_node_that_is_made_to_keep_nothing_is_plain(tmp_path: Path, made_by: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, reader = ada(server), server.client("bob@shakespeare.lit/reader")
        transient = {"pubsub#persist_items": "0"}
        if made_by == "creating":
            await create(client, "news", **transient)
        else:
            assert (await publish_as(client, "news", **transient)).get("type") == "result"
        answer = await client.iq("get", pubsub("<configure node='news'/>", "#owner"))
        holds = fields(next(answer.iter("{jabber:x:data}x")))
        assert (holds["pubsub#persist_items"], holds[f"{{{SMQP}}}queueing"]) == ("0", "0")
        assert (await reader.iq("set", subscribe(reader.jid, None, "news"))).get("type") == "result"
        await put(client, "news", "storm")
        assert (await notified(reader)).get("id") == "storm"


async def test_a_queue_that_is_to_keep_nothing_is_not_made(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        wanted = form("node_config", **{f"{{{SMQP}}}queueing": "1", "pubsub#persist_items": "0"})
        answer = await ada(server).iq("set", pubsub(f"<create node='work'/><configure>{wanted}</configure>"))
        assert error_of(answer) == ("modify", "not-acceptable")


async def test_a_node_is_created_without_a_name(tmp_path: Path) -> None:
    """XEP-0060 8.1.2."""
    async with xmpp_site(tmp_path) as (server, _, site):
        names = set()
        for _ in range(2):
            answer = await ada(server).iq("set", pubsub("<create/>"))
            names.add(child(answer, "p:pubsub/p:create", NS).get("node"))
        assert len(names) == 2
        assert names <= set(site.broker._router._state.topics)
        eve = server.client("eve@shakespeare.lit/x")
        assert error_of(await eve.iq("set", pubsub("<create/>"))) == ("auth", "forbidden")


async def test_subscribing_makes_no_node_unless_the_site_says_so(tmp_path: Path) -> None:
    """XEP-0060 6.1.3.12. The node of an account is always there."""
    async with xmpp_site(tmp_path, create_on_subscribe=False) as (server, _, _):
        client = ada(server)
        answer = await client.iq("set", subscribe(client.jid, "1", "nothing"))
        assert error_of(answer) == ("cancel", "item-not-found")
        await put(client, "nothing", "now it is there")
        assert (await client.iq("set", subscribe(client.jid, "1", "nothing"))).get("type") == "result"
        answer = await client.iq("get", f"<query xmlns='{INFO}'/>")
        own = fields(child(answer, f"{{{INFO}}}query/x:x", NS))["account"]
        assert (await client.iq("set", subscribe(client.jid, "1", own))).get("type") == "result"


async def test_what_a_node_cannot_say_of_itself_is_named_and_does_not_keep_it_from_being_made(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        wanted = {"pubsub#contact": "ada", "pubsub#max_items": "10", "pubsub#title": "News"}
        configure = f"<configure>{form('node_config', **wanted)}</configure>"
        answer = await client.iq("set", pubsub("<create node='news'/>" + configure))
        assert answer.get("type") == "result"
        told = fields(child(answer, "p:pubsub/p:configure/x:x", NS))
        # what is there is a queue, which keeps what is not done
        assert told == {"pubsub#contact": "", "pubsub#max_items": "max"}
        # a change says what it changes, or nothing
        text = f"<configure node='news'>{form('node_config', **{'pubsub#max_items': '10'})}</configure>"
        assert error_of(await client.iq("set", pubsub(text, "#owner"))) == ("modify", "not-acceptable")
