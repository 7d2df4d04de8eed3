"""Through a real Prosody and a real ejabberd, with real client accounts: what breaks, and comes back."""

from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.frontend import Delivered, Identity, SubscribeOptions
from daemon.settings import QueueSettings
from plugins.xmpp.serving import serve
from plugins.xmpp.settings import XmppSettings
from plugins.xmpp.wire.component import tcp_connector
from plugins.xmpp.wire.namespaces import DISCO_INFO, DISCO_ITEMS, PUBSUB, QOS, SHIM
from routing.message import Message
from tests.support.patience import PATIENCE_S
from tests.support.site import running_site
from tests.support.xmpp_pubsub import NODE, NS, child, notified, subscribe
from tests.support.xmpp_real import ready, site_at
from tests.support.xmpp_servers import COMPONENT_NAME, RealServer, log_in


def publish(item: str) -> str:
    content = f"<publish node='{NODE}'><item id='{item}'><example xmlns='urn:xmpp:example'/></item></publish>"
    return f"<pubsub xmlns='{PUBSUB}'>{content}</pubsub>"


def act(action: str, item: str) -> str:
    namespace = " xmlns='urn:xmpp:pubsub:queueing:0'" if action == "unlock" else ""
    content = f"<{action}{namespace} node='{NODE}'><item id='{item}'/></{action}>"
    return f"<pubsub xmlns='{PUBSUB}'>{content}</pubsub>"


async def test_items_of_a_client_whose_connection_breaks_go_to_another(
    server: RealServer, tmp_path: Path
) -> None:
    async with site_at(server, tmp_path / "site") as (_, _, nursery):
        worker = await log_in(server.c2s, nursery, "bob", "foo")
        await ready(worker)
        await worker.send(f"<presence to='{COMPONENT_NAME}'/>")
        await worker.iq("set", subscribe("bob@localhost", "5"))
        for item in ("a", "b"):
            await worker.iq("set", publish(item))
        assert {(await notified(worker)).get("id") for _ in range(2)} == {"a", "b"}
        other = await log_in(server.c2s, nursery, "bob", "bar")
        await other.iq("set", subscribe("bob@localhost", "5"))
        await worker.close()
        assert {(await notified(other)).get("id") for _ in range(2)} == {"a", "b"}


async def test_exactly_once_through_kills_of_the_xmpp_server_and_of_the_site(
    server: RealServer, tmp_path: Path
) -> None:
    """From an SMQP publisher to a worker that speaks urn:xmpp:qos and keeps what it has by msgId."""
    worked: list[str] = []
    waiting: dict[str, str] = {}

    async def work(client: Any) -> None:
        async for stanza in client.stanzas:
            request = stanza[0] if len(stanza) else None
            if stanza.get("type") != "set" or request is None:
                continue
            msg_id, content = request.get("msgId", ""), ""
            if request.tag == f"{{{QOS}}}assured":
                item = next(request.iter(f"{{{PUBSUB}#event}}item"))
                waiting.setdefault(msg_id, item.get("id", ""))
                content = f"<received xmlns='{QOS}' msgId='{msg_id}'/>"
            elif msg_id in waiting:
                worked.append(waiting.pop(msg_id))
            try:
                await client.send(
                    f"<iq type='result' id='{stanza.get('id')}' to='{stanza.get('from')}'>{content}</iq>"
                )
            except (trio.BrokenResourceError, trio.ClosedResourceError):  # the server was killed meanwhile
                return

    published = 0

    async def publish_some(site: Any, count: int) -> None:
        nonlocal published
        session = site.open_session(Identity(account="ada"), "p", protocol="test", remote="")
        session.set_delivery("news", "ALL", request="set")
        for _ in range(count):
            published += 1
            session.publish("news", Message(others=(("Item-Id", f"item-{published}"),)), request="put")
        answers = 0
        while answers <= count:
            answers += len(await session.events())
        session.close()

    async def log_in_worker(nursery: trio.Nursery) -> Any:
        client = await log_in(server.c2s, nursery, "bob", "w", QOS)
        await ready(client)
        return client

    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        client = await log_in_worker(nursery)
        await publish_some(site, 0)
        assert (await client.iq("set", subscribe(client.jid, "10", "news"))).get("type") == "result"
        nursery.start_soon(work, client)
        await publish_some(site, 30)
        server.kill()
        await publish_some(site, 30)
        await server.start()
        await server.register()
        client = await log_in_worker(nursery)
        await client.send(f"<presence to='{COMPONENT_NAME}'/>")
        nursery.start_soon(work, client)
        await publish_some(site, 30)
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        client = await log_in_worker(nursery)
        await client.send(f"<presence to='{COMPONENT_NAME}'/>")
        nursery.start_soon(work, client)
        await publish_some(site, 10)
        with trio.fail_after(PATIENCE_S):
            while site.broker.held:
                await trio.sleep(0.05)
    assert sorted(worked) == sorted(f"item-{number}" for number in range(1, published + 1))


async def test_assured_from_a_client_through_a_restart_of_the_site(
    server: RealServer, tmp_path: Path
) -> None:
    message = "<message xmlns='jabber:client'><a xmlns='urn:a'/></message>"
    car = f"<assured xmlns='{QOS}' msgId='984232334'>{message}</assured>"
    counter = f"counter@{COMPONENT_NAME}"
    async with site_at(server, tmp_path / "site") as (_, _, nursery):
        client = await log_in(server.c2s, nursery, "ada", "34892374")
        await ready(client)
        answer = await client.iq("set", car, id="123", to=counter)
        assert child(answer, f"{{{QOS}}}received").get("msgId") == "984232334"
    async with site_at(server, tmp_path / "site") as (_, site, nursery):
        client = await log_in(server.c2s, nursery, "ada", "34892374")
        await ready(client)
        session = site.open_session(Identity(account="ada"), "c", protocol="test", remote="")
        session.subscribe("counter", SubscribeOptions())
        for _ in range(2):
            deliver = f"<deliver xmlns='{QOS}' msgId='984232334'/>"
            assert (await client.iq("set", deliver, id="124", to=counter)).get("type") == "result"
        [delivered] = [event for event in await session.events() if isinstance(event, Delivered)]
        assert delivered.stored.message.sections[0].body == b"<a xmlns='urn:a'/>"
        session.close()


async def test_a_wrong_secret_is_an_error(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = XmppSettings(component=COMPONENT_NAME, server=f"127.0.0.1:{server.component}")
    connect = tcp_connector("127.0.0.1", server.component, None)
    async with running_site(tmp_path / "site") as site, trio.open_nursery() as nursery:
        await nursery.start(serve, site, settings, connect, "not the secret")
        with trio.fail_after(PATIENCE_S):
            while not any(record.levelname == "ERROR" for record in caplog.records):
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()


async def test_a_worker_that_logs_out_without_a_word_makes_no_dead_letters(
    server: RealServer, tmp_path: Path
) -> None:
    """Its server keeps messages for who is away, and gives them all to it when it logs in again."""
    queues = QueueSettings(max_deliveries=3)
    async with site_at(server, tmp_path / "site", queues=queues) as (service, site, nursery):
        engine = await log_in(server.c2s, nursery, "ada", "engine")
        await ready(engine)
        for _ in range(6):
            worker = await log_in(server.c2s, nursery, "bob", "worker")
            await worker.send("<presence/>")
            soon = "<field var='{urn:smqp:xmpp:0}lock'><value>2</value></field></x>"
            await worker.iq("set", subscribe(worker.jid, "5").replace("</x>", soon))
            service.clients[worker.jid].seen_at -= 60
            await worker.close()
            await engine.iq("set", publish("job"))
            with trio.fail_after(PATIENCE_S):
                while service.registry.of_node(NODE):
                    await trio.sleep(0.05)
            await engine.iq("set", f"<pubsub xmlns='{PUBSUB}#owner'><purge node='{NODE}'/></pubsub>")
        assert f"dead.{NODE}" not in site.broker._router._state.topics
        worker = await log_in(server.c2s, nursery, "bob", "worker")
        await worker.send("<presence/>")
        await worker.iq("get", "<query xmlns='jabber:iq:roster'/>", to="bob@localhost")
        kept = []
        while not worker.quiet():
            if (item := (await worker.receive()).find("e:event/e:items/e:item", NS)) is not None:
                kept.append(item.get("id"))
        assert kept == [], "nothing was sent to who was not there"


async def test_presence_is_answered(server: RealServer, tmp_path: Path) -> None:
    async with site_at(server, tmp_path / "site") as (_, _, nursery):
        client = await log_in(server.c2s, nursery, "ada", "desk")
        await ready(client)
        await client.iq("get", "<query xmlns='jabber:iq:roster'/>", to="ada@localhost")
        await client.send("<presence/>")
        await client.send(f"<presence type='subscribe' to='{COMPONENT_NAME}'/>")
        kinds: list[Any] = []
        while len(kinds) < 2:
            stanza = await client.receive()
            if stanza.tag.endswith("presence") and stanza.get("from") == COMPONENT_NAME:
                kinds.append(stanza.get("type"))
        assert sorted(kinds, key=str) == [None, "subscribed"]


async def test_a_collection_is_found_and_subscribed_to(server: RealServer, tmp_path: Path) -> None:
    async with site_at(server, tmp_path / "site") as (_, _, nursery):
        reader = await log_in(server.c2s, nursery, "bob", "desk")
        publisher = await log_in(server.c2s, nursery, "ada", "engine")
        await ready(reader)
        plain = "<field var='{urn:smqp:xmpp:0}queueing'><value>0</value></field>"
        configure = f"<configure><x xmlns='jabber:x:data' type='submit'>{plain}</x></configure>"
        for node in ("weather.oslo", "weather.rome.rain"):
            text = f"<pubsub xmlns='{PUBSUB}'><create node='{node}'/>{configure}</pubsub>"
            assert (await publisher.iq("set", text)).get("type") == "result"
        # also by its own address: # and * may stand in front of the @
        for to, node in ((f"weather.#@{COMPONENT_NAME}", ""), (COMPONENT_NAME, " node='weather.*'")):
            info = await reader.iq("get", f"<query xmlns='{DISCO_INFO}'{node}/>", to=to)
            assert child(info, f".//{{{DISCO_INFO}}}identity").get("type") == "collection"
        listed = await reader.iq("get", f"<query xmlns='{DISCO_ITEMS}' node='weather.*'/>")
        assert [each.get("node") for each in listed.iter(f"{{{DISCO_ITEMS}}}item")] == ["weather.oslo"]
        assert (await reader.iq("set", subscribe(reader.jid, None, "weather.#"))).get("type") == "result"
        for node in ("weather.oslo", "weather.rome.rain"):
            item = f"<publish node='{node}'><item id='{node}'><a xmlns='urn:a'/></item></publish>"
            await publisher.iq("set", f"<pubsub xmlns='{PUBSUB}'>{item}</pubsub>")
            stanza = await reader.receive()
            assert child(stanza, "e:event/e:items", NS).get("node") == node
            header = child(stanza, f".//{{{SHIM}}}header[@name='Collection']")
            assert header.text == "weather.#"
