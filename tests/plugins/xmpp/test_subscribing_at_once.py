"""What subscribers and owners ask for at the same time: whatever comes in between, what is told holds."""

from pathlib import Path

from tests.support.patience import until
from tests.support.xmpp import XmppClient, xmpp_site
from tests.support.xmpp_collections import KEPT, PLAIN, with_options
from tests.support.xmpp_pubsub import ada, create, notified, pubsub, put, subscribe

WORKER = "worker1@shakespeare.lit"
QOS = "{urn:smqp:xmpp:0}qos"
NODE = "news"


async def pipelined(client: XmppClient, *levels: str) -> None:
    """Ask for the same subscription at one level after the other, without waiting for an answer."""
    for number, level in enumerate(levels):
        text = with_options(client.jid, NODE, **{QOS: level})
        await client.send(f"<iq type='set' id='s{number}'>{text}</iq>")
    for number, _ in enumerate(levels):
        assert (await client.answer(f"s{number}")).get("type") == "result"


async def test_subscriptions_in_quick_succession_are_one(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        await create(ada(server), NODE, **PLAIN)
        client = server.client(f"{WORKER}/desk")
        await pipelined(client, "none")
        await pipelined(client, "acknowledged", "none", "acknowledged", "none")
        [known] = service.registry.of(client.jid)
        assert [each.name for each in site.durable_subscriptions("xmpp/")] == [known.name]
        await put(ada(server), NODE, "item")
        assert (await notified(client)).get("id") == "item"
        await client.iq("set", pubsub(f"<unsubscribe node='{NODE}' jid='{client.jid}'/>"))
        assert client.quiet(), "one copy"
        assert site.durable_subscriptions("xmpp/") == []


async def test_who_subscribes_twice_at_once_gets_the_last_item_alone(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), NODE, **KEPT)
        for number in range(3):
            await put(ada(server), NODE, f"item-{number}")
        client = server.client(f"{WORKER}/desk")
        await pipelined(client, "none", "none")
        assert (await notified(client)).get("id") == "item-2"
        await put(ada(server), NODE, "item-3")
        assert (await notified(client)).get("id") == "item-3"


async def test_a_subscription_that_only_the_broker_knows_ends_with_its_first_item(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        await create(ada(server), NODE, **PLAIN)
        client = server.client(f"{WORKER}/desk")
        assert (await client.iq("set", subscribe(client.jid, None, NODE))).get("type") == "result"
        [lost] = service.registry.of(client.jid)
        service.registry.remove(lost)
        await put(ada(server), NODE, "item")
        await until(lambda: not site.durable_subscriptions("xmpp/"))
        await until(lambda: not site.broker.held)
        assert client.quiet()


async def test_who_leaves_and_subscribes_at_once_subscribes(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        await create(ada(server), NODE, **PLAIN)
        client = server.client(f"{WORKER}/desk")
        await pipelined(client, "none")
        leave = pubsub(f"<unsubscribe node='{NODE}' jid='{client.jid}'/>")
        again = with_options(client.jid, NODE, **{QOS: "none"})
        for id, text in (("1", leave), ("2", again), ("3", leave), ("4", again)):
            await client.send(f"<iq type='set' id='{id}'>{text}</iq>")
        for id in "1234":
            await client.answer(id)
        names = [each.name for each in site.durable_subscriptions("xmpp/")]
        assert names == [each.name for each in service.registry.of(client.jid)]
