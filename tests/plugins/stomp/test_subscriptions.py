"""Durable, shared and other subscriptions, and what a MESSAGE tells who is subscribed of its end."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from plugins.stomp.codec import VERSIONS, encode
from plugins.stomp.settings import StompSettings
from routing.errors import Refusal
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


@pytest.mark.parametrize("ends", [False, True])
async def test_who_takes_a_durable_subscription_again_without_waiting_gets_nothing_that_it_gave_back(
    ada: StompClient, ends: bool
) -> None:
    begin = {"id": "0", "destination": "/topic/news", "durable": "true", "ack": "client-individual"}
    end = {"id": "0", "durable": str(ends).lower()}
    await ada.ask("SUBSCRIBE", begin)
    left = encode("SEND", PERSISTENT, b"left"), encode("UNSUBSCRIBE", end), encode("SUBSCRIBE", begin)
    await ada.raw(b"".join((*left, encode("SEND", PERSISTENT, b"heard"))))
    for body in (b"heard",) if ends else (b"left", b"heard"):
        message = await ada.expect("MESSAGE")
        assert message.body == body
        await ada.send("ACK", {"id": message.headers["ack"]})
    await ada.leave()


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

    async def test_what_has_the_longest_timeout_can_be_sent_on_with_all_its_headers(
        self, ada: StompClient
    ) -> None:
        await ada.subscribe("/queue/a")
        await ada.send("SEND", {"destination": "/queue/a", "timeout": "9999999999"}, b"long")
        message = await ada.expect("MESSAGE")
        await ada.ask("SEND", {**message.headers, "destination": "/queue/b"}, message.body)

    async def test_a_state_message_says_that_it_stays(self, ada: StompClient) -> None:
        await ada.ask("SEND", {"destination": "/topic/news", "timeout": "INFINITE"}, b"state")
        await ada.subscribe("/topic/news")
        message = await ada.expect("MESSAGE", timeout="INFINITE")
        assert "expires" not in message.headers


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
