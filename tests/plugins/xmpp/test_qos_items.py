"""urn:xmpp:qos from the service: items that a client confirms, over its restarts and the daemon's."""

from pathlib import Path

import pytest

from daemon.frontend import Identity
from daemon.settings import Limits
from plugins.xmpp.wire.namespaces import QOS
from routing.message import Message
from tests.support.xmpp import XmppServer, xmpp_site
from tests.support.xmpp_pubsub import NODE, PUBSUB, child, error_of, subscribe
from tests.support.xmpp_qos import answer, counter, next_request, publish_item


async def test_a_client_that_speaks_it_gets_items_assured(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = await counter(server)
        await publish_item(server)
        iq, request = await next_request(client)
        assert request.tag == f"{{{QOS}}}assured"
        message = child(request, "{jabber:client}message")
        assert "to" not in message.attrib
        assert "from" not in message.attrib
        assert next(message.iter(f"{{{PUBSUB}#event}}item")).get("id") == "i"
        await answer(client, iq, f"<received xmlns='{QOS}' msgId='{request.get('msgId')}'/>")
        iq, second = await next_request(client)
        assert second.tag == f"{{{QOS}}}deliver"
        assert second.get("msgId") == request.get("msgId")
        await answer(client, iq)
        assert site.broker.held == 1
        text = f"<pubsub xmlns='{PUBSUB}'><retract node='{NODE}'><item id='i'/></retract></pubsub>"
        assert (await client.iq("set", text)).get("type") == "result"
        assert site.broker.held == 0


async def test_on_a_plain_node_the_answer_to_deliver_finishes_an_item(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        session = site.open_session(Identity(account="ada"), "a", protocol="test", remote="")
        session.set_delivery("news", "ALL")
        client = await counter(server, "news")
        session.publish("news", Message())
        for _ in range(2):
            assert site.broker.held == 1
            iq, _ = await next_request(client)
            await answer(client, iq)
        while site.broker.held:
            await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        session.close()


async def test_requests_are_repeated_until_they_are_answered(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, answer_s=0.1) as (server, _, _):
        client = await counter(server)
        await publish_item(server)
        first, request = await next_request(client)
        again, same = await next_request(client)
        assert again.get("id") == first.get("id")
        assert same.get("msgId") == request.get("msgId")
        await answer(client, again)
        while (pair := await next_request(client))[1].tag != f"{{{QOS}}}deliver":
            continue
        await answer(client, pair[0])


async def test_a_received_item_is_delivered_and_not_sent_again_after_a_restart(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = await counter(server)
        await publish_item(server)
        iq, request = await next_request(client)
        await answer(client, iq)
        _, second = await next_request(client)
        assert second.tag == f"{{{QOS}}}deliver"
    server = XmppServer()
    client = server.client(client.jid, features=(QOS,))
    other = server.client("worker@shakespeare.lit/other")
    async with xmpp_site(tmp_path, server) as (server, _, site):
        iq, third = await next_request(client)
        assert third.tag == f"{{{QOS}}}deliver"
        assert third.get("msgId") == request.get("msgId")
        await answer(client, iq)
        assert (await other.iq("set", subscribe(other.jid, "5"))).get("type") == "result"
        text = f"<pubsub xmlns='{PUBSUB}'><retract node='{NODE}'><item id='i'/></retract></pubsub>"
        assert error_of(await other.iq("set", text)) == ("cancel", "conflict")
        assert (await client.iq("set", text)).get("type") == "result"
        assert site.broker.held == 0


async def test_an_item_that_was_not_received_goes_to_another_after_a_restart(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = await counter(server)
        await publish_item(server)
        await next_request(client)
    server = XmppServer()
    other = server.client("worker@shakespeare.lit/other")
    async with xmpp_site(tmp_path, server) as (server, _, _):
        await other.iq("set", subscribe(other.jid, "5"))
        item = next((await other.receive()).iter(f"{{{PUBSUB}#event}}item"))
        assert item.get("id") == "i"


@pytest.mark.parametrize("leaves", [False, True])
async def test_an_item_received_by_who_is_gone_waits_for_it(tmp_path: Path, leaves: bool) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, other = await counter(server), await counter(server, resource="2")
        await publish_item(server)
        iq, request = await next_request(client)
        await answer(client, iq)
        await next_request(client)
        if leaves:
            text = f"<unsubscribe node='{NODE}' jid='{client.jid}'/>"
            left = await client.iq("set", f"<pubsub xmlns='{PUBSUB}'>{text}</pubsub>", id="leave")
            assert left.get("type") == "result"
        await client.send("<presence type='unavailable'/>")
        await other.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert other.quiet()
        await client.send("<presence/>")
        iq, again = await next_request(client)
        assert again.tag == f"{{{QOS}}}deliver"
        assert again.get("msgId") == request.get("msgId")


@pytest.mark.parametrize("text", ["x" * 4_000, "🦀" + "x" * 350], ids=["letters", "letters that take much"])
async def test_what_a_client_does_not_answer_counts_in_the_memory_that_all_front_ends_share(
    tmp_path: Path, text: str
) -> None:
    limits = Limits(message_bytes_max=10_000, unfinished_bytes_max=20_000)
    async with xmpp_site(tmp_path, limits=limits) as (server, _, site):
        client, budget = await counter(server), site.broker.unfinished
        large = f"<a xmlns='urn:a'>{text}</a>"
        for number in range(4):
            publish = f"<publish node='{NODE}'><item id='{number}'>{large}</item></publish>"
            pubsub = f"<pubsub xmlns='{PUBSUB}'>{publish}</pubsub>"
            assert (await server.client("ada@shakespeare.lit/p").iq("set", pubsub)).get("type") == "result"
        requests = [await next_request(client) for _ in range(2)]
        assert client.quiet()
        assert 7_000 < budget.bytes <= limits.unfinished_bytes_max // 2
        for iq, request in requests:
            await answer(client, iq, f"<received xmlns='{QOS}' msgId='{request.get('msgId')}'/>")
        later = [await next_request(client) for _ in range(4)]
        assert [request.tag for _, request in later] == [f"{{{QOS}}}deliver"] * 2 + [f"{{{QOS}}}assured"] * 2
        assert budget.bytes <= limits.unfinished_bytes_max // 2
