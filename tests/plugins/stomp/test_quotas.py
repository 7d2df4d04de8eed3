"""What an account may use, as STOMP clients see it."""

from typing import Any

import pytest
import trio
import trio.testing

from routing.quotas import Quotas
from tests.support.site import BrokerSite
from tests.support.stomp import ConnectStomp, StompClient

DURABLE = {"destination": "/queue/T", "persistent": "true"}


@pytest.mark.parametrize("quotas", [Quotas(publish_rate_per_s_max=10.0, publish_burst_max=1)])
async def test_who_sends_faster_than_it_may_is_read_no_faster_and_loses_nothing(
    site: BrokerSite, ada: StompClient, quotas: Any
) -> None:
    began = trio.current_time()
    for number in range(2):
        await ada.send("SEND", {**DURABLE, "receipt": str(number)})
    await ada.send("BEGIN", {"transaction": "t"})
    for _ in range(2):
        await ada.send("SEND", {**DURABLE, "transaction": "t"})
    await ada.send("COMMIT", {"transaction": "t", "receipt": "together"})
    await ada.send("SEND", {**DURABLE, "receipt": "last"})
    receipts = [(await ada.expect("RECEIPT")).headers["receipt-id"] for _ in range(4)]
    assert receipts == [*map(str, range(2)), "together", "last"]
    assert trio.current_time() - began >= 0.19
    assert site.metrics.slowed


@pytest.mark.parametrize("quotas", [Quotas(publish_rate_per_s_max=10.0, publish_burst_max=1)])
async def test_what_another_of_its_connections_sent_together_holds_up_what_it_sends_and_nothing_else(
    site: BrokerSite, ada: StompClient, connect: ConnectStomp, quotas: Any
) -> None:
    other = connect()
    await other.connect()
    began = trio.current_time()
    await ada.send("BEGIN", {"transaction": "t"})
    for _ in range(5):
        await ada.send("SEND", {**DURABLE, "transaction": "t"})
    await ada.ask("COMMIT", {"transaction": "t"})
    await other.subscribe("/topic/U")
    assert not site.metrics.slowed
    await other.ask("SEND", DURABLE)
    assert trio.current_time() - began >= 0.49
    assert site.metrics.slowed
    assert not site.metrics.refused


@pytest.mark.parametrize("quotas", [Quotas(publish_rate_per_s_max=0.001, publish_burst_max=1)])
async def test_who_leaves_while_it_is_slowed_down_keeps_its_session_for_a_moment_only(
    site: BrokerSite, ada: StompClient, quotas: Any, mock_clock: trio.testing.MockClock
) -> None:
    await ada.ask("SEND", DURABLE)
    await ada.send("SEND", DURABLE)
    await ada.stream.aclose()
    with trio.fail_after(site.limits.send_timeout_s + 1):
        while site.broker.account_use.of("ada").sessions:
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(1)


@pytest.mark.parametrize("quotas", [Quotas(held_messages_max=1)])
async def test_who_has_as_much_held_as_it_may_is_refused_by_name(ada: StompClient, quotas: Any) -> None:
    await ada.ask("SEND", DURABLE)
    await ada.send("SEND", DURABLE)
    error = await ada.refused("queue-full")
    assert b"which may be 1 (held_messages_max)" in error.body


@pytest.mark.parametrize("quotas", [Quotas(unfinished_bytes_max=100_000)])
async def test_a_body_that_is_more_than_may_be_unfinished_is_refused_by_name(
    site: BrokerSite, ada: StompClient, quotas: Any
) -> None:
    await ada.raw(b"SEND\ndestination:/queue/T\ncontent-length:200000\n\n" + bytes(70_000))
    error = await ada.refused("too-many")
    assert b"100000 bytes unfinished (unfinished_bytes_max)" in error.body
    assert site.metrics.over_quota == {"unfinished_bytes_max": 1}


@pytest.mark.parametrize("quotas", [Quotas(unfinished_bytes_max=200_000)])
async def test_so_it_is_while_much_that_came_before_it_is_being_stored(
    site: BrokerSite, ada: StompClient, quotas: Any
) -> None:
    body = bytes(100_000)
    first = b"SEND\ndestination:/queue/T\npersistent:true\ncontent-length:%d\n\n%b\0" % (len(body), body)
    await ada.raw(first + b"SEND\ndestination:/queue/T\ncontent-length:300000\n\n" + bytes(10))
    error = await ada.refused("too-many")
    assert b"200000 bytes unfinished (unfinished_bytes_max)" in error.body
