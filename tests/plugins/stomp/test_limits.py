"""What is too many, or too large."""

import msgspec
import pytest

from daemon.broker.bodies import Stored
from daemon.frontend import Delivered
from daemon.settings import Limits
from plugins.stomp.destinations import parse_destination
from plugins.stomp.subscription import Subscription
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


@pytest.mark.parametrize("id", ["0", "0" * 16_000], ids=["short", "long"])
def test_however_many_topics_a_pattern_takes_few_destinations_are_kept(id: str) -> None:
    subscription = Subscription(id, parse_destination("/topic/t.#"), {"t.#": "/topic/t.#"}, "auto")
    stored = Stored(message=Message())

    def deliver(number: int) -> None:
        event = Delivered(
            number, f"t.{number}", "", stored, 1, False, False, None, None, 60.0, False, 0, number, "t.#"
        )
        written = f"MESSAGE\nsubscription:{id}\ndestination:/topic/t.{number}\n"
        assert subscription.prefix(event, "1.2") == written.encode()

    assert bytes_kept(deliver, times=1_900) < 300_000
