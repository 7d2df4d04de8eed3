"""XEP-0060 around the queue: nodes, their configuration, their items, and who may do what."""

import base64

import pytest
import trio

from daemon.frontend import Delivered, Identity, SubscribeOptions
from daemon.settings import QueueSettings
from plugins.xmpp.serializer import serialize
from routing.message import Message, Section
from tests.support.xmpp import XmppClient, XmppServer, xmpp_site
from tests.support.xmpp_pubsub import NS, PUBSUB, error_of, notified, subscribe

INFO = "http://jabber.org/protocol/disco#info"
ITEMS = "http://jabber.org/protocol/disco#items"
SMQP = "urn:smqp:xmpp:0"


ADA = "ada@shakespeare.lit"


def ada(server: XmppServer, resource: str = "desk") -> XmppClient:
    return server.client(f"ada@shakespeare.lit/{resource}")


def pubsub(content: str, owner: str = "") -> str:
    return f"<pubsub xmlns='{PUBSUB}{owner}'>{content}</pubsub>"


def form(form_type: str, **values: str) -> str:
    fields = "".join(f"<field var='{var}'><value>{value}</value></field>" for var, value in values.items())
    return (
        "<x xmlns='jabber:x:data' type='submit'>"
        f"<field var='FORM_TYPE'><value>{PUBSUB}#{form_type}</value></field>{fields}</x>"
    )


def fields(form_element) -> dict[str, str]:
    return {
        field.get("var"): field.findtext("x:value", "", NS)
        for field in form_element
        if field.get("var") != "FORM_TYPE"
    }


async def create(client: XmppClient, node: str, **config: str) -> None:
    configure = f"<configure>{form('node_config', **config)}</configure>" if config else ""
    answer = await client.iq("set", pubsub(f"<create node='{node}'/>{configure}"))
    assert answer.get("type") == "result"


async def put(client: XmppClient, node: str, item: str, content: str = "<a xmlns='urn:a'/>"):
    text = f"<publish node='{node}'><item id='{item}'>{content}</item></publish>"
    return await client.iq("set", pubsub(text))


async def test_a_created_node_is_found_described_configured_and_deleted(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "orders.new")
        answer = await client.iq("get", f"<query xmlns='{ITEMS}'/>")
        assert [each.get("node") for each in answer.iter(f"{{{ITEMS}}}item")] == ["orders.new"]
        answer = await client.iq("get", f"<query xmlns='{INFO}' node='orders.new'/>")
        assert fields(answer.find(f"{{{INFO}}}query/x:x", NS))[f"{{{SMQP}}}queueing"] == "1"
        assert site.broker.router.state.topics["orders.new"].mode == "ONE"
        values = {f"{{{SMQP}}}queueing": "0", "pubsub#item_expire": "3600"}
        text = f"<configure node='orders.new'>{form('node_config', **values)}</configure>"
        assert (await client.iq("set", pubsub(text, "#owner"))).get("type") == "result"
        topic = site.broker.router.state.topics["orders.new"]
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


async def test_a_node_is_made_once(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "orders")
        answer = await client.iq("set", pubsub("<create node='orders'/>"))
        assert error_of(answer) == ("cancel", "conflict")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (f"{{{SMQP}}}queueing", "perhaps"),
        (f"{{{SMQP}}}delivery", "SOME"),
        ("pubsub#item_expire", "soon"),
        ("pubsub#access_model", "open"),
        ("pubsub#colour", "blue"),
    ],
)
async def test_a_configuration_that_cannot_be_is_not_acceptable(tmp_path, field, value):
    async with xmpp_site(tmp_path) as (server, _, _):
        configure = f"<configure>{form('node_config', **{field: value})}</configure>"
        answer = await ada(server).iq("set", pubsub("<create node='n'/>" + configure))
        assert error_of(answer) == ("modify", "not-acceptable")


async def test_a_plain_node_delivers_to_all_and_needs_no_configuration(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, site):
        one, other = ada(server, "one"), ada(server, "other")
        await create(one, "news", **{f"{{{SMQP}}}queueing": "0"})
        for client in (one, other):
            answer = await client.iq("set", subscribe("ada@shakespeare.lit", None, "news"))
            assert answer.get("type") == "result"
        await put(one, "news", "first")
        assert (await notified(one)).get("id") == (await notified(other)).get("id") == "first"
        # nobody has to retract anything: it is gone once the server has read both notifications
        with trio.fail_after(10):
            while site.broker.held:
                await one.iq("get", "<ping xmlns='urn:xmpp:ping'/>")


async def test_persistent_items_stay_are_listed_by_pages_and_are_replaced_by_id(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        for number in range(5):
            await put(client, "state", f"item-{number}")
        await put(client, "state", "item-0", "<b xmlns='urn:b'/>")
        while site.broker.held > 5:
            await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        seen, after = [], ""
        for _ in range(3):
            rsm = f"<set xmlns='http://jabber.org/protocol/rsm'><max>2</max>{after}</set>"
            answer = await client.iq("get", pubsub("<items node='state'/>" + rsm))
            seen += [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")]
            last = next(answer.iter("{http://jabber.org/protocol/rsm}last"))
            after = f"<after>{last.text}</after>"
        assert seen == ["item-1", "item-2", "item-3", "item-4", "item-0"]
        answer = await client.iq("get", pubsub("<items node='state'><item id='item-0'/></items>"))
        [item] = answer.iter(f"{{{PUBSUB}}}item")
        assert item[0].tag == "{urn:b}b"
        # whoever comes later gets them all
        late = ada(server, "late")
        await late.iq("set", subscribe(late.jid, None, "state"))
        assert {(await notified(late)).get("id") for _ in range(5)} == set(seen)
        text = "<retract node='state'><item id='item-3'/></retract>"
        assert (await client.iq("set", pubsub(text))).get("type") == "result"
        answer = await client.iq("get", pubsub("<items node='state'/>"))
        assert [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")] == [
            "item-1", "item-2", "item-4", "item-0",
        ]  # fmt: skip


async def test_a_purged_node_is_empty_and_its_subscribers_are_told(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "work")
        for number in range(3):
            await put(client, "work", f"item-{number}")
        await client.iq("set", subscribe(client.jid, "1", "work"))
        await notified(client)
        assert (await client.iq("set", pubsub("<purge node='work'/>", "#owner"))).get("type") == "result"
        assert site.broker.held == 0
        events = [(await client.receive()).find("e:event", NS)[0].tag for _ in range(2)]
        assert sorted(tag.rpartition("}")[2] for tag in events) == ["items", "purge"]


async def test_a_deleted_node_ends_its_subscriptions_and_tells_them(tmp_path):
    async with xmpp_site(tmp_path) as (server, service, site):
        owner, client = ada(server), ada(server, "other")
        await create(owner, "work")
        await client.iq("set", subscribe(client.jid, "1", "work"))
        await owner.iq("set", pubsub("<delete node='work'/>", "#owner"))
        assert (await client.receive()).find("e:event/e:delete", NS).get("node") == "work"
        assert service.registry.of(client.jid) == []
        assert "work" not in site.broker.router.state.topics


async def test_preconditions_of_a_publication_are_checked(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "work")
        item = "<publish node='work'><item><a xmlns='urn:a'/></item></publish>"
        wanted = form("publish-options", **{"pubsub#persist_items": "true"})
        options = f"<publish-options>{wanted}</publish-options>"
        answer = await client.iq("set", pubsub(item + options))
        assert error_of(answer) == ("cancel", "conflict")
        assert answer.find("c:error/pe:precondition-not-met", NS) is not None
        assert (await client.iq("set", pubsub(item + options.replace("true", "false")))).get(
            "type"
        ) == "result"


async def test_subscription_options_can_be_read_and_changed(tmp_path):
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


@pytest.mark.parametrize(
    ("text", "kind", "condition", "exact"),
    [
        ("<subscribe node='work' jid='bob@shakespeare.lit'/>", "modify", "bad-request", "invalid-jid"),
        ("<subscribe jid='ada@shakespeare.lit'/>", "modify", "bad-request", "nodeid-required"),
        (f"<unsubscribe node='work' jid='{ADA}'/>", "cancel", "unexpected-request", "not-subscribed"),
        ("<publish node='work'/>", "modify", "bad-request", "item-required"),
        ("<publish node='no/good'><item/></publish>", "modify", "not-acceptable", None),
        ("<retract node='work'/>", "modify", "bad-request", "item-required"),
        ("<create/>", "cancel", "feature-not-implemented", "unsupported"),
        ("<nonsense/>", "cancel", "feature-not-implemented", None),
    ],
)  # fmt: skip
async def test_requests_that_make_no_sense_get_the_errors_of_xep_0060(tmp_path, text, kind, condition, exact):
    async with xmpp_site(tmp_path) as (server, _, _):
        answer = await ada(server).iq("set", pubsub(text))
        assert error_of(answer) == (kind, condition)
        assert exact is None or answer.find(f"c:error/pe:{exact}", NS) is not None


# -- rights ---------------------------------------------------------------------------------------


async def test_a_jid_without_an_account_may_do_nothing(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, _):
        stranger = server.client("mallory@elsewhere.example/x")
        for text in (
            "<publish node='n'><item/></publish>",
            "<subscribe node='n' jid='mallory@elsewhere.example'/>",
        ):
            assert error_of(await stranger.iq("set", pubsub(text))) == ("auth", "forbidden")
        assert error_of(await stranger.iq("get", f"<query xmlns='{ITEMS}'/>")) == ("auth", "forbidden")
        assert (await stranger.iq("get", f"<query xmlns='{INFO}'/>")).get("type") == "result"


async def test_every_operation_needs_its_right(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, _):
        eve = server.client("eve@shakespeare.lit/x")
        await create(ada(server), "orders")
        assert (await put(eve, "eve.own", "i")).get("type") == "result"
        refused = [
            ("set", pubsub("<publish node='orders'><item/></publish>")),
            ("set", subscribe("eve@shakespeare.lit", "1", "eve.own")),
            ("get", pubsub("<items node='eve.own'/>")),
            ("set", pubsub("<create node='eve.new'/>")),
            ("get", pubsub("<configure node='orders'/>", "#owner")),
            ("set", pubsub("<configure node='orders'/>", "#owner")),
            ("set", pubsub("<delete node='orders'/>", "#owner")),
            ("set", pubsub("<purge node='orders'/>", "#owner")),
            ("get", pubsub("<subscriptions node='orders'/>", "#owner")),
            ("set", pubsub("<retract node='orders'><item id='i'/></retract>")),
        ]
        for kind, text in refused:
            assert error_of(await eve.iq(kind, text)) == ("auth", "forbidden"), text
        answer = await eve.iq("get", f"<query xmlns='{INFO}' node='orders'/>")
        assert error_of(answer) == ("cancel", "item-not-found")


async def test_affiliations_are_the_rights_of_the_account(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, _):
        eve = server.client("eve@shakespeare.lit/x")
        for node, affiliation in (("eve.own", "publish-only"), ("orders", "outcast")):
            answer = await eve.iq("get", pubsub(f"<affiliations node='{node}'/>"))
            assert next(answer.iter(f"{{{PUBSUB}}}affiliation")).get("affiliation") == affiliation


# -- between front ends ---------------------------------------------------------------------------


async def next_delivery(session) -> Delivered:
    while True:
        for event in await session.events():
            if isinstance(event, Delivered):
                return event


async def test_headers_go_both_ways(tmp_path):
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
        got = {each.get("name"): each.text for each in stanza.iter(f"{{{SMQP}}}header")}
        assert (got["Priority"], got["X-Own"]) == ("3", "ü")
        assert got["Smuid"] == stanza.find("e:event/e:items/e:item", NS).get("id")
        assert stanza.find("{urn:xmpp:delay}delay").get("stamp")
        session.close()


async def test_headers_that_are_the_servers_own_are_refused(tmp_path):
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
    Section("application/xml", b"<data xmlns='urn:smqp:xmpp:0'>bm8=</data>"),
    Section("application/octet-stream", bytes(range(256))),
    Section("text/plain", b""),
]


@pytest.mark.parametrize("section", BODIES)
async def test_any_content_comes_back_byte_for_byte(tmp_path, section):
    async with xmpp_site(tmp_path) as (server, _, site):
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        session.subscribe("back", SubscribeOptions())
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "there"))
        two = (section, Section("image/gif", b"GIF", (("Content-ID", "image1"),)))
        for sections in ((section,), two):
            session.publish("there", Message(delivery="ONE", sections=sections))
            item = await notified(client)
            headers = item.find(f"{{{SMQP}}}headers")
            item.remove(headers)
            content = "".join(serialize(child, PUBSUB) for child in item)
            assert (await put(client, "back", "i", content)).get("type") == "result"
            assert (await next_delivery(session)).stored.message.sections == sections
            text = f"<retract node='there'><item id='{item.get('id')}'/></retract>"
            await client.iq("set", pubsub(text))
            await client.receive()
        session.close()


async def test_what_looks_like_an_items_own_parts_is_content_in_a_message(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await client.iq("set", subscribe(client.jid, "1", "there"))
        own = f"<data xmlns='{SMQP}'>bm8=</data>"
        await client.send(f"<message to='there@workflow.shakespeare.lit'>{own}</message>")
        item = await notified(client)
        assert base64.b64decode(item.findtext(f"{{{SMQP}}}data")) == own.encode()


async def test_what_the_server_could_not_take_goes_to_the_dead_letters(tmp_path):
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
        assert base64.b64decode(item.findtext(f"{{{SMQP}}}data")) == b"small"
        session.close()


async def test_a_million_of_anything_is_a_page(tmp_path):
    async with xmpp_site(tmp_path, nodes_max=3) as (server, _, _):
        client = ada(server)
        for number in range(5):
            answer = await client.iq("set", pubsub(f"<create node='n{number}'/>"))
        assert error_of(answer) == ("wait", "resource-constraint")
        for most in ("1000000", "9" * 400):
            rsm = f"<set xmlns='http://jabber.org/protocol/rsm'><max>{most}</max></set>"
            answer = await client.iq("get", f"<query xmlns='{ITEMS}'>{rsm}</query>")
            assert len(list(answer.iter(f"{{{ITEMS}}}item"))) == 3
            answer = await client.iq("get", pubsub(f"<items node='n0' max_items='{most}'/>"))
            assert answer.get("type") == "result"
