"""XEP-0254 over streams in memory: what its listings show, and what it says between them.

The listings as they stand are in `test_listings.py`, through real servers.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.settings import QueueSettings
from plugins.xmpp.wire.namespaces import QOS
from tests.support.patience import PATIENCE_S
from tests.support.xmpp import COMPONENT_NAME, XmppClient, XmppServer, xmpp_site
from tests.support.xmpp_pubsub import (
    ITEM,
    NODE,
    NS,
    PUBSUB,
    child,
    error_of,
    notification,
    notified,
    pubsub,
    subscribe,
)


def publish(item: str = ITEM, node: str = NODE) -> str:
    return (
        f"<pubsub xmlns='{PUBSUB}'><publish node='{node}'><item id='{item}'>"
        "<example xmlns='urn:xmpp:example'>payload</example></item></publish></pubsub>"
    )


def retract(item: str = ITEM) -> str:
    return f"<pubsub xmlns='{PUBSUB}'><retract node='{NODE}'><item id='{item}'/></retract></pubsub>"


def unlock(item: str = ITEM) -> str:
    return (
        f"<pubsub xmlns='{PUBSUB}'><unlock xmlns='urn:xmpp:pubsub:queueing:0' node='{NODE}'>"
        f"<item id='{item}'/></unlock></pubsub>"
    )


def worker(server: XmppServer, resource: str = "foo") -> XmppClient:
    return server.client(f"workerbee237@shakespeare.lit/{resource}")


async def subscribed(server: XmppServer, resource: str = "foo", requests: str = "5") -> XmppClient:
    client = worker(server, resource)
    answer = await client.iq("set", subscribe("workerbee237@shakespeare.lit", requests), id="sub2")
    assert answer.get("type") == "result"
    return client


async def published(server: XmppServer, item: str = ITEM) -> None:
    engine = server.client("engine.shakespeare.lit")
    assert (await engine.iq("set", publish(item), id="pub1")).get("type") == "result"


async def test_listing_1_subscribing_to_a_queue_needs_configuration(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        bare = "workerbee237@shakespeare.lit"
        answer = await worker(server).iq("set", subscribe(bare, None), id="sub1")
        assert error_of(answer) == ("modify", "not-acceptable")
        assert answer.find("c:error/pe:configuration-required", NS) is not None
        assert child(answer, "p:pubsub/p:subscribe", NS).attrib == {"jid": bare, "node": NODE}
        form = child(answer, "p:pubsub/p:options/x:x", NS)
        assert form.get("type") == "form"
        [field] = [field for field in form if field.get("var") == "pubsub#queue_requests"]
        assert field.get("type") == "text-single"
        assert field.find("x:required", NS) is not None


async def test_listings_2_and_3_with_options_it_is_granted_and_they_are_told(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        bare = "workerbee237@shakespeare.lit"
        answer = await worker(server).iq("set", subscribe(bare), id="sub2")
        assert answer.get("type") == "result"
        subscription = child(answer, "p:pubsub/p:subscription", NS)
        assert subscription.get("subscription") == "subscribed"
        assert subscription.get("jid") == bare
        assert len(subscription.get("subid", "")) == 40
        values = {
            field.get("var"): field.findtext("x:value", "", NS)
            for field in child(answer, "p:pubsub/p:options/x:x", NS)
        }
        assert values["pubsub#queue_requests"] == "5"


@pytest.mark.parametrize("requests", ["", "0", "-1", "many", "1.5", "99999999999", "٣"])
async def test_a_bad_number_of_requests_is_refused(tmp_path: Path, requests: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        answer = await worker(server).iq("set", subscribe("workerbee237@shakespeare.lit", requests))
        assert error_of(answer) == ("modify", "bad-request")
        assert answer.find("c:error/pe:invalid-options", NS) is not None


async def test_options_need_no_jid_and_node_of_their_own(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        text = subscribe("workerbee237@shakespeare.lit").replace(
            f"<options jid='workerbee237@shakespeare.lit' node='{NODE}'>", "<options>"
        )
        assert (await worker(server).iq("set", text)).get("type") == "result"


async def test_listings_4_and_5_an_item_goes_to_one_subscriber(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        one, other = await subscribed(server, "one"), await subscribed(server, "other")
        for number in range(10):
            await published(server, f"item-{number}")
        seen = [(await notified(one)).get("id") for _ in range(5)]
        seen += [(await notified(other)).get("id") for _ in range(5)]
        assert sorted(map(str, seen)) == sorted(f"item-{number}" for number in range(10))
        assert one.quiet()
        assert other.quiet()


async def test_the_payload_and_the_addresses_are_those_of_listing_5(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = await subscribed(server)
        await published(server)
        stanza = await client.receive()
        assert stanza.get("from") == COMPONENT_NAME
        assert stanza.get("to") == client.jid
        assert stanza.get("type") in (None, "normal")
        assert child(stanza, "e:event/e:items", NS).get("node") == NODE
        assert child(stanza, "e:event/e:items/e:item", NS).get("id") == ITEM
        assert stanza.findtext("e:event/e:items/e:item/ex:example", "", NS) == "payload"


@pytest.mark.parametrize("kind", ["get", "set"])
async def test_listings_6_and_7_a_retracted_item_is_gone(tmp_path: Path, kind: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = await subscribed(server)
        await published(server)
        await notified(client)
        assert (await client.iq(kind, retract(), id="delete1")).get("type") == "result"
        retracted = child((await client.receive()), "e:event/e:items/e:retract", NS)
        assert retracted.get("id") == ITEM
        assert site.broker.held == 0
        again = await client.iq("set", retract(), id="delete2")
        assert error_of(again) == ("cancel", "item-not-found")


async def test_only_the_subscriber_that_had_it_is_told_of_a_retraction(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        one, other = await subscribed(server, "one"), await subscribed(server, "other")
        await published(server)
        await notified(one)
        await one.iq("set", retract())
        await one.receive()
        await other.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert other.quiet()


@pytest.mark.parametrize("action", [retract, unlock])
async def test_listings_8_and_14_an_item_that_another_has_is_in_conflict(
    tmp_path: Path, action: Callable[..., Any]
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        one, other = await subscribed(server, "one"), await subscribed(server, "other")
        await published(server)
        await notified(one)
        assert error_of(await other.iq("set", action())) == ("cancel", "conflict")


@pytest.mark.parametrize("action", [retract, unlock])
async def test_listings_8_and_13_who_never_had_an_item_and_does_not_subscribe_is_forbidden(
    tmp_path: Path, action: Callable[..., Any]
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        one = await subscribed(server, "one")
        await published(server)
        await notified(one)
        stranger = worker(server, "stranger")
        assert error_of(await stranger.iq("set", action())) == ("auth", "forbidden")


@pytest.mark.parametrize("action", [retract, unlock])
async def test_listings_9_and_15_what_was_unlocked_meanwhile_is_unexpected(
    tmp_path: Path, action: Callable[..., Any]
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = await subscribed(server)
        await published(server)
        await notified(client)
        leave = f"<pubsub xmlns='{PUBSUB}'><unsubscribe node='{NODE}' jid='{client.jid}'/></pubsub>"
        await client.iq("set", leave)
        await client.iq("set", unlock())
        await client.receive()
        # it waits for the next subscriber, of which there is none
        assert error_of(await client.iq("set", action())) == ("wait", "unexpected-request")


@pytest.mark.parametrize("kind", ["get", "set"])
async def test_listings_10_and_11_an_unlocked_item_goes_to_the_next_subscriber(
    tmp_path: Path, kind: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        one, other = await subscribed(server, "one"), await subscribed(server, "other")
        await published(server)
        await notified(one)
        assert (await one.iq(kind, unlock())).get("type") == "result"
        assert child((await one.receive()), "e:event/e:items/q:unlock", NS).get("id") == ITEM
        told = await notification(other)
        assert (told.item.get("id"), told.delivery) == (ITEM, "2")
        # it had the item and has it no longer; another has it now
        assert error_of(await one.iq("set", retract())) == ("cancel", "conflict")
        assert (await other.iq("set", retract())).get("type") == "result"


async def test_the_item_may_stand_in_either_namespace(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = await subscribed(server)
        await published(server)
        await notified(client)
        text = unlock().replace("<item ", f"<item xmlns='{PUBSUB}' ")
        assert (await client.iq("set", text)).get("type") == "result"


async def test_listing_12_an_item_that_is_not_there_cannot_be_unlocked(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = await subscribed(server)
        assert error_of(await client.iq("set", unlock())) == ("cancel", "item-not-found")


@pytest.mark.parametrize("action", ["retract", "unlock"])
async def test_of_several_items_the_one_that_is_not_there_is_what_is_told(
    tmp_path: Path, action: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = await subscribed(server)
        await published(server)
        await notified(client)
        namespace = "" if action == "retract" else f" xmlns='{NS['q']}'"
        items = f"<item id='{ITEM}'/><item id='nowhere'/>"
        text = f"<{action}{namespace} node='{NODE}'>{items}</{action}>"
        assert error_of(await client.iq("set", pubsub(text))) == ("cancel", "item-not-found")
        # and nothing was done
        one = f"<{action}{namespace} node='{NODE}'><item id='{ITEM}'/></{action}>"
        assert (await client.iq("set", pubsub(one))).get("type") == "result"


async def test_an_item_without_a_guarantee_is_locked_all_the_same(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        one, other = await subscribed(server, "one"), await subscribed(server, "other")
        headers = "<headers xmlns='urn:smqp:xmpp:0'><header name='Guarantee'>NO</header></headers>"
        text = publish().replace("</item>", f"{headers}</item>")
        assert (await server.client("engine.shakespeare.lit").iq("set", text)).get("type") == "result"
        await notified(one)
        await one.send("<presence type='unavailable'/>")
        assert (await notified(other)).get("id") == ITEM
        assert (await other.iq("set", retract())).get("type") == "result"
        assert not site.broker._router._state.entries


async def test_support_is_announced_by_the_service_and_by_each_queue(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = await subscribed(server)
        info = "http://jabber.org/protocol/disco#info"
        for node in ("", f" node='{NODE}'"):
            answer = await client.iq("get", f"<query xmlns='{info}'{node}/>")
            features = [each.get("var") for each in answer.iter(f"{{{info}}}feature")]
            assert "urn:xmpp:pubsub:queueing:0" in features


async def test_a_subscriber_that_is_unavailable_loses_its_items_and_its_subscription(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        one, other = await subscribed(server, "one"), await subscribed(server, "other")
        await published(server)
        await notified(one)
        await one.send("<presence type='unavailable'/>")
        assert (await notified(other)).get("id") == ITEM
        answer = await one.iq("get", f"<pubsub xmlns='{PUBSUB}'><subscriptions/></pubsub>")
        listed = answer.findall("p:pubsub/p:subscriptions/p:subscription", NS)
        assert [each.get("jid") for each in listed] == ["workerbee237@shakespeare.lit"]
        [part] = service.registry.of_node(NODE)
        assert part.jid == other.jid


async def test_a_notification_that_bounces_means_the_same(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        one, other = await subscribed(server, "one"), await subscribed(server, "other")
        server.leave(one)
        for number in range(4):
            await published(server, f"item-{number}")
        seen = {(await notified(other)).get("id") for _ in range(4)}
        assert seen == {f"item-{number}" for number in range(4)}


async def test_who_unsubscribes_first_can_still_unlock(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        one, other = await subscribed(server, "one"), await subscribed(server, "other")
        await published(server)
        await notified(one)
        leave = f"<pubsub xmlns='{PUBSUB}'><unsubscribe node='{NODE}' jid='{one.jid}'/></pubsub>"
        assert (await one.iq("set", leave)).get("type") == "result"
        await published(server, "second")
        assert (await notified(other)).get("id") == "second"
        assert (await one.iq("set", unlock())).get("type") == "result"
        assert (await notified(other)).get("id") == ITEM
        assert service.registry.find(one.jid, NODE) is None


@pytest.mark.parametrize("qos", [(), (QOS,)])
async def test_who_has_unsubscribed_stays_so_through_a_restart(
    tmp_path: Path, qos: tuple[()] | tuple[str]
) -> None:
    """With items in hand, of which one that speaks urn:xmpp:qos may have received some."""
    leave = f"<pubsub xmlns='{PUBSUB}'><unsubscribe node='{NODE}'"
    async with xmpp_site(tmp_path) as (server, _, _):
        one = worker(server)
        one.features = qos
        await one.iq("set", subscribe(one.jid))
        await published(server)
        item = await one.receive()
        if qos:
            received = f"<received xmlns='{QOS}' msgId='{item[0].get('msgId')}'/>"
            await one.send(f"<iq type='result' id='{item.get('id')}'>{received}</iq>")
            await one.receive()
        answer = await one.iq("set", f"{leave} jid='{one.jid}'/></pubsub>", id="leave")
        assert answer.get("type") == "result"
    server = XmppServer()
    one = server.client(one.jid, features=qos)
    async with xmpp_site(tmp_path, server) as (_, service, site):
        if qos:
            # what it had received is still its own
            assert (await one.receive())[0].tag == f"{{{QOS}}}deliver"
            assert (await one.iq("set", unlock())).get("type") == "result"
        with trio.fail_after(PATIENCE_S):
            while service.registry.of(one.jid) or site.durable_subscriptions(""):
                await one.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert site.broker.held == 1


async def test_an_item_that_is_not_answered_goes_to_the_next_after_a_time(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        one = worker(server, "one")
        soon = "<field var='{urn:smqp:xmpp:0}lock'><value>0.2</value></field></x>"
        text = subscribe("workerbee237@shakespeare.lit", "5").replace("</x>", soon)
        assert (await one.iq("set", text)).get("type") == "result"
        other = await subscribed(server, "other")
        await published(server)
        await notified(one)
        assert child((await one.receive()), "e:event/e:items/q:unlock", NS).get("id") == ITEM
        assert (await notified(other)).get("id") == ITEM
        assert error_of(await one.iq("set", retract())) == ("cancel", "conflict")


async def test_an_item_nobody_can_work_on_becomes_a_dead_letter(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, queues=QueueSettings(max_deliveries=2)) as (server, _, _):
        client = await subscribed(server)
        await published(server)
        for deliveries in (None, "2"):
            assert (await notification(client)).delivery == deliveries
            await client.iq("set", unlock())
            await client.receive()
        answer = await client.iq("set", subscribe(client.jid, node=f"dead.{NODE}"), id="dead")
        assert answer.get("type") == "result"
        dead, headers, _ = await notification(client)
        assert headers["Dead-Reason"] == "unlocked"
        assert headers["Dead-Topic"] == NODE
        assert dead.findtext("ex:example", "", NS) == "payload"


async def test_no_more_items_than_asked_for_are_on_the_way(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = await subscribed(server, requests="2")
        for number in range(5):
            await published(server, f"item-{number}")
        assert [(await notified(client)).get("id") for _ in range(2)] == ["item-0", "item-1"]
        await client.iq("set", retract("item-1"))
        assert client.stanzas.statistics().current_buffer_used <= 2
        stanzas = [await client.receive() for _ in range(2)]
        items = [item.get("id") for s in stanzas for item in s.iter(f"{{{PUBSUB}#event}}item")]
        assert items == ["item-2"]
