"""STOMP at one site, STOMP at another two hops away."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon.frontend import Limits
from plugins.stomp.codec import VERSIONS
from plugins.stomp.settings import StompSettings
from tests.plugins.stomp.test_across_protocols import EVERY_BYTE, everything
from tests.support.federated import federated_site
from tests.support.links import MemoryNetwork
from tests.support.site import BrokerSite
from tests.support.stomp import stomp_server

CHAIN = {"alpha": ["beta"], "beta": ["alpha", "gamma"], "gamma": ["beta"]}


@asynccontextmanager
async def clients(
    directory: Any, depth: int = 0, version: str = "1.2", limits: Limits | None = None
) -> AsyncIterator[Any]:
    """The sites at both ends, and a client that is logged in at each."""
    network = MemoryNetwork()
    async with AsyncExitStack() as stack:
        sites = [
            await stack.enter_async_context(federated_site(network, directory, name, peers, limits=limits))
            for name, peers in CHAIN.items()
        ]
        for site in sites:
            await site.linked(*CHAIN[site.name])
        logged_in = []
        for site in (sites[0], sites[2]):
            broker_site = BrokerSite(site.broker, site.name)
            settings = StompSettings(depth=depth)
            connect = await stack.enter_async_context(stomp_server(broker_site, settings))
            client = connect(version)
            await client.connect()
            logged_in.append(client)
        yield sites[0], sites[2], *logged_in


@pytest.mark.parametrize("kind", ["topic", "queue"])
async def test_a_pattern_brings_what_is_sent_two_sites_away(tmp_path: Path, kind: str) -> None:
    async with clients(tmp_path, depth=-1) as (alpha, _, sender, receiver):
        await receiver.subscribe(f"/{kind}/weather.>", ack="client-individual")
        await alpha.wanted("ALL" if kind == "topic" else "ONE", "weather.#", within=1)
        for topic in ("weather", "news", "weather.oslo"):
            await sender.ask("SEND", {"destination": f"/{kind}/{topic}"})
        messages = [
            await receiver.expect("MESSAGE", destination=f"/{kind}/{topic}", hops="alpha,beta")
            for topic in ("weather", "weather.oslo")
        ]
        for message in messages:
            await receiver.ask("ACK", {"id": message.headers["ack"]})


async def test_the_longest_body_arrives_beside_headers_that_become_longer(tmp_path: Path) -> None:
    """A line end is none that SMQP has in a header: all of the value is percent-encoded."""
    limits = Limits(message_bytes_max=100_000)
    async with clients(tmp_path, depth=-1, limits=limits) as (alpha, _, sender, receiver):
        await receiver.subscribe("/queue/maps", ack="client-individual")
        await alpha.wanted("ONE", "maps", within=1)
        headers = {"destination": "/queue/maps", "content-length": "100000"}
        headers |= {f"legend-{number}": "\n" + "é" * 7_900 for number in range(4)}
        await sender.ask("SEND", headers, b"x" * 100_000)
        message = await receiver.expect("MESSAGE", hops="alpha,beta")
        assert message.body == b"x" * 100_000
        assert message.headers["legend-3"] == headers["legend-3"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["topic", "queue"])
async def test_all_headers_and_every_byte_arrive_as_they_were_sent(
    tmp_path: Path, kind: str, version: str
) -> None:
    async with clients(tmp_path, version=version) as (alpha, _, sender, receiver):
        destination = f"/{kind}/weather"
        await receiver.subscribe(destination, ack="client-individual")
        delivery = "ALL" if kind == "topic" else "ONE"
        await alpha.wanted(delivery, "weather", within=1)
        headers = everything(version) | {
            "destination": destination,
            "content-length": "256",
            "depth": "5",
            "delivery": delivery,
            "persistent": "true",
            "timeout": "INFINITE" if kind == "topic" else "3600",
        }
        await sender.ask("SEND", headers, EVERY_BYTE)
        message = await receiver.expect("MESSAGE", hops="alpha,beta", account="ada:stomp@alpha")
        assert message.body == EVERY_BYTE
        changed = {"depth": "3"}
        if kind == "queue":
            left_s = float(message.headers["timeout"])
            assert 0 < left_s < 3600
            changed["timeout"] = message.headers["timeout"]
        expected = headers | changed
        assert {name: message.headers.get(name) for name in expected} == expected
        assert message.headers["smuid"].startswith("alpha/")
        name = {"id": message.headers["ack"]} if version == "1.2" else {}
        await receiver.ask("ACK", {"message-id": message.headers["message-id"], "subscription": "0", **name})


async def test_a_site_may_say_how_far_goes_what_does_not_say_so_itself(tmp_path: Path) -> None:
    async with clients(tmp_path, depth=-1) as (alpha, _, sender, receiver):
        await receiver.subscribe("/topic/weather")
        await alpha.wanted("ALL", "weather", within=1)
        await sender.ask("SEND", {"destination": "/topic/weather", "depth": "0"}, b"here")
        await sender.ask("SEND", {"destination": "/topic/weather"}, b"everywhere")
        message = await receiver.expect("MESSAGE", depth="-1")
        assert message.body == b"everywhere"


async def test_a_request_is_answered_over_two_hops(tmp_path: Path) -> None:
    async with clients(tmp_path) as (alpha, gamma, asker, answerer):
        await answerer.subscribe("/queue/questions")
        await alpha.wanted("ONE", "questions", within=1)
        await gamma.wanted("SERVER", "alpha", within=1)
        await asker.ask(
            "SEND",
            {"destination": "/queue/questions", "reply-to": "/temp-queue/answers", "depth": "-1"},
            b"What is the weather?",
        )
        question = await answerer.expect("MESSAGE")
        answer_to = {"destination": question.headers["reply-to"], "content-length": "256"}
        await answerer.send("SEND", answer_to, EVERY_BYTE)
        answer = await asker.expect("MESSAGE")
        assert answer.body == EVERY_BYTE
        assert answer.headers["destination"] == "/temp-queue/answers"


async def test_a_receipt_from_all_sites_comes_to_the_sender(tmp_path: Path) -> None:
    async with clients(tmp_path) as (alpha, _, sender, receiver):
        await receiver.subscribe("/topic/weather")
        await alpha.wanted("ALL", "weather", within=1)
        await sender.subscribe("ada:stomp@alpha", id="receipts")
        await sender.send(
            "SEND",
            {"destination": "/topic/weather", "depth": "-1", "smqp-receipt": "ALL", "guarantee": "YES"},
            b"rain",
        )
        await receiver.expect("MESSAGE")
        receipt = await sender.expect("MESSAGE", subscription="receipts")
        assert receipt.body == b"1/1"
