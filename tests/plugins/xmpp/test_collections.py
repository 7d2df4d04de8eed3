"""Collections: one subscription to all nodes whose names match. XEP-0248, as far as subscribing goes."""

from pathlib import Path
from typing import Any

import pytest

from daemon.settings import Limits
from plugins.xmpp.known.item_index import SLACK, ItemIndex
from plugins.xmpp.settings import JidRule
from plugins.xmpp.wire.namespaces import QOS
from routing.errors import Refusal
from tests.support.broker import SessionClient
from tests.support.xmpp import COMPONENT_NAME, RULES, XmppClient, XmppServer, xmpp_site
from tests.support.xmpp_pubsub import (
    INFO,
    ITEMS,
    PUBSUB,
    SMQP,
    ada,
    child,
    create,
    error_of,
    fields,
    form,
    pubsub,
    put,
    subscribe,
    within,
)

ALL = "weather.#"
PLAIN = {f"{{{SMQP}}}queueing": "0"}
KEPT = {**PLAIN, "pubsub#persist_items": "1"}
SHIM = "http://jabber.org/protocol/shim"
TYPE, DEPTH = "pubsub#subscription_type", "pubsub#subscription_depth"
READERS = (JidRule(pattern="reader*@shakespeare.lit", account="dan"), *RULES)
"""Who may subscribe to `*.open`, and nothing else."""


def reader(server: XmppServer, number: int = 1) -> XmppClient:
    return server.client(f"reader{number}@shakespeare.lit/desk")


def with_options(jid: str, node: str, **options: str) -> str:
    filled_in = f"<options>{form('subscribe_options', **options)}</options>"
    return pubsub(f"<subscribe jid='{jid}' node='{node}'/>{filled_in}")


async def collect(client: XmppClient, node: str = ALL, **options: str) -> None:
    text = with_options(client.jid, node, **options) if options else subscribe(client.jid, None, node)
    answer = await client.iq("set", text)
    [state] = answer.iter(f"{{{PUBSUB}}}subscription")
    assert (state.get("node"), state.get("subscription")) == (node, "subscribed")


async def told(client: XmppClient) -> tuple[str, str, str, str | None]:
    """The next event: what it is, of which node and which item, and the collection that it came by."""
    stanza = await client.receive()
    event = within(stanza, "e:event")[0]
    inner = event[0] if len(event) else event
    [collection] = [
        each.text for each in stanza.iter(f"{{{SHIM}}}header") if each.get("name") == "Collection"
    ] or [None]
    what = inner.tag.rpartition("}")[2]
    return what, str(event.get("node")), str(inner.get("id", "")), collection


async def nodes(client: XmppClient, node: str = ALL, page: str = "") -> list[str | None]:
    answer = await client.iq("get", f"<query xmlns='{ITEMS}' node='{node}'>{page}</query>")
    return [each.get("node") for each in answer.iter(f"{{{ITEMS}}}item")]


async def subscriptions(client: XmppClient) -> list[str | None]:
    answer = await client.iq("get", pubsub("<subscriptions/>"))
    return [each.get("node") for each in answer.iter(f"{{{PUBSUB}}}subscription")]


# -- discovery ------------------------------------------------------------------------------------


async def test_a_pattern_is_a_collection(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        service = await client.iq("get", f"<query xmlns='{INFO}'/>")
        features = {each.get("var") for each in service.iter(f"{{{INFO}}}feature")}
        assert {f"{PUBSUB}#collections", f"{PUBSUB}#multi-collections"} <= features
        for to, attribute in ((COMPONENT_NAME, f" node='{ALL}'"), (f"{ALL}@{COMPONENT_NAME}", "")):
            answer = await client.iq("get", f"<query xmlns='{INFO}'{attribute}/>", to=to)
            identity = child(answer, f".//{{{INFO}}}identity")
            assert (identity.get("category"), identity.get("type")) == ("pubsub", "collection")
            assert fields(within(answer, ".//x:x"))["pubsub#node_type"] == "collection"
        await create(client, "weather.oslo")
        leaf = await client.iq("get", f"<query xmlns='{INFO}' node='weather.oslo'/>")
        assert child(leaf, f".//{{{INFO}}}identity").get("type") == "leaf"


async def test_the_nodes_of_a_collection_are_listed_by_pages(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        for node in ("news", "weather", "weather.oslo", "weather.oslo.rain", "weather.rome"):
            await create(client, node)
        assert await nodes(client, "weather.*") == ["weather.oslo", "weather.rome"]
        assert await nodes(client) == ["weather", "weather.oslo", "weather.oslo.rain", "weather.rome"]
        rsm = "<set xmlns='http://jabber.org/protocol/rsm'><max>2</max>{}</set>"
        assert await nodes(client, page=rsm.format("")) == ["weather", "weather.oslo"]
        after = rsm.format("<after>weather.oslo</after>")
        assert await nodes(client, page=after) == ["weather.oslo.rain", "weather.rome"]
        assert await nodes(client, page=rsm.format("<index>3</index>")) == ["weather.rome"]


async def test_who_may_have_none_of_its_nodes_is_told_of_none(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one = ada(server), reader(server)
        for node in ("weather.open", "weather.oslo"):
            await create(owner, node, **PLAIN)
        assert await nodes(one) == ["weather.open"]
        for query in (f"<query xmlns='{INFO}' node='*.oslo'/>", f"<query xmlns='{ITEMS}' node='*.oslo'/>"):
            assert error_of(await one.iq("get", query)) == ("cancel", "item-not-found")
        answer = await one.iq("set", subscribe(one.jid, None, "*.oslo"))
        assert error_of(answer) == ("auth", "forbidden")
        assert await subscriptions(one) == []


# -- notifications --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {TYPE: "items"}, {TYPE: "items", DEPTH: "all"}, {DEPTH: "2"}])
async def test_each_notification_names_its_node_and_the_collection(
    tmp_path: Path, options: dict[str, str]
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, owner = ada(server), ada(server, "phone")
        await create(owner, "weather.oslo", **PLAIN)
        await collect(client, **options)
        await put(owner, "weather.oslo", "one")
        await create(owner, "weather.rome.rain", **PLAIN)
        await create(owner, "news", **PLAIN)
        await put(owner, "news", "none")
        headers = f"<headers xmlns='{SHIM}'><header name='Priority'>7</header></headers>"
        await put(owner, "weather.rome.rain", "two", f"<a xmlns='urn:a'/>{headers}")
        assert await told(client) == ("item", "weather.oslo", "one", ALL)
        stanza = await client.receive()
        assert within(stanza, "e:event/e:items").get("node") == "weather.rome.rain"
        [shim] = stanza.findall(f"{{{SHIM}}}headers")
        said = {each.get("name"): each.text for each in shim}
        assert (said["Collection"], said["Priority"]) == (ALL, "7")


async def test_what_comes_by_a_subscription_to_the_node_comes_once_and_by_no_collection(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, other, owner = (ada(server, name) for name in ("desk", "phone", "car"))
        await create(owner, "weather.oslo", **PLAIN)
        await collect(client)
        await collect(client, "weather.*")
        await client.iq("set", subscribe(client.jid, None, "weather.oslo"))
        await collect(other, "weather.*")
        for item in ("one", "two"):
            await put(owner, "weather.oslo", item)
        assert [await told(client) for _ in range(2)] == [
            ("item", "weather.oslo", "one", None),
            ("item", "weather.oslo", "two", None),
        ]
        assert [(await told(other))[3] for _ in range(2)] == ["weather.*"] * 2


@pytest.mark.parametrize("name", ["Collection", "COLLECTION"])
async def test_nobody_but_the_service_says_which_collection_it_is(tmp_path: Path, name: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "weather.oslo", **PLAIN)
        await client.iq("set", subscribe(client.jid, None, "weather.oslo"))
        forged = f"<headers xmlns='{SHIM}'><header name='{name}'>stocks.#</header></headers>"
        await put(client, "weather.oslo", "one", f"<a xmlns='urn:a'/>{forged}")
        names = {each.get("name", "").lower() for each in (await client.receive()).iter(f"{{{SHIM}}}header")}
        assert "account" in names
        assert "collection" not in names


async def test_of_what_is_kept_the_last_item_of_each_node_comes_to_who_subscribes(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "weather.oslo", **KEPT)
        await create(client, "weather.rome", **KEPT)
        await create(client, "weather.bonn", **KEPT, **{"pubsub#send_last_published_item": "never"})
        for node in ("weather.oslo", "weather.rome", "weather.bonn"):
            for number in range(3):
                await put(client, node, f"{node[-4:]}-{number}")
        await collect(client)
        assert sorted([await told(client), await told(client)]) == [
            ("item", "weather.oslo", "oslo-2", ALL),
            ("item", "weather.rome", "rome-2", ALL),
        ]
        await put(client, "weather.bonn", "bonn-3")
        assert await told(client) == ("item", "weather.bonn", "bonn-3", ALL)
        # who leaves, and comes again, gets what is last then
        await client.iq("set", pubsub(f"<unsubscribe node='{ALL}' jid='{client.jid}'/>"))
        await put(client, "weather.rome", "rome-3")
        await collect(client)
        assert {(await told(client))[2], (await told(client))[2]} == {"oslo-2", "rome-3"}


async def test_retracted_items_and_purged_nodes_are_told(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, both, owner = (ada(server, name) for name in ("desk", "phone", "car"))
        await create(owner, "weather.oslo", **KEPT)
        for each in (client, both):
            await collect(each)
        await both.iq("set", subscribe(both.jid, None, "weather.oslo"))
        for item in ("one", "two"):
            await put(owner, "weather.oslo", item)
            assert await told(client) == ("item", "weather.oslo", item, ALL)
            assert await told(both) == ("item", "weather.oslo", item, None)
        await owner.iq("set", pubsub("<retract node='weather.oslo'><item id='one'/></retract>"))
        assert await told(client) == ("retract", "weather.oslo", "one", ALL)
        assert await told(both) == ("retract", "weather.oslo", "one", None)
        await owner.iq("set", pubsub("<purge node='weather.oslo'/>", "#owner"))
        assert await told(client) == ("purge", "weather.oslo", "", ALL)
        assert await told(both) == ("purge", "weather.oslo", "", None)
        await put(owner, "weather.oslo", "three")
        assert (await told(client))[2] == (await told(both))[2] == "three"


async def test_items_that_are_received_exactly_once_come_by_collections_too(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = server.client("ada@shakespeare.lit/sure", features=(QOS,))
        await create(client, "weather.oslo", **PLAIN)
        await collect(client)
        await put(client, "weather.oslo", "one")
        request = await client.receive()
        assured = child(request, f"{{{QOS}}}assured")
        msg_id = assured.get("msgId")
        items = child(assured, f".//{{{PUBSUB}#event}}items")
        assert items.get("node") == "weather.oslo"
        assert child(assured, f".//{{{SHIM}}}header[@name='Collection']").text == ALL
        received = f"<received xmlns='{QOS}' msgId='{msg_id}'/>"
        await client.send(f"<iq type='result' id='{request.get('id')}'>{received}</iq>")
        request = await client.receive()
        assert child(request, f"{{{QOS}}}deliver").get("msgId") == msg_id
        await client.send(f"<iq type='result' id='{request.get('id')}'/>")
        await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert site.broker.held == 0


async def test_an_item_that_was_received_is_delivered_though_it_is_the_last_one_no_more(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, owner = server.client("ada@shakespeare.lit/sure", features=(QOS,)), ada(server)
        await create(owner, "weather.oslo", **KEPT)
        await put(owner, "weather.oslo", "one")
        await collect(client)
        request = await client.receive()
        msg_id = child(request, f"{{{QOS}}}assured").get("msgId")
        received = f"<received xmlns='{QOS}' msgId='{msg_id}'/>"
        await client.send(f"<iq type='result' id='{request.get('id')}'>{received}</iq>")
        assert child(await client.receive(), f"{{{QOS}}}deliver").get("msgId") == msg_id
        await put(owner, "weather.oslo", "two")
    async with xmpp_site(tmp_path) as (server, _, _):
        client = server.client("ada@shakespeare.lit/sure", features=(QOS,))
        asked = [(await client.receive())[0] for _ in range(2)]
        assert [each.get("msgId") for each in asked if each.tag == f"{{{QOS}}}deliver"] == [msg_id]


# -- rights ---------------------------------------------------------------------------------------


async def test_nothing_comes_of_nodes_that_the_account_may_not_have(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one = ada(server), reader(server)
        for node in ("weather.oslo", "weather.open"):
            await create(owner, node, **KEPT)
        await put(owner, "weather.oslo", "hidden")
        await collect(one, "#")
        await put(owner, "weather.oslo", "hidden too")
        await owner.iq("set", pubsub("<purge node='weather.oslo'/>", "#owner"))
        await put(owner, "weather.open", "shown")
        assert await told(one) == ("item", "weather.open", "shown", "#")


@pytest.mark.parametrize(
    "config",
    [
        {"pubsub#access_model": "whitelist"},
        {"pubsub#access_model": "authorize"},
        {"pubsub#subscribe": "0"},
    ],
)
async def test_nothing_comes_of_a_node_whose_owners_do_not_let_it(
    tmp_path: Path, config: dict[str, str]
) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one = ada(server), reader(server)
        await create(owner, "news.open", **KEPT, **config)
        await create(owner, "weather.open", **PLAIN)
        await put(owner, "news.open", "before")
        await collect(one, "#")
        await put(owner, "news.open", "after")
        await owner.iq("set", pubsub("<retract node='news.open'><item id='after'/></retract>"))
        await owner.iq("set", pubsub("<purge node='news.open'/>", "#owner"))
        await put(owner, "weather.open", "shown")
        assert await told(one) == ("item", "weather.open", "shown", "#")
        if "pubsub#access_model" in config:
            listed = "<affiliation jid='reader1@shakespeare.lit' affiliation='member'/>"
            await owner.iq("set", pubsub(f"<affiliations node='news.open'>{listed}</affiliations>", "#owner"))
            await one.receive()
            await put(owner, "news.open", "for members")
            assert await told(one) == ("item", "news.open", "for members", "#")


@pytest.mark.parametrize(
    ("node", "config"),
    [
        ("#", {"pubsub#access_model": "whitelist"}),
        ("#", {"pubsub#deliver_notifications": "0"}),
        ("news.open", {"pubsub#deliver_notifications": "0"}),
    ],
)
async def test_what_nobody_was_sent_counts_as_delivered_to_nobody(
    tmp_path: Path, node: str, config: dict[str, str]
) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, site):
        owner, one = ada(server), reader(server)
        await create(owner, "news.open", **PLAIN, **config)
        await collect(one, node)
        publisher = SessionClient(site.broker, "ada", "press")
        await publisher.subscribe(publisher.session.system_topic)
        await publisher.publish("news.open", b"rain", receipt="ALL")
        [receipt] = await publisher.delivered()
        [counts] = receipt.stored.message.sections
        assert counts.body == b"0/1"


async def test_an_outcast_gets_nothing_of_the_node(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one, other = ada(server), reader(server), reader(server, 2)
        await create(owner, "news.open", **PLAIN)
        for each in (one, other):
            await collect(each, "#")
        outcast = "<affiliation jid='reader1@shakespeare.lit' affiliation='outcast'/>"
        await owner.iq("set", pubsub(f"<affiliations node='news.open'>{outcast}</affiliations>", "#owner"))
        await one.receive()
        await create(owner, "weather.open", **PLAIN)
        await put(owner, "news.open", "one")
        await put(owner, "weather.open", "two")
        assert (await told(one))[2] == "two"
        assert (await told(other))[2] == "one"


async def test_rights_that_are_withdrawn_end_the_subscription_and_say_so(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, site):
        one = reader(server)
        await collect(one, "*.open")
        accounts, file = site.broker.accounts, tmp_path / "accounts.toml"
        file.write_text(file.read_text().replace("['*.open']", "['news']"))
        accounts.replace(accounts.read())
        site.broker.reconfigure(site.broker.settings)
        event = within(await one.receive(), "e:event/e:subscription")
        assert (event.get("node"), event.get("subscription")) == ("*.open", "none")
        assert await subscriptions(one) == []


# -- the subscription -----------------------------------------------------------------------------


async def test_it_outlives_a_restart_and_ends_when_its_subscriber_says_so(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "weather.oslo", **PLAIN)
        await collect(client)
        server.leave(client)
        await put(ada(server, "phone"), "weather.oslo", "before")
    async with xmpp_site(tmp_path) as (server, service, site):
        client = ada(server)
        assert await told(client) == ("item", "weather.oslo", "before", ALL)
        assert await subscriptions(client) == [ALL]
        text = pubsub(f"<unsubscribe node='{ALL}' jid='{client.jid}'/>")
        assert (await client.iq("set", text)).get("type") == "result"
        assert error_of(await client.iq("set", text)) == ("cancel", "unexpected-request")
        assert await subscriptions(client) == []
        await put(client, "weather.oslo", "after")
        assert client.quiet()
        assert not service.registry.of_collections("weather.oslo")
        assert not site.durable_subscriptions("xmpp/")


async def test_a_bare_jid_is_told_at_its_bare_jid(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        desk, phone = ada(server), ada(server, "phone")
        await create(desk, "weather.oslo", **PLAIN)
        answer = await desk.iq("set", subscribe("ada@shakespeare.lit", None, ALL))
        assert answer.get("type") == "result"
        await put(desk, "weather.oslo", "one")
        assert await told(desk) == await told(phone) == ("item", "weather.oslo", "one", ALL)


async def test_its_options_are_shown_and_kept(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        shown = await client.iq("get", pubsub(f"<default node='{ALL}'/>"))
        assert fields(within(shown, ".//x:x")).items() >= {TYPE: "items", DEPTH: "1"}.items()
        await collect(client)
        answer = await client.iq("get", pubsub(f"<options node='{ALL}' jid='{client.jid}'/>"))
        said = fields(within(answer, ".//x:x"))
        assert (said[TYPE], said[f"{{{SMQP}}}qos"]) == ("items", "none")
        assert "pubsub#queue_requests" not in said
        filled_in = form("subscribe_options", **{DEPTH: "all"})
        text = pubsub(f"<options node='{ALL}' jid='{client.jid}'>{filled_in}</options>")
        assert (await client.iq("set", text)).get("type") == "result"
        answer = await client.iq("set", with_options(client.jid, ALL, **{DEPTH: "all"}))
        assert fields(within(answer, ".//x:x")).keys() == {TYPE, DEPTH, f"{{{SMQP}}}qos"}
        of_leaf = await client.iq("get", pubsub("<default/>"))
        assert TYPE not in fields(within(of_leaf, ".//x:x"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (TYPE, "nodes"),
        (TYPE, "all"),
        (DEPTH, "0"),
        (DEPTH, "-1"),
        (DEPTH, "deep"),
        ("pubsub#queue_requests", "5"),
        (f"{{{SMQP}}}accepts", "ONE"),
    ],
)
async def test_an_option_that_no_collection_has_is_refused(tmp_path: Path, field: str, value: str) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        client = ada(server)
        answer = await client.iq("set", with_options(client.jid, ALL, **{field: value}))
        assert error_of(answer) == ("modify", "bad-request")
        assert within(answer, "c:error/pe:invalid-options") is not None
        text = child(answer, ".//{urn:ietf:params:xml:ns:xmpp-stanzas}text").text
        assert field in str(text)
        assert not service.registry.of_node(ALL)


async def test_what_is_for_one_is_for_the_workers_of_its_queue(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, worker = ada(server), server.client("worker@shakespeare.lit/1")
        await create(client, "weather.jobs")
        await create(client, "weather.oslo", **PLAIN)
        await collect(client)
        await put(client, "weather.jobs", "job")
        await put(client, "weather.oslo", "one")
        assert await told(client) == ("item", "weather.oslo", "one", ALL)
        await worker.iq("set", subscribe(worker.jid, "1", "weather.jobs"))
        assert await told(worker) == ("item", "weather.jobs", "job", None)


async def test_one_jid_has_no_more_of_them_than_other_subscriptions(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, limits=Limits(subscriptions_per_session_max=2)) as (server, _, _):
        client = ada(server)
        for node in ("a.#", "b.#"):
            await collect(client, node)
        answer = await client.iq("set", subscribe(client.jid, None, "c.#"))
        assert within(answer, "c:error/pe:too-many-subscriptions") is not None


# -- what a collection is not ---------------------------------------------------------------------

OWNER = "#owner"


@pytest.mark.parametrize(
    ("kind", "text", "namespace", "condition", "exact"),
    [
        ("set", "<publish node='{}'><item/></publish>", "", "feature-not-implemented", "publish"),
        ("set", "<retract node='{}'><item id='a'/></retract>", "", "feature-not-implemented", "delete-items"),
        ("get", "<items node='{}'/>", "", "feature-not-implemented", "retrieve-items"),
        ("set", "<purge node='{}'/>", OWNER, "feature-not-implemented", "purge-nodes"),
        ("get", "<subscriptions node='{}'/>", OWNER, "feature-not-implemented", "manage-subscriptions"),
        ("set", "<affiliations node='{}'/>", OWNER, "feature-not-implemented", "modify-affiliations"),
        ("set", "<create node='{}'/>", "", "not-allowed", ""),
        ("get", "<configure node='{}'/>", OWNER, "not-allowed", ""),
        ("set", "<configure node='{}'/>", OWNER, "not-allowed", ""),
        ("set", "<delete node='{}'/>", OWNER, "not-allowed", ""),
        (
            "set",
            "<collection node='{}'><associate node='n'/></collection>",
            OWNER,
            "feature-not-implemented",
            "",
        ),
        (
            "set",
            "<collection node='n'><dissociate node='m'/></collection>",
            OWNER,
            "feature-not-implemented",
            "",
        ),
    ],
)
async def test_what_is_done_with_nodes_and_items_is_refused_by_name(
    tmp_path: Path, kind: str, text: str, namespace: str, condition: str, exact: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        answer = await client.iq(kind, pubsub(text.format(ALL), namespace))
        assert error_of(answer) == ("cancel", condition)
        unsupported = within(answer, "c:error/pe:unsupported")
        assert (unsupported.get("feature") if unsupported is not None else "") == exact
        # what nobody could subscribe to is no collection
        if "'n'" not in text:
            answer = await client.iq(kind, pubsub(text.format("weather.#.oslo"), namespace))
            assert error_of(answer) == ("modify", "not-acceptable")


async def test_a_message_to_a_collection_publishes_nothing(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        for to, content in (
            (f"{ALL}@{COMPONENT_NAME}", "<body>rain</body>"),
            (COMPONENT_NAME, pubsub(f"<publish node='{ALL}'><item/></publish>")),
        ):
            await client.send(f"<message to='{to}' id='m'>{content}</message>")
            answer = await client.receive()
            assert error_of(answer) == ("cancel", "feature-not-implemented")
            assert within(answer, "c:error/pe:unsupported").get("feature") == "publish"


@pytest.mark.parametrize(
    ("field", "value"),
    [("pubsub#node_type", "collection"), ("pubsub#children", "weather.oslo"), ("pubsub#collection", ALL)],
)
async def test_a_node_is_made_no_collection_and_put_into_none(tmp_path: Path, field: str, value: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        configure = form("node_config", **{field: value})
        if field == "pubsub#node_type":
            text = pubsub(f"<create node='n'/><configure>{configure}</configure>")
            assert error_of(await client.iq("set", text)) == ("cancel", "not-allowed")
        await create(client, "n")
        answer = await client.iq("set", pubsub(f"<configure node='n'>{configure}</configure>", OWNER))
        assert error_of(answer) == ("cancel", "not-allowed")
        assert within(answer, "c:error/pe:invalid-options") is not None
        shown = await client.iq("get", pubsub("<configure node='n'/>", OWNER))
        assert fields(within(shown, ".//x:x"))[field] == ("leaf" if value == "collection" else "")


async def test_subscribers_of_collections_are_none_of_the_node(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, other = ada(server), ada(server, "phone")
        await create(client, "weather.oslo", **PLAIN)
        await collect(client)
        await other.iq("set", subscribe(other.jid, None, "weather.oslo"))
        answer = await client.iq("get", pubsub("<subscriptions node='weather.oslo'/>", OWNER))
        listed = [each.get("jid") for each in answer.iter(f"{{{PUBSUB}#owner}}subscription")]
        assert listed == [other.jid]
        answer = await client.iq("get", pubsub(f"<affiliations node='{ALL}'/>"))
        [own] = answer.iter(f"{{{PUBSUB}}}affiliation")
        assert (own.get("node"), own.get("affiliation")) == (ALL, "member")


def test_an_index_of_what_was_noted_is_made_anew_before_it_grows_without_end() -> None:
    index = ItemIndex()
    wanted: list[Any] = [index.note("n", number, f"i{number}", begin=True) for number in range(SLACK + 10)]
    assert wanted.count(True) == 1
    assert not index.note("unknown", 1, "one")


async def test_who_may_not_make_an_index_anew_leaves_that_to_others(tmp_path: Path) -> None:
    index = ItemIndex()

    def note(count: int) -> int:
        return sum(index.note("news", number, f"i{number}", begin=True) for number in range(count))

    async with xmpp_site(tmp_path) as (_, _, site):
        assert note(SLACK + 10) == 1
        with pytest.raises(Refusal):
            await index.renew(SessionClient(site.broker, "eve", "desk").session, "news")
        assert note(SLACK + 10) == 1
        await index.renew(SessionClient(site.broker, "ada", "desk").session, "news")
        assert note(SLACK) == 0
