"""Collections: all nodes whose names match, what comes of them, and what they are not. XEP-0248."""

from pathlib import Path
from typing import Any

import pytest

from plugins.xmpp.known.item_index import SLACK, ItemIndex
from plugins.xmpp.wire.namespaces import QOS
from routing.errors import Refusal
from tests.support.broker import SessionClient
from tests.support.xmpp import COMPONENT_NAME, xmpp_site
from tests.support.xmpp_collections import (
    ALL,
    DEPTH,
    KEPT,
    PLAIN,
    READERS,
    SHIM,
    TYPE,
    collect,
    nodes,
    reader,
    subscriptions,
    told,
)
from tests.support.xmpp_pubsub import (
    INFO,
    ITEMS,
    PUBSUB,
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
