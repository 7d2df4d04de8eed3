"""XEP-0060 around the queue: nodes, their configuration, their items, and who may do what."""

import pytest
import trio

from daemon.frontend import Identity
from plugins.xmpp.namespaces import QOS
from routing.message import Message
from tests.support.xmpp import XmppClient, XmppServer, xmpp_site
from tests.support.xmpp_pubsub import (
    ADA,
    INFO,
    ITEMS,
    NS,
    PUBSUB,
    SMQP,
    ada,
    create,
    error_of,
    fields,
    form,
    notified,
    pubsub,
    put,
    subscribe,
)


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
async def test_a_persistent_item_is_replaced_whichever_way_the_next_one_comes(tmp_path, way):
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        await put(client, "state", "item")
        item = "<item id='item'><b xmlns='urn:b'/></item>"
        await way(client, pubsub(f"<publish node='state'>{item}</publish>"))
        with trio.fail_after(10):
            while True:
                answer = await client.iq("get", pubsub("<items node='state'/>"))
                if [item[0].tag for item in answer.iter(f"{{{PUBSUB}}}item")] == ["{urn:b}b"]:
                    break


@pytest.mark.parametrize("way", [by_message, acknowledged, assured])
async def test_what_the_server_has_read_is_finished_with_the_next_publication(tmp_path, way, mock_clock):
    async with xmpp_site(tmp_path) as (server, _, site):
        site.broker.commits.gather_max_s = 0.0  # the clock stands still
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
        assert site.broker.router.state.topics["elsewhere"].messages == 1
        assert site.broker.router.state.topics["news"].messages == 0


async def test_an_item_is_found_and_replaced_among_thousands_whoever_published_them(tmp_path):
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        for number in range(3_000):
            session.publish("state", Message(others=(("Item-Id", f"item-{number}"),)))
        for item in ("item-2999", "item-0", "item-2999"):
            await put(client, "state", item, "<b xmlns='urn:b'/>")
        with trio.fail_after(60):
            while site.broker.held > 3_000:
                await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        for item in ("item-0", "item-2999"):
            answer = await client.iq("get", pubsub(f"<items node='state'><item id='{item}'/></items>"))
            [found] = answer.iter(f"{{{PUBSUB}}}item")
            assert found[0].tag == "{urn:b}b"
        for item in ("item-0", "item-2999"):
            text = f"<retract node='state'><item id='{item}'/></retract>"
            assert (await client.iq("set", pubsub(text))).get("type") == "result"
            assert error_of(await client.iq("set", pubsub(text))) == ("cancel", "item-not-found")
        # what has gone does not stay in the index
        await client.iq("set", pubsub("<purge node='state'/>", "#owner"))
        await put(client, "state", "item-1")
        answer = await client.iq("get", pubsub("<items node='state'><item id='item-1'/></items>"))
        assert len(list(answer.iter(f"{{{PUBSUB}}}item"))) == 1
        session.close()


async def test_who_leaves_while_an_item_is_being_replaced_disturbs_nobody(tmp_path):
    async with xmpp_site(tmp_path) as (server, service, site):
        client, other = ada(server), ada(server, "other")
        await create(client, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        for _ in range(3):
            await put(client, "state", "item")
            service.clients[client.jid].session.close()
        assert (await other.iq("get", "<ping xmlns='urn:xmpp:ping'/>")).get("type") == "result"
        await put(other, "state", "item")
        with trio.fail_after(10):
            while site.broker.held > 1:
                await other.iq("get", "<ping xmlns='urn:xmpp:ping'/>")


async def test_a_large_node_is_deleted_while_others_work(tmp_path):
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
        assert (await worker.receive()).find("e:event/e:delete", NS).get("node") == "work"
        assert site.broker.held == 0
        session.close()


async def test_a_subscriptions_own_lock_is_there_after_a_restart(tmp_path):
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


@pytest.mark.parametrize(("account", "visible"), [("ada", "n"), ("dan", ".open"), ("eve", "nothing")])
async def test_nodes_are_listed_by_pages_to_whoever_may_see_them(tmp_path, account, visible):
    async with xmpp_site(tmp_path) as (server, _, _):
        nodes = [f"n{number}{'.open' if number % 4 == 0 else ''}" for number in range(30)]
        for node in nodes:
            await create(ada(server), node)
        client = server.client(f"{account}@shakespeare.lit/x")
        seen, after = [], ""
        while True:
            rsm = f"<set xmlns='http://jabber.org/protocol/rsm'><max>4</max>{after}</set>"
            answer = await client.iq("get", f"<query xmlns='{ITEMS}'>{rsm}</query>")
            page = [each.get("node") for each in answer.iter(f"{{{ITEMS}}}item")]
            seen += page
            if len(page) < 4:
                break
            after = f"<after>{page[-1]}</after>"
        assert seen == sorted(node for node in nodes if visible in node)


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
