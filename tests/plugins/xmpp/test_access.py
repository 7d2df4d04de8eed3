"""Who may do what with a node: access and publish models, affiliations, approval.

XEP-0060 4.1, 4.5, 8.6 to 8.9.
"""

from pathlib import Path
from typing import Any

import pytest

from daemon.settings import Limits
from tests.support.full_disk import no_file_beyond
from tests.support.patience import until
from tests.support.xmpp import COMPONENT_NAME, XmppClient, xmpp_site
from tests.support.xmpp_collections import READERS, reader, with_options
from tests.support.xmpp_pubsub import (
    ADA,
    INFO,
    ITEMS,
    PUBSUB,
    SMQP,
    ada,
    configure,
    create,
    error_of,
    fields,
    form,
    notified,
    pubsub,
    put,
    subscribe,
    within,
)

FIVE = {"pubsub#queue_requests": "5"}
PLAIN = {f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"}
NODE = "news.open"
COMMANDS = "http://jabber.org/protocol/commands"
_COMMAND = f"{{{COMMANDS}}}command"
ASKED = "subscribe_authorization"


def bare(client: XmppClient) -> str:
    return client.jid.partition("/")[0]


async def affiliate(owner: XmppClient, jid: str, affiliation: str, node: str = NODE) -> Any:
    listed = f"<affiliation jid='{jid}' affiliation='{affiliation}'/>"
    return await owner.iq("set", pubsub(f"<affiliations node='{node}'>{listed}</affiliations>", "#owner"))


async def affiliations(owner: XmppClient) -> dict[str | None, str | None]:
    answer = await owner.iq("get", pubsub(f"<affiliations node='{NODE}'/>", "#owner"))
    return {
        each.get("jid"): each.get("affiliation") for each in answer.iter(f"{{{PUBSUB}#owner}}affiliation")
    }


async def states(client: XmppClient) -> list[str | None]:
    answer = await client.iq("get", pubsub("<subscriptions/>"))
    return [each.get("subscription") for each in answer.iter(f"{{{PUBSUB}}}subscription")]


async def items(client: XmppClient) -> Any:
    return await client.iq("get", pubsub(f"<items node='{NODE}'/>"))


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


async def asked(owner: XmppClient) -> dict[str, str]:
    shown = within(await owner.receive(), "x:x")
    assert within(shown, "x:field[@var='FORM_TYPE']/x:value").text == f"{PUBSUB}#{ASKED}"
    return fields(shown)


async def decide(owner: XmppClient, filled_in: dict[str, str], allow: str) -> None:
    await owner.send(f"<message id='d'>{form(ASKED, **{**filled_in, 'pubsub#allow': allow})}</message>")


async def test_an_owner_lets_somebody_subscribe(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one = ada(server), reader(server)
        server.clients[ADA] = owner
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        await put(owner, NODE, "item")
        answer = await items(one)
        assert error_of(answer) == ("auth", "not-authorized")
        assert within(answer, "c:error/pe:not-subscribed") is not None
        answer = await one.iq("set", subscribe(one.jid, None, NODE))
        assert within(answer, "p:pubsub/p:subscription").get("subscription") == "pending"
        assert await states(one) == ["pending"]
        again = await one.iq("set", subscribe(one.jid, None, NODE))
        assert error_of(again) == ("auth", "not-authorized")
        assert within(again, "c:error/pe:pending-subscription") is not None
        filled_in = await asked(owner)
        assert filled_in["pubsub#subscriber_jid"] == one.jid
        await decide(owner, filled_in, "true")
        told = [await one.receive(), await one.receive()]
        assert {within(each, "e:event")[0].tag.rpartition("}")[2] for each in told} == {
            "subscription",
            "items",
        }
        assert await states(one) == ["subscribed"]
        # who was let in once comes back without being asked
        await one.iq("set", pubsub(f"<unsubscribe node='{NODE}' jid='{one.jid}'/>"))
        answer = await one.iq("set", subscribe(one.jid, None, NODE))
        assert within(answer, "p:pubsub/p:subscription").get("subscription") == "subscribed"


async def test_an_owner_refuses_and_only_an_owner(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one, other = ada(server), reader(server), reader(server, 2)
        server.clients[ADA] = owner
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(one.jid, None, NODE))
        filled_in = await asked(owner)
        await decide(other, filled_in, "1")
        assert error_of(await other.receive()) == ("auth", "forbidden")
        await decide(owner, filled_in, "0")
        assert within(await one.receive(), "e:event/e:subscription").get("subscription") == "none"
        assert await states(one) == []
        await decide(owner, filled_in, "1")
        assert error_of(await owner.receive()) == ("cancel", "item-not-found")


async def test_what_waits_for_an_owner_is_there_after_a_restart_and_can_be_asked_for(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        one = reader(server)
        await create(ada(server), NODE, **{"pubsub#access_model": "authorize"})
        answer = await one.iq("set", subscribe(bare(one), "3", NODE))
        assert within(answer, "p:pubsub/p:subscription").get("subscription") == "pending"
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one = ada(server), reader(server)
        assert await states(one) == ["pending"]
        command = f"<command xmlns='{COMMANDS}' node='{PUBSUB}#get-pending' action='execute'/>"
        answer = await owner.iq("set", command)
        offered = within(answer, ".//x:field[@var='pubsub#node']/x:option/x:value")
        assert offered.text == NODE
        session = within(answer, _COMMAND).get("sessionid")
        start = command.replace("/>", f" sessionid='{session}'>")
        answer = await owner.iq("set", start + form(ASKED, **{"pubsub#node": NODE}) + "</command>")
        assert within(answer, _COMMAND).get("status") == "completed"
        assert (await asked(owner))["pubsub#subscriber_jid"] == bare(one)
        listed = f"<subscription jid='{bare(one)}' subscription='subscribed'/>"
        text = pubsub(f"<subscriptions node='{NODE}'>{listed}</subscriptions>", "#owner")
        assert (await owner.iq("set", text)).get("type") == "result"
        await put(owner, NODE, "job")
        while (found := within(await one.receive(), "e:event/e:items/e:item")) is None:
            pass
        assert found.get("id") == "job"
        assert within(await reader(server, 2).iq("set", command), _COMMAND).get("status") == "completed"


async def test_the_commands_are_found_and_one_can_be_given_up(tmp_path: Path) -> None:
    """XEP-0050 2.2, 2.3, 2.4.4."""
    async with xmpp_site(tmp_path) as (server, _, _):
        owner, pending = ada(server), f"{PUBSUB}#get-pending"
        answer = await owner.iq("get", f"<query xmlns='{ITEMS}' node='{COMMANDS}'/>")
        assert [each.get("node") for each in answer.iter(f"{{{ITEMS}}}item")] == [pending]
        for node, kind in ((COMMANDS, "command-list"), (pending, "command-node")):
            answer = await owner.iq("get", f"<query xmlns='{INFO}' node='{node}'/>")
            [identity] = answer.iter(f"{{{INFO}}}identity")
            assert (identity.get("category"), identity.get("type")) == ("automation", kind)
        start = f"<command xmlns='{COMMANDS}' node='{pending}' sessionid='1'"
        answer = await owner.iq("set", f"{start} action='cancel'/>")
        assert (within(answer, _COMMAND).get("status"), within(answer, _COMMAND).get("sessionid")) == (
            "canceled",
            "1",
        )
        assert error_of(await owner.iq("set", f"{start} action='dance'/>")) == ("modify", "bad-request")
        other = f"<command xmlns='{COMMANDS}' node='other' action='cancel'/>"
        assert error_of(await owner.iq("set", other)) == ("cancel", "item-not-found")


async def test_whoever_asks_can_think_better_of_it(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(one.jid, None, NODE))
        answer = await owner.iq("get", pubsub(f"<subscriptions node='{NODE}'/>", "#owner"))
        assert next(answer.iter(f"{{{PUBSUB}#owner}}subscription")).get("subscription") == "pending"
        text = pubsub(f"<unsubscribe node='{NODE}' jid='{one.jid}'/>")
        assert (await one.iq("set", text)).get("type") == "result"
        assert await states(one) == []


async def test_nobody_takes_back_what_another_has_asked_for(tmp_path: Path) -> None:
    """XEP-0060 6.2.3.3."""
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one, other = ada(server), reader(server), reader(server, 2)
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(one.jid, None, NODE))
        text = pubsub(f"<unsubscribe node='{NODE}' jid='{one.jid}'/>")
        for each in (other, owner):
            assert error_of(await each.iq("set", text)) == ("auth", "forbidden")
        assert await states(one) == ["pending"]


async def test_one_resource_that_is_answered_leaves_the_other_waiting(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner = ada(server)
        one, other = (server.client(f"reader1@shakespeare.lit/{at}") for at in ("desk", "phone"))
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        for client in (one, other):
            await client.iq("set", subscribe(client.jid, None, NODE))
        assert await states(one) == ["pending", "pending"]
        await one.iq("set", pubsub(f"<unsubscribe node='{NODE}' jid='{one.jid}'/>"))
        assert await states(other) == ["pending"]
        command = f"<command xmlns='{COMMANDS}' node='{PUBSUB}#get-pending' action='execute'/>"
        answer = await owner.iq("set", command)
        assert within(answer, ".//x:field[@var='pubsub#node']/x:option/x:value").text == NODE


async def let_in(owner: XmppClient, jid: str) -> Any:
    listed = f"<subscription jid='{jid}' subscription='subscribed'/>"
    text = pubsub(f"<subscriptions node='{NODE}'>{listed}</subscriptions>", "#owner")
    return await owner.iq("set", text)


async def test_who_cannot_be_let_in_now_waits_on(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS, clients_max=4) as (server, service, _):
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(bare(one), None, NODE))
        other = reader(server, 2)
        await other.iq("get", pubsub("<subscriptions/>"))
        assert error_of(await let_in(owner, bare(one))) == ("wait", "resource-constraint")
        assert await affiliations(owner) == {ADA: "owner"}
        assert await states(one) == ["pending"]
        service.clients[other.jid].session.close()
        await until(lambda: other.jid not in service.clients)
        assert (await let_in(owner, bare(one))).get("type") == "result"
        assert await states(one) == ["subscribed"]


async def test_a_worker_that_finds_no_room_when_it_is_let_in_waits_on(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS, clients_max=3) as (server, service, _):
        owner, one, other = ada(server), reader(server), reader(server, 2)
        await create(owner, NODE, **{"pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(one.jid, "5", NODE))
        service.clients[one.jid].session.close()
        await until(lambda: one.jid not in service.clients)
        await other.iq("get", pubsub("<subscriptions/>"))
        assert error_of(await let_in(owner, one.jid)) == ("wait", "resource-constraint")
        assert await affiliations(owner) == {ADA: "owner"}
        service.clients[other.jid].session.close()
        await until(lambda: other.jid not in service.clients)
        assert (await let_in(owner, one.jid)).get("type") == "result"
        assert await states(one) == ["subscribed"]


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


async def test_who_is_let_in_publishes_as_before(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, site):
        accounts = site.broker.settings.site.accounts_file
        rights = "subscribe = ['*.open']"
        accounts.write_text(accounts.read_text().replace(rights, f"{rights}\npublish = ['*.open']"))
        site.take_on()
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        assert (await put(one, NODE, "before")).get("type") == "result"
        await one.iq("set", subscribe(one.jid, None, NODE))
        assert (await let_in(owner, one.jid)).get("type") == "result"
        assert (await put(one, NODE, "after")).get("type") == "result"
        assert await affiliations(owner) == {ADA: "owner", bare(one): "publisher"}


async def test_an_outcast_is_not_let_in(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, service, _):
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(one.jid, None, NODE))
        await affiliate(owner, bare(one), "outcast")
        assert error_of(await let_in(owner, one.jid)) == ("cancel", "not-allowed")
        assert service.registry.of_node(NODE) == []
        await affiliate(owner, bare(one), "none")
        assert (await let_in(owner, one.jid)).get("type") == "result"


async def test_no_more_wait_than_may(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        await create(ada(server), NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        for number in range(100):
            one = reader(server, number)
            assert (await one.iq("set", subscribe(one.jid, None, NODE))).get("type") == "result"
        one = reader(server, 100)
        assert error_of(await one.iq("set", subscribe(one.jid, None, NODE))) == (
            "wait",
            "resource-constraint",
        )


async def test_a_node_without_subscriptions_is_read(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **PLAIN, **{"pubsub#subscribe": "0"})
        await put(owner, NODE, "item")
        answer = await one.iq("set", subscribe(one.jid, None, NODE))
        assert error_of(answer) == ("cancel", "not-allowed")
        assert [item.get("id") for item in (await items(one)).iter(f"{{{PUBSUB}}}item")] == ["item"]


async def test_nobody_waits_for_the_owners_of_a_node_that_is_deleted(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, service, _):
        owner, one = ada(server), reader(server)
        await create(owner, NODE, **PLAIN, **{"pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(one.jid, None, NODE))
        assert service.registry.pending() == [NODE]
        text = pubsub(f"<delete node='{NODE}'/>", "#owner")
        assert (await owner.iq("set", text)).get("type") == "result"
        assert service.registry.pending() == []


@pytest.mark.parametrize(("before", "now"), [("1", "0"), ("0", "1")])
async def test_who_waits_for_what_a_node_gives_no_longer_is_told_to_ask_anew(
    tmp_path: Path, before: str, now: str
) -> None:
    """XEP-0060 8.2, 8.6."""
    async with xmpp_site(tmp_path, rules=READERS) as (server, service, _):
        owner, one, both = ada(server), reader(server), reader(server, 2)
        queueing = f"{{{SMQP}}}queueing"
        await create(owner, NODE, **{queueing: before, "pubsub#access_model": "authorize"})
        await one.iq("set", subscribe(one.jid, "5" if before == "1" else None, NODE))
        await both.iq("set", with_options(both.jid, NODE, **{f"{{{SMQP}}}accepts": "BOTH", **FIVE}))
        assert (await configure(owner, NODE, **{"pubsub#title": "News"})).get("type") == "result"
        assert await states(one) == ["pending"]
        assert (await configure(owner, NODE, **{queueing: now})).get("type") == "result"
        assert within(await one.receive(), "e:event/e:subscription").get("subscription") == "none"
        assert (await states(one), await states(both)) == ([], ["pending"])
        assert service.registry.waiting(bare(one), NODE) == set()
        assert error_of(await let_in(owner, one.jid)) == ("modify", "not-acceptable")
        await one.iq("set", subscribe(one.jid, "5" if now == "1" else None, NODE))
        for each in (one, both):
            assert (await let_in(owner, each.jid)).get("type") == "result"
            assert await states(each) == ["subscribed"]
