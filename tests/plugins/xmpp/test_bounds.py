"""What one request, one JID and one account may take, however it is asked for; and what others have still."""

from pathlib import Path

import pytest

from daemon.settings import Limits
from plugins.xmpp.known.item_index import ItemIndex
from plugins.xmpp.known.replaced import Replaced
from tests.support.xmpp import XmppServer, xmpp_site
from tests.support.xmpp_pubsub import (
    ADA,
    NODE,
    PUBSUB,
    SMQP,
    ada,
    create,
    error_of,
    pubsub,
    put,
    subscribe,
    within,
)

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


async def test_an_item_that_is_named_twice_is_retracted_once(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        for _ in range(3):
            await put(ada(server), NODE, "same")
        named = f"<retract node='{NODE}'>" + "<item id='same'/>" * 2 + "</retract>"
        assert (await ada(server).iq("set", pubsub(named))).get("type") == "result"
        assert site.broker.held == 2


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

        found = await index.find(Counted(), NODE, "same")  # type: ignore[arg-type]  # all that it uses
        assert found is not None
        assert found.message_id == max(held.message_id for held in await session.browse(NODE, 0, 10))
        assert len(looks) == 2, "the node, and the item"


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


async def _published_by_another(server: XmppServer) -> str | None:
    answer = await put(server.client("worker1@shakespeare.lit/x"), NODE, "i")
    kind: str | None = answer.get("type")
    return kind
