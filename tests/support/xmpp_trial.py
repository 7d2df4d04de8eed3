"""Workers and a publisher that live through kills of everything, at one site or two.

    python -m tests.support.xmpp_trial --rounds 10 --server prosody

Two sites share a queue; each is the component of an XMPP server of its own, with two workers. Items are
published assured at the first, with a Depth, so that they go to whoever works on them. In each round one
site's workers go and come back, its XMPP server is killed, and the other's daemon. In the end each item was
worked on once, and nothing is among the dead letters.
"""

import argparse
import signal
import tempfile
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import trio

from daemon.certificates.authority import Authority
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from plugins.xmpp.wire.namespaces import PUBSUB, QOS, SMQP
from tests.support.forked import Forked
from tests.support.keys import write_keys
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.process import Daemon, daemon, inherited
from tests.support.xmpp_real import make_xmpp_site, python_path, ready
from tests.support.xmpp_servers import COMPONENT_NAME, RealClient, RealServer, log_in
from tests.support.xmpp_worker import LOG_IN_AGAIN_S, NODE, Journal, read_journal

ITEMS: Final = 12
"""Published in each round."""

LOST: Final = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.TooSlowError,
    trio.EndOfChannel,
)
SITES: Final = ("alpha.example", "beta.example")


class WorkerProcess:
    """See `tests.support.xmpp_worker`."""

    def __init__(self, port: int, number: int, directory: Path) -> None:
        self.journal = directory / f"journal-{number}"
        self._log = directory / f"worker-{number}.log"
        self._arguments = ["-m", "tests.support.xmpp_worker", str(port), f"w{number}", str(self.journal)]
        self._process: Forked | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = Forked.start(
                self._arguments, env=inherited(), stdin=0, stdout=1, stderr=log.fileno()
            )

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            with trio.CancelScope(shield=True):
                await self._process.wait()

    def is_ready(self) -> bool:
        return self.journal.exists() and self.read().subscribed

    def read(self) -> Journal:
        return read_journal(self.journal)

    def __repr__(self) -> str:
        journal = self.journal.read_text() if self.journal.exists() else "nothing"
        return f"{self.journal.name}:\n{journal}\nits log:\n{self._log.read_text()[-4000:]}"


class AssuredPublisher:
    """Sends each item assured, repeats each step until it is answered, and connects again."""

    def __init__(self, port: int, headers: str = "") -> None:
        self.published: list[str] = []
        self.wanted = 0
        self._port = port
        self._headers = headers
        self._client: RealClient | None = None

    def __repr__(self) -> str:
        return f"{len(self.published)} of {self.wanted} are published; the connection is {self._client}"

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                if len(self.published) == self.wanted:
                    await trio.sleep(0.01)
                    continue
                item = f"item-{len(self.published)}"
                content = f"<item id='{item}'><a xmlns='urn:a'/>{self._headers}</item>"
                publish = f"<pubsub xmlns='{PUBSUB}'><publish node='{NODE}'>{content}</publish></pubsub>"
                message = f"<message xmlns='jabber:client'>{publish}</message>"
                for step, text in (
                    ("a", f"<assured xmlns='{QOS}' msgId='{item}'>{message}</assured>"),
                    ("d", f"<deliver xmlns='{QOS}' msgId='{item}'/>"),
                ):
                    iq = f"<iq type='set' id='{step}-{item}' to='{COMPONENT_NAME}'>{text}</iq>"
                    while not await self._answered(nursery, iq, f"{step}-{item}"):
                        await trio.sleep(0.1)
                self.published.append(item)

    async def _answered(self, nursery: trio.Nursery, iq: str, id: str) -> bool:
        try:
            if self._client is None:
                client = RealClient(await trio.open_tcp_stream("127.0.0.1", self._port))
                with trio.fail_after(LOG_IN_AGAIN_S):
                    await client.log_in("ada", "p")
                nursery.start_soon(client.run)
                self._client = client
            await self._client.send(iq)
            with trio.move_on_after(1):
                return (await self._client.answer(id)).get("type") == "result"
        except (*LOST, AssertionError):
            self._client = None
        return False


class Side:
    """One site, its XMPP server, and two workers."""

    def __init__(self, name: str, server: RealServer, number: int, directory: Path) -> None:
        self.name = name
        self.server = server
        self.config = make_xmpp_site(directory / name, server, name)
        self.path = python_path(directory / f"path-{number}")
        self.workers = [WorkerProcess(server.c2s, 2 * number + each, directory) for each in range(2)]
        self.running: Daemon | None = None

    def __repr__(self) -> str:
        return f"{self.name} logged:\n{self.running.log[-8000:] if self.running else ''}"

    async def run(self, stack: AsyncExitStack) -> None:
        self.running = await stack.enter_async_context(daemon(self.config, PYTHONPATH=self.path))

    async def kill_daemon(self, stack: AsyncExitStack) -> None:
        assert self.running is not None
        self.running.signal(signal.SIGKILL)
        await self.running.exit_code()
        await self.run(stack)

    async def kill_server(self) -> None:
        self.server.kill()
        await self.server.start()
        await self.server.register()

    async def dead_letters(self, nursery: trio.Nursery) -> list[str]:
        """The ids of those of the queue."""
        client = await log_in(self.server.c2s, nursery, "ada", "looks")
        await ready(client)
        answer = await client.iq("get", f"<pubsub xmlns='{PUBSUB}'><items node='dead.{NODE}'/></pubsub>")
        return [item.get("id", "") for item in answer.iter(f"{{{PUBSUB}}}item")]


def link(sides: list[Side], directory: Path) -> None:
    """Join two sites."""
    authority = Authority.create(directory / "ca", "test", 365, datetime.now(UTC))
    port = free_port()
    for side, listen in zip(sides, (f'listen = ["127.0.0.1:{port}"]\n', ""), strict=True):
        write_keys(authority, side.name, side.config.parent / "keys", datetime.now(UTC))
        back_off = "back_off_first_s = 0.05\nback_off_max_s = 0.3\n"
        text = side.config.read_text().replace("[links]\n", f"[links]\n{listen}{back_off}")
        side.config.write_text(text)
    one, other = sides
    add_peer(one.config.parent / "peers.toml", PeerEntry(name=other.name))
    add_peer(other.config.parent / "peers.toml", PeerEntry(name=one.name, address=f"127.0.0.1:{port}"))


async def two_sites(servers: list[RealServer], directory: Path, rounds: int) -> tuple[int, int]:
    """How many items there were, and how many of them went to the second site. Raises AssertionError."""
    sides = [
        Side(name, server, number, directory)
        for number, (name, server) in enumerate(zip(SITES, servers, strict=True))
    ]
    link(sides, directory)
    workers = [worker for side in sides for worker in side.workers]
    headers = f"<headers xmlns='{SMQP}'><header name='Depth'>-1</header></headers>"
    publisher = AssuredPublisher(servers[0].c2s, headers)
    witnesses = (publisher, *workers, *sides)
    try:
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            for side in sides:
                await side.run(stack)
            for worker in workers:
                worker.start()
            nursery.start_soon(publisher.run)
            await until(lambda: all(worker.is_ready() for worker in workers), *witnesses)
            for round in range(rounds):
                publisher.wanted += ITEMS
                side, other = sides if round % 2 == 0 else sides[::-1]
                await until(lambda: len(publisher.published) > publisher.wanted - ITEMS * 3 // 4, *witnesses)
                for worker in side.workers:
                    await worker.kill()
                await side.kill_server()
                await until(lambda: len(publisher.published) > publisher.wanted - ITEMS // 2, *witnesses)
                await other.kill_daemon(stack)
                await until(lambda: len(publisher.published) > publisher.wanted - ITEMS // 4, *witnesses)
                for worker in side.workers:
                    worker.start()
                print(f"round {round + 1}: {len(publisher.published)} published", flush=True)
            await until(lambda: len(publisher.published) == publisher.wanted, *witnesses)
            await until(
                lambda: sum(len(worker.read().retracted) for worker in workers) >= publisher.wanted,
                *witnesses,
            )
            dead = [id for side in sides for id in await side.dead_letters(nursery)]
            nursery.cancel_scope.cancel()
    finally:
        for worker in workers:
            await worker.kill()
    worked = [item for worker in workers for item in worker.read().worked]
    assert sorted(worked) == sorted(publisher.published), (worked, publisher.published)
    assert not dead, dead
    return len(worked), sum(len(worker.read().worked) for worker in sides[1].workers)


async def main(name: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        servers = [RealServer(name, Path(directory) / f"server-{number}") for number in range(2)]
        try:
            for server in servers:
                await server.start()
                await server.register()
            items, crossed = await two_sites(servers, Path(directory) / "sites", rounds)
        finally:
            for server in servers:
                server.kill()
    print(
        f"{items} items, each worked on once, {crossed} at the second site; no dead letter; {rounds} rounds"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--server", choices=("prosody", "ejabberd"), default="prosody")
    arguments = parser.parse_args()
    trio.run(main, arguments.server, arguments.rounds)
