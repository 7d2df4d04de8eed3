"""Bodies and transactions that are not complete: what cannot be taken is refused before it is held."""

import pytest
import trio.testing

from daemon.settings import Limits
from plugins.stomp.codec import encode
from plugins.stomp.settings import StompSettings
from tests.support.remembered import bytes_kept
from tests.support.site import BrokerSite
from tests.support.stomp import ConnectStomp, StompClient
from tests.support.stomp_wire import Wire

MEGABYTE = 1_000_000


@pytest.fixture
def limits() -> Limits:
    return Limits(message_bytes_max=MEGABYTE, unfinished_bytes_max=4 * MEGABYTE)


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


def begun(destination: str, **headers: str) -> bytes:
    """All of a SEND of a megabyte but its last byte."""
    named = {"destination": destination, "content-length": str(MEGABYTE), **headers}
    return encode("SEND", named, b"x" * MEGABYTE)[:-1]


async def test_a_body_counts_until_it_has_come(site: BrokerSite, ada: StompClient) -> None:
    await ada.raw(begun("/queue/t", receipt="1")[:6_000])
    await settle()
    assert MEGABYTE <= site.broker.unfinished.bytes < MEGABYTE + 1_000
    await ada.raw(begun("/queue/t", receipt="1")[6_000:] + b"\0")
    await ada.expect("RECEIPT", receipt_id="1")
    await settle()
    assert site.broker.unfinished.bytes == 0


async def test_a_body_without_a_length_counts_as_it_comes(site: BrokerSite, ada: StompClient) -> None:
    await ada.raw(b"SEND\ndestination:/queue/t\nreceipt:1\n\n" + b"x" * 500_000)
    await settle()
    assert 500_000 <= site.broker.unfinished.bytes < 600_000
    await ada.raw(b"x\0")
    await ada.expect("RECEIPT", receipt_id="1")


@pytest.mark.parametrize("destination", ["/queue/forbidden", "/reply-queue/nobody:x@smqp.example"])
async def test_what_is_forbidden_is_refused_before_its_body(
    site: BrokerSite, connect: ConnectStomp, destination: str
) -> None:
    eve = connect()
    await eve.connect(login="eve")
    await eve.raw(begun(destination, receipt="1")[:6_000])
    error = await eve.expect("ERROR", message="forbidden", receipt_id="1")
    assert error.body.startswith(b"SEND: eve may not publish")
    assert site.broker.unfinished.bytes == 0


async def test_an_open_transaction_counts_for_as_much_as_it_takes(site: BrokerSite) -> None:
    with Wire(site, "1.2", StompSettings()) as wire:
        await wire.begin(needs_message=False)
        empty = wire.connection.unfinished_bytes

        def send(number: int) -> None:
            headers = {"destination": "/queue/t", "transaction": "t"}
            wire.give(encode("SEND", headers | {f"x-{at}": str(number) for at in range(190)}))

        kept = bytes_kept(send, times=50)
        assert 0 < kept < wire.connection.unfinished_bytes - empty


async def test_open_transactions_count_until_they_end(site: BrokerSite, ada: StompClient) -> None:
    await ada.send("BEGIN", {"transaction": "a"})
    await ada.ask("SEND", {"destination": "/queue/t", "transaction": "a"}, b"x" * 100_000)
    await settle()
    assert 100_000 <= site.broker.unfinished.bytes < 110_000
    await ada.ask("ABORT", {"transaction": "a"})
    await settle()
    assert site.broker.unfinished.bytes == 0


async def test_one_too_many_is_told_what_to_do_and_the_others_go_on(
    site: BrokerSite, connect: ConnectStomp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.connections.unfinished.WAIT_S", 0)
    clients = [connect() for _ in range(3)]
    for number, client in enumerate(clients):
        await client.connect()
        await client.send("BEGIN", {"transaction": "a"})
        await client.send("SEND", {"destination": "/queue/t", "transaction": "a"}, b"x" * 900_000)
        await settle()
        if number == 2:
            error = await client.refused("too-many")
            assert b"finish bodies and transactions that are open, or send fewer" in error.body
    assert site.broker.unfinished.bytes < 2 * MEGABYTE
    await clients[0].ask("COMMIT", {"transaction": "a"})
    bob = connect()
    await bob.connect(login="bob")
    await bob.ask("SEND", {"destination": "/queue/t", "persistent": "true"}, b"x" * 900_000)
