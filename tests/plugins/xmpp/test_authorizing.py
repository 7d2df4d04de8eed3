"""Owners of a node are asked who may subscribe to it. Source: XEP-0060 8.6."""

from pathlib import Path

import pytest

from tests.support.patience import until
from tests.support.xmpp import XmppClient, xmpp_site
from tests.support.xmpp_access import NODE, PLAIN, affiliate, affiliations, bare, items, let_in, states
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
    pubsub,
    put,
    subscribe,
    within,
)

FIVE = {"pubsub#queue_requests": "5"}
COMMANDS = "http://jabber.org/protocol/commands"
_COMMAND = f"{{{COMMANDS}}}command"
ASKED = "subscribe_authorization"


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
