"""Pubsub items of 100 bytes, from publish to notification: ours beside the XMPP servers' own, persistent.

    python -m tests.bench.xmpp [--items 1000] [--rounds 3] [--outstanding 50] [--json]

One publisher keeps so many publications unanswered, one subscriber counts notifications; both are real
clients of the same Prosody or ejabberd. Ours is a component of that server, in a process of its own, on a
plain node, and answers a publication once it is on disk. Prosody's and ejabberd's nodes keep their items
(`pubsub#persist_items`). Medians of interleaved rounds; latency is of one item at a time.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import trio

from plugins.xmpp.namespaces import PUBSUB
from tests.support.process import daemon
from tests.support.xmpp_real import make, python_path
from tests.support.xmpp_servers import (
    COMPONENT_NAME,
    OWN_PUBSUB,
    RealClient,
    RealServer,
    connected,
    installed,
)

PAYLOAD = f"<example xmlns='urn:xmpp:example'>{'x' * 100}</example>"
LATENCIES = 50


def form(form_type: str, **values: str) -> str:
    fields = "".join(f"<field var='{var}'><value>{value}</value></field>" for var, value in values.items())
    hidden = f"<field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#{form_type}</value></field>"
    return f"<x xmlns='jabber:x:data' type='submit'>{hidden}{fields}</x>"


async def prepare(owner: RealClient, subscriber: RealClient, service: str, node: str) -> None:
    config = {"pubsub#persist_items": "1"}
    if service == COMPONENT_NAME:
        config = {"{urn:smqp:xmpp:0}queueing": "0"}
    elif service == OWN_PUBSUB:
        config |= {"pubsub#max_items": "10000", "pubsub#access_model": "open"}
    create = f"<create node='{node}'/><configure>{form('node_config', **config)}</configure>"
    with trio.fail_after(30):
        while True:
            text = f"<pubsub xmlns='{PUBSUB}'>{create}</pubsub>"
            answer = await owner.iq("set", text, id="create", to=service)
            if answer.get("type") == "result":
                break
            # the component may not be connected yet
            assert answer.find(".//{urn:ietf:params:xml:ns:xmpp-stanzas}forbidden") is None, service
            await trio.sleep(0.1)
    text = f"<pubsub xmlns='{PUBSUB}'><subscribe node='{node}' jid='{subscriber.jid}'/></pubsub>"
    answer = await subscriber.iq("set", text, id="subscribe", to=service)
    assert answer.get("type") == "result", [child.tag for child in answer.iter()]


async def publish(client: RealClient, service: str, node: str, id: str) -> None:
    item = f"<publish node='{node}'><item id='{id}'>{PAYLOAD}</item></publish>"
    await client.send(
        f"<iq type='set' id='{id}' to='{service}'><pubsub xmlns='{PUBSUB}'>{item}</pubsub></iq>"
    )


async def rate(
    publisher: RealClient, subscriber: RealClient, service: str, node: str, items: int, outstanding: int
) -> float:
    """Items a second until all are answered and all have been notified."""
    room = trio.Semaphore(outstanding)

    async def answers() -> None:
        for _ in range(items):
            answer = await publisher.receive()
            assert answer.get("type") == "result"
            room.release()

    async def notifications() -> None:
        seen = 0
        while seen < items:
            stanza = await subscriber.receive()
            seen += sum(1 for _ in stanza.iter(f"{{{PUBSUB}#event}}item"))

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answers)
        nursery.start_soon(notifications)
        for number in range(items):
            await room.acquire()
            await publish(publisher, service, node, f"r{number}")
    return items / (time.perf_counter() - began)


async def latency_ms(publisher: RealClient, subscriber: RealClient, service: str, node: str) -> float:
    """From sending one item to its notification."""
    times = []
    for number in range(LATENCIES):
        began = time.perf_counter()
        await publish(publisher, service, node, f"l{number}")
        while not list((await subscriber.receive()).iter(f"{{{PUBSUB}#event}}item")):
            continue
        times.append((time.perf_counter() - began) * 1000)
        await publisher.receive()
    return statistics.median(times)


async def measure(name: str, directory: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Ours and the server's own, in turn."""
    server = RealServer(name, directory / "server")
    rates: dict[str, list[float]] = {"smqpd": [], name: []}
    latencies: dict[str, list[float]] = {"smqpd": [], name: []}
    services = {"smqpd": COMPONENT_NAME, name: OWN_PUBSUB}
    try:
        await server.start()
        await server.register()
        async with AsyncExitStack() as stack:
            config = make(directory / "site", server)
            await stack.enter_async_context(daemon(config, PYTHONPATH=python_path(directory)))
            nursery = await stack.enter_async_context(trio.open_nursery())
            publisher = await connected(server.c2s, nursery, "ada", "p")
            subscriber = await connected(server.c2s, nursery, "bob", "s")
            for service in services.values():
                await prepare(publisher, subscriber, service, "bench")
            for _ in range(options.rounds):
                for label, service in services.items():
                    items = options.items
                    latencies[label].append(await latency_ms(publisher, subscriber, service, "bench"))
                    rates[label].append(
                        await rate(publisher, subscriber, service, "bench", items, options.outstanding)
                    )
            nursery.cancel_scope.cancel()
    finally:
        server.kill()
    return {
        label: {
            "items_per_s": round(statistics.median(rates[label])),
            "latency_ms": round(statistics.median(latencies[label]), 2),
        }
        for label in services
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {}
    for name in filter(installed, ("prosody", "ejabberd")):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o700)
            results[name] = trio.run(measure, name, Path(directory), options)
    if options.json:
        print(json.dumps(results))
        return
    for name, peers in results.items():
        for label, figures in peers.items():
            shown = (
                "as its component, every item on disk" if label == "smqpd" else "its own pubsub, persistent"
            )
            print(
                f"{name:9} {label:9} {figures['items_per_s']:6} items/s {figures['latency_ms']:7} ms  {shown}"
            )


if __name__ == "__main__":
    main()
