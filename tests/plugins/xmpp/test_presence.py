"""Who is there, and what becomes of items for who is not, at servers that keep messages (XEP-0160)."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daemon.settings import QueueSettings
from plugins.xmpp.delivery.absence import FIRST_S
from plugins.xmpp.service import Service
from plugins.xmpp.wire.namespaces import QOS
from tests.support.patience import until
from tests.support.xmpp import COMPONENT_NAME, XmppClient, XmppServer, xmpp_site
from tests.support.xmpp_pubsub import (
    INFO,
    NODE,
    NS,
    SMQP,
    ada,
    child,
    create,
    notification,
    notified,
    pubsub,
    put,
    subscribe,
)

WORKER = "workerbee237@shakespeare.lit"
SERVER_ERROR = (
    "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
)


async def working(server: XmppServer, resource: str, *, jid: str = "", lock_s: float = 60.0) -> XmppClient:
    client: XmppClient = server.client(f"{WORKER}/{resource}")
    lock = f"<field var='{{{SMQP}}}lock'><value>{lock_s:g}</value></field></x>"
    answer = await client.iq("set", subscribe(jid or client.jid).replace("</x>", lock))
    assert answer.get("type") == "result"
    return client


def been_quiet(service: Service, client: XmppClient) -> None:
    """It was heard of a minute ago."""
    service.clients[client.jid].seen_at -= 60


async def test_nothing_is_sent_to_a_worker_that_has_left_in_silence(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        server.keeps_messages = True
        worker = await working(server, "one")
        been_quiet(service, worker)
        server.leave(worker)
        await put(ada(server), NODE, "job")
        await until(lambda: not service.registry.of_node(NODE))
        other = await working(server, "other")
        told = await notification(other)
        assert told.item.get("id") == "job"
        assert told.delivery is None, "the first delivery that anybody has seen"
        assert server.kept == []


async def test_a_worker_that_is_there_is_asked_and_gets_its_items_in_their_order(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        worker = await working(server, "one")
        been_quiet(service, worker)
        for number in range(4):
            await put(ada(server), NODE, f"job-{number}")
        assert [(await notified(worker)).get("id") for _ in range(4)] == [f"job-{n}" for n in range(4)]


async def test_items_of_a_worker_that_left_with_them_are_no_failures(tmp_path: Path) -> None:
    """However many have left with it, it is no dead letter: the server kept it for each of them."""
    async with xmpp_site(tmp_path, queues=QueueSettings(max_deliveries=3)) as (server, service, site):
        server.keeps_messages = True
        await put(ada(server), NODE, "job")
        for number in range(6):
            worker = await working(server, f"worker{number}")
            assert (await notified(worker)).get("id") == "job"
            been_quiet(service, worker)
            server.leave(worker)
            service.clients[worker.jid].attention.watch()
            await until(lambda: not service.registry.of_node(NODE))
        assert "dead." + NODE not in site.broker._router._state.topics


async def test_a_worker_that_sees_an_item_and_does_nothing_fails(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, queues=QueueSettings(max_deliveries=2)) as (server, _, site):
        await put(ada(server), NODE, "job")
        await working(server, "one", lock_s=0.1)
        await until(lambda: f"dead.{NODE}" in site.broker._router._state.topics)


async def test_who_is_told_that_an_item_is_its_no_longer_may_be_gone(tmp_path: Path) -> None:
    """So it is told by what no server keeps."""
    async with xmpp_site(tmp_path) as (server, _, _):
        worker = await working(server, "one", lock_s=0.1)
        await put(ada(server), NODE, "job")
        assert (await notified(worker)).get("id") == "job"
        told = await worker.receive()
        assert child(told, "e:event/e:items/q:unlock", NS).get("id") == "job"
        assert told.get("type") == "headline"


async def test_a_client_that_answers_as_if_it_was_not_there_is_believed_to_be_there(tmp_path: Path) -> None:
    """Until the lock of an item ends without a word of it."""
    async with xmpp_site(tmp_path) as (server, service, _):
        worker = server.client(f"{WORKER}/mute")
        worker.answers_questions = False
        async with trio.open_nursery() as nursery:

            async def unable() -> None:
                while True:
                    stanza = await worker.stanzas.receive()
                    if stanza.get("type") == "get":
                        await worker.send(f"<iq type='error' id='{stanza.get('id')}'>{SERVER_ERROR}</iq>")
                    else:
                        others.append(stanza)

            others: list[Any] = []
            nursery.start_soon(unable)
            lock = f"<field var='{{{SMQP}}}lock'><value>0.3</value></field></x>"
            text = subscribe(worker.jid).replace("</x>", lock)
            await worker.send(f"<iq type='set' id='s'>{text}</iq>")
            await until(lambda: others)
            been_quiet(service, worker)
            await put(ada(server), NODE, "job")
            await until(lambda: len(others) >= 2)
            await until(lambda: not service.registry.of_node(NODE))
            nursery.cancel_scope.cancel()


async def test_a_worker_whose_answer_is_lost_with_the_stream_is_not_taken_for_one_without_urn_xmpp_qos(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        worker = server.client(f"{WORKER}/one", features=(QOS,))
        worker.answers_questions = False
        await worker.send(f"<iq type='set' id='s'>{subscribe(worker.jid)}</iq>")
        assert (await worker.receive()).get("type") == "get"
        await server.cut()
        refused = await worker.receive()
        assert refused.get("id") == "s"
        assert child(refused, "c:error", NS).get("type") == "wait"
        assert not service.registry.of_node(NODE)
        worker.answers_questions = True
        assert (await worker.iq("set", subscribe(worker.jid))).get("type") == "result"
        assert [each.level for each in service.registry.of_node(NODE)] == ["assured"]


async def test_an_error_of_the_clients_own_shows_that_it_is_there(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        worker = await working(server, "one")
        worker.answers_questions = False
        been_quiet(service, worker)
        await put(ada(server), NODE, "job")
        question = await worker.receive()
        own = SERVER_ERROR.replace("</error>", "<own xmlns='urn:example'/></error>")
        await worker.send(f"<iq type='error' id='{question.get('id')}'>{own}</iq>")
        assert (await notified(worker)).get("id") == "job"


# -- bare JIDs ------------------------------------------------------------------------------------


async def test_a_bare_jid_subscribes_once_however_often_it_logs_in(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), "news", **{f"{{{SMQP}}}queueing": "0"})
        reader = None
        for number in range(4):
            if reader is not None:
                server.leave(reader)
            reader = server.client(f"{WORKER}/login{number}")
            assert (await reader.iq("set", subscribe(WORKER, None, "news"))).get("type") == "result"
        assert reader is not None
        await put(ada(server), "news", "first")
        stanza = await reader.receive()
        assert stanza.get("to") == WORKER
        await reader.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert reader.quiet(), "one copy"
        answer = await reader.iq("get", pubsub("<subscriptions/>"))
        [listed] = answer.findall("p:pubsub/p:subscriptions/p:subscription", NS)
        assert listed.get("jid") == WORKER
        leave = pubsub(f"<unsubscribe node='news' jid='{WORKER}'/>")
        assert (await reader.iq("set", leave)).get("type") == "result"
        await put(ada(server), "news", "second")
        assert reader.quiet()


async def test_workers_that_subscribe_by_their_bare_jid_share_a_queue_and_end_as_one(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        one, other = await working(server, "one", jid=WORKER), await working(server, "other", jid=WORKER)
        answer = await one.iq("get", pubsub("<subscriptions/>"))
        [listed] = answer.findall("p:pubsub/p:subscriptions/p:subscription", NS)
        assert listed.get("jid") == WORKER
        for number in range(4):
            await put(ada(server), NODE, f"job-{number}")
        shared = [(await notified(each)).get("id") for each in (one, other, one, other)]
        assert sorted(map(str, shared)) == [f"job-{number}" for number in range(4)]
        # one that has no part in it speaks for all of them
        third = server.client(f"{WORKER}/third")
        leave = pubsub(f"<unsubscribe node='{NODE}' jid='{WORKER}'/>")
        assert (await third.iq("set", leave)).get("type") == "result"
        await put(ada(server), NODE, "last")
        assert one.quiet()
        assert other.quiet()


async def test_a_bare_jids_subscriptions_are_still_there_after_a_restart(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), "news", **{f"{{{SMQP}}}queueing": "0"})
        reader = await working(server, "one", jid=WORKER)
        assert (await reader.iq("set", subscribe(WORKER, None, "news"))).get("type") == "result"
    again = type(server)()
    reader = again.client(reader.jid)
    async with xmpp_site(tmp_path, again):
        await put(ada(again), "news", "first")
        await put(ada(again), NODE, "job")
        assert {(await notified(reader)).get("id") for _ in range(2)} == {"first", "job"}


# -- who comes back -------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["ping", "disco", "presence", "message"])
async def test_any_sign_of_life_wakes_a_listener_that_was_away(tmp_path: Path, sign: str) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        await create(ada(server), "news", **{f"{{{SMQP}}}queueing": "0"})
        listener = server.client(f"{WORKER}/one")
        assert (await listener.iq("set", subscribe(listener.jid, None, "news"))).get("type") == "result"
        server.leave(listener)
        await put(ada(server), "news", "first")
        await until(lambda: service.registry.absent)
        server.clients[listener.jid] = listener
        listener.answers_questions = False
        text = {
            "ping": "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>",
            "disco": "<iq type='get' id='p'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
            "presence": "<presence/>",
            "message": "<message><active xmlns='http://jabber.org/protocol/chatstates'/></message>",
        }[sign]
        await listener.send(text)
        await put(ada(server), "news", "second")
        items: list[Any] = []
        while len(items) < 2:
            if (item := (await listener.receive()).find("e:event/e:items/e:item", NS)) is not None:
                items.append(item.get("id"))
        assert items == ["first", "second"]


@pytest.mark.parametrize("jid", [WORKER, f"{WORKER}/one"])
async def test_a_listener_that_says_nothing_is_found_again(
    tmp_path: Path, jid: str, autojump_clock: MockClock
) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        await create(ada(server), "news", **{f"{{{SMQP}}}queueing": "0"})
        listener = server.client(f"{WORKER}/one")
        assert (await listener.iq("set", subscribe(jid, None, "news"))).get("type") == "result"
        server.leave(listener)
        await put(ada(server), "news", "first")
        await until(lambda: service.registry.absent)
        server.clients[listener.jid] = listener
        item = await notified(listener)
        assert item.get("id") == "first"


@pytest.mark.parametrize("jids", [["worker1@shakespeare.lit", "worker2@shakespeare.lit"], []])
async def test_who_finds_no_room_after_a_restart_is_looked_for_until_there_is_some(
    tmp_path: Path, jids: list[str], autojump_clock: MockClock
) -> None:
    jids = jids or ["worker1@shakespeare.lit/desk", "worker2@shakespeare.lit/desk"]
    async with xmpp_site(tmp_path) as (server, _, _):
        await create(ada(server), "news", **{f"{{{SMQP}}}queueing": "0"})
        for jid in jids:
            listener = server.client(jid)
            assert (await listener.iq("set", subscribe(jid, None, "news"))).get("type") == "result"
    again = type(server)()
    listeners = {jid: again.client(jid) for jid in jids}
    async with xmpp_site(tmp_path, again, clients_max=2) as (_, service, _):
        await until(lambda: len(service.registry.absent) == 1)
        [out] = service.registry.absent
        [found] = set(jids) - {out}
        await put(ada(again), "news", "item")
        text = f"<subscription jid='{found}' subscription='none'/>"
        await ada(again).iq("set", pubsub(f"<subscriptions node='news'>{text}</subscriptions>", "#owner"))
        service.clients[found].session.close()
        assert (await notified(listeners[out])).get("id") == "item"


async def listening(directory: Path, jid: str) -> None:
    """A site at which a JID subscribes to `news` ends."""
    async with xmpp_site(directory) as (server, _, _):
        await create(ada(server), "news", **{f"{{{SMQP}}}queueing": "0"})
        listener = server.client(jid)
        assert (await listener.iq("set", subscribe(jid, None, "news"))).get("type") == "result"


async def is_there(client: XmppClient) -> None:
    """Be asked, and answer."""
    question = await client.receive()
    await client.send(f"<iq type='result' id='{question.get('id')}'><query xmlns='{INFO}'/></iq>")


async def test_who_has_no_account_any_more_is_asked_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    jid = "worker1@shakespeare.lit/desk"
    await listening(tmp_path, jid)
    server = XmppServer()
    listener = server.client(jid)
    listener.answers_questions = False
    async with xmpp_site(tmp_path, server, rules=()) as (_, service, _):
        await is_there(listener)
        await trio.sleep(3_600)
        assert listener.quiet()
        assert service.registry.absent == {jid}


async def test_who_is_kept_out_is_looked_for_however_much_it_says(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    jid = "worker1@shakespeare.lit/desk"
    await listening(tmp_path, jid)
    server = XmppServer()
    listener, other = server.client(jid), server.client("worker2@shakespeare.lit/desk")
    listener.answers_questions = False
    async with xmpp_site(tmp_path, server, clients_max=2):
        await other.iq("get", pubsub("<subscriptions/>"))
        await is_there(listener)
        for _ in range(10):
            await listener.send("<iq type='result' id='of-nothing'/>")
            await trio.sleep(FIRST_S - 1)
        assert not listener.quiet()


async def test_a_worker_that_is_gone_while_there_is_no_room_gives_up_its_queue_later(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        worker = await working(server, "one")
    again = type(server)()
    worker, other = again.client(worker.jid), again.client("worker2@shakespeare.lit/desk")
    worker.answers_questions = False
    async with xmpp_site(tmp_path, again, clients_max=2) as (_, service, _):
        question = await worker.receive()
        await other.iq("get", pubsub("<subscriptions/>"))
        await worker.send(f"<iq type='error' id='{question.get('id')}'>{SERVER_ERROR}</iq>")
        again.leave(worker)
        await wait_all_tasks_blocked()
        assert len(service.registry.of_node(NODE)) == 1
        service.clients[other.jid].session.close()
        await until(lambda: not service.registry.of_node(NODE))


async def test_presence_is_answered_at_the_bare_jid(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        client = ada(server)
        await client.send(f"<presence type='subscribe' to='{COMPONENT_NAME}'/>")
        server.clients[WORKER] = client
        client.jid = WORKER
        await client.send("<presence type='subscribe'/>")
        answers = [await client.receive() for _ in range(2)]
        assert [answer.get("type") for answer in answers] == ["subscribed", None]
        assert {answer.get("to") for answer in answers} == {WORKER}


@pytest.mark.parametrize("contact", [f"{NODE}@{COMPONENT_NAME}", COMPONENT_NAME])
async def test_who_adds_a_contact_is_answered_by_it(tmp_path: Path, contact: str) -> None:
    """RFC 6121 3.1.5, 3.3.3 and 4.3.2: an answer of anybody else means nothing."""
    async with xmpp_site(tmp_path) as (server, _, _):
        client = server.client(WORKER)
        for kind, answers in (
            ("subscribe", ["subscribed", None]),
            ("probe", [None]),
            ("unsubscribe", ["unsubscribed"]),
        ):
            await client.send(f"<presence type='{kind}' to='{contact}'/>")
            told = [await client.receive() for _ in answers]
            assert [(each.get("from"), each.get("type")) for each in told] == [
                (contact, answer) for answer in answers
            ]


# -- owners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["bare", "full"])
async def test_an_owner_ends_a_subscription_by_bare_or_full_jid(tmp_path: Path, named: str) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        worker = await working(server, "one")
        jid = worker.jid if named == "full" else WORKER
        text = f"<subscriptions node='{NODE}'><subscription jid='{jid}' subscription='none'/></subscriptions>"
        assert (await ada(server).iq("set", pubsub(text, "#owner"))).get("type") == "result"
        assert service.registry.of_node(NODE) == []


@pytest.mark.parametrize("attributes", ["jid='nobody@shakespeare.lit'", f"jid='{WORKER}/one' subid='wrong'"])
async def test_an_owner_is_told_of_a_subscription_that_could_not_be_ended(
    tmp_path: Path, attributes: str
) -> None:
    async with xmpp_site(tmp_path) as (server, service, _):
        await working(server, "one")
        text = (
            f"<subscriptions node='{NODE}'><subscription {attributes} subscription='none'/></subscriptions>"
        )
        answer = await ada(server).iq("set", pubsub(text, "#owner"))
        assert answer.find("c:error/s:not-acceptable", NS) is not None
        assert len(service.registry.of_node(NODE)) == 1


async def test_a_worker_that_counts_as_gone_after_a_restart_is_told(tmp_path: Path) -> None:
    """It may be there, and only answer as its server does for who is not."""
    async with xmpp_site(tmp_path) as (server, _, _):
        worker = await working(server, "one")
    again = type(server)()
    worker = again.client(worker.jid)
    worker.answers_questions = False
    async with xmpp_site(tmp_path, again) as (_, service, _):
        question = await worker.receive()
        await worker.send(f"<iq type='error' id='{question.get('id')}'>{SERVER_ERROR}</iq>")
        stanza = await worker.receive()
        assert stanza.get("type") == "headline"
        told = stanza.find("e:event/e:subscription", NS)
        assert told is not None
        assert (told.get("node"), told.get("subscription")) == (NODE, "none")
        assert service.registry.of_node(NODE) == []


async def test_who_does_not_answer_gets_nothing_until_it_is_heard_of(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """As a client whose connection has broken, and whose server keeps its session (XEP-0198)."""
    async with xmpp_site(tmp_path) as (server, service, _):
        worker = await working(server, "one")
        worker.answers_questions = False
        been_quiet(service, worker)
        await put(ada(server), NODE, "job")
        await until(lambda: worker.jid in service.registry.absent)
        question = await worker.receive()
        assert question.get("type") == "get"
        assert worker.quiet()
        await worker.send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>")
        while (stanza := await worker.receive()).tag.endswith("}iq"):
            pass
        item = stanza.find("e:event/e:items/e:item", NS)
        assert item is not None
        assert item.get("id") == "job"
        assert stanza.find(f"{{{SMQP}}}delivery") is None
