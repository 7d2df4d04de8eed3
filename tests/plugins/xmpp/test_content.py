"""Messages between XMPP and other front ends: their headers both ways, and every content byte for byte."""

import base64
from pathlib import Path

import pytest

from daemon.broker.session import BrokerSession
from daemon.frontend import Delivered, Identity, SubscribeOptions
from daemon.settings import QueueSettings
from plugins.xmpp.wire.serializer import serialize
from routing.message import INFINITE, Message, Section
from tests.support.xmpp import COMPONENT_NAME, xmpp_site
from tests.support.xmpp_pubsub import (
    INFO,
    NODE,
    NS,
    PUBSUB,
    SMQP,
    ada,
    child,
    create,
    error_of,
    fields,
    notification,
    notified,
    pubsub,
    put,
    subscribe,
)

_SHIM = "{http://jabber.org/protocol/shim}"


async def next_delivery(session: BrokerSession) -> Delivered:
    while True:
        for event in await session.events():
            if isinstance(event, Delivered):
                return event


async def test_receipts_come_to_the_node_that_the_service_names(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, worker = ada(server), ada(server, "worker")
        answer = await client.iq("get", f"<query xmlns='{INFO}'/>")
        [told] = answer.findall(f"{{{INFO}}}query/x:x", NS)
        own = fields(told)["account"]
        await client.iq("set", subscribe(client.jid, "1", own))
        await worker.iq("set", subscribe(worker.jid, "1", "work"))
        asked = "<header name='Receipt'>ALL</header><header name='Cmuid'>c1</header>"
        await put(client, "work", "i", f"<a xmlns='urn:a'/><headers xmlns='{SMQP}'>{asked}</headers>")
        assert (await notification(worker)).headers["Account"] == own
        await worker.iq("set", pubsub("<retract node='work'><item id='i'/></retract>"))
        receipt, headers, _ = await notification(client)
        assert receipt.findtext(f"{{{SMQP}}}text") == "1/1"
        assert (headers["Receipt-Topic"], headers["Receipt-Cmuid"]) == ("work", "c1")
        # nobody else may read it, and who has no account has none
        bob = server.client("worker@shakespeare.lit/x")
        refused = await bob.iq("set", subscribe(bob.jid, "1", own))
        assert error_of(refused) == ("cancel", "not-allowed")
        stranger = server.client("mallory@elsewhere.example/x")
        answer = await stranger.iq("get", f"<query xmlns='{INFO}'/>")
        assert answer.find(f"{{{INFO}}}query/x:x", NS) is None


async def test_headers_go_both_ways(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        session.subscribe("work", SubscribeOptions())
        headers = {
            "Priority": "5",
            "Timeout": "30",
            "Depth": "2",
            "Receipt": "ALL",
            "Name": "n",
            "X-Own": "ü",
        }
        text = "".join(f"<header name='{name}'>{value}</header>" for name, value in headers.items())
        content = (
            f"<a xmlns='urn:a'/><headers xmlns='{SMQP}'>{text}</headers>"
            "<delay xmlns='urn:xmpp:delay' stamp='2026-11-21T10:00:00.250Z'/>"
        )
        assert (await put(ada(server), "work", "i", content)).get("type") == "result"
        message = (await next_delivery(session)).stored.message
        assert (message.priority, message.timeout_s, message.depth) == (5, 30.0, 2)
        assert (message.receipt, message.name, message.created) == ("ALL", "n", "2026-11-21T10:00:00.250Z")
        assert message.others == (("X-Own", "ü"), ("Item-Id", "i"))
        assert message.sections == (Section("application/xml", b"<a xmlns='urn:a'/>"),)
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "other"))
        session.publish("other", Message(delivery="ONE", priority=3, others=(("X-Own", "ü"),)))
        stanza = await client.receive()
        got = {each.get("name"): each.text for each in stanza.findall(f"{_SHIM}headers/{_SHIM}header")}
        assert (got["Priority"], got["X-Own"]) == ("3", "ü")
        assert got["Smuid"] == child(stanza, "e:event/e:items/e:item", NS).get("id")
        assert child(stanza, "{urn:xmpp:delay}delay").get("stamp")
        session.close()


async def test_headers_stand_beside_what_is_published_and_what_is_retrieved(tmp_path: Path) -> None:
    """XEP-0131; an item has one child (XEP-0060 17.1)."""
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        header = "<header name='Priority'>7</header>"
        headers = f"<headers xmlns='http://jabber.org/protocol/shim'>{header}</headers>"
        items = "<item id='one'><a xmlns='urn:a'/></item><item id='two'><a xmlns='urn:a'/></item>"
        publish = f"<publish node='work'>{items}</publish>{headers}"
        assert (await client.iq("set", pubsub(publish))).get("type") == "result"
        third = pubsub("<publish node='work'><item id='three'/></publish>")
        await client.send(f"<message>{third}{headers}</message>")
        answer = await client.iq("get", pubsub("<items node='work'/>"))
        assert [len(item) for item in answer.iter(f"{{{PUBSUB}}}item")] == [1, 1, 0]
        told = {
            of.get("item"): {each.get("name"): each.text for each in of}
            for of in answer.findall(f"p:pubsub/{_SHIM}headers", NS)
        }
        assert {id: one["Priority"] for id, one in told.items()} == {"one": "7", "two": "7", "three": "7"}
        assert all(one["Created"] for one in told.values())


async def test_headers_that_are_the_servers_own_are_refused(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        for name, value in (("Hops", "b.example"), ("Account", "a:b@c"), ("Priority", "high")):
            content = f"<headers xmlns='{SMQP}'><header name='{name}'>{value}</header></headers>"
            assert error_of(await put(ada(server), "work", "i", content)) == ("modify", "bad-request")


BODIES = [
    Section("text/plain", b"\x00\x0b\xff not for XML"),
    Section("application/xml", b"<a xmlns='urn:a'>text</a>"),
    Section("application/xml", b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
    Section("application/xml", b'<a b="double quotes" />'),
    Section("application/xml", b"<a>" * 60 + b"</a>" * 60),
    Section("application/xml", b"<broken"),
    Section("application/xml", b"<a><o:b/></a>" * 600),
    Section("application/xml", b"<data xmlns='urn:smqp:xmpp:0'>bm8=</data>"),
    Section("application/xml", b"<a xmlns='urn:a}b c'/>"),
    Section("application/xml", b"<xml:a><b xmlns='urn:b'/></xml:a>"),
    Section("application/xml", b"<a xmlns='urn:a' xml:lang='de'> xml:b='c'</a>"),
    Section("application/octet-stream", bytes(range(256))),
    Section("text/plain", b""),
]


@pytest.mark.parametrize("section", BODIES)
async def test_any_content_comes_back_byte_for_byte(tmp_path: Path, section: Section) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        session.subscribe("back", SubscribeOptions())
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "there"))
        two = (section, Section("image/gif", b"GIF", (("Content-ID", "image1"),)))
        for sections in ((section,), two):
            session.publish("there", Message(delivery="ONE", sections=sections))
            item = await notified(client)
            content = "".join(serialize(child, PUBSUB) for child in item)
            assert (await put(client, "back", "i", content)).get("type") == "result"
            assert (await next_delivery(session)).stored.message.sections == sections
            text = f"<retract node='there'><item id='{item.get('id')}'/></retract>"
            await client.iq("set", pubsub(text))
            await client.receive()
        session.close()


@pytest.mark.parametrize(
    "namespace",
    ["urn:with space", "urn:}brace", "urn:} x='y'/&gt;&lt;message to='mallory@shakespeare.lit'/&gt;&lt;a{"],
)
async def test_a_namespace_of_any_characters_is_content_and_ends_no_stream(
    tmp_path: Path, namespace: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "work"))
        content = f'<p:a xmlns:p="{namespace}" p:b="c"/>'
        await client.send(f"<message to='work@{COMPONENT_NAME}'>{content}</message>")
        [entry] = await notified(client)
        name = namespace.replace("&gt;", ">").replace("&lt;", "<")
        assert (entry.tag, entry.attrib) == (f"{{{name}}}a", {f"{{{name}}}b": "c"})
        assert server.connections == 1


async def test_what_takes_the_namespace_around_it_stays_in_its_own(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "work"))
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        section = Section("application/xml", b"<a/>")
        session.publish("work", Message(delivery="ONE", sections=(section,)))
        [entry] = await notified(client)
        assert entry.tag == "a"
        session.close()


@pytest.mark.parametrize(
    ("content", "tag"),
    [
        ("<xml:a/>", f"{{{SMQP}}}data"),
        ("<a xmlns='urn:a'><b><xml:lang/></b></a>", f"{{{SMQP}}}data"),
        ("<a xmlns='urn:a'><b xml:href='c'/></a>", f"{{{SMQP}}}data"),
        ("<a xmlns='urn:a' xml:lang='de'><b xml:space='default'/> xml:href='c'</a>", "{urn:a}a"),
        (f"<a xmlns='{SMQP}}}b'/>", f"{{{SMQP}}}b}}a"),
    ],
)
async def test_only_what_servers_would_make_no_xml_of_is_bytes(
    tmp_path: Path, content: str, tag: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "work"))
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        section = Section("application/xml", content.encode())
        session.publish("work", Message(delivery="ONE", sections=(section,)))
        item = await notified(client)
        assert item[0].tag == tag
        await client.iq("set", pubsub(f"<retract node='work'><item id='{item.get('id')}'/></retract>"))
        await client.receive()
        await client.send(f"<message to='work@{COMPONENT_NAME}'>{content}</message>")
        assert (await notified(client))[0].tag == tag
        session.close()


async def test_what_came_with_a_long_tag_is_xml_also_after_a_restart(tmp_path: Path) -> None:
    content = f"<a xmlns='urn:a' b='{'>' * 50_000}'/>"
    async with xmpp_site(tmp_path) as (server, _, _):
        client, item = ada(server), f"<item id='i'>{content}</item>"
        publish = pubsub(f"<publish node='work'>{item}</publish>")
        await server.to_component(
            f"<iq type='set' id='1' from='{client.jid}' to='{COMPONENT_NAME}'>{publish}</iq>"
        )
        assert (await client.answer("1")).get("type") == "result"
    async with xmpp_site(tmp_path, send_bytes_max=2**20) as (server, _, _):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "work"))
        assert (await notified(client))[0].get("b") == ">" * 50_000


async def test_what_looks_like_an_items_own_parts_is_content_in_a_message(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "there"))
        own = f"<data xmlns='{SMQP}'>bm8=</data>"
        await client.send(f"<message to='there@workflow.shakespeare.lit'>{own}</message>")
        item = await notified(client)
        assert base64.b64decode(item.findtext(f"{{{SMQP}}}data", "")) == own.encode()


async def test_what_the_server_could_not_take_goes_to_the_dead_letters(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, queues=QueueSettings(max_deliveries=1), send_bytes_max=10_000) as (
        server, _, site,
    ):  # fmt: skip
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        session.subscribe("dead.work", SubscribeOptions())
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "work"))
        for message in (
            Message(delivery="ONE", others=(("X-Bad", "\ufffe"),)),
            Message(delivery="ONE", sections=(Section("text/plain", b"x" * 10_000),)),
        ):
            session.publish("work", message)
            dead = (await next_delivery(session)).stored.message
            assert ("Dead-Topic", "work") in dead.others
        session.publish("work", Message(delivery="ONE", sections=(Section("text/plain", b"small"),)))
        item = await notified(client)
        assert item.findtext(f"{{{SMQP}}}text") == "small"
        session.close()


@pytest.mark.parametrize(("id", "is_id"), [("x" * 255, True), ("x" * 256, False), ("", False)])
async def test_an_item_whose_id_xmpp_would_refuse_goes_by_its_smuid(
    tmp_path: Path, id: str, is_id: bool
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "work"))
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        session.publish("work", Message(delivery="ONE", others=(("Item-Id", id),)))
        told = (await notified(client)).get("id")
        [held] = session.entries("work", 0, 1)
        assert told == (id if is_id else held.smuid)
        retract = pubsub(f"<retract node='work'><item id='{told}'/></retract>")
        assert (await client.iq("set", retract)).get("type") == "result"
        assert site.broker.held == 0
        session.close()


@pytest.mark.parametrize(
    ("ids", "stay"),
    [
        (["one"], []),
        (["x" * 256], ["x" * 256]),
        ([""], [None]),
        (["", "one", "two", "one"], [None, "two"]),
    ],
)
async def test_an_item_id_that_is_not_the_items_id_stays_a_header(
    tmp_path: Path, ids: list[str], stay: list[str | None]
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "news", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        await client.iq("set", subscribe(client.jid, None, "news"))
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        others = tuple(("Item-Id", id) for id in ids)
        session.publish("news", Message(delivery="ALL", timeout_s=INFINITE, others=others))
        shown = [await client.receive(), await client.iq("get", pubsub("<items node='news'/>"))]
        for stanza in shown:
            headers = stanza.iter("{http://jabber.org/protocol/shim}header")
            assert [each.text for each in headers if each.get("name") == "Item-Id"] == stay
        session.close()


async def test_that_an_item_is_retracted_whose_id_xml_cannot_hold_is_told_to_nobody(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        client = ada(server)
        await create(client, "news", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        await client.iq("set", subscribe(client.jid, None, "news"))
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        for id in ("a\ufffe", "good"):
            session.publish("news", Message(delivery="ALL", timeout_s=INFINITE, others=(("Item-Id", id),)))
        assert (await notified(client)).get("id") == "good"
        for held in session.entries("news"):
            session.remove("news", held.smuid)
        retracted = child(await client.receive(), "e:event/e:items/e:retract", NS)
        assert retracted.get("id") == "good"
        assert site.broker.mishaps.count == 0
        assert client.jid not in service.registry.absent
        session.close()


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "text/plain; charset=utf-8", 'text/csv;charset="UTF-8"', "application/json"],
)
async def test_text_that_xml_can_hold_is_text_in_both_directions(tmp_path: Path, content_type: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "work"))
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        body = "größer <&> \r\n\u2028".encode()
        session.publish("work", Message(delivery="ONE", sections=(Section(content_type, body),)))
        text = (await notified(client)).find(f"{{{SMQP}}}text")
        assert text is not None
        assert (text.get("type"), text.text) == (content_type, body.decode())
        session.subscribe("back", SubscribeOptions())
        content = "<text xmlns='urn:smqp:xmpp:0' type='text/markdown'># grün</text>"
        await put(client, "back", "i", content)
        [section] = (await next_delivery(session)).stored.message.sections
        assert section == Section("text/markdown", "# grün".encode())
        session.close()


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/plain", b"\xff"), ("text/plain", b"a\x00"), ("text/plain; charset=latin-1", b"a"), ("a/b", b"a")],
)
async def test_what_is_no_text_that_xml_can_hold_is_bytes(
    tmp_path: Path, content_type: str, body: bytes
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "work"))
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        session.publish("work", Message(delivery="ONE", sections=(Section(content_type, body),)))
        data = (await notified(client)).findtext(f"{{{SMQP}}}data")
        assert data is not None
        assert base64.b64decode(data) == body
        session.close()


# -- messages of people who chat ------------------------------------------------------------------

TYPES = "<composing xmlns='http://jabber.org/protocol/chatstates'/>"
ANNOTATIONS = (
    "<active xmlns='http://jabber.org/protocol/chatstates'/><request xmlns='urn:xmpp:receipts'/>"
    "<markable xmlns='urn:xmpp:chat-markers:0'/><origin-id xmlns='urn:xmpp:sid:0' id='q'/>"
    "<stanza-id xmlns='urn:xmpp:sid:0' id='q' by='shakespeare.lit'/><store xmlns='urn:xmpp:hints'/>"
    "<delay xmlns='urn:xmpp:delay' stamp='2002-09-10T23:08:25Z'/>"
)


async def test_what_a_chat_client_adds_to_a_message_is_not_published(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await client.iq("set", subscribe(client.jid))
        to = f"to='{NODE}@{COMPONENT_NAME}' type='chat'"
        await client.send(f"<message {to}>{TYPES}<thread>1</thread></message>")
        await client.send(f"<message {to}><body>a job</body>{ANNOTATIONS}<thread>1</thread></message>")
        [text] = await notified(client)
        assert (text.tag, text.text) == (f"{{{SMQP}}}text", "a job")
        await client.send(f"<message {to}>{ANNOTATIONS}<job xmlns='urn:a'/></message>")
        [job] = await notified(client)
        assert job.tag == "{urn:a}job"
        assert client.quiet()


@pytest.mark.parametrize("to", [f"{NODE}@{COMPONENT_NAME}", COMPONENT_NAME])
async def test_nobody_is_told_that_a_chat_state_is_no_message(tmp_path: Path, to: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await client.send(f"<message to='{to}' type='chat'>{TYPES}</message>")
        assert (await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")).get("type") == "result"
        assert client.quiet()
        assert site.broker.held == 0
