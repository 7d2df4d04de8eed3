"""`smqpd ping`, `trace TOPIC` and `why --ask-peers` over three real daemons in a row."""

from pathlib import Path

from routing.message import Message, Section
from tests.support.operator import Operator
from tests.support.real_sites import real_sites
from tests.support.trial import destined, known


async def test_the_commands_tell_of_sites_that_are_no_neighbours(tmp_path: Path) -> None:
    async with real_sites(tmp_path, [("alpha", "beta"), ("beta", "gamma")], namespaces=False) as sites:
        alpha, beta = (Operator(sites[name].directory) for name in ("alpha", "beta"))
        async with sites["gamma"].client("reader") as reader, sites["alpha"].client("writer") as writer:
            await reader.subscribe("weather")
            await known(sites["alpha"], sites.pairs)
            await destined(sites["alpha"], "weather", {"gamma": "beta"})

            await a_ping_shows_the_way_and_its_times(alpha)
            await a_trace_shows_each_hop_and_delivers_nothing(alpha)

            rain = Message(depth=2, sections=(Section("text/plain", b"rain"),))
            smuid = await writer.publish("weather", rain)
            async for delivery in reader:
                assert delivery.message.sections[0].body == b"rain"  # and not the probe
                await reader.commit([delivery])
                break
            await the_way_of_a_message_is_told_at_any_site(beta, smuid)

        sites.network.cut("beta", "gamma")
        await sites["beta"].linked("gamma", up=False)
        await what_cannot_be_reached_is_named(alpha, smuid)
        async with sites["beta"].client("writer") as writer:
            smuid = await writer.publish("weather", rain)
            await what_waits_for_a_link_is_said_to(beta, smuid)
        await sites.stop()
    await no_daemon_is_another_exit_code(alpha)


async def a_ping_shows_the_way_and_its_times(site: Operator) -> None:
    code, out, _ = await site.command("ping", "gamma", "--count", "2", "--interval", "0.02")
    assert code == 0
    assert "2 links: alpha > beta > gamma" in out
    assert "gamma: 2 sent, 2 answered, 0 % lost; round trip " in out
    told = await site.asked("ping", "gamma", "--count", "1")
    assert (told["sent"], told["answered"], told["probes"][0]["hops"]) == (1, 1, ["alpha", "beta", "gamma"])
    assert told["least_s"] == told["mean_s"] == told["most_s"] > 0


async def a_trace_shows_each_hop_and_delivers_nothing(site: Operator) -> None:
    code, out, _ = await site.command("trace", "weather")
    assert code == 0
    assert [line.split(" ms  ")[1].split("  ")[0] for line in out.splitlines()[:-1]] == [
        "alpha",
        "alpha > beta",
        "beta > gamma",
    ]
    assert "3 sites, 1 subscription, in " in out
    told = await site.asked("trace", "topic", "weather", "--depth", "1")
    assert (told["sites"], told["subscriptions"], told["unanswered"]) == (["alpha"], 0, [])


async def the_way_of_a_message_is_told_at_any_site(site: Operator, smuid: str) -> None:
    code, out, _ = await site.command("why", smuid, "--ask-peers")
    assert code == 0
    assert "Published by admin:writer@alpha." in out
    assert "committed by admin:reader@gamma" in out
    way = (await site.asked("why", smuid, "--ask-peers"))["journey"]
    stops = [way["began"]]
    while stops[-1]["beyond"]:
        stops += stops[-1]["beyond"]
    assert [stop["server"] for stop in stops] == ["alpha", "beta", "gamma"]
    assert all(stop["link_us"] >= 0 for stop in stops[1:])
    assert way["gaps"] == []


async def what_cannot_be_reached_is_named(site: Operator, smuid: str) -> None:
    code, out, why = await site.command("ping", "gamma", "--count", "1")
    assert code == 1
    assert "1 sent, 0 answered, 100 % lost" in out
    assert why.startswith("gamma is not reached: at beta: gamma: the link is down (")
    assert why.strip().endswith("; see `smqpd peers` at beta")
    code, out, _ = await site.command("why", smuid, "--ask-peers")
    assert code == 1
    assert "gamma: beta could not ask it: the link is down (" in out
    assert (await site.command("ping", "Not A Server"))[0] == 2
    assert (await site.command("trace", "not a topic"))[0] == 2
    assert (await site.command("why", "nonsense", "--ask-peers"))[0] == 2


async def what_waits_for_a_link_is_said_to(site: Operator, smuid: str) -> None:
    _, out, _ = await site.command("why", smuid)
    assert out.endswith(" To be sent to gamma when there is a link with it.\n")
    assert (await site.asked("why", smuid))["awaited"] == [
        {"peer": "gamma", "is_up": False, "may_have": False, "attempt": 0, "sent_us": 0}
    ]


async def no_daemon_is_another_exit_code(site: Operator) -> None:
    for words in (("ping", "beta"), ("trace", "weather"), ("why", "alpha/01a1fe3aed21-1-1", "--ask-peers")):
        code, _, why = await site.command(*words)
        assert (code, why.partition(" in ")[0]) == (3, "no daemon answers")
