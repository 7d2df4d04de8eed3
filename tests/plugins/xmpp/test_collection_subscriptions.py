"""Subscriptions to collections: what rights let come by them, what ends them, and their options."""

from pathlib import Path

import pytest

from daemon.settings import Limits
from tests.support.broker import SessionClient
from tests.support.patience import until
from tests.support.xmpp import xmpp_site
from tests.support.xmpp_collections import (
    ALL,
    DEPTH,
    KEPT,
    PLAIN,
    READERS,
    TYPE,
    collect,
    reader,
    subscriptions,
    told,
    with_options,
)
from tests.support.xmpp_pubsub import (
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
        # once the first item counts as read
        await until(lambda: not site.durable_subscriptions("xmpp/"))
        assert not service.registry.of_collections("weather.oslo")


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
