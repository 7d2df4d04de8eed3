"""`smqpd ping`, `trace TOPIC` and `why --ask-peers` over three real daemons in a row."""

import signal
from pathlib import Path

import trio

from routing.message import Message, Section
from tests.support.linked_sites import Site, linked, make_sites
from tests.support.process import PATIENCE_S, daemon

RUN = trio.to_thread.run_sync


async def known(site: Site, topic: str) -> None:
    """Wait until the site knows the way to somebody who wants a topic two links away."""
    while True:
        routes = await RUN(site.asked, "routes", topic)
        if any(route["distance"] == 2 for route in routes):
            return
        await trio.sleep(0.05)


async def test_the_commands_tell_of_sites_that_are_no_neighbours(tmp_path: Path) -> None:
    alpha, beta, gamma = make_sites(tmp_path, "alpha", "beta", "gamma")
    alpha.link(beta)
    beta.link(gamma)
    with trio.fail_after(PATIENCE_S):
        async with daemon(alpha.config) as a, daemon(beta.config) as b, daemon(gamma.config) as last:
            await linked(a, "beta")
            await linked(b, "gamma")
            async with gamma.client("reader") as reader, alpha.client("writer") as writer:
                await reader.subscribe("weather")
                await known(alpha, "weather")

                await RUN(a_ping_shows_the_way_and_its_times, alpha)
                await RUN(a_trace_shows_each_hop_and_delivers_nothing, alpha)

                rain = Message(depth=2, sections=(Section("text/plain", b"rain"),))
                smuid = await writer.publish("weather", rain)
                async for delivery in reader:
                    assert delivery.message.sections[0].body == b"rain"  # and not the probe
                    await reader.commit([delivery])
                    break
                await RUN(the_way_of_a_message_is_told_at_any_site, beta, str(smuid))

            last.signal(signal.SIGKILL)
            await last.process.wait()
            await down(beta)
            await RUN(what_cannot_be_reached_is_named, alpha, str(smuid))
    no_daemon_is_another_exit_code(alpha)


def a_ping_shows_the_way_and_its_times(site: Site) -> None:
    code, out, _ = site.command("ping", "gamma", "--count", "2", "--interval", "0.02")
    assert code == 0
    assert "2 links: alpha > beta > gamma" in out
    assert "gamma: 2 sent, 2 answered, 0 % lost; round trip " in out
    told = site.asked("ping", "gamma", "--count", "1")
    assert (told["sent"], told["answered"], told["probes"][0]["hops"]) == (1, 1, ["alpha", "beta", "gamma"])
    assert told["least_s"] == told["mean_s"] == told["most_s"] > 0


def a_trace_shows_each_hop_and_delivers_nothing(site: Site) -> None:
    code, out, _ = site.command("trace", "weather")
    assert code == 0
    assert [line.split(" ms  ")[1].split("  ")[0] for line in out.splitlines()[:-1]] == [
        "alpha",
        "alpha > beta",
        "beta > gamma",
    ]
    assert "3 sites, 1 subscription, in " in out
    told = site.asked("trace", "topic", "weather", "--depth", "1")
    assert (told["sites"], told["subscriptions"], told["unanswered"]) == (["alpha"], 0, [])


def the_way_of_a_message_is_told_at_any_site(site: Site, smuid: str) -> None:
    code, out, _ = site.command("why", smuid, "--ask-peers")
    assert code == 0
    assert "Published by admin:writer@alpha." in out
    assert "committed by admin:reader@gamma" in out
    way = site.asked("why", smuid, "--ask-peers")["journey"]
    stops = [way["began"]]
    while stops[-1]["beyond"]:
        stops += stops[-1]["beyond"]
    assert [stop["server"] for stop in stops] == ["alpha", "beta", "gamma"]
    assert all(stop["link_us"] >= 0 for stop in stops[1:])
    assert way["gaps"] == []


def what_cannot_be_reached_is_named(site: Site, smuid: str) -> None:
    code, out, why = site.command("ping", "gamma", "--count", "1")
    assert code == 1
    assert "1 sent, 0 answered, 100 % lost" in out
    assert why.startswith("gamma is not reached: at beta: gamma: the link is down (")
    code, out, _ = site.command("why", smuid, "--ask-peers")
    assert code == 0
    assert "gamma: beta could not ask it: the link is down (" in out
    assert site.command("ping", "Not A Server")[0] == 2
    assert site.command("trace", "not a topic")[0] == 2
    assert site.command("why", "nonsense", "--ask-peers")[0] == 2


def no_daemon_is_another_exit_code(site: Site) -> None:
    for words in (("ping", "beta"), ("trace", "weather"), ("why", "alpha/01a1fe3aed21-1-1", "--ask-peers")):
        code, _, why = site.command(*words)
        assert (code, why.partition(" in ")[0]) == (3, "no daemon answers")


async def down(site: Site) -> None:
    """Wait until the site knows that the link is down."""
    while (await RUN(site.asked, "peers", "--only-down")) == []:
        await trio.sleep(0.05)
