"""Crowds of clients at one site: all come back after a restart, or come and go while messages pass.

    python -m tests.crowd back [--clients 2000] [--accounts 1000] [--kill] [--forget | --alone] [--json]
    python -m tests.crowd churn [--clients 1000] [--seconds 120] [--kill-every 30] [--json]

`back`: STOMP clients of that many accounts log in and subscribe, the site is restarted (SIGTERM, or SIGKILL),
and all of them come back the moment it listens. The script is the service manager, and keeps for the site
what systemd keeps; with --forget it keeps nothing, and with --alone there is no service manager. Exit code 1
where one was refused, or hangs.

`churn`: publishers and workers, STOMP and SMQP, that leave without a word in mid-work, leave in good order
and return, while the site is killed. Exit code 1 where a message that was confirmed never came, or one
came again whose acknowledgement was confirmed. Memory is that of the process before it and after it, at rest.
"""

import argparse
import atexit
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, Final

import trio

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from daemon.accounts.passwords import hash_password
from daemon.configuration.discovery import Installed
from daemon.site.directory import make_site
from plugins.smqp.client import Client
from plugins.smqp.connecting import connect
from plugins.smqp.connection import ConnectionLost
from plugins.stomp.codec import Frame
from routing.errors import Refusal
from routing.message import Message, Section
from routing.options import SubscribeOptions
from routing.rights import EVERYTHING
from tests.support.ports import free_ports
from tests.support.stomp import StompClient
from tests.support.stomp_site import ROOT, stomp_environment

ADDRESSES: Final = 4
"""That the clients come from, 127.0.0.1 and on: a site bounds the connections of one."""

HANGS_S: Final = 60.0
FIRST_S: Final = 900.0
"""For the first login of all, when each account's slow hash is verified."""

FIRST_AT_ONCE: Final = 100
"""Clients that log in at a time then, so that none waits for all others before it."""

QUEUE: Final = "crowd"
PASSWORD: Final = "the password of "


class Site:
    """A site and its daemon, with this process as the service manager."""

    def __init__(self, directory: Path, accounts: int, *, keeps: bool, managed: bool = True) -> None:
        """`keeps`: give to a new process what the one before gave to keep; `managed`: be its manager."""
        self.smqp_port, self.port = free_ports(2)
        self.config = make_site(directory, "crowd.example", self.smqp_port, Installed({})).config
        with edit(directory / "accounts.toml") as editor:
            for number in range(accounts):
                phc = hash_password(f"{PASSWORD}{number}")
                editor.add(f"a{number}", Account(password=phc, rights=EVERYTHING))
        with self.config.open("a") as file:
            file.write(f'\n[plugins.smqp]\nlisten = ["127.0.0.1:{self.smqp_port}"]\n')
            file.write(f'\n[plugins.stomp]\nlisten = ["127.0.0.1:{self.port}"]\n')
        self._log = (directory / "log").open("ab")
        self._keeps = keeps
        self._managed = managed
        self._kept: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._manager.bind(str(directory / "notify"))

    def start(self) -> None:
        """Start the daemon, and wait until it is ready."""
        variables = stomp_environment(self.config.parent)
        if self._managed:
            variables["NOTIFY_SOCKET"] = str(self._manager.getsockname())
        command = [sys.executable, "-m", "daemon", str(self.config)]
        if self._kept:
            variables |= {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "passwords"}
            move = f'exec 3<>/proc/self/fd/{self._kept[0]}; LISTEN_PID=$$ exec "$@"'
            command = ["sh", "-c", move, "sh", *command]
        self._process = subprocess.Popen(
            command, env=variables, cwd=ROOT, stdout=self._log, stderr=self._log, pass_fds=self._kept
        )
        atexit.register(self._process.kill)
        told = b"" if self._managed else b"READY=1, or soon"  # clients come again until somebody listens
        while not told.startswith(b"READY=1"):
            told, descriptors, _, _ = socket.recv_fds(self._manager, 4096, 1)
            if self._keeps:
                self._kept += descriptors

    def end(self, number: int) -> None:
        """Stop the daemon by a signal, and wait for its end."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()

    def resident_mib(self) -> float:
        """Memory of the daemon."""
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def logged_in(site: Site, number: int, accounts: int) -> StompClient:
    """A STOMP client that is logged in; comes again until somebody listens."""
    while True:
        sock = trio.socket.socket()
        try:
            await sock.bind((f"127.0.0.{1 + number % ADDRESSES}", 0))
            await sock.connect(("127.0.0.1", site.port))
        except OSError:
            sock.close()
            await trio.sleep(0.05)
            continue
        client = StompClient(trio.SocketStream(sock))
        account = number % accounts
        try:
            await client.connect(login=f"a{account}", passcode=f"{PASSWORD}{account}", client_id=f"c{number}")
        except BaseException:
            sock.close()
            raise
        return client


# -- all come back ----------------------------------------------------------------------------------


class Returns:
    """What became of clients that came back."""

    def __init__(self) -> None:
        self.after_s: list[float] = []
        self.refused: Counter[str] = Counter()
        self.hanging = 0


async def come_back(
    site: Site, number: int, accounts: int, ends: float, found: Returns
) -> StompClient | None:
    """Log in and subscribe."""
    began = trio.current_time()
    with trio.move_on_at(ends):
        try:
            client = await logged_in(site, number, accounts)
            await client.subscribe(f"/queue/of{number}", ack="client")
        except (AssertionError, trio.BrokenResourceError) as error:
            found.refused[str(error)[:100]] += 1
            return None
        found.after_s.append(trio.current_time() - began)
        return client
    found.hanging += 1
    return None


async def all_come(site: Site, given: argparse.Namespace, hangs_s: float, at_once: int) -> Returns:
    """All log in and subscribe; they stay until the last one has, and leave without a word."""
    found, ends = Returns(), trio.current_time() + hangs_s
    clients: list[StompClient] = []
    turn = trio.CapacityLimiter(at_once)

    async def one(number: int) -> None:
        async with turn:
            client = await come_back(site, number, given.accounts, ends, found)
        if client is not None:
            clients.append(client)

    async with trio.open_nursery() as nursery:
        for number in range(given.clients):
            nursery.start_soon(one, number)
    for client in clients:
        await trio.aclose_forcefully(client.stream)
    return found


async def back(directory: Path, given: argparse.Namespace) -> dict[str, Any]:
    """All log in, the site is restarted, and all log in again."""
    site = Site(directory, given.accounts, keeps=not given.forget, managed=not given.alone)
    site.start()
    first = await all_come(site, given, FIRST_S, FIRST_AT_ONCE)
    site.end(signal.SIGKILL if given.kill else signal.SIGTERM)
    await trio.to_thread.run_sync(site.start)
    second = await all_come(site, given, FIRST_S if given.forget else HANGS_S, given.clients)
    site.end(signal.SIGTERM)
    found_s = sorted(second.after_s) or [0.0]
    return {
        "clients": given.clients,
        "accounts": given.accounts,
        "first login_s": round(max(first.after_s, default=0.0), 1),
        "half back_s": round(found_s[len(found_s) // 2], 1),
        "all back_s": round(found_s[-1], 1),
        "refused": dict(first.refused + second.refused),
        "hanging": first.hanging + second.hanging,
        "wrong": bool(first.refused or second.refused or first.hanging or second.hanging),
    }


# -- they come and go -------------------------------------------------------------------------------


class Ledger:
    """What was confirmed to publishers, and what workers saw and finished."""

    def __init__(self) -> None:
        self.made = 0
        self.confirmed: set[bytes] = set()
        self.seen: Counter[bytes] = Counter()
        self.finished: set[bytes] = set()
        self.came_again: list[bytes] = []
        self.refused: Counter[str] = Counter()
        self.left: Counter[str] = Counter()

    def make(self) -> bytes:
        """The body of a new message."""
        self.made += 1
        return b"%d" % self.made

    def come(self, body: bytes) -> None:
        """A worker has it."""
        self.seen[body] += 1
        if body in self.finished:
            self.came_again.append(body)

    @property
    def missing(self) -> set[bytes]:
        """Confirmed, and not seen yet."""
        return self.confirmed - self.seen.keys()


class Churn:
    """Clients that come and go."""

    def __init__(self, site: Site, given: argparse.Namespace) -> None:
        self.site = site
        self.accounts = given.accounts
        self.ledger = Ledger()
        self.publishing = True
        self.random = random.Random(given.seed)

    async def client(self, number: int) -> None:
        """One client: connects, works for some seconds, leaves one way or another, and comes again."""
        roles = (self.stomp_publisher, self.stomp_worker, self.smqp_publisher, self.smqp_worker)
        role = roles[number % len(roles)]
        while True:
            try:
                with trio.move_on_after(self.random.uniform(2, 20)):
                    await role(number)
            except (trio.BrokenResourceError, trio.ClosedResourceError, ConnectionLost, OSError):
                self.ledger.left["the site had gone"] += 1
            except AssertionError as error:  # of the STOMP client: what came was not what it waits for
                self.ledger.refused[str(error)[:100]] += "closed the connection" not in str(error)
            except Refusal as refusal:
                self.ledger.refused[str(refusal)] += refusal.code not in (Refusal.LOCK_LOST, "not-available")
            if not self.publishing and "publisher" in role.__name__:
                return
            await trio.sleep(self.random.uniform(0, 1))

    async def stomp(self, number: int, work: Callable[[StompClient], Any]) -> None:
        """Half of them leave in good order, the others without a word."""
        client = await logged_in(self.site, number, self.accounts)
        try:
            await work(client)
        finally:
            if self.random.random() < 0.5:
                with trio.CancelScope(shield=True), trio.move_on_after(5), suppress(trio.BrokenResourceError):
                    await client.send("DISCONNECT")
                self.ledger.left["in good order"] += 1
            else:
                self.ledger.left["without a word"] += 1
            await trio.aclose_forcefully(client.stream)

    async def stomp_publisher(self, number: int) -> None:
        """SEND with a receipt, one after another."""

        async def work(client: StompClient) -> None:
            while self.publishing:
                body = self.ledger.make()
                await client.ask("SEND", {"destination": f"/queue/{QUEUE}"}, body)
                self.ledger.confirmed.add(body)
                await trio.sleep(self.random.uniform(0, 2))

        await self.stomp(number, work)

    async def stomp_worker(self, number: int) -> None:
        """ACK with a receipt; some are handed back."""

        async def work(client: StompClient) -> None:
            await client.send(
                "SUBSCRIBE",
                {
                    "id": "0",
                    "destination": f"/queue/{QUEUE}",
                    "ack": "client-individual",
                    "prefetch-count": "5",
                },
            )
            acknowledged: dict[str, Frame] = {}
            while True:
                frame = await client.receive()
                if frame.command == "MESSAGE":
                    self.ledger.come(frame.body)
                    name = frame.headers["ack"]
                    acknowledged[name] = frame
                    command = "NACK" if self.random.random() < 0.02 else "ACK"
                    await client.send(command, {"id": name, "receipt": f"{command}:{name}"})
                else:
                    assert frame.command == "RECEIPT", (frame.headers, frame.body)
                    command, _, name = frame.headers["receipt-id"].partition(":")
                    body = acknowledged.pop(name).body
                    if command == "ACK":
                        self.ledger.finished.add(body)

        await self.stomp(number, work)

    async def smqp_publisher(self, number: int) -> None:
        """PUBLISH to one, one after another."""
        async with self.smqp(number) as client:
            while self.publishing:
                body = self.ledger.make()
                await client.publish(QUEUE, Message(delivery="ONE", sections=(Section("text/plain", body),)))
                self.ledger.confirmed.add(body)
                await trio.sleep(self.random.uniform(0, 2))

    async def smqp_worker(self, number: int) -> None:
        """COMMIT."""
        async with self.smqp(number) as client:
            await client.subscribe(QUEUE, SubscribeOptions(credit=5, accepts="ONE", durable=False))
            while True:
                deliveries = await client.take()
                for delivery in deliveries:
                    self.ledger.come(delivery.message.sections[0].body)
                await client.commit(deliveries)
                self.ledger.finished.update(delivery.message.sections[0].body for delivery in deliveries)

    def smqp(self, number: int) -> AbstractAsyncContextManager[Client]:
        """An SMQP client that is logged in."""
        account, channel = number % self.accounts, f"c{number}"
        port, password = self.site.smqp_port, f"{PASSWORD}{account}"
        return connect("127.0.0.1", port, f"a{account}", password, channel=channel)


async def churn(directory: Path, given: argparse.Namespace) -> dict[str, Any]:
    """See the module."""
    site = Site(directory, given.accounts, keeps=True)
    site.start()
    before = site.resident_mib()
    running = Churn(site, given)
    ledger, kills = running.ledger, 0
    async with trio.open_nursery() as nursery:
        for number in range(given.clients):
            nursery.start_soon(running.client, number)
        ends = trio.current_time() + given.seconds
        while trio.current_time() + given.kill_every < ends:
            await trio.sleep(given.kill_every)
            kills += 1
            print(f"{len(ledger.confirmed):8} confirmed; SIGKILL", file=sys.stderr)
            site.end(signal.SIGKILL)
            await trio.to_thread.run_sync(site.start)
        await trio.sleep(max(ends - trio.current_time(), 0))
        highest, running.publishing = site.resident_mib(), False
        with trio.move_on_after(HANGS_S * 2):
            while ledger.missing:
                await trio.sleep(0.5)
        nursery.cancel_scope.cancel()
    await trio.sleep(given.rest)
    after = site.resident_mib()
    site.end(signal.SIGTERM)
    return {
        "clients": given.clients,
        "kills": kills,
        "confirmed": len(ledger.confirmed),
        "finished": len(ledger.finished),
        "seen more than once": sum(count > 1 for count in ledger.seen.values()),
        "left": dict(ledger.left),
        "refused": dict(+ledger.refused),
        "lost": len(ledger.missing),
        "came again": len(ledger.came_again),
        "MiB before, at the end, at rest": [round(before), round(highest), round(after)],
        "wrong": bool(ledger.missing or ledger.came_again or +ledger.refused),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for run, clients in ((back, 2_000), (churn, 1_000)):
        command = commands.add_parser(run.__name__)
        command.add_argument("--clients", type=int, default=clients)
        command.add_argument("--accounts", type=int, default=1_000)
        command.add_argument("--json", action="store_true")
        command.set_defaults(run=run)
        if run is back:
            command.add_argument("--kill", action="store_true", help="SIGKILL in place of SIGTERM")
            command.add_argument("--forget", action="store_true", help="nothing is kept over the restart")
            command.add_argument("--alone", action="store_true", help="without a service manager")
        else:
            command.add_argument("--seconds", type=float, default=120.0)
            command.add_argument("--kill-every", type=float, default=30.0)
            command.add_argument("--rest", type=float, default=70.0, help="seconds until memory is looked at")
            command.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smqpd-crowd-") as directory:
        found = trio.run(given.run, Path(directory) / "site", given)
    if given.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:32} {value}")
    sys.exit(bool(found["wrong"]))


if __name__ == "__main__":
    main()
