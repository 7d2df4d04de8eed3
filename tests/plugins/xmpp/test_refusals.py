"""What XEP-0060 prescribes for requests that make no sense, and for those of who may not."""

from pathlib import Path

import pytest

from daemon.settings import Limits
from plugins.xmpp.settings import JidRule
from plugins.xmpp.wire.namespaces import QOS
from routing.quotas import Quotas
from tests.support.xmpp import COMPONENT_NAME, RULES, xmpp_site
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
    form,
    pubsub,
    put,
    subscribe,
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (f"{{{SMQP}}}queueing", "perhaps"),
        (f"{{{SMQP}}}delivery", "SOME"),
        ("pubsub#item_expire", "soon"),
        ("pubsub#access_model", "presence"),
        ("pubsub#access_model", "roster"),
        ("pubsub#node_type", "tree"),
        ("colour", "blue"),
    ],
)
async def test_a_configuration_that_cannot_be_is_not_acceptable(
    tmp_path: Path, field: str, value: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        configure = f"<configure>{form('node_config', **{field: value})}</configure>"
        answer = await ada(server).iq("set", pubsub("<create node='n'/>" + configure))
        assert error_of(answer) == ("modify", "not-acceptable")
        exact = answer.find("c:error/pe:unsupported-access-model", NS)
        assert (exact is not None) is ("access_model" in field)


@pytest.mark.parametrize(
    ("field", "value"), [("pubsub#deliver", "0"), ("pubsub#digest", "true"), ("pubsub#expire", "tomorrow")]
)
async def test_an_option_that_nobody_keeps_is_refused(tmp_path: Path, field: str, value: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        option = f"<field var='{field}'><value>{value}</value></field></x>"
        answer = await client.iq("set", subscribe(client.jid).replace("</x>", option))
        assert error_of(answer) == ("modify", "bad-request")
        assert answer.find("c:error/pe:invalid-options", NS) is not None


@pytest.mark.parametrize(
    ("text", "kind", "condition", "exact"),
    [
        ("<subscribe node='work' jid='bob@shakespeare.lit'/>", "modify", "bad-request", "invalid-jid"),
        ("<subscribe jid='ada@shakespeare.lit'/>", "modify", "bad-request", "nodeid-required"),
        (f"<subscribe node='work' jid='{ADA}'/><options node='n'/>", "modify", "bad-request", None),
        (f"<unsubscribe node='work' jid='{ADA}'/>", "cancel", "item-not-found", None),
        (f"<unsubscribe node='there' jid='{ADA}'/>", "cancel", "unexpected-request", "not-subscribed"),
        ("<unsubscribe node='there'/>", "modify", "bad-request", "jid-required"),
        ("<unsubscribe node='there' jid='bob@shakespeare.lit'/>", "auth", "forbidden", None),
        (f"<options node='there' jid='{ADA}'/>", "modify", "unexpected-request", "not-subscribed"),
        ("<options node='there' jid='bob@shakespeare.lit'/>", "auth", "forbidden", None),
        ("<publish node='work'/>", "modify", "bad-request", "item-required"),
        ("<publish node='no/good'><item/></publish>", "modify", "not-acceptable", None),
        ("<retract node='work'/>", "modify", "bad-request", "item-required"),
        ("<create node='n'/><configure node='m'/>", "modify", "bad-request", None),
        ("<nonsense/>", "cancel", "feature-not-implemented", None),
    ],
)  # fmt: skip
async def test_requests_that_make_no_sense_get_the_errors_of_xep_0060(
    tmp_path: Path, text: str, kind: str, condition: str, exact: str | None
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), "there")
        answer = await ada(server).iq("set", pubsub(text))
        assert error_of(answer) == (kind, condition)
        assert exact is None or answer.find(f"c:error/pe:{exact}", NS) is not None


async def test_a_jid_without_an_account_may_do_nothing(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        stranger = server.client("mallory@elsewhere.example/x")
        for text in (
            "<publish node='n'><item/></publish>",
            "<subscribe node='n' jid='mallory@elsewhere.example'/>",
        ):
            assert error_of(await stranger.iq("set", pubsub(text))) == ("auth", "forbidden")
        assert error_of(await stranger.iq("get", f"<query xmlns='{ITEMS}'/>")) == ("auth", "forbidden")
        assert (await stranger.iq("get", f"<query xmlns='{INFO}'/>")).get("type") == "result"


async def test_every_operation_needs_its_right(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        eve = server.client("eve@shakespeare.lit/x")
        await create(ada(server), "orders")
        assert (await put(eve, "eve.own", "i")).get("type") == "result"
        refused = [
            ("set", pubsub("<publish node='orders'><item/></publish>")),
            ("set", subscribe("eve@shakespeare.lit", "1", "orders")),
            ("get", pubsub("<items node='orders'/>")),
            ("set", pubsub("<create node='eve.new'/>")),
            ("get", pubsub("<configure node='orders'/>", "#owner")),
            ("set", pubsub("<configure node='orders'/>", "#owner")),
            ("set", pubsub("<delete node='orders'/>", "#owner")),
            ("set", pubsub("<purge node='orders'/>", "#owner")),
            ("get", pubsub("<subscriptions node='orders'/>", "#owner")),
            ("set", pubsub("<subscriptions node='orders'/>", "#owner")),
            ("set", pubsub("<retract node='orders'><item id='i'/></retract>")),
        ]
        for kind, text in refused:
            assert error_of(await eve.iq(kind, text)) == ("auth", "forbidden"), text
        # not blocked, but not on the whitelist
        for kind, text in (
            ("set", subscribe("eve@shakespeare.lit", "1", "eve.own")),
            ("get", pubsub("<items node='eve.own'/>")),
        ):
            answer = await eve.iq(kind, text)
            assert error_of(answer) == ("cancel", "not-allowed")
            assert answer.find("c:error/pe:closed-node", NS) is not None
        answer = await eve.iq("get", f"<query xmlns='{INFO}' node='orders'/>")
        assert error_of(answer) == ("cancel", "item-not-found")


async def test_affiliations_are_the_rights_of_the_account(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        eve = server.client("eve@shakespeare.lit/x")
        for node, affiliation in (("eve.own", "publish-only"), ("orders", "outcast")):
            answer = await eve.iq("get", pubsub(f"<affiliations node='{node}'/>"))
            assert next(answer.iter(f"{{{PUBSUB}}}affiliation")).get("affiliation") == affiliation


def headers_of(*lines: str) -> str:
    text = "".join(f"<header name='X'>{line}</header>" for line in lines)
    return f"<headers xmlns='{SMQP}'>{text}</headers>"


def section_with(*lines: str) -> str:
    text = "".join(f"<header name='X'>{line}</header>" for line in lines)
    return f"<section xmlns='{SMQP}' type='a/b'>{text}</section>"


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (f"<section xmlns='{SMQP}'/>" * 65, ("wait", "policy-violation")),
        (headers_of(*["x"] * 200), ("wait", "policy-violation")),
        (headers_of("x" * 65_536), ("modify", "not-acceptable")),
        (section_with("x" * 65_536), ("modify", "not-acceptable")),
        (headers_of(*["x"] * 100) + section_with(*["x"] * 60) * 2, ("wait", "policy-violation")),
        (headers_of("x" * 20_000) + section_with("x" * 20_000) * 3, ("modify", "not-acceptable")),
        (section_with("ü" * 20_000) * 2, ("modify", "not-acceptable")),
    ],
    ids=[
        "sections",
        "headers",
        "a long header",
        "a long header of a section",
        "headers, with those of sections",
        "long headers, with those of sections",
        "long headers of sections, in bytes",
    ],
)
async def test_what_no_other_front_end_could_read_is_refused(
    tmp_path: Path, content: str, refused: tuple[str, str]
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        assert error_of(await put(client, "work", "i", content)) == refused
        assert site.broker.held == 0


async def test_a_request_names_a_bounded_number_of_items(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        named = "".join(f"<item id='{number}'/>" for number in range(1_001))
        answer = await ada(server).iq("set", pubsub(f"<retract node='work'>{named}</retract>"))
        assert error_of(answer) == ("cancel", "not-allowed")
        assert answer.find("c:error/pe:max-items-exceeded", NS) is not None


async def test_too_many_subscriptions_are_told_apart_from_too_much_of_anything_else(tmp_path: Path) -> None:
    limits = Limits(subscriptions_per_session_max=1, credit_max=10)
    async with xmpp_site(tmp_path, limits=limits) as (server, _, _):
        client = ada(server)
        assert (await client.iq("set", subscribe(client.jid, node="first"))).get("type") == "result"
        answer = await client.iq("set", subscribe(client.jid, node="second"))
        assert error_of(answer) == ("wait", "policy-violation")
        assert answer.find("c:error/pe:too-many-subscriptions", NS) is not None
        headers = "".join(f"<header name='H{number}'>1</header>" for number in range(2_000))
        content = f"<headers xmlns='{SMQP}'>{headers}</headers>"
        answer = await client.iq("set", pubsub(f"<publish node='first'><item>{content}</item></publish>"))
        assert error_of(answer) == ("wait", "policy-violation")
        assert answer.find("c:error/pe:too-many-subscriptions", NS) is None


async def test_a_message_of_too_many_parts_is_refused(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        content = "<a xmlns='urn:a'/>" * 65
        await client.send(f"<message id='m' to='work@{COMPONENT_NAME}'>{content}</message>")
        assert error_of(await client.receive()) == ("wait", "policy-violation")
        assert site.broker.held == 0


@pytest.mark.parametrize(
    "content",
    [
        "<a xmlns='urn:a'/><b xmlns='urn:b'/>",
        f"<a xmlns='urn:a'/><data xmlns='{SMQP}'/>",
        "only text",
        "<a xmlns='urn:a'/> and text",
    ],
)
async def test_an_item_has_one_payload(tmp_path: Path, content: str) -> None:
    """XEP-0060 7.1.3.6."""
    async with xmpp_site(tmp_path) as (server, _, site):
        answer = await put(ada(server), "work", "i", content)
        assert error_of(answer) == ("modify", "bad-request")
        assert answer.find("c:error/pe:invalid-payload", NS) is not None
        assert site.broker.held == 0


async def test_one_message_is_sent_acknowledged(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        publish = pubsub("<publish node='work'><item/></publish>")
        messages = f"<message xmlns='jabber:client'>{publish}</message>" * 2
        answer = await ada(server).iq("set", f"<acknowledged xmlns='{QOS}'>{messages}</acknowledged>")
        assert error_of(answer) == ("modify", "bad-request")
        assert site.broker.held == 0


@pytest.mark.parametrize(
    ("index", "error"),
    [("20000", ("cancel", "feature-not-implemented")), ("-1", ("modify", "bad-request"))],
)
async def test_an_index_that_cannot_be_counted_to_is_refused(
    tmp_path: Path, index: str, error: tuple[str, str]
) -> None:
    """XEP-0059 2.6."""
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "work")
        rsm = f"<set xmlns='http://jabber.org/protocol/rsm'><max>1</max><index>{index}</index></set>"
        answer = await client.iq("get", pubsub("<items node='work'/>" + rsm))
        assert error_of(answer) == error


@pytest.mark.parametrize("jid", ["mallory@elsewhere.example/x", "ghost@nowhere.lit/x"])
async def test_assured_from_who_has_no_account_is_not_allowed_and_told_of(tmp_path: Path, jid: str) -> None:
    """urn:xmpp:qos Memory attacks. A rule may name an account that the site does not have."""
    rules = (*RULES, JidRule(domain="nowhere.lit", account="{local}"))
    async with xmpp_site(tmp_path, rules=rules, event_log="log@shakespeare.lit/x") as (server, _, _):
        log, stranger = server.client("log@shakespeare.lit/x"), server.client(jid)
        text = f"<assured xmlns='{QOS}' msgId='1'><message xmlns='jabber:client'/></assured>"
        assert error_of(await stranger.iq("set", text)) == ("cancel", "not-allowed")
        event = (await log.receive()).find("{urn:xmpp:eventlog}log")
        assert event is not None
        assert event.get("subject") == jid


@pytest.mark.parametrize(
    ("quotas", "error", "text"),
    [
        (Quotas(publish_rate_per_s_max=0.01), ("wait", "policy-violation"), "publish_rate_per_s_max"),
        (Quotas(held_messages_max=1), ("wait", "resource-constraint"), "held_messages_max"),
    ],
)
async def test_who_publishes_more_than_its_account_may_is_told_which_quota_and_to_wait(
    tmp_path: Path, quotas: Quotas, error: tuple[str, str], text: str
) -> None:
    async with xmpp_site(tmp_path, quotas=quotas) as (server, _, _):
        client = ada(server)
        await create(client, "n")
        assert (await put(client, "n", "first")).get("type") == "result"
        answer = await put(client, "n", "second")
        assert error_of(answer) == error
        assert text in "".join(answer.itertext())
