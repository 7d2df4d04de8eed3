"""XEP-0060 around the queue: nodes, their configuration, their items, and who may do what."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daemon.frontend import Identity
from plugins.xmpp.wire.namespaces import QOS
from routing.message import Message
from tests.support.patience import PATIENCE_S
from tests.support.xmpp import XmppClient, XmppServer, xmpp_site
from tests.support.xmpp_pubsub import (
    INFO,
    ITEMS,
    NS,
    PUBSUB,
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


async def test_a_created_node_is_found_described_configured_and_deleted(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "orders.new")
        answer = await client.iq("get", f"<query xmlns='{ITEMS}'/>")
        assert [each.get("node") for each in answer.iter(f"{{{ITEMS}}}item")] == ["orders.new"]
        answer = await client.iq("get", f"<query xmlns='{INFO}' node='orders.new'/>")
        assert fields(child(answer, f"{{{INFO}}}query/x:x", NS))[f"{{{SMQP}}}queueing"] == "1"
        assert site.broker._router._state.topics["orders.new"].mode == "ONE"
        values = {f"{{{SMQP}}}queueing": "0", "pubsub#item_expire": "3600"}
        text = f"<configure node='orders.new'>{form('node_config', **values)}</configure>"
        assert (await client.iq("set", pubsub(text, "#owner"))).get("type") == "result"
        topic = site.broker._router._state.topics["orders.new"]
        assert (topic.mode, topic.timeout_s) == ("ALL", 3600.0)
        answer = await client.iq("get", pubsub("<configure node='orders.new'/>", "#owner"))
        shown = fields(next(answer.iter("{jabber:x:data}x")))
        assert shown[f"{{{SMQP}}}delivery"] == "ALL"
        assert shown["pubsub#item_expire"] == "3600"
        assert (await client.iq("set", pubsub("<delete node='orders.new'/>", "#owner"))).get(
            "type"
        ) == "result"
        answer = await client.iq("get", f"<query xmlns='{INFO}' node='orders.new'/>")
        assert error_of(answer) == ("cancel", "item-not-found")


async def test_what_another_front_end_sets_is_the_nodes_configuration(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        session = site.open_session(Identity(account="ada"), "desk", protocol="smqp", remote="")

        async def shown() -> list[str]:
            await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
            answer = await client.iq("get", pubsub("<configure node='orders'/>", "#owner"))
            form_shown = fields(next(answer.iter("{jabber:x:data}x")))
            answer = await client.iq("get", f"<query xmlns='{INFO}' node='orders'/>")
            meta_data = fields(child(answer, f"{{{INFO}}}query/x:x", NS))
            names = (f"{{{SMQP}}}queueing", f"{{{SMQP}}}delivery", "pubsub#item_expire")
            assert [meta_data[name] for name in names] == [form_shown[name] for name in names]
            return [form_shown[name] for name in names]

        session.set_delivery("orders", "ALL")
        assert await shown() == ["0", "ALL", ""]
        session.set_timeout("orders", 90.0)
        assert await shown() == ["0", "ALL", "90"]
        session.set_delivery("orders", None)
        assert await shown() == ["1", "MESSAGE", "90"]
        session.close()


async def test_a_plain_node_delivers_to_all_and_needs_no_configuration(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        one, other = ada(server, "one"), ada(server, "other")
        await create(one, "news", **{f"{{{SMQP}}}queueing": "0"})
        for client in (one, other):
            answer = await client.iq("set", subscribe("ada@shakespeare.lit", None, "news"))
            assert answer.get("type") == "result"
        await put(one, "news", "first")
        assert (await notified(one)).get("id") == (await notified(other)).get("id") == "first"
        # nobody has to retract anything: it is gone once the server has read both notifications
        with trio.fail_after(PATIENCE_S):
            while site.broker.held:
                await one.iq("get", "<ping xmlns='urn:xmpp:ping'/>")


async def by_message(client: XmppClient, publish: str) -> None:
    await client.send(f"<message>{publish}</message>")


async def acknowledged(client: XmppClient, publish: str) -> None:
    text = f"<qos:acknowledged xmlns:qos='{QOS}'><message>{publish}</message></qos:acknowledged>"
    assert (await client.iq("set", text)).get("type") == "result"


async def assured(client: XmppClient, publish: str) -> None:
    text = f"<qos:assured xmlns:qos='{QOS}' msgId='1'><message>{publish}</message></qos:assured>"
    assert (await client.iq("set", text)).get("type") == "result"
    assert (await client.iq("set", f"<deliver xmlns='{QOS}' msgId='1'/>")).get("type") == "result"


@pytest.mark.parametrize("way", [by_message, acknowledged, assured])
async def test_a_persistent_item_is_replaced_whichever_way_the_next_one_comes(
    tmp_path: Path, way: Callable[..., Any]
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        await put(client, "state", "item")
        item = "<item id='item'><b xmlns='urn:b'/></item>"
        await way(client, pubsub(f"<publish node='state'>{item}</publish>"))
        with trio.fail_after(PATIENCE_S):
            while True:
                answer = await client.iq("get", pubsub("<items node='state'/>"))
                if [item[0].tag for item in answer.iter(f"{{{PUBSUB}}}item")] == ["{urn:b}b"]:
                    break


@pytest.mark.parametrize("way", [by_message, acknowledged, assured])
async def test_what_the_server_has_read_is_finished_with_the_next_publication(
    tmp_path: Path, way: Callable[..., Any], mock_clock: trio.testing.MockClock
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client, other = ada(server), ada(server, "other")
        await create(client, "news", **{f"{{{SMQP}}}queueing": "0"})
        await client.iq("set", subscribe(client.jid, None, "news"))
        await put(other, "news", "first")
        await notified(client)
        # a ping's answer comes after that of the component's own ping
        for _ in range(3):
            await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert site.broker.held == 1
        await way(other, pubsub("<publish node='elsewhere'><item><a xmlns='urn:a'/></item></publish>"))
        await other.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert site.broker._router._state.topics["elsewhere"].messages == 1
        assert site.broker._router._state.topics["news"].messages == 0


async def test_who_leaves_while_an_item_is_being_replaced_disturbs_nobody(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        client, other = ada(server), ada(server, "other")
        await create(client, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        for _ in range(3):
            await put(client, "state", "item")
            service.clients[client.jid].session.close()
        assert (await other.iq("get", "<ping xmlns='urn:xmpp:ping'/>")).get("type") == "result"
        await put(other, "state", "item")
        with trio.fail_after(PATIENCE_S):
            while site.broker.held > 1:
                await other.iq("get", "<ping xmlns='urn:xmpp:ping'/>")


async def test_a_large_node_is_deleted_while_others_work(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        owner, worker = ada(server), ada(server, "worker")
        await create(owner, "work")
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        for number in range(1_500):
            session.publish("work", Message(others=(("Item-Id", f"item-{number}"),)))
        await worker.iq("set", subscribe(worker.jid, "1", "work"))
        await notified(worker)
        delete = pubsub("<delete node='work'/>", "#owner")
        await owner.send(f"<iq type='set' id='d'>{delete}</iq>")
        assert (await worker.iq("get", "<ping xmlns='urn:xmpp:ping'/>")).get("type") == "result"
        assert (await owner.answer("d")).get("type") == "result"
        assert child((await worker.receive()), "e:event/e:delete", NS).get("node") == "work"
        assert site.broker.held == 0
        session.close()


async def test_a_subscriptions_own_lock_is_there_after_a_restart(tmp_path: Path) -> None:
    lock = f"<field var='{{{SMQP}}}lock'><value>7.5</value></field></x>"
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        text = subscribe(client.jid, "1", "work").replace("</x>", lock)
        assert (await client.iq("set", text)).get("type") == "result"
    server = XmppServer()
    client = ada(server)
    async with xmpp_site(tmp_path, server) as (server, _, _):
        answer = await client.iq("get", pubsub(f"<options node='work' jid='{client.jid}'/>"))
        assert fields(next(answer.iter("{jabber:x:data}x")))[f"{{{SMQP}}}lock"] == "7.5"


async def test_a_purged_node_is_empty_and_its_subscribers_are_told(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "work")
        for number in range(3):
            await put(client, "work", f"item-{number}")
        await client.iq("set", subscribe(client.jid, "1", "work"))
        await notified(client)
        assert (await client.iq("set", pubsub("<purge node='work'/>", "#owner"))).get("type") == "result"
        assert site.broker.held == 0
        events = [child((await client.receive()), "e:event", NS)[0].tag for _ in range(2)]
        assert sorted(tag.rpartition("}")[2] for tag in events) == ["items", "purge"]


async def test_all_subscribers_are_told_of_an_item_that_somebody_retracts(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        owner, reader = ada(server), ada(server, "reader")
        await create(owner, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        await reader.iq("set", subscribe(reader.jid, None, "state"))
        await put(owner, "state", "item")
        await notified(reader)
        text = pubsub("<retract node='state' notify='1'><item id='item'/></retract>")
        assert (await owner.iq("set", text)).get("type") == "result"
        assert child((await reader.receive()), "e:event/e:items/e:retract", NS).get("id") == "item"


async def test_a_deleted_node_ends_its_subscriptions_and_tells_them(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        owner, client = ada(server), ada(server, "other")
        await create(owner, "work")
        await client.iq("set", subscribe(client.jid, "1", "work"))
        await owner.iq("set", pubsub("<delete node='work'/>", "#owner"))
        assert child((await client.receive()), "e:event/e:delete", NS).get("node") == "work"
        assert service.registry.of(client.jid) == []
        assert "work" not in site.broker._router._state.topics


async def test_preconditions_of_a_publication_are_checked(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "work")
        item = "<publish node='work'><item><a xmlns='urn:a'/></item></publish>"
        wanted = form("publish-options", **{"pubsub#persist_items": "false"})
        options = f"<publish-options>{wanted}</publish-options>"
        answer = await client.iq("set", pubsub(item + options))
        assert error_of(answer) == ("cancel", "conflict")
        assert answer.find("c:error/pe:precondition-not-met", NS) is not None
        assert (await client.iq("set", pubsub(item + options.replace("false", "true")))).get(
            "type"
        ) == "result"


async def test_subscription_options_can_be_read_and_changed(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "2", "work"))
        asked = f"<options node='work' jid='{client.jid}'/>"
        answer = await client.iq("get", pubsub(asked))
        assert fields(next(answer.iter("{jabber:x:data}x")))["pubsub#queue_requests"] == "2"
        changed = asked.replace(
            "/>", f">{form('subscribe_options', **{'pubsub#queue_requests': '7'})}</options>"
        )
        assert (await client.iq("set", pubsub(changed))).get("type") == "result"
        assert service.registry.find(client.jid, "work").credit == 7


async def test_an_owner_ends_subscriptions_of_others_and_begins_none(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        owner, worker = ada(server), server.client("worker@shakespeare.lit/1")
        await worker.iq("set", subscribe(worker.jid, "1", "work"))
        await put(owner, "work", "item")
        await notified(worker)

        def request(jid: str, state: str) -> str:
            listed = f"<subscription jid='{jid}' subscription='{state}'/>"
            return pubsub(f"<subscriptions node='work'>{listed}</subscriptions>", "#owner")

        for jid, state in ((worker.jid, "pending"), ("eve@shakespeare.lit/x", "subscribed")):
            answer = await owner.iq("set", request(jid, state))
            assert error_of(answer) == ("modify", "not-acceptable")
            assert next(answer.iter(f"{{{PUBSUB}#owner}}subscription")).get("jid") == jid
        assert (await owner.iq("set", request(worker.jid, "none"))).get("type") == "result"
        event = child((await worker.receive()), "e:event/e:subscription", NS)
        assert event.attrib == {"node": "work", "jid": worker.jid, "subscription": "none"}
        assert service.registry.of(worker.jid) == []
        assert site.durable_subscriptions("") == []
        # what it had goes to the next
        await owner.iq("set", subscribe(owner.jid, "1", "work"))
        assert (await notified(owner)).get("id") == "item"


async def test_an_item_is_replaced_whoever_publishes_it_again(tmp_path: Path) -> None:
    """XEP-0060 7.1.2, also by a publisher without the right to remove or to subscribe."""
    async with xmpp_site(tmp_path) as (server, _, site):
        owner, eve = ada(server), server.client("eve@shakespeare.lit/x")
        kept = {f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"}
        await create(owner, "eve.state", **kept)
        for number in range(3):
            content = f"<a xmlns='urn:a'>{number}</a>"
            assert (await put(eve, "eve.state", "one", content)).get("type") == "result"
        for asked in ("<items node='eve.state'><item id='one'/></items>", "<items node='eve.state'/>"):
            answer = await owner.iq("get", pubsub(asked))
            [item] = answer.iter(f"{{{PUBSUB}}}item")
            assert item.findtext("{urn:a}a") == "2"
        with trio.fail_after(PATIENCE_S):
            while site.broker._router._state.topics["eve.state"].messages > 1:
                await trio.sleep(0.01)


async def test_what_cannot_be_removed_yet_is_not_shown(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        owner, eve = ada(server), server.client("eve@shakespeare.lit/x")
        kept = {f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"}
        await create(owner, "eve.state", **kept)
        service.clients[owner.jid].session.close()
        while owner.jid in service.clients:
            await trio.sleep(0.01)
        for number in range(3):
            await put(eve, "eve.state", "one", f"<a xmlns='urn:a'>{number}</a>")
        assert site.broker._router._state.topics["eve.state"].messages == 3
        for asked in ("<items node='eve.state'/>", "<items node='eve.state' max_items='2'/>"):
            [item] = (await owner.iq("get", pubsub(asked))).iter(f"{{{PUBSUB}}}item")
            assert item.findtext("{urn:a}a") == "2"
        retract = pubsub("<retract node='eve.state'><item id='one'/></retract>")
        assert (await owner.iq("set", retract)).get("type") == "result"
        answer = await owner.iq("get", pubsub("<items node='eve.state'/>"))
        assert list(answer.iter(f"{{{PUBSUB}}}item")) == []


@pytest.mark.parametrize("before", ["0", "1"])
async def test_who_would_get_nothing_any_more_is_told_that_its_subscription_has_ended(
    tmp_path: Path, before: str
) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        owner, reader = ada(server), ada(server, "reader")
        await create(owner, "work", **{f"{{{SMQP}}}queueing": before})
        await reader.iq("set", subscribe(reader.jid, "5" if before == "1" else None, "work"))
        values = {f"{{{SMQP}}}queueing": "0" if before == "1" else "1"}
        text = f"<configure node='work'>{form('node_config', **values)}</configure>"
        assert (await owner.iq("set", pubsub(text, "#owner"))).get("type") == "result"
        told = (await reader.receive()).find("e:event/e:subscription", NS)
        assert told is not None
        assert (told.get("node"), told.get("subscription")) == ("work", "none")
        assert service.registry.of_node("work") == []


async def test_a_new_subscriber_gets_the_last_item_and_what_comes(tmp_path: Path) -> None:
    """XEP-0060 6.1.7; the node says so."""
    async with xmpp_site(tmp_path) as (server, _, _):
        owner = ada(server)
        await create(owner, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        answer = await owner.iq("get", pubsub("<configure node='state'/>", "#owner"))
        shown = fields(next(answer.iter("{jabber:x:data}x")))
        assert shown["pubsub#send_last_published_item"] == "on_sub"
        for number in range(5):
            await put(owner, "state", f"item-{number}")
        for number, jid in enumerate(("bob@shakespeare.lit/x", "carol@shakespeare.lit")):
            reader = server.client(f"{jid.partition('/')[0]}/x")
            assert (await reader.iq("set", subscribe(jid, None, "state"))).get("type") == "result"
            assert (await notified(reader)).get("id") == f"item-{4 + number}"
            await put(owner, "state", f"item-{5 + number}")
            assert (await notified(reader)).get("id") == f"item-{5 + number}"


async def test_several_items_are_published_together_or_not_at_all(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "10", "work"))
        items = "<item id='a'><x xmlns='urn:a'/></item><item/><item id='c'/>"
        answer = await client.iq("set", pubsub(f"<publish node='work'>{items}</publish>"))
        named = [each.get("id") for each in answer.iter(f"{{{PUBSUB}}}item")]
        assert (named[0], named[2], len(set(named))) == ("a", "c", 3)
        assert [(await notified(client)).get("id") for _ in range(3)] == named
        broken = "<item id='d'/><item id='e'><a xmlns='urn:a'/><b xmlns='urn:b'/></item>"
        answer = await client.iq("set", pubsub(f"<publish node='work'>{broken}</publish>"))
        assert error_of(answer) == ("modify", "bad-request")
        answer = await client.iq("set", pubsub(f"<publish node='work'>{'<item/>' * 101}</publish>"))
        assert answer.find("c:error/pe:max-items-exceeded", NS) is not None
        assert site.broker.held == 3


async def test_a_request_that_meets_an_error_of_ours_is_answered_and_the_next_one_is_done(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client, state = ada(server), site.broker._router._state
        topics, state.topics = state.topics, None
        answer = await client.iq("set", pubsub("<publish node='work'><item id='a'/></publish>"))
        assert error_of(answer) == ("cancel", "internal-server-error")
        state.topics = topics
        assert (await put(client, "work", "b")).get("type") == "result"
        assert site.broker.mishaps.count == 1
