from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daemon.frontend import SubscribeOptions
from plugins.smqp.client import SubscriptionEnded
from plugins.smqp.connecting import connect, session
from plugins.smqp.connection import ConnectionLost
from routing.errors import HeaderRefusal, Refusal
from routing.message import INFINITE, Message, Section
from tests.support.site import PASSWORD, SERVER, BrokerSite, running_site
from tests.support.smqp_peer import serve_connection

HELLO = Message(sections=(Section("text/plain", b"hello"),))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path) as site:
        yield site


@pytest.fixture
def login(site: BrokerSite, nursery: trio.Nursery) -> Callable[..., Any]:
    """Connects a client to the site: `login("ada", "desk")`."""

    def connect(account: str = "ada", channel: str = "desk", password: str = PASSWORD) -> Any:
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(serve_connection, site, theirs, "192.0.2.1:4711")
        return session(ours, account, password, channel=channel)

    return connect


async def test_a_client_knows_what_the_server_told_it(login: Callable[..., Any]) -> None:
    async with login() as client:
        assert client.topic == f"ada:desk@{SERVER}"
        assert client.server_ident == "smqpd/test"
        assert client.suid == f"{SERVER}/1"
        assert client.timeout_s == 86_400


async def test_a_wrong_login_is_refused(login: Callable[..., Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        async with login(password="wrong"):
            pass
    assert refusal.value.code == Refusal.BAD_LOGIN


async def test_what_is_published_comes_and_is_finished_in_two_phases(login: Callable[..., Any]) -> None:
    message = Message(
        name="Rain",
        priority=3,
        timeout_s=INFINITE,
        others=(("Id", "of my own"), ("Lock", "mine too")),
        sections=(Section("text/plain", b"a\r\n"), Section("image/png", b"\0", (("Content-ID", "x"),))),
    )
    async with login("ada") as ada, login("bob") as bob:
        await bob.subscribe("t")
        smuid = await ada.publish("t", message)
        async for delivery in bob:
            assert (delivery.topic, delivery.number, delivery.attempt) == ("t", 1, 1)
            assert delivery.message.smuid == smuid
            assert delivery.message.account == f"ada:desk@{SERVER}"
            for field in ("name", "priority", "timeout_s", "others", "sections"):
                assert getattr(delivery.message, field) == getattr(message, field)
            await bob.received([delivery])
            await bob.commit([delivery])
            with pytest.raises(Refusal) as refusal:
                await bob.commit([delivery])
            assert refusal.value.code == Refusal.LOCK_LOST
            break


async def test_many_messages_can_be_on_their_way(login: Callable[..., Any]) -> None:
    async with login() as client:
        await client.subscribe("t", SubscribeOptions(credit=5_000))
        on_their_way = [await client.publish_soon("t", HELLO) for _ in range(3_000)]
        smuids = [(await publication.wait())["smuid"] for publication in on_their_way]
        assert len(set(smuids)) == 3_000
        deliveries: list[Any] = []
        while len(deliveries) < 3_000:
            deliveries += await client.take()
        assert [delivery.message.smuid for delivery in deliveries] == smuids
        await client.commit(deliveries)


async def test_publishing_again_after_a_lost_answer_is_routed_once(login: Callable[..., Any]) -> None:
    message = Message(cmuid="mine", sections=HELLO.sections)
    async with login() as client:
        first = await client.publish("t", message)
    async with login() as client:
        publication = await client.publish_soon("t", message)
        assert await publication.wait() == {"cmuid": "mine", "smuid": first, "repeated": "YES"}


async def test_a_refusal_reaches_who_asked_and_nobody_else(login: Callable[..., Any]) -> None:
    async with login("eve") as eve:
        good = await eve.publish_soon("eve.t", HELLO)
        bad = await eve.publish_soon("t", HELLO)
        with pytest.raises(Refusal) as refusal:
            await bad.wait()
        assert refusal.value.code == Refusal.FORBIDDEN
        assert (await good.wait())["smuid"]
        with pytest.raises(HeaderRefusal) as header_refusal:
            await eve.publish("eve.t", Message(account="bob:desk@b"))
        assert header_refusal.value.header == "Account"


async def test_what_cannot_be_written_never_leaves(login: Callable[..., Any]) -> None:
    async with login() as client:
        with pytest.raises(HeaderRefusal):
            await client.publish("t", Message(others=(("X", "a\r\nb"),)))
        with pytest.raises(Refusal):
            await client.publish("a b", HELLO)
        await client.ping()


async def test_an_unguaranteed_message_is_not_waited_for_and_not_acknowledged(
    login: Callable[..., Any],
) -> None:
    async with login() as client:
        await client.subscribe("t")
        assert await client.publish("t", Message(guarantee=False, sections=HELLO.sections)) == ""
        (delivery,) = await client.take()
        assert (delivery.number, delivery.attempt) == (0, 0)
        await client.commit([delivery])


async def test_what_is_given_back_comes_again(login: Callable[..., Any]) -> None:
    async with login() as client:
        await client.subscribe("t")
        await client.publish("t", HELLO)
        (first,) = await client.take()
        await client.give_back([first], "not now")
        (second,) = await client.take()
        assert (second.attempt, second.message.smuid) == (2, first.message.smuid)


async def test_what_was_withdrawn_before_it_was_taken_is_not_seen(login: Callable[..., Any]) -> None:
    async with login() as client:
        await client.subscribe("t")
        removed = await client.publish("t", HELLO)
        await client.remove("t", removed)
        await client.publish("t", HELLO)
        (delivery,) = await client.take()
        assert delivery.message.smuid != removed


async def test_a_subscription_that_was_taken_over_is_told_once_and_the_connection_lives(
    login: Callable[..., Any],
) -> None:
    async with login() as first, login() as second:
        await first.subscribe("t")
        await second.subscribe("t")
        with pytest.raises(SubscriptionEnded, match="t was replaced"):
            await first.take()
        await first.subscribe("u")
        await second.publish("u", HELLO)
        assert len(await first.take()) == 1


async def test_what_a_subscription_held_is_withdrawn_as_another_takes_it_over(
    login: Callable[..., Any],
) -> None:
    async with login() as first, login() as second:
        await first.subscribe("t")
        await first.subscribe("u")
        for topic in ("t", "u"):
            await second.publish(topic, HELLO)
        deliveries: list[Any] = []
        while len(deliveries) < 2:
            deliveries += await first.take()
        await second.subscribe("t")
        with pytest.raises(SubscriptionEnded):
            await first.take()
        assert [(each.topic, each.withdrawn) for each in deliveries] == [("t", "replaced"), ("u", None)]


async def test_several_tasks_take_and_each_message_is_of_one(
    login: Callable[..., Any], autojump_clock: trio.testing.MockClock
) -> None:
    taken: list[str] = []
    async with login() as client:

        async def take_one() -> None:
            [delivery] = await client.take()
            taken.append(delivery.message.smuid)

        await client.subscribe("t")
        with trio.fail_after(20):
            async with trio.open_nursery() as takers:
                for _ in range(3):
                    takers.start_soon(take_one)
                published = []
                for _ in range(3):
                    await trio.testing.wait_all_tasks_blocked()
                    published.append(await client.publish("t", HELLO))
    assert taken == published


async def test_topic_settings_and_connect_to(login: Callable[..., Any]) -> None:
    async with login("ada") as ada, login("bob") as bob:
        await ada.set_topic_delivery("t", "ONE")
        await ada.set_topic_delivery("t", None)
        await ada.set_topic_timeout("t", 1.5)
        await ada.set_topic_timeout("t", None)
        await bob.subscribe(bob.topic)
        await ada.connect_to("bob", "desk", 4711)
        (request,) = await bob.take()
        assert dict(request.message.others)["Connect-To"] == "192.0.2.1:4711"
        await bob.detach(bob.topic)
        with pytest.raises(Refusal):
            await bob.unsubscribe(bob.topic, "another")


async def test_a_draining_server_names_another(login: Callable[..., Any], site: BrokerSite) -> None:
    site.draining.set()
    with pytest.raises(ConnectionLost) as lost:
        async with login():
            pass
    assert (lost.value.reason, lost.value.redirect) == ("not-available", "other.example:720")


async def test_who_waits_when_the_connection_ends_is_told(
    login: Callable[..., Any], site: BrokerSite
) -> None:
    async with login() as client, trio.open_nursery() as nursery:

        async def wait_for_messages() -> None:
            with pytest.raises(ConnectionLost) as lost:
                await client.take()
            assert lost.value.reason == "disabled"

        for _ in range(2):
            nursery.start_soon(wait_for_messages)
        await trio.testing.wait_all_tasks_blocked()
        site.disable_all()
        await client.connection.lost.wait()
        with pytest.raises(ConnectionLost):
            await client.publish("t", HELLO)


@pytest.mark.parametrize(
    ("greeting", "reason", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "protocol", "this is no SMQP 1.0 server: HTTP/1.1"),
        (b"ERROR\nmessage:not-logged-in\n\nno login within 10 s\n\0", "protocol", "not with LF alone"),
        (b"\x15\x03\x03\x00\x02\x02F", "lost", "the server closed the connection before it had greeted"),
        (b"SMQP 2.0 Ready x\r\n\r\n", "protocol", "this is no SMQP 1.0 server: SMQP 2.0"),
        (b"SMQP 1.0 Busy x\r\n\r\n", "protocol", "is not a status"),
        (b"", "lost", "the server closed the connection before it had greeted"),
    ],
)
async def test_what_is_no_server_of_this_protocol_is_told_from_one(
    greeting: bytes, reason: str, text: str
) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(greeting)
    await theirs.send_eof()
    with pytest.raises(ConnectionLost) as lost:
        async with session(ours, "ada", "x"):
            pass
    assert (lost.value.reason, text in lost.value.text) == (reason, True), lost.value
    assert lost.value.text.endswith("; is this a port of SMQP, and TLS used exactly where the port has it?")


async def test_a_server_that_waits_for_the_client_to_speak_is_none_of_this_protocol(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ours, _theirs = trio.testing.memory_stream_pair()
    with pytest.raises(ConnectionLost, match="has not greeted, as one of SMQP does first; is this a port"):
        async with session(ours, "ada", "x"):
            pass


async def test_what_ends_the_connection_as_it_is_too_long_is_told_from_a_lost_one(
    login: Callable[..., Any],
) -> None:
    async with login() as client:
        with pytest.raises(ConnectionLost, match="the header lines are longer") as lost:
            await client.publish("t", Message(others=(("F", "a" * 70_000),)))
        assert lost.value.reason == "refused"


async def test_a_host_that_cannot_be_one_is_not_reached() -> None:
    for host in ("a..b", f"{'ü' * 64}.example"):
        with pytest.raises(ConnectionLost, match="this is no name of a host") as lost:
            async with connect(host, 1, "ada", "x"):
                pass
        assert lost.value.reason == "unreachable"


async def test_an_idle_client_stays_connected(
    login: Callable[..., Any], mock_clock: trio.testing.MockClock
) -> None:
    async with login() as client:
        for _ in range(10):
            mock_clock.jump(101)
            await trio.testing.wait_all_tasks_blocked()
        await client.ping()


async def test_a_silent_server_is_noticed(mock_clock: trio.testing.MockClock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(
        b"SMQP 1.0 Ready x\r\n\r\nOK PASS\r\nTopic: ada:desk@a\r\nTime: x\r\nSuid: x\r\nIdle: 90\r\n\r\n"
    )
    async with session(ours, "ada", "x") as client:
        for _ in range(2):
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(31)
        await client.connection.lost.wait()
        with pytest.raises(ConnectionLost, match="silent"):
            client.connection.check()
