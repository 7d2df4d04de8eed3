"""The stream to the server: refused, broken, attacked, and come back."""

from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
import trio
import trio.testing

from daemon.frontend import Identity
from daemon.settings import QueueSettings
from plugins.xmpp.forms.stanzas import MESSAGE
from plugins.xmpp.wire.component import Component
from plugins.xmpp.wire.parser import StanzaTooMuch
from routing.message import DeliveryMode, Message, Section
from tests.support.patience import PATIENCE_S
from tests.support.xmpp import COMPONENT_NAME, LIMITS, SECRET, XmppServer, xmpp_site
from tests.support.xmpp_pubsub import NODE, PUBSUB, notified, subscribe


def component(server: XmppServer, secret: str = SECRET, handle: Any = None) -> Component:
    async def ignore(stanza: Element | StanzaTooMuch) -> None:
        await trio.lowlevel.checkpoint()

    return Component(
        COMPONENT_NAME,
        secret,
        server.connect,
        handle=handle or ignore,
        too_much=ignore,
        up=lambda: None,
        down=lambda: None,
        limits=LIMITS,
        send_bytes_max=2**20,
    )


async def test_a_wrong_secret_is_reported_and_not_tried_again(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    server = XmppServer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        await component(server, "wrong").run()
        await trio.sleep(3600)
        assert server.connections == 1
        nursery.cancel_scope.cancel()
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    assert "not-authorized" in record.getMessage()
    assert "wrong" not in record.getMessage().replace("not-authorized", "")


async def test_a_server_that_is_not_there_is_tried_again_ever_more_slowly(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = XmppServer()
    server.refuse = True
    times = []
    connect = server.connect

    async def counted() -> Any:
        times.append(trio.current_time())
        return await connect()

    server.connect = counted  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(component(server).run)
        await trio.sleep(600)
        nursery.cancel_scope.cancel()
    waits = [after - before for before, after in pairwise(times)]
    assert max(waits) <= 30
    assert 20 < len(times) < 60
    assert waits[0] < waits[5]


async def test_a_server_that_answers_nothing_any_more_is_left(autojump_clock: trio.testing.MockClock) -> None:
    server = XmppServer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        nursery.start_soon(component(server).run)
        await trio.sleep(1)
        server._route = lambda stream, stanza: trio.lowlevel.checkpoint()  # type: ignore[method-assign]
        await trio.sleep(300)
        assert server.connections > 2
        nursery.cancel_scope.cancel()


async def test_a_server_that_does_not_read_makes_senders_wait(autojump_clock: trio.testing.MockClock) -> None:
    server = XmppServer()
    link = component(server)
    connect = server.connect
    streams: list[Any] = []

    async def connect_and_keep() -> Any:
        streams.append(await connect())
        return streams[0]

    link._connect = connect_and_keep
    sent = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        nursery.start_soon(link.run)
        await server.connected.wait()
        # from now on the server's window is closed
        streams[0].send_stream.send_all_hook = trio.sleep_forever
        stanza = Element(MESSAGE, {"to": "a@b/c", "from": COMPONENT_NAME})
        stanza.text = "x" * 100_000
        with trio.move_on_after(10):
            while True:
                await link.send(stanza)
                sent += 1
        assert 10 < sent < 100
        nursery.cancel_scope.cancel()


async def test_requests_are_answered_while_much_is_on_its_way_to_others(tmp_path: Path) -> None:
    """More than may be unread: only who reads on sees what the server has read."""
    async with xmpp_site(tmp_path) as (server, _, site):
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        session.set_delivery("news", "ALL")
        readers = [server.client(f"worker@shakespeare.lit/{number}") for number in range(40)]
        for reader in readers:
            await reader.iq("set", subscribe(reader.jid, None, "news"))
        session.publish("news", Message(sections=(Section("text/plain", bytes(150_000)),)))
        for _ in range(100):
            await readers[0].send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>")
        for reader in readers:
            while (await reader.receive()).tag != MESSAGE:
                continue
        assert server.connections == 1
        session.close()


async def test_items_on_their_way_when_the_stream_breaks_come_again(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = server.client("worker@shakespeare.lit/1")
        await client.iq("set", subscribe(client.jid, "5"))
        route = server._route

        async def deaf(stream: Any, stanza: Any) -> None:
            await trio.lowlevel.checkpoint()

        server._route = deaf
        text = f"<publish node='{NODE}'><item id='i'><a xmlns='urn:a'/></item></publish>"
        await client.send(f"<iq type='set' id='p'><pubsub xmlns='{PUBSUB}'>{text}</pubsub></iq>")
        with trio.fail_after(PATIENCE_S):
            while not site.broker.held:
                await trio.sleep(0.01)
        await server.cut()
        server._route = route
        answered = []
        while (stanza := await client.receive()).tag != MESSAGE:
            answered.append(stanza.get("id"))
        if "p" not in answered:
            await client.answer("p")
        assert next(stanza.iter(f"{{{PUBSUB}#event}}item")).get("id") == "i"


async def test_items_wait_for_a_server_that_is_down_for_long(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.rate = 1.0
    queues = QueueSettings(max_deliveries=2)
    async with xmpp_site(tmp_path, queues=queues) as (server, _, site):
        worker, reader = (server.client(f"worker@shakespeare.lit/{number}") for number in (1, 2))
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        session.set_delivery("news", "ALL")
        await worker.iq("set", subscribe(worker.jid, "5"))
        await reader.iq("set", subscribe(reader.jid, None, "news"))
        server.refuse = True
        await server.cut()
        modes: tuple[tuple[str, DeliveryMode], ...] = ((NODE, "ONE"), ("news", "ALL"))
        for topic, mode in modes:
            session.publish(topic, Message(delivery=mode, others=(("Item-Id", "i"),)))
        for _ in range(10):
            site.broker.clock._offset += queues.lock_s / 2
            mock_clock.jump(queues.lock_s / 2)
            await trio.testing.wait_all_tasks_blocked(0.01)
        server.refuse = False
        mock_clock.jump(60)
        for client in (worker, reader):
            while (stanza := await client.receive()).tag != MESSAGE:
                continue
            assert next(stanza.iter(f"{{{PUBSUB}#event}}item")).get("id") == "i"
        assert not [name for name in site.broker._router._state.topics if name.startswith("dead.")]
        session.close()


async def test_a_subscriber_that_left_while_the_stream_was_down_is_noticed(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        one = server.client("worker@shakespeare.lit/1")
        await one.iq("set", subscribe(one.jid, "5"))
        await server.cut()
        server.leave(one)
        other = server.client("worker@shakespeare.lit/2")
        with trio.fail_after(PATIENCE_S):
            while service.registry.of(one.jid):
                await trio.sleep(0.01)
        await other.iq("set", subscribe(other.jid, "5"))
        text = f"<publish node='{NODE}'><item id='i'/></publish>"
        await other.iq("set", f"<pubsub xmlns='{PUBSUB}'>{text}</pubsub>")
        assert (await notified(other)).get("id") == "i"


async def test_a_subscriber_that_does_not_answer_at_first_is_asked_again(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        mock_clock.rate = 1.0
        reader = server.client("worker@shakespeare.lit/1")
        await reader.iq("set", subscribe(reader.jid, "5"))
    server = XmppServer()
    reader = server.client(reader.jid)
    reader.answers_questions = False
    async with xmpp_site(tmp_path, server) as (_, service, _):
        question = again = await reader.receive()
        while again.get("id") == question.get("id"):
            while reader.quiet():
                mock_clock.jump(1)
                await trio.testing.wait_all_tasks_blocked(0.01)
            again = await reader.receive()
        assert not service.registry.of(reader.jid)[0].attached
        await reader.send(f"<iq type='result' id='{again.get('id')}'/>")
        with trio.fail_after(PATIENCE_S):
            while not service.registry.of(reader.jid)[0].attached:
                await trio.sleep(0.01)


@pytest.mark.parametrize(
    "attack",
    [
        "<message from='ada@shakespeare.lit/x' to='{to}'><body>&bomb;</body></message>",
        "<!DOCTYPE a [<!ENTITY b 'b'>]>",
    ],
)
async def test_after_xml_that_no_server_may_pass_on_the_component_connects_again(
    tmp_path: Path, attack: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = server.client("ada@shakespeare.lit/x")
        await server.to_component(attack.format(to=COMPONENT_NAME))
        with trio.fail_after(PATIENCE_S):
            while server.connections < 2 or not server.connected.is_set():
                await trio.sleep(0.01)
        assert (await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")).get("type") == "result"


@pytest.mark.parametrize(
    "stanza",
    [
        "<iq type='set' id='1'/>",
        "<iq id='1'><a xmlns='urn:a'/></iq>",
        "<iq type='result' id='no such'/>",
        "<iq type='set'><pubsub xmlns='http://jabber.org/protocol/pubsub'/></iq>",
        "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'>"
        "<item><data xmlns='urn:smqp:xmpp:0'>not base64!</data></item></publish></pubsub></iq>",
        "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'>"
        "<subscribe node='n' jid='@@/'/></pubsub></iq>",
        "<iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'>"
        "<item><headers xmlns='urn:smqp:xmpp:0'><header name='a&#10;b'>c&#10;d</header></headers></item>"
        "</publish></pubsub></iq>",
        "<iq type='set' id='1'><assured xmlns='urn:xmpp:qos'/></iq>",
        "<message/>",
        "<message type='error'/>",
        "<presence type='subscribe'/>",
        "<presence type='nonsense'/>",
        "<nonsense/>",
    ],
)
async def test_odd_stanzas_break_nothing(tmp_path: Path, stanza: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = server.client("ada@shakespeare.lit/x")
        await client.send(stanza)
        assert (await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>", id="p")).get("type") == "result"
        assert server.connections == 1
