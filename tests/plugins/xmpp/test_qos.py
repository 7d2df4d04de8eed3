"""The examples of urn:xmpp:qos towards the service, and its security section."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daemon.broker import browsing
from daemon.broker.session import BrokerSession
from daemon.frontend import Delivered, Identity, SubscribeOptions
from daemon.settings import Limits
from plugins.xmpp.known.assured import ELEMENT_BYTES
from plugins.xmpp.known.identities import channel_of
from plugins.xmpp.wire.namespaces import EVENT_LOG, QOS
from routing.message import Message, Section
from tests.support.full_disk import no_file_beyond
from tests.support.patience import PATIENCE_S
from tests.support.site import BrokerSite
from tests.support.xmpp import COMPONENT_NAME, XmppClient, XmppServer, xmpp_site
from tests.support.xmpp_pubsub import PUBSUB, child, error_of
from tests.support.xmpp_qos import publish_item

LIGHT = "<set xmlns='urn:xmpp:iot:control'><int name='Light' value='80'/></set>"
CAR = (
    "<log xmlns='urn:xmpp:eventlog' timestamp='2015-11-12T09:07:12Z' id='Entered'>"
    "<message>Entered.</message></log>"
)
COUNTER = f"counter@{COMPONENT_NAME}"


def assured(msg_id: str, content: str = CAR) -> str:
    return (
        f"<qos:assured xmlns:qos='{QOS}' msgId='{msg_id}'>"
        f"<message xmlns='jabber:client' to='other@x' from='mallory@x'>{content}</message></qos:assured>"
    )


def deliver(msg_id: str) -> str:
    return f"<qos:deliver xmlns:qos='{QOS}' msgId='{msg_id}'/>"


def listener(site: BrokerSite, topic: str = "counter") -> BrokerSession:
    session = site.open_session(Identity(account="ada"), "counter", protocol="test", remote="")
    session.subscribe(topic, SubscribeOptions())
    return session


async def deliveries(session: BrokerSession, count: int) -> list[Delivered]:
    out: list[Delivered] = []
    with trio.fail_after(PATIENCE_S):
        while len(out) < count:
            out += [event for event in await session.events() if isinstance(event, Delivered)]
    return out


def entrance(server: XmppServer) -> XmppClient:
    return server.client("ada@shakespeare.lit/34892374")


async def test_unacknowledged_a_message_is_published_without_an_answer(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        session = listener(site)
        client = entrance(server)
        await client.send(f"<message to='{COUNTER}'>{LIGHT}</message>")
        [delivered] = await deliveries(session, 1)
        assert delivered.stored.message.sections == (Section("application/xml", LIGHT.encode()),)
        assert client.quiet()


async def test_acknowledged_setting_light_level(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        session = listener(site)
        text = f"<qos:acknowledged xmlns:qos='{QOS}'><message>{LIGHT}</message></qos:acknowledged>"
        answer = await entrance(server).iq("set", text, id="123", to=COUNTER)
        assert answer.get("type") == "result"
        assert len(answer) == 0
        [delivered] = await deliveries(session, 1)
        assert delivered.stored.message.sections[0].body == LIGHT.encode()
        assert delivered.stored.message.account.startswith("ada:ada-34892374.")


async def test_assured_counting_cars(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        session = listener(site)
        client = entrance(server)
        for msg_id in ("984232334", "4645623466"):
            for _ in range(3):
                answer = await client.iq("set", assured(msg_id), id="123", to=COUNTER)
                received = child(answer, f"{{{QOS}}}received")
                assert received.get("msgId") == msg_id
        assert site.broker._router._state.topics["counter"].messages == 0
        for msg_id in ("984232334", "4645623466"):
            for _ in range(3):
                answer = await client.iq("set", deliver(msg_id), id="124", to=COUNTER)
                assert answer.get("type") == "result"
                assert len(answer) == 0
        assert len(await deliveries(session, 2)) == 2
        await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert site.broker._router._state.topics["counter"].messages == 2


async def test_a_msg_id_may_be_used_again_once_its_message_is_delivered(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        session = listener(site)
        client = entrance(server)
        for _ in range(2):
            await client.iq("set", assured("1"), to=COUNTER)
            await client.iq("set", deliver("1"), to=COUNTER)
        assert len(await deliveries(session, 2)) == 2


async def test_what_was_received_outlives_the_daemon(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        answer = await entrance(server).iq("set", assured("1"), to=COUNTER)
        assert answer.find(f"{{{QOS}}}received") is not None
    async with xmpp_site(tmp_path) as (server, _, site):
        session = listener(site)
        client = entrance(server)
        assert (await client.iq("set", assured("1"), to=COUNTER)).get("type") == "result"
        for _ in range(2):
            assert (await client.iq("set", deliver("1"), to=COUNTER)).get("type") == "result"
        [delivered] = await deliveries(session, 1)
        assert delivered.stored.message.sections[0].body == CAR.encode()
        assert site.broker.held == 1


async def test_all_that_was_received_outlives_the_daemon_though_each_is_read_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    msg_ids = ("1", "2", "3")
    async with xmpp_site(tmp_path) as (server, _, _):
        for msg_id in msg_ids:
            await entrance(server).iq("set", assured(msg_id), to=COUNTER)
    monkeypatch.setattr(browsing, "PAGE_BYTES_MAX", 1)
    async with xmpp_site(tmp_path) as (server, _, site):
        session = listener(site)
        for msg_id in msg_ids:
            assert (await entrance(server).iq("set", deliver(msg_id), to=COUNTER)).get("type") == "result"
        assert len(await deliveries(session, 3)) == 3


async def test_what_is_longer_on_the_disk_than_it_came_outlives_the_daemon(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, receive_bytes_max=10_000) as (server, _, _):
        client, content = entrance(server), f"<a xmlns='urn:a'>{'>' * 9_000}</a>"
        addresses = f"from='{client.jid}' to='{COUNTER}'"
        await server.to_component(f"<iq type='set' id='1' {addresses}>{assured('1', content)}</iq>")
        assert (await client.answer("1")).find(f"{{{QOS}}}received") is not None
    async with xmpp_site(tmp_path, receive_bytes_max=10_000) as (server, _, site):
        session = listener(site)
        assert (await entrance(server).iq("set", deliver("1"), to=COUNTER)).get("type") == "result"
        [delivered] = await deliveries(session, 1)
        assert delivered.stored.message.sections[0].body.count(b"&gt;") == 9_000


async def hold_with_damage(server: XmppServer, site: BrokerSite) -> None:
    """Hold 1 and 2, the latter in a form that cannot be read when it is looked at again."""
    await entrance(server).iq("set", assured("1"), to=COUNTER)
    [topic] = [name for name in site.broker._router._state.topics if "held." in name]
    channel = channel_of(entrance(server).jid)
    session = site.open_session(Identity(account="ada"), channel, protocol="test", remote="")
    damaged = Section("application/xml", b"<message")
    session.publish(topic, Message(sections=(damaged,), others=(("Xmpp-Msgid", "2"),)), "2")
    await session.events()


async def test_what_cannot_be_read_back_is_not_answered_as_delivered(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        await hold_with_damage(server, site)
    async with xmpp_site(tmp_path) as (server, _, _):
        client = entrance(server)
        refused = await client.iq("set", deliver("2"), to=COUNTER)
        assert error_of(refused) == ("cancel", "internal-server-error")
        assert (await client.iq("set", deliver("1"), to=COUNTER)).get("type") == "result"


@pytest.mark.parametrize("account", ["bob", "ada"], ids=["another account", "another JID of the account"])
async def test_what_somebody_else_puts_beside_it_is_not_what_was_received(
    tmp_path: Path, account: str
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        await entrance(server).iq("set", assured("1"), to=COUNTER)
        [topic] = [name for name in site.broker._router._state.topics if "held." in name]
        other = site.open_session(Identity(account=account), "desk", protocol="test", remote="")
        forged = Section("application/xml", b"<message><forged xmlns='urn:a'/></message>")
        headers = (("Xmpp-Msgid", "1"), ("Xmpp-To", COUNTER))
        other.publish(topic, Message(sections=(forged,), others=headers), "1")
        await other.events()
        assert site.broker.held == 2
    async with xmpp_site(tmp_path) as (server, _, site):
        session = listener(site)
        assert (await entrance(server).iq("set", deliver("1"), to=COUNTER)).get("type") == "result"
        [delivered] = await deliveries(session, 1)
        assert delivered.stored.message.sections[0].body == CAR.encode()


async def test_what_cannot_be_read_back_is_replaced_when_its_sender_sends_it_again(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        await hold_with_damage(server, site)
    async with xmpp_site(tmp_path, assured_messages_max=2) as (server, _, _):
        for _ in range(2):
            received = await entrance(server).iq("set", assured("2"), to=COUNTER)
            assert received.find(f"{{{QOS}}}received") is not None
    async with xmpp_site(tmp_path) as (server, _, site):
        session, client = listener(site), entrance(server)
        for msg_id in ("1", "2", "2"):
            assert (await client.iq("set", deliver(msg_id), to=COUNTER)).get("type") == "result"
        assert [each.stored.message.sections[0].body for each in await deliveries(session, 2)] == [
            CAR.encode()
        ] * 2
        assert site.broker.held == 2


async def test_what_cannot_be_read_back_and_finds_no_room_is_still_to_be_sent_again(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        await hold_with_damage(server, site)
    async with xmpp_site(tmp_path, assured_messages_max=1) as (server, _, _):
        client = entrance(server)
        assert error_of(await client.iq("set", assured("2"), to=COUNTER)) == ("wait", "resource-constraint")
        refused = await client.iq("set", deliver("2"), to=COUNTER)
        assert error_of(refused) == ("cancel", "internal-server-error")
        assert (await client.iq("set", deliver("1"), to=COUNTER)).get("type") == "result"
        assert (await client.iq("set", assured("2"), to=COUNTER)).get("type") == "result"
        assert (await client.iq("set", deliver("2"), to=COUNTER)).get("type") == "result"


async def test_what_cannot_be_read_back_and_is_not_stored_again_is_still_to_be_sent_again(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        await hold_with_damage(server, site)
    async with xmpp_site(tmp_path) as (server, _, site):
        client = entrance(server)
        await client.iq("set", deliver("2"), to=COUNTER)
        with no_file_beyond((tmp_path / "smqpd.db-wal").stat().st_size):
            refused = await client.iq("set", assured("2"), to=COUNTER)
            assert error_of(refused) == ("wait", "internal-server-error")
        refused = await client.iq("set", deliver("2"), to=COUNTER)
        assert error_of(refused) == ("cancel", "internal-server-error")


async def test_what_is_delivered_while_the_disk_is_full_is_published_once_it_is_not(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        client = entrance(server)
        await client.iq("set", assured("1"), to=COUNTER)
        with no_file_beyond((tmp_path / "smqpd.db-wal").stat().st_size):
            await client.send(f"<iq type='set' id='d' to='{COUNTER}'>{deliver('1')}</iq>")
            with trio.fail_after(PATIENCE_S):
                while site.broker.store_failed is None:
                    await trio.sleep(0.01)
        assert (await client.answer("d")).get("type") == "result"
    async with xmpp_site(tmp_path) as (server, _, site):
        session = listener(site)
        assert (await entrance(server).iq("set", deliver("1"), to=COUNTER)).get("type") == "result"
        [delivered] = await deliveries(session, 1)
        assert delivered.stored.message.sections[0].body == CAR.encode()
        assert site.broker.held == 1


async def test_what_an_error_of_ours_keeps_from_being_delivered_is_when_it_is_asked_for_again(
    tmp_path: Path,
) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        await publish_item(server, node="counter")
        client = entrance(server)
        await client.iq("set", assured("1"), to=COUNTER)
        topic = site.broker._router._state.topics["counter"]
        waiting, topic.shared = topic.shared, None
        refused = await client.iq("set", deliver("1"), to=COUNTER)
        assert error_of(refused) == ("wait", "internal-server-error")
        topic.shared = waiting
        assert (await client.iq("set", deliver("1"), to=COUNTER)).get("type") == "result"
        _, delivered = await deliveries(listener(site), 2)
        assert delivered.stored.message.sections[0].body == CAR.encode()


async def test_what_is_never_asked_for_is_forgotten_after_a_week(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with xmpp_site(tmp_path, assured_messages_max=1) as (server, service, _):
        mock_clock.rate = 1.0
        client, other = entrance(server), server.client("ada@shakespeare.lit/other")
        await client.iq("set", assured("1"), to=COUNTER)
        # what is held keeps its place, however long its sender is silent
        mock_clock.jump(6 * 86_400)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert error_of(await other.iq("set", assured("2"), to=COUNTER)) == ("wait", "resource-constraint")
        assert (await client.iq("set", assured("1"), to=COUNTER)).get("type") == "result"
        mock_clock.jump(2 * 86_400)
        while service.assured.find(client.jid, "1") is not None:
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(1)
        assert (await other.iq("set", assured("2"), to=COUNTER)).get("type") == "result"


async def test_many_resources_of_one_jid_are_one_source(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, assured_messages_max=2) as (server, _, _):
        one, two, three = (server.client(f"ada@shakespeare.lit/{number}") for number in range(3))
        for client in (one, two):
            assert (await client.iq("set", assured("1"), to=COUNTER)).get("type") == "result"
        answer = await three.iq("set", assured("1"), to=COUNTER)
        assert error_of(answer) == ("wait", "resource-constraint")


async def test_support_is_announced(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, _):
        info = "http://jabber.org/protocol/disco#info"
        answer = await entrance(server).iq("get", f"<query xmlns='{info}'/>", id="disco1")
        assert QOS in [each.get("var") for each in answer.iter(f"{{{info}}}feature")]


async def test_the_untrusted_are_not_allowed_and_noted(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path, event_log="admin@shakespeare.lit/log") as (server, _, _):
        admin = server.client("admin@shakespeare.lit/log")
        stranger = server.client("mallory@elsewhere.example/x")
        answer = await stranger.iq("set", assured("1"), to=COUNTER)
        assert error_of(answer) == ("cancel", "not-allowed")
        log = child((await admin.receive()), f"{{{EVENT_LOG}}}log")
        assert log.get("subject") == stranger.jid
        assert log.get("type") == "Warning"


async def test_misuse_without_end_is_noted_once_a_minute(
    tmp_path: Path, mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with xmpp_site(tmp_path, event_log="admin@shakespeare.lit/log") as (server, _, _):
        mock_clock.rate = 1.0
        admin = server.client("admin@shakespeare.lit/log")

        async def misuse() -> None:
            for resource in range(5):
                stranger = server.client(f"mallory@elsewhere.example/{resource}")
                assert error_of(await stranger.iq("set", assured("1"))) == ("cancel", "not-allowed")

        await misuse()
        mock_clock.jump(61)
        await misuse()
        logs = [child((await admin.receive()), f"{{{EVENT_LOG}}}log") for _ in range(2)]
        assert None not in logs
        assert admin.quiet()
    lines = [each.getMessage() for each in caplog.records if "misuse" in each.getMessage()]
    assert len(lines) == 2
    assert "4 more" in lines[1]


@pytest.mark.parametrize(
    "limits",
    [
        {"assured_messages_max": 2},
        {"assured_bytes_max": 400},
        {"assured_messages_total_max": 2},
        {"assured_bytes_total_max": 400},
    ],
)
async def test_too_much_that_waits_is_refused_until_some_is_delivered(
    tmp_path: Path, limits: dict[str, Any]
) -> None:
    async with xmpp_site(tmp_path, **limits) as (server, _, _):
        client = entrance(server)
        for msg_id in ("1", "2"):
            assert (await client.iq("set", assured(msg_id), to=COUNTER)).get("type") == "result"
        answer = await client.iq("set", assured("3"), to=COUNTER)
        assert error_of(answer) == ("wait", "resource-constraint")
        await client.iq("set", deliver("1"), to=COUNTER)
        assert (await client.iq("set", assured("3"), to=COUNTER)).get("type") == "result"


@pytest.mark.parametrize(
    "many",
    [
        "<log xmlns='urn:xmpp:eventlog'>" + "<a/>" * 30 + "</log>",
        "<log xmlns='urn:xmpp:eventlog' " + " ".join(f"a{number}=''" for number in range(30)) + "/>",
        f"<log xmlns='{'u' * 225}'><a/><b/><c/><d/><e/><f/><g/><h/><i/><j/></log>",
        "<log xmlns='urn:xmpp:eventlog'>" + "<a b=''/>" * 8 + "</log>",
        f"<log xmlns='urn:xmpp:eventlog'>\U0001f980{'x' * 900}</log>",
    ],
    ids=["elements", "attributes", "names", "elements with attributes", "text"],
)
async def test_what_is_held_counts_in_the_memory_that_all_front_ends_share(tmp_path: Path, many: str) -> None:
    limits = Limits(message_bytes_max=10_000, unfinished_bytes_max=20_000)
    async with xmpp_site(tmp_path, limits=limits) as (server, _, site):
        client, budget = entrance(server), site.broker.unfinished
        held = []
        for number in range(10):
            answer = await client.iq("set", assured(f"{number}", many), to=COUNTER)
            if answer.get("type") == "error":
                assert error_of(answer) == ("wait", "resource-constraint")
                break
            held.append(f"{number}")
            assert budget.bytes > len(held) * 30 * ELEMENT_BYTES
        assert held == ["0", "1"]
        before = budget.bytes
        await client.iq("set", deliver("0"), to=COUNTER)
        assert budget.bytes == before // 2
        assert (await client.iq("set", assured("2", many), to=COUNTER)).get("type") == "result"
        for msg_id in ("1", "2"):
            await client.iq("set", deliver(msg_id), to=COUNTER)
        assert budget.bytes == 0


async def test_what_may_not_be_published_is_not_held_either(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        eve = server.client("eve@shakespeare.lit/x")
        assert error_of(await eve.iq("set", assured("1"), to=COUNTER)) == ("auth", "forbidden")
        assert site.broker.held == 0


async def test_what_is_not_guaranteed_is_not_assured(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, _, site):
        header = "<headers xmlns='urn:smqp:xmpp:0'><header name='Guarantee'>NO</header></headers>"
        publish = f"<publish node='counter'><item>{header}</item></publish>"
        text = assured("1", f"<pubsub xmlns='{PUBSUB}'>{publish}</pubsub>")
        assert error_of(await entrance(server).iq("set", text)) == ("modify", "bad-request")
        assert site.broker.held == 0


# -- from the service -----------------------------------------------------------------------------
