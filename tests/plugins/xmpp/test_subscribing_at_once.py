"""What subscribers and owners ask for at the same time: whatever comes in between, what is told holds."""

from pathlib import Path
from xml.etree.ElementTree import Element

import msgspec
import pytest

from daemon.broker import broker
from daemon.frontend import Identity
from daemon.hops.reader import HopLogReader
from daemon.settings import Limits
from plugins.xmpp.delivery.calls import Reply, SessionEnded
from plugins.xmpp.forms.node_record import SubscriptionRequest, read_record, written
from plugins.xmpp.known.identities import channel_of
from plugins.xmpp.known.registry import NodeSubscription
from plugins.xmpp.requests import beginning
from tests.support.patience import until
from tests.support.site import running_site
from tests.support.xmpp import COMPONENT_NAME, XmppClient, XmppServer, xmpp_site
from tests.support.xmpp_collections import KEPT, PLAIN, READERS, reader, with_options
from tests.support.xmpp_pubsub import (
    INFO,
    PUBSUB,
    SMQP,
    ada,
    configure,
    create,
    error_of,
    fields,
    form,
    notified,
    pubsub,
    put,
    subscribe,
    within,
)

WORKER = "worker1@shakespeare.lit"
QOS = "{urn:smqp:xmpp:0}qos"
NODE = "news.open"


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
        # once the item counts as read
        await until(lambda: not site.durable_subscriptions("xmpp/"))
        assert client.quiet(), "one copy"


@pytest.mark.parametrize("level", ["none", "acknowledged", "assured"])
async def test_who_unsubscribes_before_an_item_is_answered_for_is_gone_once_it_is(
    tmp_path: Path, level: str
) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        await create(ada(server), NODE, **PLAIN)
        client = server.client(f"{WORKER}/desk", features=("urn:xmpp:qos",))
        await client.iq("set", with_options(client.jid, NODE, **{QOS: level}))
        server.is_slow = True
        await put(ada(server), NODE, "item")
        sent = await client.receive()
        leave = pubsub(f"<unsubscribe node='{NODE}' jid='{client.jid}'/>")
        assert (await client.iq("set", leave)).get("type") == "result"
        await put(ada(server), NODE, "next")
        if level == "none":
            await server.read_on()
        if level == "assured":
            received = f"<received xmlns='urn:xmpp:qos' msgId='{sent[0].get('msgId')}'/>"
            await client.send(f"<iq type='result' id='{sent.get('id')}'>{received}</iq>")
            sent = await client.receive()
        if level != "none":
            await client.send(f"<iq type='result' id='{sent.get('id')}'/>")
        await until(lambda: not site.durable_subscriptions("xmpp/") and not site.broker.held)
        assert service.registry.of(client.jid) == []
        assert client.quiet()
    ended = [record.event for record in HopLogReader(tmp_path / "hops").records() if record.final]
    assert ended[0] == "committed", "it came to its subscriber, and did not go back"


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


async def test_who_has_all_the_subscriptions_that_it_may_changes_one(tmp_path: Path) -> None:
    limits = Limits(subscriptions_per_session_max=2)
    async with xmpp_site(tmp_path, limits=limits) as (server, service, site):
        client = server.client(f"{WORKER}/desk")
        for node in (NODE, "other"):
            await create(ada(server), node, **PLAIN)
            text = with_options(client.jid, node, **{QOS: "none"})
            assert (await client.iq("set", text)).get("type") == "result"
        await pipelined(client, "acknowledged", "none")
        known = {(each.node, each.name) for each in service.registry.of(client.jid)}
        assert {(each.topic, each.name) for each in site.durable_subscriptions("xmpp/")} == known
        assert len(known) == 2
        await put(ada(server), NODE, "item")
        assert (await notified(client)).get("id") == "item"


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


async def test_of_two_subscriptions_that_a_crash_has_left_the_older_ends(tmp_path: Path) -> None:
    older, newer = (
        NodeSubscription(NODE, f"{WORKER}/desk", "ALL", 1, level) for level in ("acknowledged", "plain")
    )
    async with running_site(tmp_path) as site:
        session = site.open_session(
            Identity(account="bob"), channel_of(older.jid), protocol="xmpp", remote=older.jid
        )
        for each in (older, newer):
            session.subscribe(NODE, each.options)
        session.close()
    async with xmpp_site(tmp_path) as (server, service, site):
        client = server.client(older.jid)
        await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        await until(lambda: len(site.durable_subscriptions("xmpp/")) == 1)
        [known] = service.registry.of_node(NODE)
        assert [each.name for each in site.durable_subscriptions("xmpp/")] == [known.name] == [newer.name]


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


async def test_a_subscription_whose_answer_is_lost_with_its_session_goes_on(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        await create(ada(server), NODE, **PLAIN)
        client, reply = server.client(f"{WORKER}/desk"), Reply()
        asked = NodeSubscription(NODE, client.jid, "ALL", 1, "plain")
        beginning.begin(service, asked, client.jid, reply.done)
        service.clients[client.jid].session.close()
        with pytest.raises(SessionEnded):
            await reply.wait()
        assert [each.name for each in site.durable_subscriptions("xmpp/")] == [asked.name]
        assert service.registry.of(client.jid) == [asked]
        await put(ada(server), NODE, "item")
        await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert (await notified(client)).get("id") == "item"


# -- what owners decide while a subscriber is asked whether it speaks urn:xmpp:qos -----------------


async def asked(client: XmppClient) -> str:
    """Subscribe, and be asked; the id of the question."""
    client.answers_questions = False
    await client.send(f"<iq type='set' id='s'>{subscribe(client.jid, None, NODE)}</iq>")
    return str((await client.receive()).get("id"))


async def answered(client: XmppClient, question: str) -> Element:
    await client.send(f"<iq type='result' id='{question}'><query xmlns='{INFO}'/></iq>")
    return await client.answer("s")


async def outcast(owner: XmppClient) -> None:
    listed = f"<affiliation jid='{WORKER}' affiliation='outcast'/>"
    text = pubsub(f"<affiliations node='{NODE}'>{listed}</affiliations>", "#owner")
    assert (await owner.iq("set", text)).get("type") == "result"


async def test_who_becomes_an_outcast_meanwhile_does_not_subscribe(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        owner, client = ada(server), server.client(f"{WORKER}/desk")
        await create(owner, NODE, **PLAIN)
        question = await asked(client)
        await outcast(owner)
        assert error_of(await answered(client, question)) == ("auth", "forbidden")
        assert service.registry.of_node(NODE) == []


async def test_a_node_that_is_deleted_meanwhile_is_not_made_anew(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, create_on_subscribe=False) as (server, _, site):
        owner, client = ada(server), server.client(f"{WORKER}/desk")
        await create(owner, NODE, **PLAIN)
        question = await asked(client)
        await owner.iq("set", pubsub(f"<delete node='{NODE}'/>", "#owner"))
        assert error_of(await answered(client, question)) == ("cancel", "item-not-found")
        assert site.durable_subscriptions("xmpp/") == []


async def test_who_has_to_ask_meanwhile_asks(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, service, _):
        owner, client = ada(server), reader(server)
        await create(owner, NODE, **PLAIN)
        question = await asked(client)
        await configure(owner, NODE, **{"pubsub#access_model": "authorize"})
        state = within(await answered(client, question), "p:pubsub/p:subscription")
        assert state.get("subscription") == "pending"
        assert service.registry.of_node(NODE) == []


async def test_nobody_waits_for_the_owners_of_a_node_that_is_deleted_as_it_asks(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, service, _):
        owner, one = ada(server), reader(server)
        for number in range(6):  # whichever of the two comes first
            node = f"{number}.open"
            await create(owner, node, **PLAIN, **{"pubsub#access_model": "authorize"})
            asks = with_options(one.jid, node, **{QOS: "none"})
            delete = pubsub(f"<delete node='{node}'/>", "#owner")
            await server.to_component(
                f"<iq id='s' type='set' from='{one.jid}' to='{COMPONENT_NAME}'>{asks}</iq>"
                f"<iq id='d' type='set' from='{owner.jid}' to='{COMPONENT_NAME}'>{delete}</iq>"
            )
            await one.answer("s")
            assert (await owner.answer("d")).get("type") == "result"
        assert service.registry.pending() == []


async def test_a_node_that_becomes_a_queue_meanwhile_has_no_subscriber_that_gets_nothing(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        owner, client = ada(server), server.client(f"{WORKER}/desk")
        await create(owner, NODE, **PLAIN)
        question = await asked(client)
        await configure(owner, NODE, **{f"{{{SMQP}}}queueing": "1"})
        assert error_of(await answered(client, question)) == ("wait", "unexpected-request")
        assert service.registry.of_node(NODE) == []


# -- what an owner decides on ----------------------------------------------------------------------


def decided(jid: str, state: str) -> str:
    listed = f"<subscription jid='{jid}' subscription='{state}'/>"
    return pubsub(f"<subscriptions node='{NODE}'>{listed}</subscriptions>", "#owner")


async def states(client: XmppClient) -> list[str | None]:
    answer = await client.iq("get", pubsub("<subscriptions/>"))
    return [each.get("subscription") for each in answer.iter(f"{{{PUBSUB}}}subscription")]


async def too_much(server: XmppServer, client: XmppClient, request: str) -> Element:
    """What is answered to a request that comes while one may wait, and an item waits for the disk."""
    item = pubsub(f"<publish node='{NODE}'><item id='before'/></publish>")
    address = f"type='set' from='{client.jid}' to='{COMPONENT_NAME}'"
    await server.to_component(f"<iq id='p' {address}>{item}</iq><iq id='r' {address}>{request}</iq>")
    assert (await client.answer("p")).get("type") == "result"
    answer: Element = await client.answer("r")
    return answer


async def test_an_owner_with_too_much_to_ask_lets_nobody_in(tmp_path: Path) -> None:
    limits = Limits(unanswered_per_session_max=1)
    async with xmpp_site(tmp_path, rules=READERS, limits=limits) as (server, service, site):
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **{"pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(one.jid, "5", NODE))
        answer = await too_much(server, owner, decided(one.jid, "subscribed"))
        assert error_of(answer) == ("wait", "policy-violation")
        assert service.registry.of_node(NODE) == []
        assert site.durable_subscriptions("xmpp/") == []
        assert await states(one) == ["pending"]
        assert (await owner.iq("set", decided(one.jid, "subscribed"))).get("type") == "result"
        assert await states(one) == ["subscribed"]


async def test_a_worker_with_too_much_to_ask_that_cannot_leave_goes_on(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, limits=Limits(unanswered_per_session_max=1)) as (server, _, _):
        worker = server.client(f"{WORKER}/desk")
        await worker.iq("set", subscribe(worker.jid, "5", NODE))
        await put(ada(server), NODE, "one")
        assert (await notified(worker)).get("id") == "one"
        leave = pubsub(f"<unsubscribe node='{NODE}' jid='{worker.jid}'/>")
        assert error_of(await too_much(server, worker, leave)) == ("wait", "policy-violation")
        assert await states(worker) == ["subscribed"]
        assert (await notified(worker)).get("id") == "before"
        assert (await worker.iq("set", leave)).get("type") == "result"
        assert await states(worker) == []


async def test_a_configuration_for_which_the_owner_has_too_much_to_ask_changes_nothing(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path, limits=Limits(unanswered_per_session_max=1)) as (server, _, _):
        owner, client = ada(server), server.client(f"{WORKER}/desk")
        await create(owner, NODE, **PLAIN)
        await client.iq("set", subscribe(client.jid, None, NODE))
        queueing = form("node_config", **{f"{{{SMQP}}}queueing": "1"})
        text = pubsub(f"<configure node='{NODE}'>{queueing}</configure>", "#owner")
        assert error_of(await too_much(server, owner, text)) == ("wait", "policy-violation")
        answer = await owner.iq("get", pubsub(f"<configure node='{NODE}'/>", "#owner"))
        assert fields(next(answer.iter("{jabber:x:data}x")))[f"{{{SMQP}}}queueing"] == "0"
        await put(owner, NODE, "after")
        assert [(await notified(client)).get("id") for _ in range(2)] == ["before", "after"]
        assert (await owner.iq("set", text)).get("type") == "result"
        assert within(await client.receive(), "e:event/e:subscription").get("subscription") == "none"


async def test_a_node_that_its_owner_has_too_much_to_ask_to_delete_goes_on(tmp_path: Path) -> None:
    limits = Limits(unanswered_per_session_max=1)
    async with xmpp_site(tmp_path, rules=READERS, limits=limits) as (server, _, site):
        owner, client, one = ada(server), server.client(f"{WORKER}/desk"), reader(server)
        await create(owner, NODE, **PLAIN)
        await client.iq("set", subscribe(client.jid, None, NODE))
        await configure(owner, NODE, **{"pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(one.jid, None, NODE))
        text = pubsub(f"<delete node='{NODE}'/>", "#owner")
        assert error_of(await too_much(server, owner, text)) == ("wait", "policy-violation")
        assert (await states(client), await states(one)) == (["subscribed"], ["pending"])
        await put(owner, NODE, "after")
        assert [(await notified(client)).get("id") for _ in range(2)] == ["before", "after"]
        assert (await owner.iq("set", text)).get("type") == "result"
        assert within(await client.receive(), "e:event/e:delete").get("node") == NODE
        assert (await states(client), await states(one)) == ([], [])
        assert site.durable_subscriptions("xmpp/") == []


async def test_a_node_that_cannot_be_deleted_as_the_disk_cannot_be_written_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        owner, client = ada(server), server.client(f"{WORKER}/desk")
        await create(owner, NODE, **PLAIN)
        await client.iq("set", subscribe(client.jid, None, NODE))
        with monkeypatch.context() as full:
            full.setattr(broker, "BACKLOG_MAX", 0)
            answer = await owner.iq("set", pubsub(f"<delete node='{NODE}'/>", "#owner"))
            assert error_of(answer) == ("wait", "internal-server-error")
        assert await states(client) == ["subscribed"]
        await put(owner, NODE, "item")
        assert (await notified(client)).get("id") == "item"


async def test_a_node_that_its_owner_has_too_much_to_ask_to_create_can_be_created_then(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path, limits=Limits(unanswered_per_session_max=1)) as (server, _, _):
        owner, text = ada(server), pubsub("<create node='news'/>")
        assert error_of(await too_much(server, owner, text)) == ("wait", "policy-violation")
        assert (await owner.iq("set", text)).get("type") == "result"


async def test_who_is_not_let_in_gets_nothing_more(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, service, site):
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **PLAIN)
        await one.iq("set", subscribe(one.jid, None, NODE))
        # a site that ended between the two had it subscribe, and wait
        session = service.clients[owner.jid].session
        waiting = SubscriptionRequest(jid=one.jid, accepts="ALL", credit=1, level="plain")
        record = read_record(session.annotation(NODE))
        session.annotate(NODE, written(msgspec.structs.replace(record, requests={one.jid: waiting})))
        assert (await owner.iq("set", decided(one.jid, "none"))).get("type") == "result"
        assert within(await one.receive(), "e:event/e:subscription").get("subscription") == "none"
        assert one.quiet(), "told once"
        assert site.durable_subscriptions("xmpp/") == []
        assert await states(one) == []
