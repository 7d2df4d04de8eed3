"""What nodes hold, and what is listed of them: by pages, forwards and backwards, and by their ids."""

from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
import trio

from daemon.frontend import Identity
from plugins.xmpp.requests import items
from plugins.xmpp.wire.namespaces import RESULT_SET
from routing.message import Message, Section
from tests.support.patience import PATIENCE_S
from tests.support.xmpp import COMPONENT_NAME, XmppClient, xmpp_site
from tests.support.xmpp_collections import READERS, reader
from tests.support.xmpp_pubsub import (
    ITEMS,
    PUBSUB,
    SMQP,
    ada,
    create,
    error_of,
    form,
    notified,
    pubsub,
    put,
    subscribe,
)


async def test_persistent_items_stay_are_listed_by_pages_and_are_replaced_by_id(tmp_path: Path) -> None:
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
        # whoever comes later gets the last one
        late = ada(server, "late")
        await late.iq("set", subscribe(late.jid, None, "state"))
        assert (await notified(late)).get("id") == "item-0"
        text = "<retract node='state'><item id='item-3'/></retract>"
        assert (await client.iq("set", pubsub(text))).get("type") == "result"
        answer = await client.iq("get", pubsub("<items node='state'/>"))
        assert [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")] == [
            "item-1", "item-2", "item-4", "item-0",
        ]  # fmt: skip


@pytest.mark.parametrize("index", [0, 3, 249, 250, 251])
async def test_a_page_begins_where_it_is_asked_to(tmp_path: Path, index: int) -> None:
    """XEP-0059 2.6."""
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        for number in range(251):
            session.publish("state", Message(others=(("Item-Id", f"item-{number}"),)))
        session.close()
        rsm = f"<set xmlns='{RESULT_SET}'><max>2</max><index>{index}</index></set>"
        answer = await client.iq("get", pubsub("<items node='state'/>" + rsm))
        wanted = [f"item-{number}" for number in range(index, min(index + 2, 251))]
        assert [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")] == wanted
        assert [first.get("index") for first in answer.iter(f"{{{RESULT_SET}}}first")] == [
            str(index) for _ in wanted[:1]
        ]


async def test_lists_of_nodes_and_subscriptions_go_by_index(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        for node in "abc":
            await client.iq("set", subscribe(client.jid, "1", node))
        rsm = f"<set xmlns='{RESULT_SET}'><max>1</max><index>1</index></set>"
        answer = await client.iq("get", f"<query xmlns='{ITEMS}'>{rsm}</query>")
        assert [each.get("node") for each in answer.iter(f"{{{ITEMS}}}item")] == ["b"]
        answer = await client.iq("get", pubsub("<affiliations/>" + rsm))
        assert [each.get("node") for each in answer.iter(f"{{{PUBSUB}}}affiliation")] == ["b"]
        answer = await client.iq("get", pubsub("<subscriptions/>" + rsm))
        assert len(list(answer.iter(f"{{{PUBSUB}}}subscription"))) == 1


async def test_an_item_is_found_and_replaced_among_thousands_whoever_published_them(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        for number in range(3_000):
            session.publish("state", Message(others=(("Item-Id", f"item-{number}"),)))
        for item in ("item-2999", "item-0", "item-2999"):
            await put(client, "state", item, "<b xmlns='urn:b'/>")
        with trio.fail_after(PATIENCE_S):
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


@pytest.mark.parametrize(("account", "visible"), [("ada", "n"), ("dan", ".open"), ("eve", "nothing")])
async def test_nodes_are_listed_by_pages_to_whoever_may_see_them(
    tmp_path: Path, account: str, visible: str
) -> None:
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


async def test_the_newest_items_are_found_and_paged_through_backwards(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "state", **{f"{{{SMQP}}}queueing": "0", "pubsub#persist_items": "1"})
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        for number in range(600):
            session.publish("state", Message(others=(("Item-Id", f"item-{number}"),)))

        async def listed(most: str, rsm: str = "") -> tuple[list[str], str]:
            answer = await client.iq("get", pubsub(f"<items node='state'{most}/>{rsm}"))
            ids = [item.get("id", "") for item in answer.iter(f"{{{PUBSUB}}}item")]
            return ids, answer.findtext(f".//{{{RESULT_SET}}}first", "")

        while (await listed(" max_items='2'"))[0] != ["item-598", "item-599"]:
            await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        seen: list[str] = []
        before = ""
        while True:
            rsm = f"<set xmlns='{RESULT_SET}'><max>70</max><before>{before}</before></set>"
            page, before = await listed("", rsm)
            if not page:
                break
            seen = page + seen
        assert seen == [f"item-{number}" for number in range(600)]
        for nowhere in ("0", "00", "-1", "x"):
            for on in ("before", "after"):
                rsm = f"<set xmlns='{RESULT_SET}'><{on}>{nowhere}</{on}></set>"
                answer = await client.iq("get", pubsub(f"<items node='state'/>{rsm}"))
                assert error_of(answer) == ("cancel", "item-not-found")
        # what has gone from the end is not in the way of what is in front of it
        await client.iq("set", pubsub("<purge node='state'/>", "#owner"))
        for number in range(300):
            session.publish("state", Message(others=(("Item-Id", f"new-{number}"),)))
        await client.iq("get", pubsub("<items node='state'><item id='new-1'/></items>"))
        for number in range(2, 300):
            text = f"<retract node='state'><item id='new-{number}'/></retract>"
            await client.send(f"<iq type='set' id='r{number}'>{pubsub(text)}</iq>")
            await client.answer(f"r{number}")
        assert (await listed(" max_items='2'"))[0] == ["new-0", "new-1"]
        session.close()


async def test_an_item_too_large_for_an_answer_hides_no_other(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, send_bytes_max=10_000) as (server, _, site):
        client = ada(server)
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        for number, size in enumerate((9_000, 10, 3_000, 3_000)):
            body = Section("text/plain", bytes(size))
            message = Message(delivery="ONE", sections=(body,), others=(("Item-Id", f"{number}"),))
            session.publish("work", message, request=number)
        answers = 0
        while answers < 4:
            answers += len(await session.events())
        seen, after = [], ""
        for _ in range(3):
            rsm = f"<set xmlns='{RESULT_SET}'>{after}</set>"
            answer = await client.iq("get", pubsub(f"<items node='work'/>{rsm}"))
            seen += [item.get("id") for item in answer.iter(f"{{{PUBSUB}}}item")]
            after = f"<after>{answer.findtext(f'.//{{{RESULT_SET}}}last')}</after>"
        assert seen == ["1", "2", "3"]
        session.close()


async def test_what_is_listed_about_nodes_comes_by_pages(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        session = site.open_session(Identity(account="ada"), "desk", protocol="test", remote="")
        for number in range(250):
            session.publish(f"n{number}", Message(delivery="ONE", others=(("Item-Id", "i"),)))
            session.publish("one", Message(delivery="ONE", others=(("Item-Id", f"{number}"),)))
        for number in range(120):
            text = subscribe(client.jid, "1", f"n{number}")
            assert (await client.iq("set", text)).get("type") == "result"
            await notified(client)
        owner = f"xmlns='{PUBSUB}#owner'"
        for asked, found, count in (
            (f"<pubsub xmlns='{PUBSUB}'><subscriptions/>{{}}</pubsub>", f"{{{PUBSUB}}}subscription", 120),
            (f"<pubsub xmlns='{PUBSUB}'><affiliations/>{{}}</pubsub>", f"{{{PUBSUB}}}affiliation", 251),
            (f"<query xmlns='{ITEMS}'>{{}}</query>", f"{{{ITEMS}}}item", 251),
            (f"<query xmlns='{ITEMS}' node='one'>{{}}</query>", f"{{{ITEMS}}}item", 250),
            (
                f"<pubsub {owner}><subscriptions node='n1'/>{{}}</pubsub>",
                f"{{{PUBSUB}#owner}}subscription",
                1,
            ),
        ):
            seen, rsm = set(), ""
            while True:
                answer = await client.iq("get", asked.format(rsm))
                page = [tuple(sorted(each.attrib.items())) for each in answer.iter(found)]
                assert len(page) <= 100
                seen |= set(page)
                last = answer.findtext(f".//{{{RESULT_SET}}}last")
                if not page or last is None:
                    break
                rsm = f"<set xmlns='{RESULT_SET}'><after>{last}</after></set>"
            assert len(seen) == count, asked
        session.close()


@pytest.mark.parametrize(
    "request_", [f"<query xmlns='{ITEMS}'/>", f"<pubsub xmlns='{PUBSUB}'><affiliations/></pubsub>"]
)
async def test_one_client_has_few_requests_at_a_time(tmp_path: Path, request_: Any) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await create(client, "work")
        addresses = f"from='{client.jid}' to='{COMPONENT_NAME}'"
        text = "".join(f"<iq type='get' id='{n}' {addresses}>{request_}</iq>" for n in range(60))
        await server.to_component(text)
        answers = [await client.receive() for _ in range(60)]
        refused = [error_of(answer) for answer in answers if answer.get("type") == "error"]
        assert set(refused) == {("wait", "resource-constraint")}
        assert len(refused) < 60


async def test_a_million_of_anything_is_a_page(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, nodes_max=3) as (server, _, _):
        client = ada(server)
        for number in range(5):
            answer = await client.iq("set", pubsub(f"<create node='n{number}'/>"))
        options = form("publish-options", **{f"{{{SMQP}}}queueing": "0"})
        for request in (
            "<create node='new'/>",
            f"<subscribe node='new' jid='{client.jid}'/>",
            "<publish node='new'><item/></publish>",
            f"<publish node='new'><item/></publish><publish-options>{options}</publish-options>",
        ):
            answer = await client.iq("set", pubsub(request))
            assert error_of(answer) == ("wait", "resource-constraint"), request
        # those that are there are as they were
        assert (await put(client, "n0", "i")).get("type") == "result"
        for most in ("1000000", "9" * 400):
            rsm = f"<set xmlns='http://jabber.org/protocol/rsm'><max>{most}</max></set>"
            answer = await client.iq("get", f"<query xmlns='{ITEMS}'>{rsm}</query>")
            assert len(list(answer.iter(f"{{{ITEMS}}}item"))) == 3
            answer = await client.iq("get", pubsub(f"<items node='n0' max_items='{most}'/>"))
            assert answer.get("type") == "result"


RSM = f"{{{RESULT_SET}}}"


async def test_items_that_others_have_take_no_place_on_a_page(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        owner, worker = ada(server), server.client("worker1@shakespeare.lit/x")
        await create(owner, "tasks")
        await worker.iq("set", subscribe(worker.jid, "7", "tasks"))
        for number in range(10):
            await put(owner, "tasks", f"job-{number}")
        for _ in range(7):
            await notified(worker)
        rsm = f"<set xmlns='{RESULT_SET}'><max>2</max>{{}}</set>"
        for asked, item, attribute in (
            (f"<pubsub xmlns='{PUBSUB}'><items node='tasks'/>{rsm}</pubsub>", f"{{{PUBSUB}}}item", "id"),
            (f"<query xmlns='{ITEMS}' node='tasks'>{rsm}</query>", f"{{{ITEMS}}}item", "name"),
        ):
            first = await owner.iq("get", asked.format(""))
            assert [each.get(attribute) for each in first.iter(item)] == ["job-7", "job-8"]
            last = first.findtext(f".//{RSM}last")
            rest = await owner.iq("get", asked.format(f"<after>{last}</after>"))
            assert [each.get(attribute) for each in rest.iter(item)] == ["job-9"]
            assert rest.findtext(f".//{RSM}first") == rest.findtext(f".//{RSM}last")
            own = await worker.iq("get", asked.format(""))
            assert [each.get(attribute) for each in own.iter(item)] == ["job-0", "job-1"]


@pytest.mark.parametrize(
    ("asked", "item", "place", "on"),
    [(PUBSUB, "id", "last", "after"), (ITEMS, "name", "last", "after"), (PUBSUB, "id", "first", "before")],
    ids=["items", "disco", "backwards"],
)
async def test_behind_many_items_that_others_have_a_client_pages_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, item: str, place: str, on: str
) -> None:
    named = f"<query xmlns='{ITEMS}' node='tasks'>{{}}</query>"
    if asked == PUBSUB:
        named = f"<pubsub xmlns='{PUBSUB}'><items node='tasks'/>{{}}</pubsub>"
    monkeypatch.setattr(items, "READ_AT_A_TIME", 2)
    monkeypatch.setattr(items, "LOOKED_AT_MAX", 3)
    async with xmpp_site(tmp_path) as (server, _, _):
        owner = ada(server)
        await create(owner, "tasks")
        one, other = (server.client(f"worker{number}@shakespeare.lit/x") for number in (1, 2))
        for worker, credit, first in ((one, 1, 0), (other, 8, 1)):
            await worker.iq("set", subscribe(worker.jid, str(credit), "tasks"))
            for number in range(first, first + credit):
                await put(owner, "tasks", f"job-{number}")
                await notified(worker)
        await put(owner, "tasks", "job-9")
        pages: list[list[str | None]] = []
        turn: str | None = ""
        while turn is not None:
            rsm = f"<set xmlns='{RESULT_SET}'><max>1</max><{on}>{turn}</{on}></set>"
            answer = await one.iq("get", named.format(rsm))
            pages.append([each.get(item) for each in answer.iter(f"{{{asked}}}item")])
            turn = answer.findtext(f".//{RSM}{place}")
        shown = [id for page in pages for id in page]
        assert shown == (["job-0", "job-9"] if on == "after" else ["job-9", "job-0"])
        # three are looked at for a page
        assert pages.count([]) >= 2


async def paged(client: XmppClient, content: str, most: int, owner: str = "") -> list[tuple[str, str]]:
    """(JID, state) of all that is listed, `most` on a page; how many there are is told right on each."""
    seen: list[tuple[str, str]] = []
    counts, after = set(), ""
    while True:
        rsm = f"<set xmlns='{RESULT_SET}'><max>{most}</max>{after}</set>"
        answer = await client.iq("get", pubsub(content + rsm, owner))
        page = list(answer.iter(f"{{{PUBSUB}{owner}}}subscription"))
        assert len(page) <= most
        seen += [(each.get("jid", ""), each.get("subscription", "")) for each in page]
        counts.add(answer.findtext(f".//{RSM}count"))
        if not page or (last := answer.findtext(f".//{RSM}last")) is None:
            break
        after = f"<after>{last}</after>"
    assert counts == {str(len(seen))}
    return seen


async def test_who_waits_for_an_owner_is_on_one_page_with_who_subscribes(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=READERS) as (server, _, _):
        owner, node = ada(server), "news.open"
        await create(owner, node, **{f"{{{SMQP}}}queueing": "0", "pubsub#access_model": "authorize"})
        waiting, subscribed = [], []
        for number in range(5):
            waiting.append(reader(server, number).jid)
            await reader(server, number).iq("set", subscribe(waiting[-1], None, node))
            subscribed.append(f"ada@shakespeare.lit/{number}")
            await owner.iq("set", subscribe(subscribed[-1], None, node))
        of_node = await paged(owner, f"<subscriptions node='{node}'/>", 3, "#owner")
        assert sorted(of_node) == sorted(
            [*((jid, "pending") for jid in waiting), *((jid, "subscribed") for jid in subscribed)]
        )
        one = server.client("reader7@shakespeare.lit/0")
        for number in range(5):
            await one.iq("set", subscribe(f"reader7@shakespeare.lit/{number}", None, node))
        own = await paged(one, "<subscriptions/>", 2)
        assert sorted(own) == [(f"reader7@shakespeare.lit/{number}", "pending") for number in range(5)]


async def test_a_page_fits_however_its_names_are_written(tmp_path: Path) -> None:
    """A quote takes six bytes."""
    async with xmpp_site(tmp_path, send_bytes_max=20_000) as (server, _, _):
        owner, client = ada(server), server.client("worker1@shakespeare.lit/x")
        await create(owner, "news", **{f"{{{SMQP}}}queueing": "0"})
        jids = ["worker1@shakespeare.lit/" + "'" * 500 + str(number) for number in range(10)]
        for jid in jids:
            text = f"<subscribe jid={quoteattr(jid)} node='news'/>"
            options = f"<options>{form('subscribe_options', **{f'{{{SMQP}}}qos': 'none'})}</options>"
            assert (await client.iq("set", pubsub(text + options))).get("type") == "result"
        of_node = await paged(owner, "<subscriptions node='news'/>", 100, "#owner")
        assert sorted(jid for jid, _ in of_node) == jids
        assert sorted(jid for jid, _ in await paged(client, "<subscriptions/>", 100)) == jids
