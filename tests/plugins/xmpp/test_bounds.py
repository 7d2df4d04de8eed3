"""What one request, one JID and one account may take, however it is asked for; and what others have still."""

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
import trio

from daemon.settings import Limits
from plugins.xmpp import service
from plugins.xmpp.delivery import collecting
from plugins.xmpp.known import item_index
from plugins.xmpp.known.item_index import ItemIndex
from plugins.xmpp.known.replaced import Replaced
from plugins.xmpp.settings import JidRule
from tests.support.patience import until
from tests.support.xmpp import RULES, XmppServer, xmpp_site
from tests.support.xmpp_pubsub import (
    ADA,
    NODE,
    PUBSUB,
    SMQP,
    ada,
    configure,
    create,
    error_of,
    notified,
    pubsub,
    put,
    subscribe,
    within,
)

DANS = JidRule(pattern="dan*@shakespeare.lit", account="dan")
PLAIN = {f"{{{SMQP}}}queueing": "0"}


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("affiliations", "<affiliation jid='j{}@shakespeare.lit' affiliation='member'/>"),
        ("subscriptions", "<subscription jid='ada@shakespeare.lit' subid='{}' subscription='none'/>"),
    ],
)
async def test_an_owner_changes_a_bounded_number_of_entries_at_a_time(
    tmp_path: Path, kind: str, entry: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), "n", **PLAIN)
        entries = "".join(entry.format(number) for number in range(501))
        answer = await ada(server).iq("set", pubsub(f"<{kind} node='n'>{entries}</{kind}>", "#owner"))
        assert error_of(answer) == ("modify", "policy-violation")
        listed = await ada(server).iq("get", pubsub("<affiliations node='n'/>", "#owner"))
        assert [each.get("jid") for each in listed.iter(f"{{{PUBSUB}#owner}}affiliation")] == [ADA]


async def test_an_error_that_cannot_carry_the_request_comes_without_it(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, send_bytes_max=10_000) as (server, _, _):
        await create(ada(server), NODE)
        items = "".join(f"<item id='nothing-of-this-name-{number}'/>" for number in range(500))
        answer = await ada(server).iq("set", pubsub(f"<retract node='{NODE}'>{items}</retract>"))
        assert error_of(answer) == ("cancel", "item-not-found")
        assert within(answer, "p:pubsub") is None


async def test_an_answer_to_what_was_done_that_is_too_large_is_an_empty_result(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, send_bytes_max=10_000) as (server, _, site):
        quotes = "&apos;" * 200
        items = "".join(f"<item id='{number}{quotes}'><a xmlns='urn:a'/></item>" for number in range(10))
        answer = await ada(server).iq("set", pubsub(f"<publish node='{NODE}'>{items}</publish>"))
        assert (answer.get("type"), len(answer)) == ("result", 0)
        assert site.broker.held == 10
        assert (await put(ada(server), NODE, "i")).get("type") == "result"
        assert site.broker.mishaps.count == 0


@pytest.mark.parametrize("characters", [1_001, 50_000])
async def test_a_stanza_of_which_the_id_alone_is_much_to_answer_is_refused(
    tmp_path: Path, characters: int
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client, id = ada(server), "'" * characters
        publish = pubsub(f"<publish node='{NODE}'><item><a xmlns='urn:a'/></item></publish>")
        await client.send(f'<iq type="set" id="{id}">{publish}</iq>')
        if characters < 10_000:
            assert error_of(await client.answer(id)) == ("modify", "policy-violation")
        assert (await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")).get("type") == "result"
        assert site.broker.held == 0


async def test_an_item_that_is_named_twice_is_retracted_once(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        for _ in range(3):
            await put(ada(server), NODE, "same")
        named = f"<retract node='{NODE}'>" + "<item id='same'/>" * 2 + "</retract>"
        assert (await ada(server).iq("set", pubsub(named))).get("type") == "result"
        assert site.broker.held == 2


async def test_an_item_that_a_worker_has_is_its_own_also_where_it_is_named_twice(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        worker = server.client("worker1@shakespeare.lit/x")
        await create(ada(server), NODE)
        assert (await worker.iq("set", subscribe(worker.jid))).get("type") == "result"
        await put(ada(server), NODE, "mine")
        await notified(worker)
        named = f"<retract node='{NODE}'>" + "<item id='mine'/>" * 2 + "</retract>"
        assert (await worker.iq("set", pubsub(named))).get("type") == "result"
        assert site.broker.held == 0


async def test_the_newest_item_of_an_id_is_found_at_once_however_many_have_it(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        for _ in range(5):
            await put(ada(server), NODE, "same")
        session = service.clients[ada(server).jid].session
        index, looks = ItemIndex(), []

        class Counted:
            """The session, and what it was asked."""

            topic = session.topic

            async def browse(self, node: str, after: int, count: int) -> object:
                looks.append(after)
                return await session.browse(node, after, count)

            def entries_among(self, node: str, numbers: list[int]) -> object:
                looks.extend(numbers)
                return session.entries_among(node, numbers)

        found = await index.read(Counted(), NODE, "same")  # type: ignore[arg-type]  # all that it uses
        assert found is not None
        assert found.message_id == max(held.message_id for held in session.entries(NODE, 0, 10))
        assert len(looks) == 3, "the node, the item's entry, and the item"


async def test_others_run_while_a_node_is_looked_through_for_what_has_made_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_index, "PAGE", 4)
    async with xmpp_site(tmp_path) as (server, service, site):
        client = ada(server)
        await create(client, NODE, **PLAIN, **{"pubsub#persist_items": "1", "pubsub#max_items": "99"})
        for number in (*range(20), *range(20)):
            await put(client, NODE, f"i{number}")
        await until(lambda: site.broker.held == 20)  # the first ones have been replaced
        session, looks = service.clients[client.jid].session, list[int]()

        class Asked:
            """The session, and at how many it looked in each step."""

            def __getattr__(self, name: str) -> Any:
                return getattr(session, name)

            def entries_among(self, node: str, numbers: list[int]) -> object:
                looks[-1] += len(numbers)
                return session.entries_among(node, numbers)

            def kept_among(self, node: str, numbers: list[int]) -> object:
                looks[-1] += len(numbers)
                return session.kept_among(node, numbers)

        async def work() -> None:
            while True:
                looks.append(0)
                await trio.lowlevel.checkpoint()

        async def surplus() -> list[int]:
            looks.append(0)
            found = await service.index.surplus(Asked(), NODE, 18, 100)
            return [held.message_id for held in found]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            assert await surplus() == session.kept(NODE)[:2]
            # two steps are between two turns at most; one looks at what is kept, and at what is shown
            assert max(looks) <= 4 * item_index.PAGE
            looks.clear()
            assert len(await surplus()) == 2
            assert sum(looks) == 2, "what is no longer repeated is looked at no more"
            nursery.cancel_scope.cancel()


async def test_a_jid_has_a_bounded_number_of_subscriptions_over_all_of_its_resources(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, limits=Limits(subscriptions_per_session_max=3)) as (server, _, _):
        client = ada(server)
        await create(client, "n", **PLAIN)
        for number in range(3):
            assert (await client.iq("set", subscribe(f"{ADA}/r{number}", None, "n"))).get("type") == "result"
        answer = await client.iq("set", subscribe(f"{ADA}/r3", None, "n"))
        assert error_of(answer) == ("wait", "policy-violation")
        assert within(answer, "c:error/pe:too-many-subscriptions") is not None
        again = await client.iq("set", subscribe(f"{ADA}/r2", None, "n"))
        assert again.get("type") == "result", "it has that one already"


async def test_one_jid_leaves_others_room_to_ask_for_a_subscription(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), "n.open", **PLAIN, **{"pubsub#access_model": "authorize"})
        dan = server.client("dan@shakespeare.lit/x")
        for number in range(10):
            text = subscribe(f"dan@shakespeare.lit/r{number}", None, "n.open")
            assert (await dan.iq("set", text)).get("type") == "result"
        answer = await dan.iq("set", subscribe("dan@shakespeare.lit/r10", None, "n.open"))
        assert error_of(answer) == ("wait", "resource-constraint")


async def test_no_more_wait_for_an_owner_than_are_kept(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, rules=(DANS, *RULES)) as (server, _, _):
        await create(ada(server), "n.open", **PLAIN, **{"pubsub#access_model": "authorize"})

        async def ask(who: int, resource: int) -> Element:
            client, jid = (
                server.client(f"dan{who}@shakespeare.lit/x"),
                f"dan{who}@shakespeare.lit/r{resource}",
            )
            answer: Element = await client.iq("set", subscribe(jid, None, "n.open"))
            return answer

        for number in range(100):
            assert (await ask(number // 10, number % 10)).get("type") == "result"
        assert error_of(await ask(10, 0)) == ("wait", "resource-constraint")
        waiting = await ada(server).iq("get", pubsub("<subscriptions node='n.open'/>", "#owner"))
        assert {each.get("subscription") for each in waiting.iter(f"{{{PUBSUB}#owner}}subscription")} == {
            "pending"
        }


async def test_room_is_made_for_as_many_items_as_have_to_go(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = ada(server)
        await create(client, "n", **PLAIN, **{"pubsub#persist_items": "1"})
        for hundred in range(3):
            items = "".join(
                f"<item id='{hundred}-{number}'><a xmlns='urn:a'/></item>" for number in range(100)
            )
            answer = await client.iq("set", pubsub(f"<publish node='n'>{items}</publish>"))
            assert answer.get("type") == "result"
        assert site.broker.held == 300
        assert (await configure(client, "n", **{"pubsub#max_items": "1"})).get("type") == "result"
        assert site.broker.held == 1


async def test_what_is_known_of_the_nodes_of_a_collection_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "NODES_MAX", 2)
    async with xmpp_site(tmp_path) as (server, service, _):
        client = ada(server)
        for node in ("n.a", "n.b", "n.c"):
            await create(client, node, **PLAIN, **{"pubsub#persist_items": "1"})
            await put(client, node, "last")
        assert (await client.iq("set", subscribe(client.jid, None, "n.#"))).get("type") == "result"
        for _ in range(3):
            await client.receive()
        subscription = service.registry.find(client.jid, "n.#")
        assert subscription is not None
        assert len(subscription.last_kept) <= 2


async def test_the_items_of_a_bounded_number_of_nodes_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_index, "NODES_MAX", 2)
    async with xmpp_site(tmp_path) as (server, service, _):
        await put(ada(server), NODE, "i")
        session, index = service.clients[ada(server).jid].session, ItemIndex()
        for node in ("n.a", "n.b", "n.c"):
            index.note(node, 1, "i", begin=True)
        removed = [await index.removed(session, node, 1) for node in ("n.a", "n.b", "n.c")]
        assert removed == [None, "i", "i"]


def test_one_task_sees_to_a_node_however_much_is_published_meanwhile() -> None:
    replaced = Replaced()
    assert replaced.note("n", ["a"])
    assert not replaced.note("n", ["b"])
    assert replaced.take("n") == {"a", "b"}
    assert not replaced.note("n", []), "of a node that keeps so many, without an id"
    assert replaced.take("n") == set()
    assert replaced.take("n") is None
    replaced.done("n")
    assert replaced.note("n", ["a"])


async def test_one_account_leaves_half_of_the_sessions_to_others(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, clients_max=4) as (server, _, _):
        answers = [await put(ada(server, f"r{number}"), NODE, "i") for number in range(3)]
        assert [answer.get("type") for answer in answers] == ["result", "result", "error"]
        assert error_of(answers[2]) == ("wait", "resource-constraint")
        assert await _published_by_another(server) == "result"


async def test_one_jid_leaves_half_of_what_goes_on_at_a_time_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "BARE_JID_TASKS_MAX", 2)
    async with xmpp_site(tmp_path) as (server, _, _):
        silent = [ada(server, f"r{number}") for number in range(3)]
        for client in silent:
            client.answers_questions = False
        questions = []
        for client in silent[:2]:
            await client.send(f"<iq type='set' id='s'>{subscribe(client.jid)}</iq>")
            questions.append(await client.receive())
        refused = await silent[2].iq("set", subscribe(silent[2].jid))
        assert error_of(refused) == ("wait", "resource-constraint")
        worker = server.client("worker1@shakespeare.lit/x")
        assert (await worker.iq("set", subscribe(worker.jid))).get("type") == "result"
        for client, question in zip(silent, questions, strict=False):
            await client.send(f"<iq type='result' id='{question.get('id')}'/>")
            assert (await client.answer("s")).get("type") == "result"
        silent[2].answers_questions = True
        assert (await silent[2].iq("set", subscribe(silent[2].jid))).get("type") == "result"


async def _published_by_another(server: XmppServer) -> str | None:
    answer = await put(server.client("worker1@shakespeare.lit/x"), NODE, "i")
    kind: str | None = answer.get("type")
    return kind
