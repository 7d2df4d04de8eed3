"""Three real daemons in a row, linked by mutual TLS; the one in the middle is killed under load."""

import math
import signal
from collections import Counter
from pathlib import Path

import trio

from routing.message import Message, Section
from tests.support.linked import LinkedSite, linked, linked_sites
from tests.support.process import PATIENCE_S, daemon

MESSAGES = 300
KILLS = 3


async def test_a_site_in_the_middle_that_is_killed_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    alpha, beta, gamma = linked_sites(tmp_path, ("alpha", "beta", "gamma"))
    alpha.link(beta)
    beta.link(gamma)
    read_once: Counter[str] = Counter()
    finished = trio.Event()

    async def read() -> None:
        async with gamma.client("reader") as client:
            await client.subscribe("weather")
            async for delivery in client:
                await client.commit([delivery])
                read_once[delivery.message.sections[0].body.decode()] += 1
                if len(read_once) == MESSAGES:
                    finished.set()

    async def publish() -> None:
        async with alpha.client("publisher") as client:
            for number in range(MESSAGES):
                body = Section("text/plain", str(number).encode())
                message = Message(depth=2, timeout_s=math.inf, sections=(body,))
                await client.publish("weather", message)
                await trio.sleep(0.005)

    async def middle() -> None:
        for _ in range(KILLS):
            async with daemon(beta.config) as running:
                await linked(beta, "alpha")
                await trio.sleep(0.3)
                running.signal(signal.SIGKILL)
                await running.process.wait()
        async with daemon(beta.config):
            await trio.sleep_forever()

    with trio.fail_after(PATIENCE_S):
        async with daemon(alpha.config), daemon(gamma.config), trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(middle)
            nursery.start_soon(publish)
            await finished.wait()
            await trio.to_thread.run_sync(commands_show_the_link, alpha)
            nursery.cancel_scope.cancel()
    assert set(read_once.values()) == {1}


def commands_show_the_link(site: LinkedSite) -> None:
    [status] = site.asked("peers")
    assert status["peer"] == "beta"
    [to_all] = [route for route in site.asked("routes", "weather") if route["kind"] == "ALL"]
    assert (to_all["peer"], to_all["distance"], to_all["allowed"]) == ("beta", 2, True)
    assert site.asked("routes", "nowhere")[0]["distance"] is None
