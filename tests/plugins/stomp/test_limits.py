"""What is too many, or too large."""

import msgspec
import pytest

from daemon.broker.bodies import Stored
from daemon.frontend import Delivered
from daemon.settings import Limits
from plugins.stomp.destinations import CHANNELS_MAX, parse_destination
from plugins.stomp.subscription import ID_BYTES_MAX, Prefixes, Subscription
from routing.errors import Refusal
from routing.message import Message
from tests.support.remembered import bytes_kept
from tests.support.site import BrokerSite
from tests.support.stomp import ConnectStomp, StompClient


@pytest.fixture
def limits() -> Limits:
    return Limits(subscriptions_per_session_max=2, message_bytes_max=100, frame_headers_max=16)


async def test_too_many_subscriptions_are_refused(ada: StompClient) -> None:
    for number in range(2):
        await ada.subscribe("/topic/news", id=str(number))
    await ada.send("SUBSCRIBE", {"destination": "/topic/news", "id": "2"})
    await ada.refused(Refusal.TOO_MANY)


async def test_too_many_temporary_queues_are_refused(ada: StompClient) -> None:
    for number in range(3):
        headers = {"destination": "/queue/a", "reply-to": f"/temp-queue/{number}"}
        await ada.send("SEND", headers)
    await ada.refused(Refusal.TOO_MANY)


async def test_too_large_a_message_is_refused(ada: StompClient) -> None:
    await ada.send("SEND", {"destination": "/queue/a", "content-length": "101", "receipt": "r"})
    error = await ada.refused(Refusal.TOO_LARGE)
    assert error.headers["receipt-id"] == "r"


async def test_too_many_headers_are_refused(ada: StompClient) -> None:
    await ada.send("SEND", {f"h{number}": "x" for number in range(17)})
    await ada.refused(Refusal.TOO_MANY)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"CONNECT\ncontent-length:101\n\n", Refusal.TOO_LARGE),
        (b"CONNECT\n" + b"".join(b"h%d:x\n" % number for number in range(17)) + b"\n", Refusal.TOO_MANY),
    ],
)
async def test_they_hold_before_the_login(connect: ConnectStomp, frame: bytes, code: str) -> None:
    client = connect()
    await client.raw(frame)
    await client.refused(code)


async def test_those_of_a_configuration_that_is_read_anew_hold_for_who_is_logged_in(
    ada: StompClient, site: BrokerSite
) -> None:
    limits = Limits(subscriptions_per_session_max=3, message_bytes_max=200, frame_headers_max=32)
    site.broker.reconfigure(msgspec.structs.replace(site.broker.settings, limits=limits))
    for number in range(3):
        await ada.subscribe("/topic/news", id=str(number))
    headers = {f"h{number}": "x" for number in range(17)}
    await ada.ask("SEND", {"destination": "/queue/a", **headers}, b"x" * 200)
    await ada.send("SEND", {"destination": "/queue/a", "content-length": "201"})
    await ada.refused(Refusal.TOO_LARGE)


async def test_a_subscription_with_a_very_long_id_is_refused(ada: StompClient) -> None:
    await ada.subscribe("/topic/news", id="ü" * (ID_BYTES_MAX // 2))
    await ada.send("SUBSCRIBE", {"destination": "/topic/news", "id": "ü" * (ID_BYTES_MAX // 2) + "x"})
    await ada.refused(Refusal.BAD_HEADER)


async def test_a_destination_that_names_channels_again_and_again_is_refused(ada: StompClient) -> None:
    await ada.subscribe("/queue/orders/" + ",".join(["eu"] * CHANNELS_MAX))
    await ada.send("SUBSCRIBE", {"destination": "/queue/orders/" + ",".join(["eu"] * 65), "id": "1"})
    await ada.refused(Refusal.BAD_TOPIC)


@pytest.mark.parametrize("id", ["0", "0" * ID_BYTES_MAX], ids=["short", "long"])
def test_however_many_topics_patterns_take_few_destinations_are_kept_of_a_connection(id: str) -> None:
    targets = {"t.#": "/topic/t.#"}
    subscriptions = [Subscription(id, parse_destination("/topic/t.#"), targets, "auto") for _ in range(3)]
    for number, subscription in enumerate(subscriptions):
        subscription.number = number
    stored, prefixes = Stored(message=Message()), Prefixes()

    def deliver(number: int) -> None:
        event = Delivered(
            number, f"t.{number}", "", stored, 1, False, False, None, None, 60.0, False, 0, number, "t.#"
        )
        written = f"MESSAGE\nsubscription:{id}\ndestination:/topic/t.{number}\n"
        for subscription in subscriptions:
            assert subscription.prefix(event, "1.2", prefixes) == written.encode()

    assert bytes_kept(deliver, times=1_900) < 300_000
