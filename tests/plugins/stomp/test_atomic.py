"""Transactions: all of a COMMIT happens, or nothing."""

import sqlite3
from pathlib import Path

import pytest
import trio.testing

from daemon.settings import Limits
from plugins.stomp.codec import Frame
from plugins.stomp.settings import StompSettings
from routing.errors import Refusal
from tests.support.site import BrokerSite
from tests.support.smqp_peer import connected, frame
from tests.support.stomp import ConnectStomp, StompClient

SEND = {"destination": "/queue/out", "transaction": "t"}


@pytest.fixture
async def reader(connect: ConnectStomp) -> StompClient:
    reader: StompClient = connect()
    await reader.connect()
    await reader.subscribe("/queue/out")
    return reader


async def hears_nothing_of_it(reader: StompClient) -> None:
    await reader.send("SEND", {"destination": "/queue/out"}, b"after")
    assert (await reader.expect("MESSAGE")).body == b"after"


async def test_nothing_happens_before_commit_and_all_of_it_then(
    ada: StompClient, reader: StompClient
) -> None:
    await ada.ask("BEGIN", {"transaction": "t"})
    for number in range(3):
        await ada.ask("SEND", SEND, b"%d" % number)
    await hears_nothing_of_it(reader)
    await ada.ask("COMMIT", {"transaction": "t"})
    assert [(await reader.expect("MESSAGE")).body for _ in range(3)] == [b"0", b"1", b"2"]


async def test_what_was_sent_in_a_transaction_is_guaranteed(ada: StompClient, reader: StompClient) -> None:
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("SEND", SEND)
    await ada.send("COMMIT", {"transaction": "t"})
    await reader.expect("MESSAGE", persistent="true")


async def test_nothing_of_an_aborted_transaction_happens(ada: StompClient, reader: StompClient) -> None:
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("SEND", SEND)
    await ada.ask("ABORT", {"transaction": "t"})
    await hears_nothing_of_it(reader)


@pytest.mark.parametrize("goodbye", [True, False])
async def test_a_transaction_left_open_by_a_disconnect_is_aborted(
    ada: StompClient, reader: StompClient, goodbye: bool
) -> None:
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("SEND", SEND)
    if goodbye:
        await ada.ask("DISCONNECT")
    await ada.stream.aclose()
    await hears_nothing_of_it(reader)


async def test_a_message_is_taken_from_one_queue_and_put_into_another_at_once(
    ada: StompClient, reader: StompClient, connect: ConnectStomp
) -> None:
    await ada.subscribe("/queue/in", ack="client-individual")
    await ada.send("SEND", {"destination": "/queue/in", "persistent": "true"}, b"work")
    message = await ada.expect("MESSAGE")
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.ask("ACK", {"id": message.headers["ack"], "transaction": "t"})
    await ada.ask("SEND", SEND, b"done")
    await ada.ask("COMMIT", {"transaction": "t"})
    assert (await reader.expect("MESSAGE")).body == b"done"
    await ada.stream.aclose()
    other = connect()
    await other.connect()
    await other.subscribe("/queue/in")
    await other.send("SEND", {"destination": "/queue/in"}, b"next")
    assert (await other.expect("MESSAGE")).body == b"next"


async def test_an_aborted_ack_leaves_the_message_unacknowledged(
    ada: StompClient, connect: ConnectStomp
) -> None:
    await ada.subscribe("/queue/in", ack="client-individual")
    await ada.send("SEND", {"destination": "/queue/in", "persistent": "true"}, b"work")
    message = await ada.expect("MESSAGE")
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("ACK", {"id": message.headers["ack"], "transaction": "t"})
    await ada.ask("ABORT", {"transaction": "t"})
    await ada.stream.aclose()
    other = connect()
    await other.connect()
    await other.subscribe("/queue/in")
    await other.expect("MESSAGE", delivery_count="2")


async def test_a_nack_may_be_part_of_a_transaction(
    ada: StompClient, reader: StompClient, connect: ConnectStomp
) -> None:
    await ada.subscribe("/queue/in", ack="client")
    for _ in range(2):
        await ada.send("SEND", {"destination": "/queue/in", "persistent": "true"}, b"work")
    messages = [await ada.expect("MESSAGE") for _ in range(2)]
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("NACK", {"id": messages[1].headers["ack"], "transaction": "t"})
    await ada.send("SEND", SEND, b"given up")
    await ada.send("COMMIT", {"transaction": "t"})
    again = [await ada.expect("MESSAGE", delivery_count="2") for _ in range(2)]
    assert len({message.headers["ack"] for message in messages + again}) == 4
    assert (await reader.expect("MESSAGE")).body == b"given up"


async def test_an_ack_whose_lock_was_lost_undoes_the_whole_transaction(
    ada: StompClient, reader: StompClient
) -> None:
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("SEND", SEND, b"done")
    await ada.subscribe("/queue/in", ack="client-individual", visibility="0.05")
    await ada.send("SEND", {"destination": "/queue/in", "persistent": "true"}, b"work")
    message = await ada.expect("MESSAGE")
    await ada.send("ACK", {"id": message.headers["ack"], "transaction": "t"})
    await ada.expect("MESSAGE", delivery_count="2")
    await ada.send("COMMIT", {"transaction": "t", "receipt": "r"})
    while (answer := await ada.receive()).command == "MESSAGE":
        pass
    assert answer.headers["message"] == Refusal.LOCK_LOST
    assert answer.headers["receipt-id"] == "r"
    await hears_nothing_of_it(reader)


async def take_two_of_which_the_first_is_removed(
    ada: StompClient, site: BrokerSite, **headers: str
) -> tuple[Frame, Frame]:
    await ada.subscribe("/queue/in", **headers)
    for body in (b"1", b"2"):
        await ada.send("SEND", {"destination": "/queue/in", "persistent": "true"}, body)
    first, second = await ada.expect("MESSAGE"), await ada.expect("MESSAGE")
    async with connected(site, "bob/desk") as operator:
        await operator.send(frame(f"REMOVE in {first.headers['smuid']}"))
        assert (await operator.line())[0] == "OK REMOVE"
    await trio.testing.wait_all_tasks_blocked()
    return first, second


@pytest.mark.parametrize("command", ["ACK", "NACK"])
async def test_what_an_ack_covers_undoes_the_whole_transaction_where_its_lock_was_lost(
    ada: StompClient, reader: StompClient, site: BrokerSite, command: str
) -> None:
    _, second = await take_two_of_which_the_first_is_removed(ada, site, ack="client")
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("SEND", SEND, b"results of 1 and 2")
    await ada.send(command, {"id": second.headers["ack"], "transaction": "t"})
    await ada.send("COMMIT", {"transaction": "t", "receipt": "r"})
    error = await ada.refused(Refusal.LOCK_LOST)
    assert error.headers["receipt-id"] == "r"
    assert b"of one before it: the message has been removed" in error.body
    await hears_nothing_of_it(reader)


async def test_an_ack_of_one_alone_says_nothing_of_those_before_it(
    ada: StompClient, reader: StompClient, site: BrokerSite
) -> None:
    _, second = await take_two_of_which_the_first_is_removed(ada, site, ack="client-individual")
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("SEND", SEND, b"result of 2")
    await ada.send("ACK", {"id": second.headers["ack"], "transaction": "t"})
    await ada.ask("COMMIT", {"transaction": "t"})
    assert (await reader.expect("MESSAGE")).body == b"result of 2"


async def test_a_lock_that_was_lost_is_told_by_the_first_ack_that_covers_the_message_and_asks(
    ada: StompClient, site: BrokerSite
) -> None:
    _, second = await take_two_of_which_the_first_is_removed(ada, site, ack="client")
    await ada.send("ACK", {"id": second.headers["ack"]})  # did not ask
    await ada.send("SEND", {"destination": "/queue/in", "persistent": "true"}, b"3")
    third = await ada.expect("MESSAGE")
    await ada.ask("ACK", {"id": third.headers["ack"]})


async def test_a_subscription_that_ends_before_commit_undoes_the_acks_of_what_it_held(
    ada: StompClient, reader: StompClient, connect: ConnectStomp
) -> None:
    await ada.subscribe("/queue/in", id="in", ack="client-individual")
    await ada.send("SEND", {"destination": "/queue/in", "persistent": "true"}, b"work")
    message = await ada.expect("MESSAGE")
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("SEND", SEND, b"done")
    await ada.send("ACK", {"id": message.headers["ack"], "transaction": "t"})
    await ada.ask("UNSUBSCRIBE", {"id": "in"})
    await ada.send("COMMIT", {"transaction": "t", "receipt": "r"})
    await ada.refused(Refusal.LOCK_LOST)
    await hears_nothing_of_it(reader)
    other = connect()
    await other.connect()
    await other.subscribe("/queue/in")
    assert (await other.expect("MESSAGE")).body == b"work"


async def held_of(ada: StompClient, queue: str) -> Frame:
    """A message of a subscription that is named like its queue."""
    await ada.subscribe(f"/queue/{queue}", id=queue, ack="client-individual")
    await ada.send("SEND", {"destination": f"/queue/{queue}", "persistent": "true"}, b"work")
    return await ada.expect("MESSAGE", subscription=queue)


async def test_an_ack_of_what_an_ended_subscription_has_given_back_undoes_the_whole_transaction(
    ada: StompClient, reader: StompClient
) -> None:
    message = await held_of(ada, "in")
    await ada.ask("UNSUBSCRIBE", {"id": "in"})
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("SEND", SEND, b"done")
    await ada.ask("ACK", {"id": message.headers["ack"], "transaction": "t"})
    await ada.send("COMMIT", {"transaction": "t", "receipt": "r"})
    await ada.refused(Refusal.LOCK_LOST)
    await hears_nothing_of_it(reader)


async def test_an_ack_of_what_was_acknowledged_before_its_subscription_ended_undoes_nothing(
    ada: StompClient, reader: StompClient
) -> None:
    message = await held_of(ada, "in")
    await ada.ask("ACK", {"id": message.headers["ack"]})
    await ada.ask("UNSUBSCRIBE", {"id": "in"})
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("SEND", SEND, b"done")
    await ada.send("ACK", {"id": message.headers["ack"], "transaction": "t"})
    await ada.ask("COMMIT", {"transaction": "t"})
    assert (await reader.expect("MESSAGE")).body == b"done"


class TestGivenBackBeyondMemory:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(credit_max=1)

    async def test_an_ack_undoes_the_whole_transaction_however_much_was_given_back_since(
        self, ada: StompClient, reader: StompClient
    ) -> None:
        messages = []
        for queue in ("a", "b"):
            messages.append(await held_of(ada, queue))
            await ada.ask("UNSUBSCRIBE", {"id": queue})
        await ada.ask("BEGIN", {"transaction": "t"})
        await ada.send("SEND", SEND, b"done")
        await ada.send("ACK", {"id": messages[0].headers["ack"], "transaction": "t"})
        await ada.send("COMMIT", {"transaction": "t", "receipt": "r"})
        await ada.refused(Refusal.LOCK_LOST)
        await hears_nothing_of_it(reader)


async def test_a_message_that_may_not_be_sent_undoes_the_whole_transaction(
    connect: ConnectStomp, reader: StompClient
) -> None:
    eve = connect()
    await eve.connect(login="eve")
    await eve.ask("BEGIN", {"transaction": "t"})
    await eve.ask("SEND", {"destination": "/queue/eve.own", "transaction": "t"})
    await eve.ask("SEND", SEND)
    await eve.send("COMMIT", {"transaction": "t"})
    await eve.refused(Refusal.FORBIDDEN)
    await reader.subscribe("/queue/eve.own", id="eve")
    await hears_nothing_of_it(reader)


async def test_transactions_with_other_names_are_others(ada: StompClient, reader: StompClient) -> None:
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.ask("BEGIN", {"transaction": "u"})
    await ada.send("SEND", SEND, b"t")
    await ada.send("SEND", {**SEND, "transaction": "u"}, b"u")
    await ada.ask("COMMIT", {"transaction": "u"})
    await ada.ask("ABORT", {"transaction": "t"})
    assert (await reader.expect("MESSAGE")).body == b"u"
    await hears_nothing_of_it(reader)


class TestBounds:
    @pytest.fixture
    def settings(self) -> StompSettings:
        return StompSettings(transactions_max=1, transaction_frames_max=2, transaction_bytes_max=200)

    async def test_too_many_transactions_are_refused(self, ada: StompClient) -> None:
        await ada.ask("BEGIN", {"transaction": "t"})
        await ada.send("BEGIN", {"transaction": "u"})
        await ada.refused(Refusal.TOO_MANY)

    async def test_too_many_frames_are_refused(self, ada: StompClient) -> None:
        await ada.ask("BEGIN", {"transaction": "t"})
        for _ in range(2):
            await ada.ask("SEND", SEND)
        await ada.send("SEND", SEND)
        await ada.refused(Refusal.TOO_LARGE)

    async def test_too_many_bytes_are_refused(self, ada: StompClient) -> None:
        await ada.ask("BEGIN", {"transaction": "t"})
        await ada.send("SEND", SEND, b"x" * 200)
        await ada.refused(Refusal.TOO_LARGE)

    @pytest.mark.parametrize("much", ["x" * 200, "🦀" + "x" * 50])
    async def test_headers_count_too(self, ada: StompClient, much: str) -> None:
        await ada.ask("BEGIN", {"transaction": "t"})
        await ada.send("SEND", {**SEND, "x-much": much})
        await ada.refused(Refusal.TOO_LARGE)


@pytest.mark.parametrize("receipt", [{"receipt": "all of it"}, {}])
async def test_where_one_message_cannot_be_stored_nothing_of_it_happens_and_the_client_is_told(
    ada: StompClient, reader: StompClient, connect: ConnectStomp, tmp_path: Path, receipt: dict[str, str]
) -> None:
    await ada.subscribe("/queue/in", ack="client-individual")
    await ada.send("SEND", {"destination": "/queue/in", "persistent": "true"}, b"work")
    message = await ada.expect("MESSAGE")
    damage(tmp_path)
    await ada.ask("BEGIN", {"transaction": "t"})
    await ada.send("ACK", {"id": message.headers["ack"], "transaction": "t"})
    for destination in ("/queue/out", "/queue/damaged", "/queue/out"):
        await ada.send("SEND", {"destination": destination, "transaction": "t"}, b"done")
    await ada.send("COMMIT", {"transaction": "t"} | receipt)
    error = await ada.expect("ERROR")
    assert error.headers.get("receipt-id") == receipt.get("receipt")
    other = connect()
    await other.connect()
    await other.send("SEND", {"destination": "/queue/out"}, b"after")
    assert (await reader.expect("MESSAGE")).body == b"after"
    await other.subscribe("/queue/in", ack="client-individual")
    assert (await other.expect("MESSAGE")).body == b"work"


def damage(directory: Path) -> None:
    """No message to this queue can be stored, as where a page of the store is damaged."""
    with sqlite3.connect(next(directory.rglob("smqpd.db"))) as store:
        store.execute(
            "CREATE TRIGGER damaged BEFORE INSERT ON message WHEN NEW.topic = 'damaged'"
            " BEGIN SELECT RAISE(ABORT, 'as a damaged page would'); END"
        )
