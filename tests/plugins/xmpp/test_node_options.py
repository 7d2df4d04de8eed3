"""What an owner chooses for a node, over restarts; XEP-0060 5.4, 8.2."""

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from daemon.frontend import Identity, SubscribeOptions
from plugins.xmpp.forms.node_record import ListedAffiliation, read_record, written
from routing.message import Message
from tests.support.patience import PATIENCE_S, until
from tests.support.xmpp import XmppClient, xmpp_site
from tests.support.xmpp_pubsub import (
    INFO,
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

QUEUELESS = {f"{{{SMQP}}}queueing": "0"}
PLAIN = {**QUEUELESS, "pubsub#persist_items": "1"}
FLEETING = "<a xmlns='urn:a'/>"
LASTING = f"{FLEETING}<headers xmlns='{SMQP}'><header name='Timeout'>3600</header></headers>"


async def ids_of(client: XmppClient, node: str) -> list[str | None]:
    answer = await client.iq("get", pubsub(f"<items node='{node}'/>"))
    return [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")]


async def test_what_is_chosen_is_told_and_there_after_a_restart(tmp_path: Path) -> None:
    chosen = {
        "pubsub#title": "Weather in Straßburg",
        "pubsub#description": "Each hour",
        "pubsub#type": "http://www.w3.org/2005/Atom",
        "pubsub#language": "de",
        "pubsub#access_model": "whitelist",
        "pubsub#publish_model": "open",
        "pubsub#max_items": "7",
        "pubsub#notification_type": "headline",
        "pubsub#deliver_payloads": "0",
        "pubsub#notify_config": "1",
        "pubsub#notify_delete": "0",
        "pubsub#notify_retract": "0",
        "pubsub#notify_sub": "1",
        "pubsub#send_last_published_item": "never",
        f"{{{SMQP}}}publisher": "1",
    }
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), "news", **PLAIN, **chosen)
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        answer = await client.iq("get", pubsub("<configure node='news'/>", "#owner"))
        assert chosen.items() <= fields(next(answer.iter("{jabber:x:data}x"))).items()
        answer = await client.iq("get", f"<query xmlns='{INFO}' node='news'/>")
        told = fields(within(answer, f"{{{INFO}}}query/x:x"))
        assert chosen.items() <= told.items()
        assert told["pubsub#creator"] == told["pubsub#owner"] == "ada@shakespeare.lit"
        assert told["pubsub#creation_date"].endswith("Z")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pubsub#title", "x" * 501),
        ("pubsub#max_items", "0"),
        ("pubsub#max_items", "many"),
        ("pubsub#notify_sub", "perhaps"),
        ("pubsub#notification_type", "chat"),
        ("pubsub#publish_model", "everyone"),
        ("pubsub#purge_offline", "1"),
        ("pubsub#children_max", "1"),
    ],
)
async def test_what_cannot_be_chosen_changes_nothing(tmp_path: Path, field: str, value: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "news", **PLAIN, **{"pubsub#title": "News"})
        answer = await configure(client, "news", **{"pubsub#title": "Other", field: value})
        assert error_of(answer) == ("modify", "not-acceptable")
        answer = await client.iq("get", pubsub("<configure node='news'/>", "#owner"))
        assert fields(next(answer.iter("{jabber:x:data}x")))["pubsub#title"] == "News"


async def test_what_there_is_no_room_to_keep_changes_nothing(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        owner, reader = ada(server), server.client("worker@shakespeare.lit/1")
        await create(owner, "news", **PLAIN)
        await reader.iq("set", subscribe(reader.jid, None, "news"))
        session = service.clients[owner.jid].session
        members: dict[str, ListedAffiliation] = {
            f"{number:0>120}@shakespeare.lit": "member" for number in range(425)
        }
        kept = read_record(session.annotation("news"))
        session.annotate("news", written(msgspec.structs.replace(kept, affiliations=members)))
        chosen = {f"{{{SMQP}}}queueing": "1", "pubsub#description": "x" * 4_000}
        assert error_of(await configure(owner, "news", **chosen)) == ("wait", "resource-constraint")
        answer = await owner.iq("get", pubsub("<configure node='news'/>", "#owner"))
        assert fields(next(answer.iter("{jabber:x:data}x")))[f"{{{SMQP}}}queueing"] == "0"
        await put(owner, "news", "item")
        assert (await notified(reader)).get("id") == "item"


async def test_a_node_without_settings_of_its_own_is_remembered(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), "any", **{f"{{{SMQP}}}delivery": "MESSAGE"})
    async with xmpp_site(tmp_path) as (server, _, _):
        answer = await ada(server).iq("set", pubsub("<create node='any'/>"))
        assert error_of(answer) == ("cancel", "conflict")


async def test_the_newest_items_are_kept(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "news", **PLAIN, **{"pubsub#max_items": "3"})
        for number in range(5):
            await put(client, "news", f"i{number}")
        await put(client, "news", "i3")
        with trio.fail_after(PATIENCE_S):
            while site.broker._router._state.topics["news"].messages > 3:
                await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert await ids_of(client, "news") == ["i2", "i4", "i3"]
        assert (await configure(client, "news", **{"pubsub#max_items": "1"})).get("type") == "result"
        assert await ids_of(client, "news") == ["i3"]


async def test_what_nobody_has_removed_yet_is_not_shown(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "news", **PLAIN, **{"pubsub#max_items": "2"})
        session = site.open_session(Identity(account="ada"), "desk", protocol="smqp", remote="")
        for number in range(4):
            session.publish("news", Message(others=(("Item-Id", f"i{number}"),)))
        assert await ids_of(client, "news") == ["i2", "i3"]
        answer = await client.iq("get", pubsub("<items node='news' max_items='5'/>"))
        assert [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")] == ["i2", "i3"]
        session.close()


async def test_what_takes_no_room_is_shown_beside_what_nobody_has_removed_yet(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "news", **PLAIN, **{"pubsub#max_items": "2"})
        session = site.open_session(Identity(account="ada"), "desk", protocol="smqp", remote="")
        session.set_delivery("news", None)
        for id in ("job-0", "0", "1", "job-1", "2", "3"):
            if id.isdigit():
                session.publish("news", Message(timeout_s=3600, others=(("Item-Id", id),)))
            else:
                session.publish("news", Message(delivery="ONE", others=(("Item-Id", id),)))
        shown = ["job-0", "job-1", "2", "3"]
        assert await ids_of(client, "news") == shown
        for last in range(1, 5):
            # the newest, and then those in front of it
            answer = await client.iq("get", pubsub(f"<items node='news' max_items='{last}'/>"))
            assert [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")] == shown[-last:]
        session.close()


async def test_what_only_waits_for_subscribers_takes_no_room_of_what_is_kept(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        owner = ada(server)
        await create(owner, "news", **QUEUELESS, **{"pubsub#max_items": "9"})
        away = site.open_session(Identity(account="bob"), "desk", protocol="smqp", remote="")
        away.subscribe("news", SubscribeOptions(credit=0, accepts="ALL"))
        for number in range(5):
            await put(owner, "news", f"transient-{number}")
        await put(owner, "news", "kept", LASTING)
        assert (await configure(owner, "news", **{"pubsub#max_items": "3"})).get("type") == "result"
        assert await ids_of(owner, "news") == ["kept"]
        assert site.broker.held == 6
        away.close()


async def test_what_is_on_its_way_is_not_removed_for_what_is_kept(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        owner, reader, late = ada(server), ada(server, "reader"), ada(server, "late")
        await create(owner, "news", **QUEUELESS, **{"pubsub#max_items": "9"})
        await reader.iq("set", subscribe(reader.jid, None, "news"))
        server.is_slow = True
        for id in ("a", "1", "b", "2", "3", "c"):
            await put(owner, "news", id, LASTING if id.isdigit() else FLEETING)
            assert (await notified(reader)).get("id") == id
        assert (await configure(owner, "news", **{"pubsub#max_items": "2"})).get("type") == "result"
        assert site.broker.held == 5
        assert await ids_of(owner, "news") == ["a", "b", "2", "3", "c"]
        await late.iq("set", subscribe(late.jid, None, "news"))
        assert (await notified(late)).get("id") == "3", "the last one that is kept"
        await server.read_on()
        await until(lambda: site.broker.held == 2)


async def test_what_is_on_its_way_takes_the_place_of_what_is_kept_for_as_long_as_that(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        owner, reader = ada(server), ada(server, "reader")
        await create(owner, "news", **QUEUELESS)
        await reader.iq("set", subscribe(reader.jid, None, "news"))
        server.is_slow = True
        kept = LASTING.replace("3600", "INFINITE")
        contents = (FLEETING, kept, FLEETING.replace("a", "b"))
        items = "".join(f"<item id='x'>{content}</item>" for content in contents)
        answer = await owner.iq("set", pubsub(f"<publish node='news'>{items}</publish>"))
        assert answer.get("type") == "result"
        for _ in contents:
            assert (await notified(reader)).get("id") == "x"

        async def shown() -> list[str]:
            answer = await owner.iq("get", pubsub("<items node='news'/>"))
            return [item[0].tag for item in answer.iter(f"{{{PUBSUB}}}item")]

        await until(lambda: site.broker.held == 2)  # the first one has been replaced
        assert await shown() == ["{urn:b}b"]
        await server.read_on()
        await until(lambda: site.broker.held == 1)
        assert await shown() == ["{urn:a}a"]


async def test_what_was_kept_is_kept_whatever_the_node_is_now(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        owner, late = ada(server), ada(server, "late")
        await create(owner, "news", **PLAIN, **{"pubsub#max_items": "9"})
        for number in range(4):
            await put(owner, "news", f"i{number}")
        chosen = {"pubsub#persist_items": "0", "pubsub#max_items": "2"}
        assert (await configure(owner, "news", **chosen)).get("type") == "result"
        assert await ids_of(owner, "news") == ["i2", "i3"]
        await late.iq("set", subscribe(late.jid, None, "news"))
        assert (await notified(late)).get("id") == "i3"
        # a queue by now, as somebody set by another protocol: of work that waits none is too many
        session = service.clients[owner.jid].session
        session.set_delivery("news", "ONE")
        for number in range(4):
            await put(owner, "news", f"job-{number}")
        assert await service.index.surplus(session, "news", 2, 100) == []
        assert await ids_of(owner, "news") == ["i2", "i3", *(f"job-{number}" for number in range(4))]


async def test_what_is_not_stored_yet_makes_no_room(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        owner = ada(server)
        await create(owner, "news", **PLAIN, **{"pubsub#max_items": "3"})
        for number in range(3):
            await put(owner, "news", f"i{number}")
        session = service.clients[owner.jid].session

        class Meanwhile:
            """The session, and what is published as soon as the node has been read."""

            def __getattr__(self, name: str) -> Any:
                return getattr(session, name)

            async def browse(self, node: str, after: int, count: int) -> object:
                page = await session.browse(node, after, count)
                session.publish("news", Message(others=(("Item-Id", "i0"),)))
                return page

        session.publish("news", Message(others=(("Item-Id", "i2"),)))
        # nobody can know yet that one more takes the place of another one
        assert await service.index.surplus(Meanwhile(), "news", 3, 100) == []
        assert len(session.kept("news")) == 5


async def test_room_is_made_once_however_many_see_to_it(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        owner = ada(server)
        await create(owner, "news", **PLAIN, **{"pubsub#max_items": "9"})
        ids = ["i0", "i1", "i0", "i2", *(f"j{number}" for number in range(20))]
        for number, id in enumerate(ids):
            text = pubsub(f"<publish node='news'><item id='{id}'><a xmlns='urn:a'/></item></publish>")
            await owner.send(f"<iq type='set' id='p{number}'>{text}</iq>")
        assert (await configure(owner, "news", **{"pubsub#max_items": "4"})).get("type") == "result"
        for number in range(len(ids)):
            assert (await owner.answer(f"p{number}")).get("type") == "result"
        await until(lambda: site.broker.held <= 4)
        await put(owner, "news", "last")
        await until(lambda: site.broker.held <= 4)
        assert await ids_of(owner, "news") == ["j17", "j18", "j19", "last"]


async def test_a_node_tells_in_the_way_that_its_owner_wants(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "news", **PLAIN)
        await client.iq("set", subscribe(client.jid, None, "news"))
        await configure(
            client, "news", **{"pubsub#notification_type": "headline", "pubsub#deliver_payloads": "0"}
        )
        await put(client, "news", "one")
        stanza = await client.receive()
        item = within(stanza, "e:event/e:items/e:item")
        assert (stanza.get("type"), item.get("id"), len(item)) == ("headline", "one", 0)
        await configure(client, "news", **{"pubsub#deliver_notifications": "0"})
        await put(client, "news", "two")
        await configure(client, "news", **{"pubsub#deliver_notifications": "1"})
        await put(client, "news", "three")
        assert (await notified(client)).get("id") == "three"


async def test_a_queue_has_nothing_that_loses_items(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "work")
        for field, value in (
            ("pubsub#notification_type", "headline"),
            ("pubsub#deliver_notifications", "0"),
            ("pubsub#max_items", "5"),
        ):
            assert error_of(await configure(client, "work", **{field: value})) == ("modify", "not-acceptable")
        # a plain node that becomes a queue gives them up
        await create(client, "news", **PLAIN, **{"pubsub#max_items": "5"})
        assert (await configure(client, "news", **{f"{{{SMQP}}}queueing": "1"})).get("type") == "result"
        answer = await client.iq("get", pubsub("<configure node='news'/>", "#owner"))
        assert fields(next(answer.iter("{jabber:x:data}x")))["pubsub#max_items"] == "max"


async def test_an_item_says_who_published_it_and_nobody_else(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client, other = ada(server), server.client("worker@shakespeare.lit/1")
        await create(client, "news", **PLAIN, **{f"{{{SMQP}}}publisher": "1"})
        await client.iq("set", subscribe(client.jid, None, "news"))
        forged = f"<headers xmlns='{SMQP}'><header name='Xmpp-Publisher'>{client.jid}</header></headers>"
        await put(other, "news", "one", f"<a xmlns='urn:a'/>{forged}")
        assert (await notified(client)).get("publisher") == other.jid
        answer = await client.iq("get", pubsub("<items node='news'/>"))
        assert next(answer.iter(f"{{{PUBSUB}}}item")).get("publisher") == other.jid
        session = site.open_session(Identity(account="ada"), "desk", protocol="smqp", remote="")
        session.publish("news", Message(delivery="ALL", others=(("Xmpp-Publisher", client.jid),)))
        assert (await notified(client)).get("publisher") is None
        session.close()


async def test_subscribers_are_told_of_a_configuration_and_owners_of_subscribers(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client, other = ada(server), server.client("worker@shakespeare.lit/1")
        await create(client, "news", **PLAIN, **{"pubsub#notify_config": "1", "pubsub#notify_sub": "1"})
        await other.iq("set", subscribe(other.jid, None, "news"))
        event = within(await client.receive(), "e:event/e:subscription")
        assert (event.get("jid"), event.get("subscription")) == (other.jid, "subscribed")
        await configure(client, "news", **{"pubsub#title": "News"})
        told = within(await other.receive(), "e:event/e:configuration/x:x")
        assert fields(told)["pubsub#title"] == "News"
        await other.iq("set", pubsub(f"<unsubscribe node='news' jid='{other.jid}'/>"))
        event = within(await client.receive(), "e:event/e:subscription")
        assert (event.get("jid"), event.get("subscription")) == (other.jid, "none")


async def test_a_form_that_is_cancelled_changes_nothing_and_a_label_in_one_says_nothing(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "news", **PLAIN)
        titled = form("node_config", **{"pubsub#title": "News"})
        label = "<field type='fixed'><value>About the node</value></field></x>"
        for text in (titled.replace("submit", "cancel"), titled.replace("</x>", label)):
            answer = await client.iq("set", pubsub(f"<configure node='news'>{text}</configure>", "#owner"))
            assert answer.get("type") == "result"
            info = await client.iq("get", f"<query xmlns='{INFO}' node='news'/>")
            shown = fields(within(info, f"{{{INFO}}}query/x:x"))
            assert shown["pubsub#title"] == ("News" if text != titled.replace("submit", "cancel") else "")


async def test_max_as_a_value_is_announced(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        info = await ada(server).iq("get", f"<query xmlns='{INFO}'/>")
        features = {each.get("var") for each in info.iter(f"{{{INFO}}}feature")}
        assert f"{PUBSUB}#config-node-max" in features


async def test_a_node_need_not_be_made_by_publishing(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, create_on_publish=False) as (server, _, site):
        client = ada(server)
        assert error_of(await put(client, "news", "one")) == ("cancel", "item-not-found")
        assert "news" not in site.broker._router._state.topics
        await create(client, "news")
        assert (await put(client, "news", "one")).get("type") == "result"


@pytest.mark.parametrize("text", ["''", '\'{"options":{"title":7}}\'', "'nonsense'", "x'ff'"])
async def test_a_node_whose_record_is_damaged_is_for_its_owners(tmp_path: Path, text: str) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), "news.open", **PLAIN)
    with sqlite3.connect(next(tmp_path.rglob("smqpd.db"))) as store:
        store.execute(f"UPDATE annotation SET text = {text}")
    store.close()
    async with xmpp_site(tmp_path) as (server, _, _):
        client, dan = ada(server), server.client("dan@shakespeare.lit/1")
        assert error_of(await dan.iq("set", subscribe(dan.jid, None, "news.open"))) == (
            "cancel",
            "not-allowed",
        )
        assert (await client.iq("set", subscribe(client.jid, None, "news.open"))).get("type") == "result"
        assert (await configure(client, "news.open", **{"pubsub#access_model": "open"})).get(
            "type"
        ) == "result"
        assert (await dan.iq("set", subscribe(dan.jid, None, "news.open"))).get("type") == "result"


@pytest.mark.parametrize(("before", "now"), [("1", "0"), ("0", "1")])
async def test_an_item_that_was_sent_already_is_sent_as_its_node_says_now(
    tmp_path: Path, before: str, now: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        owner, early, late = ada(server), ada(server, "early"), ada(server, "late")
        options = (f"{{{SMQP}}}publisher", "pubsub#deliver_payloads")
        await create(owner, "news", **PLAIN, **dict.fromkeys(options, before))
        await early.iq("set", subscribe(early.jid, None, "news"))
        await put(owner, "news", "item")
        item = await notified(early)
        assert (item.get("publisher"), len(item)) == ((owner.jid, 1) if before == "1" else (None, 0))
        assert (await configure(owner, "news", **dict.fromkeys(options, now))).get("type") == "result"
        await late.iq("set", subscribe(late.jid, None, "news"))
        item = await notified(late)
        # who published it is not kept where its node did not tell that then
        assert (item.get("publisher"), len(item)) == (None, int(now))
