"""Durable and temporary subscriptions, requests and replies, limits."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from daemon.frontend import Identity
from daemon.settings import Limits
from plugins.stomp.codec import VERSIONS
from plugins.stomp.settings import StompSettings
from routing.errors import Refusal
from routing.message import Message, Section
from tests.support.site import BrokerSite
from tests.support.stomp import ConnectStomp, StompClient

PERSISTENT = {"destination": "/topic/news", "persistent": "true"}

DIALECTS = {
    "RabbitMQ": ({"durable": "true", "auto-delete": "false"}, {"durable": "true"}),
    "older RabbitMQ": ({"persistent": "true"}, {"persistent": "true"}),
    "ActiveMQ": ({"activemq.subscriptionName": "mine"}, {"activemq.subscriptionName": "mine"}),
    "Artemis": ({"durable-subscription-name": "mine"}, {"durable-subscription-name": "mine"}),
}


@pytest.fixture
def again(connect: ConnectStomp) -> Callable[..., Any]:
    """Another connection of the same account and client-id."""

    async def again(**headers: Any) -> Any:
        client = connect()
        await client.connect(**{"client_id": "desk", **headers})
        return client

    return again


async def subscribe(client: StompClient, headers: dict[str, str], id: str = "0", **more: Any) -> None:
    await client.ask("SUBSCRIBE", {"id": id, "destination": "/topic/news", **headers, **more})


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_durable_subscription_gets_what_came_while_nobody_listened(
    again: Callable[..., Any], ada: StompClient, dialect: str
) -> None:
    begin, _ = DIALECTS[dialect]
    first = await again()
    await subscribe(first, begin)
    await first.leave()
    await ada.ask("SEND", PERSISTENT, b"missed")
    second = await again()
    await subscribe(second, begin)
    assert (await second.expect("MESSAGE")).body == b"missed"


async def test_a_client_id_as_activemqs_libraries_make_them_finds_its_subscription_again(
    again: Callable[..., Any], ada: StompClient
) -> None:
    made_up = "ID:DESK-7-50123-638.1-1:0"
    first = await again(client_id=made_up)
    await subscribe(first, {"activemq.subscriptionName": "mine"})
    await first.leave()
    await ada.ask("SEND", PERSISTENT, b"missed")
    second = await again(client_id=made_up)
    await subscribe(second, {"activemq.subscriptionName": "mine"})
    assert (await second.expect("MESSAGE")).body == b"missed"


async def test_without_a_client_id_it_belongs_to_the_account(connect: ConnectStomp, ada: StompClient) -> None:
    await subscribe(ada, {"durable": "true"}, id="reports")
    await ada.leave()
    publisher, second = connect(), connect()
    await publisher.connect(client_id="other")
    await publisher.ask("SEND", PERSISTENT, b"missed")
    await second.connect()
    await subscribe(second, {"durable": "true"}, id="reports")
    assert (await second.expect("MESSAGE")).body == b"missed"


async def test_an_ordinary_subscription_ends_with_its_connection(
    again: Callable[..., Any], ada: StompClient
) -> None:
    first = await again()
    await subscribe(first, {})
    await first.leave()
    await ada.ask("SEND", PERSISTENT, b"missed")
    second = await again()
    await subscribe(second, {})
    await ada.ask("SEND", PERSISTENT, b"heard")
    assert (await second.expect("MESSAGE")).body == b"heard"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("named", [True, False])
async def test_unsubscribing_a_durable_subscription_ends_it_only_if_the_frame_says_so(
    again: Callable[..., Any], ada: StompClient, dialect: str, named: bool
) -> None:
    begin, end = DIALECTS[dialect]
    first = await again()
    await subscribe(first, begin)
    await first.ask("UNSUBSCRIBE", {"id": "0", **(end if named else {})})
    await ada.ask("SEND", PERSISTENT, b"missed")
    await subscribe(first, begin)
    await ada.ask("SEND", PERSISTENT, b"heard")
    bodies = [(await first.expect("MESSAGE")).body]
    if bodies == [b"missed"]:
        bodies.append((await first.expect("MESSAGE")).body)
    assert bodies == ([b"heard"] if named else [b"missed", b"heard"])


async def test_a_durable_subscription_of_an_earlier_connection_can_be_ended(
    again: Callable[..., Any], ada: StompClient
) -> None:
    first = await again()
    await subscribe(first, {"durable": "true"})
    await first.leave()
    second = await again()
    await second.ask("UNSUBSCRIBE", {"id": "0", "destination": "/topic/news", "durable": "true"})
    await ada.ask("SEND", PERSISTENT, b"missed")
    await subscribe(second, {"durable": "true"})
    await ada.ask("SEND", PERSISTENT, b"heard")
    assert (await second.expect("MESSAGE")).body == b"heard"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("begun_here", [True, False])
async def test_a_durable_subscription_can_be_ended_by_its_name_alone(
    connect: ConnectStomp, ada: StompClient, version: str, begun_here: bool
) -> None:
    """ActiveMQ's users need not say the id of the SUBSCRIBE, which their connection may never have sent."""
    named = {"destination": "/topic/news", "activemq.subscriptionName": "mine"}
    first, second = connect(version), connect(version)
    for client in (first, second):
        await client.connect(client_id="desk")
    await first.ask("SUBSCRIBE", {"id": "7", **named})
    if not begun_here:
        await first.leave()
    client = first if begun_here else second
    await client.ask("UNSUBSCRIBE", named)
    await ada.ask("SEND", PERSISTENT, b"missed")
    await client.ask("SUBSCRIBE", {"id": "7", **named})
    await ada.ask("SEND", PERSISTENT, b"heard")
    assert (await client.expect("MESSAGE")).body == b"heard"


async def test_a_connection_that_takes_over_a_durable_subscription_ends_the_other(
    again: Callable[..., Any],
) -> None:
    first, second = await again(), await again()
    await subscribe(first, {"durable": "true"})
    await subscribe(second, {"durable": "true"})
    error = await first.refused(Refusal.NOT_SUBSCRIBED)
    assert b"taken over" in error.body


async def send_numbers(client: StompClient, count: int) -> None:
    for number in range(count):
        await client.ask("SEND", PERSISTENT, str(number).encode())


async def bodies(client: StompClient, count: int) -> list[bytes]:
    return [(await client.expect("MESSAGE")).body for _ in range(count)]


SHARED = {"durable": "true", "shared": "true", "ack": "client-individual"}


async def test_connections_that_share_a_durable_subscription_get_a_message_each(
    again: Callable[..., Any], ada: StompClient
) -> None:
    first, second = await again(), await again()
    for client in (first, second):
        await subscribe(client, SHARED)
    await send_numbers(ada, 4)
    assert await bodies(first, 2) == [b"0", b"2"]
    assert await bodies(second, 2) == [b"1", b"3"]


async def test_what_a_lost_connection_had_goes_to_the_one_that_shares_with_it(
    again: Callable[..., Any], ada: StompClient
) -> None:
    first, second = await again(), await again()
    for client in (first, second):
        await subscribe(client, SHARED)
    await send_numbers(ada, 2)
    assert await bodies(first, 1) == [b"0"]
    assert await bodies(second, 1) == [b"1"]
    await first.stream.aclose()
    again_0 = await second.expect("MESSAGE", redelivered="true")
    assert again_0.body == b"0"
    await second.ask("ACK", {"id": again_0.headers["ack"]})


async def test_one_that_unsubscribes_leaves_the_subscription_to_the_others(
    again: Callable[..., Any], ada: StompClient
) -> None:
    first, second = await again(), await again()
    for client in (first, second):
        await subscribe(client, SHARED)
    await first.ask("UNSUBSCRIBE", {"id": "0"})
    await send_numbers(ada, 2)
    assert await bodies(second, 2) == [b"0", b"1"]


async def test_one_that_ends_a_shared_subscription_ends_it_for_all(again: Callable[..., Any]) -> None:
    first, second = await again(), await again()
    for client in (first, second):
        await subscribe(client, SHARED)
    await first.ask("UNSUBSCRIBE", {"id": "0", "durable": "true"})
    error = await second.refused(Refusal.NOT_SUBSCRIBED)
    assert b"has ended the subscription" in error.body
    await first.ask("SEND", PERSISTENT, b"to nobody")


class TestByTheSetting:
    @pytest.fixture
    def settings(self) -> StompSettings:
        return StompSettings(shared=True)

    async def test_durable_subscriptions_are_shared(
        self, again: Callable[..., Any], ada: StompClient
    ) -> None:
        first, second = await again(), await again()
        await subscribe(first, {"durable": "true"})
        await subscribe(second, {"durable": "true"})
        await send_numbers(ada, 2)
        assert await bodies(first, 1) == [b"0"]
        assert await bodies(second, 1) == [b"1"]

    async def test_a_header_says_otherwise(self, again: Callable[..., Any]) -> None:
        first, second = await again(), await again()
        await subscribe(first, {"durable": "true"})
        await subscribe(second, {"durable": "true", "shared": "false"})
        assert b"taken over" in (await first.refused(Refusal.NOT_SUBSCRIBED)).body

    async def test_others_are_not(self, again: Callable[..., Any], ada: StompClient) -> None:
        first, second = await again(), await again()
        for client in (first, second):
            await subscribe(client, {})
        await send_numbers(ada, 1)
        assert await bodies(first, 1) == await bodies(second, 1) == [b"0"]


@pytest.mark.parametrize("more", [{}, {"durable": "false"}])
async def test_only_a_durable_subscription_can_be_shared(ada: StompClient, more: dict[str, str]) -> None:
    await ada.send("SUBSCRIBE", {"id": "0", "destination": "/topic/news", "shared": "true", **more})
    error = await ada.refused(Refusal.BAD_HEADER)
    assert b"durable" in error.body


async def test_a_queue_is_shared_in_any_case(again: Callable[..., Any]) -> None:
    first, second = await again(), await again()
    for client in (first, second):
        await client.subscribe("/queue/work", shared="true")
    for _ in range(2):
        await first.send("SEND", {"destination": "/queue/work"})
    await first.expect("MESSAGE")
    await second.expect("MESSAGE")


async def test_durable_on_a_queue_is_about_the_queue(again: Callable[..., Any]) -> None:
    first, second = await again(), await again()
    for client in (first, second):
        await client.subscribe("/queue/work", durable="true", auto_delete="false")
    for _ in range(2):
        await first.send("SEND", {"destination": "/queue/work"})
    await first.expect("MESSAGE")
    await second.expect("MESSAGE")


async def test_two_subscriptions_of_one_connection_to_one_topic_get_a_message_each(ada: StompClient) -> None:
    await ada.subscribe("/topic/news", id="a")
    await ada.subscribe("/topic/news", id="b")
    await ada.send("SEND", {"destination": "/topic/news"})
    received = [(await ada.expect("MESSAGE")).headers["subscription"] for _ in range(2)]
    assert sorted(received) == ["a", "b"]


async def test_two_subscriptions_with_one_id_are_refused(ada: StompClient) -> None:
    await ada.subscribe("/topic/news", id="a")
    await ada.send("SUBSCRIBE", {"destination": "/topic/other", "id": "a"})
    await ada.refused(Refusal.BAD_FRAME)


async def test_after_unsubscribe_no_more_comes_and_the_id_is_free(ada: StompClient) -> None:
    await ada.subscribe("/topic/news", id="a")
    await ada.ask("UNSUBSCRIBE", {"id": "a"})
    await ada.send("SEND", {"destination": "/topic/news"}, b"missed")
    await ada.subscribe("/topic/news", id="a")
    await ada.send("SEND", {"destination": "/topic/news"}, b"heard")
    assert (await ada.expect("MESSAGE")).body == b"heard"


class TestReplies:
    async def test_a_request_is_answered_without_a_subscription(
        self, ada: StompClient, connect: ConnectStomp
    ) -> None:
        server = connect()
        await server.connect(login="bob")
        await server.subscribe("/queue/requests")
        request = {"destination": "/queue/requests", "reply-to": "/temp-queue/answers", "correlation-id": "7"}
        await ada.send("SEND", request, b"2+2")
        asked = await server.expect("MESSAGE", correlation_id="7", reply="YES")
        await server.send(
            "SEND", {"destination": asked.headers["reply-to"], "correlation-id": "7", "receipt": "r"}, b"4"
        )
        await server.expect("RECEIPT")
        answer = await ada.expect(
            "MESSAGE",
            subscription="/temp-queue/answers",
            destination="/temp-queue/answers",
            correlation_id="7",
            account="bob:stomp@smqp.example",
        )
        assert answer.body == b"4"

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    async def test_replies_find_the_connection_and_the_temporary_queue_that_asked(
        self, connect: ConnectStomp, kind: str
    ) -> None:
        server, *clients = connect(), connect(), connect()
        await server.connect()
        await server.subscribe("/queue/requests")
        for client in clients:
            await client.connect()
            for name in ("a", "b"):
                headers = {"destination": "/queue/requests", "reply-to": f"/temp-{kind}/{name}"}
                await client.send("SEND", headers, name.encode())
        for _ in range(4):
            asked = await server.expect("MESSAGE")
            await server.send("SEND", {"destination": asked.headers["reply-to"]}, asked.body)
        for client in clients:
            answers = [await client.expect("MESSAGE") for _ in range(2)]
            assert {answer.headers["subscription"]: answer.body for answer in answers} == {
                f"/temp-{kind}/a": b"a",
                f"/temp-{kind}/b": b"b",
            }

    async def test_a_temporary_queue_may_be_subscribed_to_with_an_id_of_ones_own(
        self, ada: StompClient
    ) -> None:
        await ada.subscribe("/temp-queue/answers", id="mine")
        await ada.send("SEND", {"destination": "/queue/loop", "reply-to": "/temp-queue/answers"})
        await ada.subscribe("/queue/loop", id="loop")
        asked = await ada.expect("MESSAGE", subscription="loop")
        await ada.send("SEND", {"destination": asked.headers["reply-to"]})
        await ada.expect("MESSAGE", subscription="mine")
        await ada.send("SEND", {"destination": "/temp-queue/answers"})
        await ada.expect("MESSAGE", subscription="mine", destination="/temp-queue/answers")

    async def test_a_reply_to_takes_no_id_from_another_subscription(self, ada: StompClient) -> None:
        await ada.subscribe("/queue/a", id="/temp-queue/answers")
        await ada.send("SEND", {"destination": "/queue/b", "reply-to": "/temp-queue/answers", "receipt": "r"})
        error = await ada.refused(Refusal.BAD_FRAME)
        assert b"there is a subscription with id '/temp-queue/answers' already" in error.body

    async def test_to_subscribe_to_a_temporary_queue_ends_no_other_that_has_its_name_as_id(
        self, ada: StompClient
    ) -> None:
        await ada.subscribe("/queue/a", id="/temp-queue/answers")
        await ada.subscribe("/temp-queue/answers", id="mine")
        await ada.send("SEND", {"destination": "/queue/a"})
        await ada.expect("MESSAGE", subscription="/temp-queue/answers", destination="/queue/a")

    async def test_an_smqp_publisher_gets_its_reply_on_its_system_topic(
        self, ada: StompClient, site: BrokerSite
    ) -> None:
        await ada.subscribe("/topic/requests")
        bob = site.open_session(Identity("bob"), "desk", protocol="smqp", remote="test")
        bob.publish("requests", Message(reply=True, sections=(Section("text/plain", b"?"),)))
        asked = await ada.expect("MESSAGE", reply="YES", reply_to="/reply-queue/bob:desk@smqp.example")
        await ada.ask("SEND", {"destination": asked.headers["reply-to"]}, b"!")
        await ada.ask("DISCONNECT")
        bob.close()

    async def test_an_smqp_receipt_is_asked_for_and_comes_to_the_system_topic(
        self, ada: StompClient, connect: ConnectStomp
    ) -> None:
        listener = connect()
        await listener.connect(login="bob")
        await listener.subscribe("/topic/news")
        await ada.subscribe("ada:stomp@smqp.example", id="system")
        await ada.ask("SEND", {"destination": "/topic/news", "smqp-receipt": "ALL", "cmuid": "c-1"})
        receipt = await ada.expect("MESSAGE", subscription="system", name="Receipt")
        assert receipt.headers["Receipt-Cmuid"] == "c-1"
        assert receipt.body == b"1/1"

    async def test_a_message_sent_twice_with_one_cmuid_is_routed_once(self, ada: StompClient) -> None:
        await ada.subscribe("/queue/work")
        for _ in range(2):
            await ada.send("SEND", {"destination": "/queue/work", "cmuid": "c-1"}, b"once")
        await ada.send("SEND", {"destination": "/queue/work"}, b"next")
        assert [(await ada.expect("MESSAGE")).body for _ in range(2)] == [b"once", b"next"]

    async def test_a_message_that_has_a_cmuid_is_sent_on_with_all_its_headers(self, ada: StompClient) -> None:
        await ada.subscribe("/queue/work")
        await ada.send("SEND", {"destination": "/queue/work", "cmuid": "c-1"}, b"for others")
        message = await ada.expect("MESSAGE")
        await ada.subscribe("/queue/others", id="others")
        await ada.send("SEND", {**message.headers, "destination": "/queue/others"}, message.body)
        sent_on = await ada.expect("MESSAGE", subscription="others")
        assert sent_on.body == b"for others"
        assert sent_on.headers["smuid"] != message.headers["smuid"]


class TestTimeouts:
    async def test_a_late_subscriber_gets_what_has_a_timeout_and_hears_what_is_left(
        self, ada: StompClient
    ) -> None:
        await ada.ask("SEND", {"destination": "/topic/news", "timeout": "60"}, b"kept")
        await ada.ask("SEND", {"destination": "/topic/news"}, b"gone")
        await ada.subscribe("/topic/news")
        message = await ada.expect("MESSAGE")
        assert message.body == b"kept"
        assert 0 < float(message.headers["timeout"]) <= 60
        assert message.headers["expires"].isdigit()

    async def test_a_state_message_says_that_it_stays(self, ada: StompClient) -> None:
        await ada.ask("SEND", {"destination": "/topic/news", "timeout": "INFINITE"}, b"state")
        await ada.subscribe("/topic/news")
        message = await ada.expect("MESSAGE", timeout="INFINITE")
        assert "expires" not in message.headers


class TestLimits:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(subscriptions_per_session_max=2, message_bytes_max=100, frame_headers_max=16)

    async def test_too_many_subscriptions_are_refused(self, ada: StompClient) -> None:
        for number in range(2):
            await ada.subscribe("/topic/news", id=str(number))
        await ada.send("SUBSCRIBE", {"destination": "/topic/news", "id": "2"})
        await ada.refused(Refusal.TOO_MANY)

    async def test_too_many_temporary_queues_are_refused(self, ada: StompClient) -> None:
        for number in range(3):
            headers = {"destination": "/queue/a", "reply-to": f"/temp-queue/{number}"}
            await ada.send("SEND", headers)
        await ada.refused(Refusal.TOO_MANY)

    async def test_too_large_a_message_is_refused(self, ada: StompClient) -> None:
        await ada.send("SEND", {"destination": "/queue/a", "content-length": "101", "receipt": "r"})
        error = await ada.refused(Refusal.TOO_LARGE)
        assert error.headers["receipt-id"] == "r"

    async def test_too_many_headers_are_refused(self, ada: StompClient) -> None:
        await ada.send("SEND", {f"h{number}": "x" for number in range(17)})
        await ada.refused(Refusal.TOO_MANY)

    @pytest.mark.parametrize(
        ("frame", "code"),
        [
            (b"CONNECT\ncontent-length:101\n\n", Refusal.TOO_LARGE),
            (b"CONNECT\n" + b"".join(b"h%d:x\n" % number for number in range(17)) + b"\n", Refusal.TOO_MANY),
        ],
    )
    async def test_they_hold_before_the_login(self, connect: ConnectStomp, frame: bytes, code: str) -> None:
        client = connect()
        await client.raw(frame)
        await client.refused(code)

    async def test_those_of_a_configuration_that_is_read_anew_hold_for_who_is_logged_in(
        self, ada: StompClient, site: BrokerSite
    ) -> None:
        limits = Limits(subscriptions_per_session_max=3, message_bytes_max=200, frame_headers_max=32)
        site.broker.reconfigure(msgspec.structs.replace(site.broker.settings, limits=limits))
        for number in range(3):
            await ada.subscribe("/topic/news", id=str(number))
        headers = {f"h{number}": "x" for number in range(17)}
        await ada.ask("SEND", {"destination": "/queue/a", **headers}, b"x" * 200)
        await ada.send("SEND", {"destination": "/queue/a", "content-length": "201"})
        await ada.refused(Refusal.TOO_LARGE)


class TestCloudHeaders:
    @pytest.fixture
    def settings(self) -> StompSettings:
        return StompSettings(cloud_headers=True)

    async def test_they_are_written_where_they_are_asked_for(self, ada: StompClient) -> None:
        await ada.subscribe("/queue/a", ack="client-individual", visibility="30")
        await ada.send("SEND", {"destination": "/queue/a", "persistent": "true", "timeout": "60"})
        message = await ada.expect("MESSAGE", delivery_count="1")
        headers = message.headers
        assert headers["oci-message-id"] == headers["smuid"]
        assert 20_000 < int(headers["expire-after"]) - int(headers["visible-after"]) < 40_000

    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    async def test_without_a_timeout_they_say_what_the_site_will_do(
        self, ada: StompClient, destination: str
    ) -> None:
        await ada.subscribe(destination)
        await ada.send("SEND", {"destination": destination})
        headers = (await ada.expect("MESSAGE")).headers
        assert "expires" not in headers
        if destination == "/queue/a":  # it waits until somebody has finished it
            assert headers["expire-after"] == "253402300799000"
        else:
            day_ms = 86_400_000
            assert day_ms - 600_000 < int(headers["expire-after"]) - time.time() * 1000 < day_ms + 600_000

    async def test_what_stays_until_it_is_removed_has_no_end(self, ada: StompClient) -> None:
        await ada.subscribe("/topic/a")
        await ada.send("SEND", {"destination": "/topic/a", "timeout": "INFINITE", "persistent": "true"})
        assert (await ada.expect("MESSAGE")).headers["expire-after"] == "253402300799000"
