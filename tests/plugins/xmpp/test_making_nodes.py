"""Nodes that come to be: created, by their first item, by a subscription; XEP-0060 6.1.3.12, 7.1.5, 8.1."""

import math
import sqlite3
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from daemon.accounts.changing import change_file
from daemon.settings import Limits
from routing.quotas import Quotas
from routing.rights import Rights
from tests.support.full_disk import no_file_beyond
from tests.support.patience import until
from tests.support.xmpp import COMPONENT_NAME, XmppClient, xmpp_site
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

KEPT = {f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "true", "pubsub#title": "States"}


def item_as(node: str, content: str = "<a xmlns='urn:a'/>", **wanted: str) -> str:
    """An item for a node that is to be as wanted."""
    item = f"<publish node='{node}'><item>{content}</item></publish>"
    return pubsub(f"{item}<publish-options>{form('publish-options', **wanted)}</publish-options>")


async def publish_as(who: XmppClient, node: str, **wanted: str) -> Element:
    return await who.iq("set", item_as(node, **wanted))


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


@pytest.mark.parametrize("node", ["junk", "ada:desk@smqp.example"])
async def test_only_who_may_administer_a_node_makes_it_as_it_wants_it_with_an_item(
    tmp_path: Path, node: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        rights = Rights(publish=("#",))
        change_file(site.broker.settings.site.accounts_file, lambda editor: editor.set_rights("bob", rights))
        site.take_on()
        worker, as_any = server.client("worker1@shakespeare.lit/x"), {f"{{{SMQP}}}delivery": "MESSAGE"}
        for wanted in (KEPT, {"pubsub#access_model": "whitelist", **as_any}, {"pubsub#title": "x", **as_any}):
            assert error_of(await publish_as(worker, node, **wanted)) == ("auth", "forbidden")
        assert site.topic_count == 0
        assert (await put(worker, node, "item")).get("type") == "result"
        assert kept(tmp_path) == []


def kept(directory: Path) -> list[str]:
    """The topics of which the store has more than messages."""
    with sqlite3.connect(directory / "smqpd.db") as store:
        return [
            name for (name,) in store.execute("SELECT name FROM topic UNION SELECT topic FROM annotation")
        ]


async def test_a_node_is_not_made_by_an_item_that_is_too_large(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, limits=Limits(message_bytes_max=1_000)) as (server, _, site):
        answer = await ada(server).iq("set", item_as("state", f"<a xmlns='urn:a'>{'x' * 1_000}</a>", **KEPT))
        assert error_of(answer) == ("modify", "not-acceptable")
        assert site.topic_count == 0
        assert (await publish_as(ada(server), "state", **KEPT)).get("type") == "result"


async def test_a_node_is_not_made_by_who_may_not_publish_to_it(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        rights = Rights(administer=("#",))
        change_file(site.broker.settings.site.accounts_file, lambda editor: editor.set_rights("bob", rights))
        site.take_on()
        worker = server.client("worker1@shakespeare.lit/x")
        assert error_of(await publish_as(worker, "state", **KEPT)) == ("auth", "forbidden")
        assert site.topic_count == 0


async def test_a_node_is_not_made_by_an_item_for_which_its_account_has_no_room(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, quotas=Quotas(held_messages_max=1)) as (server, _, site):
        await put(ada(server), "work", "all that may be held")
        assert error_of(await publish_as(ada(server), "state", **KEPT)) == ("wait", "resource-constraint")
        assert site.topic_count == 1


async def test_a_node_is_not_made_by_an_item_that_finds_no_room_on_the_disk(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        await put(ada(server), "work", "before")
        with no_file_beyond((tmp_path / "smqpd.db-wal").stat().st_size):
            refused = await publish_as(ada(server), "state", **KEPT)
            assert error_of(refused) == ("wait", "internal-server-error")
            assert site.topic_count == 1
        await until(lambda: site.broker.store_failed is None and not kept(tmp_path))
        assert (await publish_as(ada(server), "state", **KEPT)).get("type") == "result"
        assert kept(tmp_path) == ["state"]


async def test_a_node_to_which_another_has_published_stays_without_the_item_that_made_it(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, other, title = ada(server), ada(server, "phone"), {"pubsub#title": "Work"}
        await put(client, "work", "before")
        header = f"<headers xmlns='{SMQP}'><header name='Guarantee'>NO</header></headers>"
        unguaranteed = pubsub(f"<publish node='news'><item><a xmlns='urn:a'/>{header}</item></publish>")
        stanzas = "".join(
            f"<iq type='set' id='p' from='{who.jid}' to='{COMPONENT_NAME}'>{text}</iq>"
            for who, text in ((client, item_as("news", **title)), (other, unguaranteed))
        )
        with no_file_beyond((tmp_path / "smqpd.db-wal").stat().st_size):
            await server.to_component(stanzas)
            assert (await client.answer("p")).get("type") == "error"
            assert (await other.answer("p")).get("type") == "result"
        answer = await client.iq("get", pubsub("<configure node='news'/>", "#owner"))
        assert fields(next(answer.iter("{jabber:x:data}x")))["pubsub#title"] == "Work"


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
