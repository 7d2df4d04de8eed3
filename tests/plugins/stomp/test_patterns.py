"""Subscriptions to patterns of topics, as clients of RabbitMQ, ActiveMQ and the cloud queue write them."""

import pytest

from plugins.stomp.settings import StompSettings
from routing.errors import Refusal
from tests.support.stomp import ConnectStomp, StompClient


async def expect_bodies(client: StompClient, *bodies: bytes) -> None:
    assert [(await client.expect("MESSAGE")).body for _ in bodies] == list(bodies)


@pytest.mark.parametrize(
    ("pattern", "sent", "named"),
    [
        ("/topic/weather.*", "/topic/weather.oslo", "/topic/weather.oslo"),
        ("/topic/weather.#", "/topic/weather", "/topic/weather"),
        ("/topic/weather.>", "/topic/weather", "/topic/weather"),
        ("/topic/*.oslo.>", "/topic/weather.oslo.rain.today", "/topic/weather.oslo.rain.today"),
        ("/topic/>", "/topic/weather", "/topic/weather"),
        ("/exchange/amq.topic/weather.#", "/exchange/amq.topic/weather.oslo", "/topic/weather.oslo"),
        ("/exchange/amq.topic/weather.oslo", "/topic/weather.oslo", "/topic/weather.oslo"),
        ("/queue/weather.*", "/queue/weather.oslo", "/queue/weather.oslo"),
        ("/queue/weather.*", "/queue/weather/oslo", "/queue/weather.oslo"),
        ("/amq/queue/weather.oslo", "/queue/weather.oslo", "/queue/weather.oslo"),
        ("/queue/weather.oslo", "/amq/queue/weather.oslo", "/queue/weather.oslo"),
        ("weather.>", "/queue/weather.oslo", "/queue/weather.oslo"),
        ("weather.>", "/topic/weather.oslo", "/topic/weather.oslo"),
        ("weather.>", "weather.oslo", "weather.oslo"),
    ],
)
async def test_a_message_by_a_pattern_names_where_it_was_sent(
    ada: StompClient, pattern: str, sent: str, named: str
) -> None:
    await ada.subscribe(pattern, id="all")
    for unwanted in ("/topic/news", "/queue/weather.a.b.c", "/topic/weatherman"):
        if not pattern.endswith(">"):
            await ada.ask("SEND", {"destination": unwanted}, b"not for it")
    await ada.send("SEND", {"destination": sent}, b"rain")
    message = await ada.expect("MESSAGE", subscription="all", destination=named)
    assert message.body == b"rain"


async def test_each_subscription_gets_its_own_and_a_queue_gives_to_one(connect: ConnectStomp) -> None:
    ada = connect()
    await ada.connect()
    await ada.subscribe("/topic/weather.*", id="pattern")
    await ada.subscribe("/topic/weather.oslo", id="topic")
    await ada.send("SEND", {"destination": "/topic/weather.oslo"})
    came = [await ada.expect("MESSAGE") for _ in range(2)]
    assert {message.headers["subscription"] for message in came} == {"pattern", "topic"}

    workers = [connect(), connect()]
    for worker, destination in zip(workers, ("/queue/jobs.*", "/queue/jobs.eu"), strict=True):
        await worker.connect()
        await worker.subscribe(destination, ack="client-individual", prefetch_count="1")
    for body in (b"1", b"2"):
        await ada.ask("SEND", {"destination": "/queue/jobs.eu"}, body)
    assert {(await worker.expect("MESSAGE")).body for worker in workers} == {b"1", b"2"}


async def test_one_prefetch_and_one_order_hold_for_all_topics(ada: StompClient) -> None:
    await ada.subscribe("/queue/jobs.*", ack="client-individual", prefetch_count="1")
    for topic, priority in (("eu", "1"), ("us", "1"), ("asia", "9")):
        await ada.send("SEND", {"destination": f"/queue/jobs.{topic}", "priority": priority}, topic.encode())
    for topic in ("eu", "asia", "us"):
        message = await ada.expect("MESSAGE", destination=f"/queue/jobs.{topic}")
        await ada.send("ACK", {"id": message.headers["ack"]})


@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_it_is_acknowledged_given_back_and_finished_in_transactions(
    connect: ConnectStomp, version: str
) -> None:
    ada = connect(version)
    await ada.connect()
    await ada.subscribe("/queue/jobs.>", ack="client-individual")
    await ada.send("SEND", {"destination": "/queue/jobs.eu"}, b"job")

    async def next_one(redelivered: str) -> dict[str, str]:
        message = await ada.expect("MESSAGE", destination="/queue/jobs.eu", redelivered=redelivered)
        headers = message.headers
        return (
            {"id": headers["ack"]}
            if version == "1.2"
            else {"message-id": headers["message-id"], "subscription": "0"}
        )

    await ada.send("NACK", await next_one("false"))
    names = await next_one("true")
    await ada.send("BEGIN", {"transaction": "t"})
    await ada.send("ACK", {**names, "transaction": "t"})
    await ada.send("SEND", {"destination": "/queue/jobs.done", "transaction": "t"}, b"done")
    await ada.send("COMMIT", {"transaction": "t"})
    await ada.expect("MESSAGE", destination="/queue/jobs.done")
    await ada.ask("UNSUBSCRIBE", {"id": "0"})
    await ada.subscribe("/queue/jobs.eu", id="1")
    await ada.send("SEND", {"destination": "/queue/jobs.eu"}, b"another")
    await expect_bodies(ada, b"another")


async def test_it_can_be_durable_and_be_ended_by_a_later_connection(connect: ConnectStomp) -> None:
    durable = {"destination": "/topic/weather.>", "durable": "true", "id": "mine"}

    async def desk() -> StompClient:
        client: StompClient = connect()
        await client.connect(client_id="desk")
        return client

    async def leave(client: StompClient) -> None:
        await client.ask("DISCONNECT")
        await client.expect_end()

    ada = connect()
    await ada.connect()
    first = await desk()
    await first.ask("SUBSCRIBE", durable)
    await leave(first)
    await ada.ask("SEND", {"destination": "/topic/weather.oslo"}, b"missed")
    second = await desk()
    await second.ask("SUBSCRIBE", durable)
    await second.expect("MESSAGE", subscription="mine", destination="/topic/weather.oslo")
    await leave(second)
    third = await desk()
    await third.ask("UNSUBSCRIBE", {**durable, "destination": "/topic/weather.#"})  # it is the same pattern
    await ada.ask("SEND", {"destination": "/topic/weather.oslo"}, b"missed")
    await third.ask("SUBSCRIBE", durable)
    await ada.ask("SEND", {"destination": "/topic/weather.oslo"}, b"heard")
    await expect_bodies(third, b"heard")


@pytest.mark.parametrize("destination", ["/topic/weather.*", "/queue/jobs.#", "weather.>"])
async def test_a_send_to_a_pattern_is_refused_by_name(connect: ConnectStomp, destination: str) -> None:
    for frame in ({}, {"transaction": "t"}):
        ada = connect()
        await ada.connect()
        await ada.send("BEGIN", {"transaction": "t"})
        await ada.send("SEND", {"destination": destination, **frame}, b"rain")
        error = await ada.refused(Refusal.BAD_TOPIC)
        assert f"'{destination}' is a pattern".encode() in error.body
    ada = connect()
    await ada.connect()
    await ada.raw(b"SEND\ndestination:%b\n\nthe body has no end" % destination.encode())
    assert b"is a pattern" in (await ada.refused(Refusal.BAD_TOPIC)).body


@pytest.mark.parametrize(
    "destination", ["/topic/a.#.b", "/topic/a.>.b", "/queue/a*", "/exchange/amq.topic/#.b", "*#", "a.b>"]
)
async def test_what_is_no_pattern_here_is_refused_by_name(ada: StompClient, destination: str) -> None:
    await ada.send("SUBSCRIBE", {"id": "0", "destination": destination})
    error = await ada.refused(Refusal.BAD_TOPIC)
    assert f"'{destination}' is not a pattern".encode() in error.body


class TestSlashes:
    @pytest.fixture
    def settings(self) -> StompSettings:
        return StompSettings(slashes=True)

    @pytest.mark.parametrize(
        ("pattern", "named"),
        [
            ("/topic/weather/*", "/topic/weather/oslo"),
            ("/topic/weather/#", "/topic/weather/oslo"),
            ("/topic/weather/>", "/topic/weather/oslo"),
            ("/exchange/amq.topic/weather/*", "/topic/weather/oslo"),
            ("/topic/#", "/topic/weather/oslo"),
            ("/topic/weather.*", "/topic/weather.oslo"),
        ],
    )
    async def test_a_message_is_named_as_the_pattern_is_written(
        self, ada: StompClient, pattern: str, named: str
    ) -> None:
        await ada.subscribe(pattern)
        await ada.send("SEND", {"destination": "/topic/weather/oslo"})
        await ada.expect("MESSAGE", destination=named)


class TestTheCloudQueue:
    @pytest.fixture
    def settings(self) -> StompSettings:
        return StompSettings(cloud_headers=True)

    @pytest.mark.parametrize("queue", ["/queue/orders", "ocid1.queue.oc1.iad.abc"])
    async def test_who_subscribes_to_a_queue_gets_its_channels(self, ada: StompClient, queue: str) -> None:
        destinations = [queue, f"{queue}/eu", f"{queue}/us.east"]
        await ada.subscribe(queue, id="all", ack="client-individual")
        for destination in destinations:
            await ada.send("SEND", {"destination": destination})
        for destination in destinations:
            message = await ada.expect("MESSAGE", subscription="all", destination=destination)
            await ada.send("ACK", {"id": message.headers["ack"]})
        await ada.ask("UNSUBSCRIBE", {"id": "all"})
        await ada.subscribe(f"{queue}/eu")
        for destination in (*destinations, destinations[1]):
            await ada.send("SEND", {"destination": destination})
        await ada.expect("MESSAGE", destination=f"{queue}/eu")
        await ada.expect("MESSAGE", destination=f"{queue}/eu")

    async def test_a_queue_that_has_no_channels_is_itself(self, ada: StompClient) -> None:
        own = "ada:stomp@smqp.example"
        for queue, sent in (("/queue/" + "x" * 254, "/queue/" + "x" * 254), (own, f"/reply-queue/{own}")):
            await ada.subscribe(queue, id=queue)
            await ada.send("SEND", {"destination": sent})
            await ada.expect("MESSAGE", subscription=queue)
