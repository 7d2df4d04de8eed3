"""Pubsub items of 100 bytes, from publish to notification: ours beside the XMPP servers' own, persistent.

    python -m tests.bench.xmpp [--items 1000] [--rounds 3] [--outstanding 50] [--json]

One publisher keeps so many publications unanswered, one subscriber counts notifications; both are real
clients of the same Prosody or ejabberd. Ours is a component of that server, in a process of its own, on a
plain node, and answers a publication once it is on disk. Prosody's and ejabberd's nodes keep their items
(`pubsub#persist_items`). Medians of interleaved rounds; latency is of one item at a time. CPU is of one
item at full rate, user and system, of each process by itself; `syncs` counts what the kernel was asked to
put on disk (`--syncs`, which needs strace and slows everything down).
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import trio

from plugins.xmpp.wire.namespaces import PUBSUB
from tests.bench.daemon import TICK_S
from tests.support.process import daemon
from tests.support.xmpp_real import make_xmpp_site, python_path
from tests.support.xmpp_servers import COMPONENT_NAME, OWN_PUBSUB, RealClient, RealServer, installed

PAYLOAD = f"<example xmlns='urn:xmpp:example'>{'x' * 100}</example>"
LATENCIES = 50
NODE = "bench"


class Counter(RealClient):
    """A client that costs next to nothing while it counts: a `mark` in the bytes that come is one of them."""

    def __init__(self, stream: trio.abc.Stream, mark: bytes) -> None:
        super().__init__(stream)
        self.counting = False
        self.seen = 0
        self._mark = mark
        self._tail = b""
        self._more = trio.Event()

    async def _next(self) -> Any:
        while self.counting or not self._events:
            data = await self._stream.receive_some(65_536)
            if self.counting:
                self._count(bytes(data))
            else:
                self._events += self._parser.feed(data)
        return await super()._next()

    def _count(self, data: bytes) -> None:
        assert data, "the server closed the connection"
        assert b"error" not in data, data
        data = self._tail + data
        self.seen += data.count(self._mark)
        self._tail = data[max(data.rfind(self._mark) + len(self._mark), len(data) - len(self._mark) + 1) :]
        more, self._more = self._more, trio.Event()
        more.set()

    async def has_seen(self, count: int) -> None:
        """Wait for so many."""
        while self.seen < count:
            await self._more.wait()


def cpu_s(pid: int) -> float:
    """What a process and those that it started have used, if they share its session."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == pid or int(fields[3]) == pid:
            total += (int(fields[11]) + int(fields[12])) * TICK_S
    return total


def form(form_type: str, **values: str) -> str:
    fields = "".join(f"<field var='{var}'><value>{value}</value></field>" for var, value in values.items())
    hidden = f"<field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#{form_type}</value></field>"
    return f"<x xmlns='jabber:x:data' type='submit'>{hidden}{fields}</x>"


async def prepare(owner: RealClient, subscriber: RealClient, service: str) -> None:
    config = {"pubsub#persist_items": "1"}
    if service == COMPONENT_NAME:
        config = {"{urn:smqp:xmpp:0}queueing": "0"}
    elif service == OWN_PUBSUB:
        config |= {"pubsub#max_items": "10000", "pubsub#access_model": "open"}
    create = f"<create node='{NODE}'/><configure>{form('node_config', **config)}</configure>"
    with trio.fail_after(30):
        while True:
            text = f"<pubsub xmlns='{PUBSUB}'>{create}</pubsub>"
            answer = await owner.iq("set", text, id="create", to=service)
            if answer.get("type") == "result":
                break
            # the component may not be connected yet
            assert answer.find(".//{urn:ietf:params:xml:ns:xmpp-stanzas}forbidden") is None, service
            await trio.sleep(0.1)
    text = f"<pubsub xmlns='{PUBSUB}'><subscribe node='{NODE}' jid='{subscriber.jid}'/></pubsub>"
    answer = await subscriber.iq("set", text, id="subscribe", to=service)
    assert answer.get("type") == "result", [child.tag for child in answer.iter()]


def publication(service: str, id: str) -> str:
    item = f"<publish node='{NODE}'><item id='{id}'>{PAYLOAD}</item></publish>"
    return f"<iq type='set' id='{id}' to='{service}'><pubsub xmlns='{PUBSUB}'>{item}</pubsub></iq>"


async def rate(publisher: Counter, subscriber: Counter, service: str, items: int, outstanding: int) -> float:
    """Items a second until all are answered and all have been notified."""
    texts = [publication(service, f"r{number}") for number in range(items)]
    answered, notified = publisher.seen, subscriber.seen
    began = time.perf_counter()
    sent = 0
    while sent < items:
        room = outstanding - (sent - (publisher.seen - answered))
        if room > 0:
            await publisher.send("".join(texts[sent : sent + room]))
            sent = min(sent + room, items)
        await publisher.has_seen(answered + sent - outstanding + 1)
    await publisher.has_seen(answered + items)
    await subscriber.has_seen(notified + items)
    return items / (time.perf_counter() - began)


async def latency_ms(publisher: Counter, subscriber: Counter, service: str) -> float:
    """From sending one item to its notification."""
    times = []
    for number in range(LATENCIES):
        text, before, answered = publication(service, f"l{number}"), subscriber.seen, publisher.seen
        began = time.perf_counter()
        await publisher.send(text)
        await subscriber.has_seen(before + 1)
        times.append((time.perf_counter() - began) * 1000)
        await publisher.has_seen(answered + 1)
    return statistics.median(times)


@contextmanager
def syncs(pid: int, counted: list[int], *, wanted: bool) -> Iterator[Any]:
    """Count what a process asks to be put on disk."""
    if not wanted:
        yield
        return
    command = ["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-p", str(pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    try:
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        report = tracer.communicate()[1]
        found = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) .*sync$", report, re.MULTILINE)
        counted.append(sum(map(int, found)))


async def logged_in(server: RealServer, nursery: trio.Nursery, user: str, mark: bytes) -> Counter:
    client = Counter(await trio.open_tcp_stream("127.0.0.1", server.c2s), mark)
    await client.log_in(user, "bench")
    nursery.start_soon(client.run)
    return client


async def measure(name: str, directory: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Ours and the server's own, in turn."""
    server = RealServer(name, directory / "server")
    services = {"smqpd": COMPONENT_NAME, name: OWN_PUBSUB}
    found: dict[str, dict[str, list[float]]] = {label: {} for label in services}
    try:
        await server.start()
        await server.register()
        async with AsyncExitStack() as stack:
            config = make_xmpp_site(directory / "site", server)
            running = await stack.enter_async_context(daemon(config, PYTHONPATH=python_path(directory)))
            nursery = await stack.enter_async_context(trio.open_nursery())
            publisher = await logged_in(server, nursery, "ada", b"<iq ")
            subscriber = await logged_in(server, nursery, "bob", b"<event ")
            for service in services.values():
                await prepare(publisher, subscriber, service)
            publisher.counting = subscriber.counting = True
            pids = {"smqpd": running.process.pid, "server": server.pid, "clients": os.getpid()}
            for _ in range(options.rounds):
                for label, service in services.items():
                    figures, items = found[label], options.items
                    latency = await latency_ms(publisher, subscriber, service)
                    figures.setdefault("latency_ms", []).append(latency)
                    before = {who: cpu_s(pid) for who, pid in pids.items()}
                    counted: list[int] = []
                    traced = pids["smqpd" if label == "smqpd" else "server"]
                    with syncs(traced, counted, wanted=options.syncs):
                        reached = await rate(publisher, subscriber, service, items, options.outstanding)
                    figures.setdefault("items_per_s", []).append(reached)
                    for who, pid in pids.items():
                        used = (cpu_s(pid) - before[who]) / items * 1e6
                        figures.setdefault(f"{who}_cpu_us", []).append(used)
                    for count in counted:
                        figures.setdefault("syncs", []).append(count)
            nursery.cancel_scope.cancel()
    finally:
        server.kill()
    return {
        label: {figure: round(statistics.median(values), 2) for figure, values in figures.items()}
        for label, figures in found.items()
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=50)
    parser.add_argument("--servers", default="prosody,ejabberd")
    parser.add_argument("--syncs", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {}
    for name in filter(installed, options.servers.split(",")):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o700)
            results[name] = trio.run(measure, name, Path(directory), options)
    if options.json:
        print(json.dumps(results))
        return
    for name, peers in results.items():
        for label, figures in peers.items():
            shown = "as its component" if label == "smqpd" else "its own pubsub"
            cpu = ", ".join(f"{who} {figures[f'{who}_cpu_us']:.0f}" for who in ("smqpd", "server", "clients"))
            synced = f"  {figures['syncs']:.0f} syncs" if "syncs" in figures else ""
            print(
                f"{name:9} {shown:17} {figures['items_per_s']:6.0f} items/s {figures['latency_ms']:7.2f} ms"
                f"  µs CPU an item: {cpu}{synced}"
            )


if __name__ == "__main__":
    main()
