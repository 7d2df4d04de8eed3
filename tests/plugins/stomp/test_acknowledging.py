"""Ack modes, prefetch, redelivery and fair shares."""

import gc
from typing import Any

import pytest
import trio.testing

from daemon.settings import Limits
from plugins.stomp.codec import Frame, encode
from plugins.stomp.subscription import Subscription
from routing.errors import Refusal
from tests.support.site import BrokerSite
from tests.support.smqp_peer import connected, frame
from tests.support.stomp import ConnectStomp, StompClient

SEND = {"destination": "/queue/work", "persistent": "true"}


async def work(client: StompClient, count: int) -> None:
    """Send so many numbered messages and wait until they are stored."""
    for number in range(count):
        await client.send("SEND", SEND, b"%d" % number)
    await client.ask("BEGIN", {"transaction": "none"})
    await client.ask("ABORT", {"transaction": "none"})


@pytest.fixture
async def publisher(connect: ConnectStomp) -> StompClient:
    publisher: StompClient = connect()
    await publisher.connect()
    return publisher


@pytest.fixture
async def worker(connect: ConnectStomp) -> StompClient:
    worker: StompClient = connect()
    await worker.connect()
    return worker


async def receive(client: StompClient, count: int) -> list[Frame]:
    return [await client.expect("MESSAGE") for _ in range(count)]


async def left_over(connect: ConnectStomp) -> list[tuple[bytes, str]]:
    """What a new consumer gets: the bodies and delivery counts up to a message sent last."""
    client = connect()
    await client.connect()
    await client.subscribe("/queue/work")
    await client.send("SEND", SEND, b"last")
    found = []
    while (message := await client.expect("MESSAGE")).body != b"last":
        found.append((message.body, message.headers["delivery-count"]))
    await client.leave()
    return found


async def test_in_mode_auto_what_was_sent_is_consumed(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp
) -> None:
    await worker.subscribe("/queue/work")
    await work(publisher, 3)
    await receive(worker, 3)
    await worker.leave()
    assert await left_over(connect) == []


async def test_what_a_lost_connection_held_comes_again_with_a_higher_count(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual")
    await work(publisher, 3)
    _, second, _ = await receive(worker, 3)
    await worker.ask("ACK", {"id": second.headers["ack"]})
    await worker.stream.aclose()
    assert await left_over(connect) == [(b"0", "2"), (b"2", "2")]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_in_mode_client_an_ack_is_for_all_before_it_too(
    publisher: StompClient, connect: ConnectStomp, version: str
) -> None:
    worker = connect(version)
    await worker.connect()
    await worker.subscribe("/queue/work", ack="client")
    await work(publisher, 4)
    third = (await receive(worker, 4))[2].headers
    name = {"id": third["ack"]} if version == "1.2" else {"message-id": third["message-id"]}
    if version == "1.1":
        name["subscription"] = "0"
    await worker.ask("ACK", name)
    await worker.leave()
    assert await left_over(connect) == [(b"3", "1")]


async def test_who_acknowledges_several_at_once_has_worked_on_as_many(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp
) -> None:
    await worker.subscribe("/queue/work", ack="client")
    await work(publisher, 7)
    third = (await receive(worker, 7))[2]
    await worker.ask("ACK", {"id": third.headers["ack"]})
    await worker.stream.aclose()
    assert await left_over(connect) == [(b"3", "2"), (b"4", "2"), (b"5", "2"), (b"6", "1")]


async def test_a_cumulative_ack_spares_other_subscriptions(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp
) -> None:
    await worker.subscribe("/queue/other", id="other", ack="client")
    await worker.send("SEND", {**SEND, "destination": "/queue/other"}, b"other")
    await worker.expect("MESSAGE")
    await worker.subscribe("/queue/work", ack="client")
    await work(publisher, 1)
    (message,) = await receive(worker, 1)
    await worker.ask("ACK", {"id": message.headers["ack"]})
    await worker.ask("UNSUBSCRIBE", {"id": "other"})
    await worker.subscribe("/queue/other", id="again")
    await worker.expect("MESSAGE", subscription="again", redelivered="true", delivery_count="1")


async def bare(client: StompClient, *bodies: bytes, **headers: Any) -> None:
    """What `send(destination, body)` of a client library writes."""
    for body in bodies:
        await client.send("SEND", {"destination": "/queue/work", **headers}, body)


async def test_a_bare_send_is_locked_until_it_is_acknowledged(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual", prefetch_count="2")
    await bare(publisher, b"a", b"b", b"c")
    first, _ = await receive(worker, 2)
    await worker.ask("ACK", {"id": first.headers["ack"]})
    third = await worker.expect("MESSAGE", redelivered="false", delivery_count="1")
    assert third.body == b"c"
    await worker.stream.aclose()
    assert await left_over(connect) == [(b"b", "2"), (b"c", "1")]


async def test_a_bare_send_that_is_not_wanted_comes_again(
    publisher: StompClient, worker: StompClient
) -> None:
    await worker.subscribe("/queue/work", ack="client")
    await bare(publisher, b"a", b"b")
    _, last = await receive(worker, 2)
    await worker.send("NACK", {"id": last.headers["ack"]})
    again = [await worker.expect("MESSAGE", redelivered="true", delivery_count="2") for _ in range(2)]
    assert [message.body for message in again] == [b"a", b"b"]


async def test_a_bare_send_belongs_to_the_transaction_of_its_ack(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual")
    await bare(publisher, b"a", b"b")
    first, second = await receive(worker, 2)
    for message, name, end in ((first, "t1", "ABORT"), (second, "t2", "COMMIT")):
        await worker.ask("BEGIN", {"transaction": name})
        await worker.ask("ACK", {"id": message.headers["ack"], "transaction": name})
        await worker.ask(end, {"transaction": name})
    await worker.leave()
    assert [body for body, _ in await left_over(connect)] == [b"a"]


async def test_a_bare_send_is_finished_when_it_goes_to_a_consumer_that_acknowledges_nothing(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp
) -> None:
    await worker.subscribe("/queue/work")
    await bare(publisher, b"a")
    await receive(worker, 1)
    await worker.stream.aclose()
    assert await left_over(connect) == []


async def test_a_cumulative_ack_may_name_an_unguaranteed_message(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp
) -> None:
    await worker.subscribe("/queue/work", ack="client")
    await work(publisher, 1)
    await bare(publisher, b"loose")
    _, loose = await receive(worker, 2)
    await worker.ask("ACK", {"id": loose.headers["ack"]})
    await worker.leave()
    assert await left_over(connect) == []


async def test_after_a_nack_the_message_is_delivered_again(
    publisher: StompClient, worker: StompClient
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual")
    await work(publisher, 2)
    first, _ = await receive(worker, 2)
    await worker.send("NACK", {"id": first.headers["ack"]})
    again = await worker.expect("MESSAGE", redelivered="true", delivery_count="2")
    assert again.headers["message-id"] == first.headers["message-id"]


async def test_a_nack_without_requeue_makes_a_dead_letter(
    publisher: StompClient, worker: StompClient
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual")
    await worker.subscribe("/queue/dead.work", id="dead")
    await work(publisher, 2)
    first, _ = await receive(worker, 2)
    await worker.ask("NACK", {"id": first.headers["ack"], "requeue": "false"})
    dead = await worker.expect("MESSAGE", subscription="dead")
    assert (dead.body, dead.headers["Dead-Reason"]) == (b"0", "nack")


async def test_what_was_prefetched_and_not_read_has_not_failed(
    publisher: StompClient, connect: ConnectStomp
) -> None:
    await work(publisher, 40)
    for round in range(20):
        worker = connect()
        await worker.connect()
        await worker.subscribe("/queue/work", ack="client-individual")
        first = await worker.expect("MESSAGE", delivery_count="1", redelivered="true" if round else "false")
        assert first.body == b"%d" % round
        await worker.send("ACK", {"id": first.headers["ack"]})
        if round % 2:
            await receive(worker, 39 - round)
            await worker.ask("UNSUBSCRIBE", {"id": "0"})
        await worker.send("DISCONNECT", {"receipt": "bye"})
        while (frame := await worker.receive()).command == "MESSAGE":
            pass
        assert frame.headers == {"receipt-id": "bye"}


async def test_in_mode_client_a_nack_is_for_all_before_it_too(
    publisher: StompClient, worker: StompClient
) -> None:
    await worker.subscribe("/queue/work", ack="client")
    await work(publisher, 3)
    second = (await receive(worker, 3))[1]
    await worker.send("NACK", {"id": second.headers["ack"]})
    again = await receive(worker, 2)
    assert sorted((message.body, message.headers["delivery-count"]) for message in again) == [
        (b"0", "2"),
        (b"1", "2"),
    ]


async def test_a_second_ack_of_the_same_message_does_nothing(
    publisher: StompClient, worker: StompClient
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual")
    await work(publisher, 1)
    (message,) = await receive(worker, 1)
    await worker.ask("ACK", {"id": message.headers["ack"]})
    await worker.ask("ACK", {"id": message.headers["ack"]})
    await worker.ask("NACK", {"id": message.headers["ack"]})


@pytest.mark.parametrize(
    "then", [b"UNSUBSCRIBE\nid:0\n\n\0", b"DISCONNECT\n\n\0", b"HELLO\n\n\0", b"no frame\0", b"SEND\n"]
)
async def test_acks_that_came_with_something_else_count(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp, then: bytes
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual")
    await work(publisher, 3)
    *acknowledged, _ = await receive(worker, 3)
    acks = [encode("ACK", {"id": message.headers["ack"]}) for message in acknowledged]
    await worker.raw(b"".join((*acks, then)))
    assert isinstance(worker.stream, trio.abc.HalfCloseableStream)
    await worker.stream.send_eof()
    while await worker.stream.receive_some(65_536):
        pass
    assert [body for body, _ in await left_over(connect)] == [b"2"]


async def test_in_1_1_the_subscription_has_to_be_the_right_one(
    publisher: StompClient, connect: ConnectStomp
) -> None:
    worker = connect("1.1")
    await worker.connect()
    await worker.subscribe("/queue/work", ack="client")
    await work(publisher, 1)
    (message,) = await receive(worker, 1)
    await worker.send("ACK", {"message-id": message.headers["message-id"], "subscription": "1"})
    await worker.refused(Refusal.NOT_FOUND)


async def test_no_more_than_prefetch_count_are_under_way(publisher: StompClient, worker: StompClient) -> None:
    await worker.subscribe("/queue/work", ack="client-individual", prefetch_count="2")
    await work(publisher, 5)
    for _ in range(2):
        first, second = await receive(worker, 2)
        await worker.ask("BEGIN", {"transaction": "t"})
        await worker.ask("ABORT", {"transaction": "t"})  # nothing else was on its way
        await worker.send("ACK", {"id": first.headers["ack"]})
        await worker.send("ACK", {"id": second.headers["ack"]})
    await receive(worker, 1)


@pytest.mark.parametrize("header", [{"prefetch_count": "0"}, {"activemq.prefetchSize": "30000"}])
async def test_a_prefetch_beyond_the_limit_is_the_limit(
    publisher: StompClient, worker: StompClient, header: dict[str, str]
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual", **header)
    await work(publisher, 150)
    await receive(worker, 150)


async def test_consumers_of_a_queue_share_it_fairly(
    publisher: StompClient, worker: StompClient, connect: ConnectStomp
) -> None:
    other = connect()
    await other.connect()
    for client in (worker, other):
        await client.subscribe("/queue/work", ack="client-individual", prefetch_count="50")
    await work(publisher, 40)
    await receive(worker, 20)
    await receive(other, 20)


async def test_one_consumer_gets_messages_in_their_order(publisher: StompClient, worker: StompClient) -> None:
    await worker.subscribe("/queue/work", ack="client", prefetch_count="7")
    await work(publisher, 60)
    bodies = []
    for _ in range(60):
        message = await worker.expect("MESSAGE")
        bodies.append(int(message.body))
        await worker.send("ACK", {"id": message.headers["ack"]})
    assert bodies == list(range(60))


async def test_a_message_that_is_not_acknowledged_in_time_is_delivered_again(
    publisher: StompClient, worker: StompClient
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual", visibility="0.05")
    await work(publisher, 1)
    (message,) = await receive(worker, 1)
    again = await worker.expect("MESSAGE", redelivered="true", delivery_count="2")
    assert again.body == message.body
    await worker.send("ACK", {"id": message.headers["ack"]})  # too late, which it did not ask to hear
    await worker.send("ACK", {"id": message.headers["ack"], "receipt": "r"})
    while (answer := await worker.receive()).command == "MESSAGE":
        pass
    assert answer.headers["message"] == Refusal.LOCK_LOST
    assert answer.headers["receipt-id"] == "r"


async def test_a_late_ack_is_told_what_became_of_the_message(
    publisher: StompClient, worker: StompClient
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual")
    await publisher.send("SEND", {**SEND, "expiration": "1"})
    message = await worker.expect("MESSAGE")
    await trio.testing.wait_all_tasks_blocked(0.1)
    await worker.send("ACK", {"id": message.headers["ack"], "receipt": "late"})
    error = await worker.refused("lock-lost")
    assert b"expired" in error.body


async def test_what_an_ended_subscription_held_goes_to_the_next_and_its_ack_does_nothing(
    publisher: StompClient, worker: StompClient
) -> None:
    await worker.subscribe("/queue/work", id="a", ack="client-individual")
    await work(publisher, 1)
    (message,) = await receive(worker, 1)
    await worker.ask("UNSUBSCRIBE", {"id": "a"})
    await worker.ask("ACK", {"id": message.headers["ack"]})
    await worker.subscribe("/queue/work", id="b")
    await worker.expect("MESSAGE", subscription="b", redelivered="true", delivery_count="1")


async def test_of_a_guaranteed_message_that_was_set_aside_nobody_is_told_that_it_had_no_guarantee(
    publisher: StompClient, worker: StompClient, site: BrokerSite
) -> None:
    await worker.subscribe("/queue/work", ack="client-individual")
    await work(publisher, 1)
    [message] = await receive(worker, 1)
    [entry] = site.broker._router._state.entries.values()
    site.broker.door.set_aside(entry, "as an error of ours would")
    await worker.ask("SUBSCRIBE", {"destination": "/queue/other", "id": "1"})
    await worker.send("ACK", {"id": message.headers["ack"], "receipt": "r"})
    error = await worker.refused(Refusal.LOCK_LOST)
    assert error.body == b"ACK: the site has given the message up meanwhile, as its hop log tells\n"


async def test_in_mode_client_an_ack_covers_what_was_lost_before_it_in_whatever_order_that_was(
    publisher: StompClient, worker: StompClient, site: BrokerSite
) -> None:
    await worker.subscribe("/queue/work", ack="client")
    await work(publisher, 6)
    came = await receive(worker, 6)
    async with connected(site, "bob/desk") as operator:
        for lost in (came[4], came[2], came[0]):
            await operator.send(frame(f"REMOVE work {lost.headers['smuid']}"))
            assert (await operator.line())[0] == "OK REMOVE"
    await trio.testing.wait_all_tasks_blocked()
    await worker.send("ACK", {"id": came[1].headers["ack"]})  # did not ask
    await worker.ask("ACK", {"id": came[1].headers["ack"]})
    await worker.send("ACK", {"id": came[3].headers["ack"], "receipt": "late"})
    await worker.refused(Refusal.LOCK_LOST)


async def test_a_lost_message_keeps_nothing_of_its_subscription_once_that_has_ended(
    publisher: StompClient, worker: StompClient, site: BrokerSite
) -> None:
    """As many may be remembered as a client may have credit, each of another subscription."""
    gc.collect()
    others = subscriptions()
    async with connected(site, "bob/desk") as operator:
        for number in range(3):
            await worker.subscribe("/queue/work", id=str(number), ack="client-individual")
            await work(publisher, 1)
            message = await worker.expect("MESSAGE")
            await operator.send(frame(f"REMOVE work {message.headers['smuid']}"))
            assert (await operator.line())[0] == "OK REMOVE"
            await worker.send("BEGIN", {"transaction": str(number)})
            await worker.send("ACK", {"id": message.headers["ack"], "transaction": str(number)})
            await worker.ask("UNSUBSCRIBE", {"id": str(number)})
    gc.collect()
    assert subscriptions() == others


def subscriptions() -> int:
    """Of all connections."""
    return sum(isinstance(each, Subscription) for each in gc.get_objects())


class TestLostBeyondMemory:
    """Of so many lost messages as one subscription may hold it is known what became of them."""

    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(credit_max=2)

    @staticmethod
    async def removed_one_by_one(worker: StompClient, site: BrokerSite, count: int) -> list[Frame]:
        """So many of the queue, each removed by an operator once it has come; then one that is held."""
        came = []
        async with connected(site, "bob/desk") as operator:
            for _ in range(count):
                came.append(await worker.expect("MESSAGE"))
                await operator.send(frame(f"REMOVE work {came[-1].headers['smuid']}"))
                assert (await operator.line())[0] == "OK REMOVE"
        return [*came, await worker.expect("MESSAGE")]

    @pytest.mark.parametrize("mode", ["client", "client-individual"])
    async def test_a_late_ack_that_asks_is_an_error_however_long_ago_the_message_was_lost(
        self, publisher: StompClient, worker: StompClient, site: BrokerSite, mode: str
    ) -> None:
        await worker.subscribe("/queue/work", ack=mode, prefetch_count="1")
        await work(publisher, 4)
        first, *_ = await self.removed_one_by_one(worker, site, 3)
        await worker.send("ACK", {"id": first.headers["ack"], "receipt": "late"})
        await worker.refused(Refusal.LOCK_LOST)

    async def test_what_is_held_can_be_acknowledged_though_later_ones_were_lost(
        self, publisher: StompClient, worker: StompClient, site: BrokerSite
    ) -> None:
        await worker.subscribe("/queue/work", ack="client-individual")
        await work(publisher, 5)
        held = await worker.expect("MESSAGE")
        await self.removed_one_by_one(worker, site, 3)
        await worker.ask("ACK", {"id": held.headers["ack"]})

    async def test_in_mode_client_an_ack_that_does_not_ask_covers_what_is_forgotten(
        self, publisher: StompClient, worker: StompClient, site: BrokerSite
    ) -> None:
        await worker.subscribe("/queue/work", ack="client", prefetch_count="1")
        await work(publisher, 5)
        *_, held = await self.removed_one_by_one(worker, site, 3)
        await worker.send("ACK", {"id": held.headers["ack"]})
        last = await worker.expect("MESSAGE")
        await worker.ask("ACK", {"id": last.headers["ack"]})

    async def test_other_subscriptions_have_nothing_to_do_with_it(
        self, publisher: StompClient, worker: StompClient, site: BrokerSite
    ) -> None:
        await worker.subscribe("/queue/work", ack="client", prefetch_count="1")
        await work(publisher, 4)
        await self.removed_one_by_one(worker, site, 3)
        await worker.subscribe("/queue/other", id="other", ack="client")
        await worker.send("SEND", {**SEND, "destination": "/queue/other"})
        other = await worker.expect("MESSAGE", subscription="other")
        await worker.ask("ACK", {"id": other.headers["ack"]})
