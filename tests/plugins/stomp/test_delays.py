"""Delayed SENDs: nobody gets them before their time, however that is measured, wherever they go."""

from pathlib import Path

import pytest
import trio

from plugins.stomp.codec import encode
from plugins.stomp.settings import StompSettings
from tests.plugins.stomp.test_across_sites import clients
from tests.plugins.stomp.test_kill import client_of
from tests.support.ports import free_port
from tests.support.process import daemon
from tests.support.site import BrokerSite
from tests.support.stomp import StompClient
from tests.support.stomp_site import make_stomp_site, stomp_environment
from tests.support.stomp_wire import Wire

DELAY_S = 0.5
DELAY = {"AMQ_SCHEDULED_DELAY": "500"}
HOUR = {"AMQ_SCHEDULED_DELAY": "3600000"}


class Since:
    """Measures from when a SEND was written; a site cannot have it earlier."""

    def __init__(self) -> None:
        self._began = trio.current_time()

    def long_enough(self) -> bool:
        return trio.current_time() - self._began >= DELAY_S


@pytest.mark.parametrize("kind", ["topic", "queue"])
async def test_what_was_sent_later_and_is_not_delayed_comes_before_it(ada: StompClient, kind: str) -> None:
    await ada.subscribe(f"/{kind}/T")
    await ada.ask("SEND", {"destination": f"/{kind}/T", **HOUR}, b"in an hour")
    await ada.send("SEND", {"destination": f"/{kind}/T", "persistent": "true"}, b"now")
    assert (await ada.expect("MESSAGE")).body == b"now"
    since = Since()
    await ada.ask("SEND", {"destination": f"/{kind}/T", **DELAY}, b"later")
    later = await ada.expect("MESSAGE", redelivered="false")
    assert (later.body, since.long_enough()) == (b"later", True)
    assert not DELAY.keys() & later.headers.keys(), "who sends it on does not delay it again"


async def test_in_a_transaction_what_is_not_delayed_comes_with_its_commit(ada: StompClient) -> None:
    await ada.subscribe("/queue/T")
    await ada.send("BEGIN", {"transaction": "t"})
    await ada.ask("SEND", {"destination": "/queue/T", "transaction": "t", **HOUR}, b"in an hour")
    await ada.ask("SEND", {"destination": "/queue/T", "transaction": "t"}, b"now")
    await ada.send("COMMIT", {"transaction": "t"})
    assert (await ada.expect("MESSAGE")).body == b"now"


async def test_in_a_transaction_the_delay_begins_with_its_commit(ada: StompClient) -> None:
    await ada.subscribe("/queue/T")
    await ada.send("BEGIN", {"transaction": "t"})
    await ada.ask("SEND", {"destination": "/queue/T", "transaction": "t", **DELAY}, b"later")
    since = Since()
    await ada.send("COMMIT", {"transaction": "t"})
    assert (await ada.expect("MESSAGE")).body == b"later"
    assert since.long_enough()


@pytest.mark.parametrize("delay", [False, True])
async def test_times_of_the_clock_are_what_they_are_however_late_commit_comes(
    site: BrokerSite, delay: bool
) -> None:
    with Wire(site, "1.2", StompSettings()) as wire:
        wire.give(encode("CONNECT", {"accept-version": "1.2"}))
        wire.give(encode("SUBSCRIBE", {"id": "0", "destination": "/queue/T", "receipt": "s"}))
        assert [(await wire.frame()).command for _ in range(2)] == ["CONNECTED", "RECEIPT"]
        ends_ms = wire.now_ms + 90_000
        headers = {"destination": "/queue/T", "transaction": "t", "expires": str(ends_ms)}
        if delay:
            headers["_AMQ_SCHED_DELIVERY"] = str(wire.now_ms + 60_000)
        wire.give(encode("BEGIN", {"transaction": "t"}), encode("SEND", headers))
        wire.now_ms += 60_000
        wire.give(encode("COMMIT", {"transaction": "t"}))
        message = await wire.frame()
        assert float(message.headers["timeout"]) <= 30
        assert int(message.headers["expires"]) <= ends_ms


@pytest.mark.parametrize("kind", ["topic", "queue"])
async def test_it_waits_where_it_was_sent_and_goes_to_other_sites_then(tmp_path: Path, kind: str) -> None:
    async with clients(tmp_path) as (alpha, _, sender, receiver):
        await receiver.subscribe(f"/{kind}/T")
        await alpha.wanted("ALL" if kind == "topic" else "ONE", "T", within=1)
        headers = {"destination": f"/{kind}/T", "depth": "-1", "timeout": "6000"}
        await sender.ask("SEND", {**headers, **HOUR}, b"in an hour")
        await sender.ask("SEND", headers, b"now")
        assert (await receiver.expect("MESSAGE")).body == b"now"
        since = Since()
        await sender.ask("SEND", {**headers, **DELAY}, b"later")
        later = await receiver.expect("MESSAGE")
        assert (later.body, since.long_enough()) == (b"later", True)
        assert float(later.headers["timeout"]) <= 6000 - DELAY_S


@pytest.mark.kill
async def test_a_site_that_is_killed_remembers_it(tmp_path: Path) -> None:
    port = free_port()
    config = make_stomp_site(tmp_path, port)
    path = stomp_environment(tmp_path)["PYTHONPATH"]
    since = Since()
    async with daemon(config, PYTHONPATH=path) as running, client_of(port) as client:
        await client.ask("SEND", {"destination": "/queue/T", **DELAY}, b"later")
        running.process.kill()
        await running.process.wait()
    async with daemon(config, PYTHONPATH=path), client_of(port) as client:
        await client.subscribe("/queue/T")
        assert (await client.expect("MESSAGE")).body == b"later"
        assert since.long_enough()
