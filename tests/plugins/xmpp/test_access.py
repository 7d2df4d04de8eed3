"""Who may do what with a node: access and publish models, affiliations, approval.

XEP-0060 4.1, 4.5, 8.6 to 8.9.
"""

from pathlib import Path

import pytest

from daemon.settings import Limits
from tests.support.full_disk import no_file_beyond
from tests.support.patience import until
from tests.support.xmpp import COMPONENT_NAME, xmpp_site
from tests.support.xmpp_access import NODE, PLAIN, affiliate, affiliations, bare, items, let_in, states
from tests.support.xmpp_collections import READERS, reader
from tests.support.xmpp_pubsub import (
    ADA,
    PUBSUB,
    ada,
    configure,
    create,
    error_of,
    form,
    notified,
    pubsub,
    put,
    subscribe,
    within,
)

COMMANDS = "http://jabber.org/protocol/commands"


async def test_a_whitelist_is_for_those_on_it(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one, other = ada(server), reader(server), reader(server, 2)
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "whitelist"})
        await put(owner, NODE, "item")
        for answer in (await one.iq("set", subscribe(one.jid, None, NODE)), await items(one)):
            assert error_of(answer) == ("cancel", "not-allowed")
            assert within(answer, "c:error/pe:closed-node") is not None
        assert (await affiliate(owner, bare(one), "member")).get("type") == "result"
        told = within(await one.receive(), "p:pubsub/p:affiliations/p:affiliation")
        assert told.get("affiliation") == "member"
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one, other = ada(server), reader(server), reader(server, 2)
        assert (await one.iq("set", subscribe(one.jid, None, NODE))).get("type") == "result"
        assert (await notified(one)).get("id") == "item"
        assert error_of(await items(other)) == ("cancel", "not-allowed")
        assert await affiliations(owner) == {ADA: "owner", bare(one): "member"}


async def test_whoever_is_on_the_list_no_longer_is_told_so(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, service, _):
        owner, one, other = ada(server), reader(server), reader(server, 2)
        await create(owner, NODE, **PLAIN)
        await put(owner, NODE, "item")
        for each in (one, other):
            await each.iq("set", subscribe(each.jid, None, NODE))
            await notified(each)
        await affiliate(owner, bare(one), "outcast")
        assert within(await one.receive(), "e:event/e:subscription").get("subscription") == "none"
        assert error_of(await one.iq("set", subscribe(one.jid, None, NODE))) == ("auth", "forbidden")
        text = f"<configure node='{NODE}'>{form('node_config', **{'pubsub#access_model': 'whitelist'})}"
        assert (await owner.iq("set", pubsub(f"{text}</configure>", "#owner"))).get("type") == "result"
        assert within(await other.receive(), "e:event/e:subscription").get("subscription") == "none"
        assert not service.registry.of_node(NODE)


async def test_who_is_away_and_finds_no_room_is_unsubscribed_all_the_same(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS, clients_max=4) as (server, service, site):
        owner, one, other, third = ada(server), *(reader(server, number) for number in (1, 2, 3))
        await create(owner, NODE, **PLAIN)
        for each in (one, other):
            await each.iq("set", subscribe(each.jid, None, NODE))
        service.clients[one.jid].session.close()
        await until(lambda: one.jid not in service.clients)
        await third.iq("get", pubsub("<subscriptions/>"))
        answer = await configure(owner, NODE, **{"pubsub#access_model": "whitelist"})
        assert answer.get("type") == "result"
        for each in (one, other):
            assert within(await each.receive(), "e:event/e:subscription").get("subscription") == "none"
        assert not service.registry.of_node(NODE)
        assert site.durable_subscriptions("xmpp/") == []
        await put(owner, NODE, "item")
        assert one.quiet()
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        assert await states(reader(server)) == []


async def test_a_subscriber_that_has_too_much_to_ask_is_unsubscribed_all_the_same(tmp_path: Path) -> None:
    limits = Limits(unanswered_per_session_max=1)
    async with xmpp_site(tmp_path, limits=limits) as (server, _, site):
        owner, worker = ada(server), server.client("worker1@shakespeare.lit/desk")
        await create(owner, NODE, **PLAIN)
        await worker.iq("set", subscribe(worker.jid, None, NODE))
        busy = pubsub("<publish node='other'><item id='i'/></publish>")
        listed = f"<subscription jid='{worker.jid}' subscription='none'/>"
        ends = pubsub(f"<subscriptions node='{NODE}'>{listed}</subscriptions>", "#owner")
        await server.to_component(
            "".join(
                f"<iq type='set' id='r' from='{who.jid}' to='{COMPONENT_NAME}'>{text}</iq>"
                for who, text in ((worker, busy), (owner, ends))
            )
        )
        assert (await owner.answer("r")).get("type") == "result"
        assert site.durable_subscriptions("xmpp/") == []
        assert (await worker.answer("r")).get("type") == "result"
        assert within(await worker.receive(), "e:event/e:subscription").get("subscription") == "none"
        await put(owner, NODE, "item")
        assert worker.quiet()


async def test_an_owner_is_told_that_a_subscription_has_ended_once_that_is_on_disk(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        owner, worker = ada(server), server.client("worker1@shakespeare.lit/desk")
        await create(owner, NODE, **PLAIN)
        await worker.iq("set", subscribe(worker.jid, None, NODE))
        listed = f"<subscription jid='{worker.jid}' subscription='none'/>"
        ends = pubsub(f"<subscriptions node='{NODE}'>{listed}</subscriptions>", "#owner")
        with no_file_beyond((tmp_path / "smqpd.db-wal").stat().st_size):
            await owner.send(f"<iq type='set' id='r'>{ends}</iq>")
            await until(lambda: site.broker.store_failed is not None)
            assert owner.quiet()
        assert (await owner.answer("r")).get("type") == "result"


async def test_an_affiliation_is_never_more_than_the_rights_of_the_account(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **PLAIN)
        for wanted in ("publisher", "owner", "publish-only"):
            answer = await affiliate(owner, bare(one), wanted)
            assert error_of(answer) == ("modify", "not-acceptable")
            [held] = answer.iter(f"{{{PUBSUB}#owner}}affiliation")
            assert (held.get("jid"), held.get("affiliation")) == (bare(one), "member")
        assert error_of(await affiliate(owner, "mallory@elsewhere.example", "member")) == (
            "modify",
            "not-acceptable",
        )
        assert error_of(await put(one, NODE, "item")) == ("auth", "forbidden")


async def test_an_owner_takes_from_others_and_not_from_itself(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        owner, worker = ada(server), server.client("worker@shakespeare.lit/1")
        await create(owner, NODE, **PLAIN)
        assert error_of(await affiliate(owner, ADA, "member")) == ("modify", "not-acceptable")
        assert (await affiliate(owner, bare(worker), "member")).get("type") == "result"
        await worker.receive()
        assert error_of(await put(worker, NODE, "item")) == ("auth", "forbidden")
        publish = f"<publish node='{NODE}'><item id='a'/><item id='b'/></publish>"
        assert error_of(await worker.iq("set", pubsub(publish))) == ("auth", "forbidden")
        assert error_of(await worker.iq("set", pubsub(f"<delete node='{NODE}'/>", "#owner"))) == (
            "auth",
            "forbidden",
        )
        await put(owner, NODE, "item")
        retract = f"<retract node='{NODE}'><item id='item'/></retract>"
        assert error_of(await worker.iq("set", pubsub(retract))) == ("auth", "forbidden")
        assert (await affiliate(owner, bare(worker), "none")).get("type") == "result"
        assert (await put(worker, NODE, "item")).get("type") == "result"


@pytest.mark.parametrize(
    "jid", ["reader1@shakespeare.lit/\U0001f980", "reader\U0001f980@shakespeare.lit/\u2163"]
)
async def test_a_jid_is_the_one_that_its_server_vouches_for(tmp_path: Path, jid: str) -> None:
    """Also where RFC 6122, unlike RFC 7622, does not have it, or has another for it."""
    async with xmpp_site(tmp_path, rules=READERS) as (server, service, _):
        owner, one, other = ada(server), server.client(jid), server.client(f"{jid}, too")
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        leave = pubsub(f"<unsubscribe node='{NODE}' jid='{jid}'/>")
        await one.iq("set", subscribe(jid, None, NODE))
        assert await states(one) == ["pending"]
        assert (await other.iq("set", leave)).get("type") == "result"
        assert await states(one) == []
        await one.iq("set", subscribe(jid, None, NODE))
        assert (await affiliate(owner, jid, "member")).get("type") == "result"
        assert (await let_in(owner, jid)).get("type") == "result"
        await put(owner, NODE, "item")
        while within(stanza := await one.receive(), "e:event/e:items/e:item") is None:
            assert stanza.get("to") in (jid, bare(one))
        assert (await other.iq("set", leave)).get("type") == "result"
        assert service.registry.of_node(NODE) == []


@pytest.mark.parametrize("text", ["", "jid='ada@shakespeare.lit' affiliation='king'", "affiliation='member'"])
async def test_what_is_no_affiliation_changes_nothing(tmp_path: Path, text: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        owner = ada(server)
        await create(owner, NODE)
        content = f"<affiliations node='{NODE}'><affiliation {text}/></affiliations>"
        assert error_of(await owner.iq("set", pubsub(content, "#owner"))) == ("modify", "bad-request")


async def test_subscribers_publish_where_the_node_is_theirs(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        owner, eve = ada(server), server.client("eve@shakespeare.lit/x")
        await create(owner, "eve.news", **PLAIN, **{"pubsub#publish_model": "subscribers"})
        assert error_of(await put(eve, "eve.news", "item")) == ("auth", "forbidden")
        assert (await affiliate(owner, bare(eve), "publish-only", "eve.news")).get("type") == "result"
        await eve.receive()
        assert (await put(eve, "eve.news", "item")).get("type") == "result"


async def test_a_member_is_told_what_keeps_it_from_retracting_an_item(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        owner = ada(server)
        one, other = (server.client(f"worker@shakespeare.lit/{number}") for number in range(2))
        await create(owner, NODE)
        await affiliate(owner, bare(one), "member")
        await put(owner, NODE, "item")

        async def refused(id: str) -> tuple[str, str]:
            text = f"<retract node='{NODE}'><item id='{id}'/></retract>"
            return error_of(await other.iq("set", pubsub(text)))

        assert await refused("unknown") == ("cancel", "item-not-found")
        assert await refused("item") == ("auth", "forbidden"), "as owners say"
        for each in (one, other):
            await each.iq("set", subscribe(each.jid, "5", NODE))
        assert await refused("item") == ("cancel", "conflict"), "another has it"
        await affiliate(owner, bare(one), "outcast")
        assert await refused("unknown") == ("auth", "forbidden")


async def test_a_node_without_subscriptions_is_read(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **PLAIN, **{"pubsub#subscribe": "0"})
        await put(owner, NODE, "item")
        answer = await one.iq("set", subscribe(one.jid, None, NODE))
        assert error_of(answer) == ("cancel", "not-allowed")
        assert [item.get("id") for item in (await items(one)).iter(f"{{{PUBSUB}}}item")] == ["item"]
