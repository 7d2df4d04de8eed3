"""Sites for tests of links: a network in memory, a broker that records, a peer that says what it is told."""

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import trio
import trio.testing

from daemon.link.lanes import ClosingKind, LaneData, LaneError, Lanes, PeerClosed
from daemon.link.manager import LinkManager
from daemon.link.peers_file import PeerEntry
from daemon.link.port import Arrived, ControlArrived, SiteIdentity
from daemon.link.transport import DialError, LinkTransport, Secured, SecuredHandler
from daemon.settings import LinkSettings
from routing.frames import encode_message
from routing.link.agreement import Agreement
from routing.link.codec import UnitReader, encode, encode_control, encode_transfer
from routing.link.sender import Settled
from routing.link.units import Control, Hello, Lane, Probe, ProbeReply, Transfer, Unit, Welcome
from routing.message import Message, Section

MESSAGE_BYTES_MAX = 1_000_000


class LinkWire:
    """A connection in memory that can be cut, fall silent, or stall."""

    def __init__(self) -> None:
        self.silent = False
        self.stalled = False
        self.broken = False
        self._halves = [trio.testing.memory_stream_one_way_pair() for _ in range(2)]
        for send, receive in self._halves:
            send.send_all_hook = self._hook(send, receive)  # type: ignore[assignment] # trio takes what returns none
            send.close_hook = self._close_hook(send, receive)
        (send_a, receive_a), (send_b, receive_b) = self._halves
        self.ends = trio.StapledStream(send_a, receive_b), trio.StapledStream(send_b, receive_a)

    def cut(self) -> None:
        """Both ends find the connection closed."""
        self.broken = True
        for _, receive in self._halves:
            receive.put_eof()

    def _hook(
        self, send: trio.testing.MemorySendStream, receive: trio.testing.MemoryReceiveStream
    ) -> Callable[[], object]:
        async def pump() -> None:
            if self.broken:
                raise trio.BrokenResourceError
            if self.stalled:
                await trio.sleep_forever()
            if not self.silent:
                trio.testing.memory_stream_pump(send, receive)

        return pump

    def _close_hook(
        self, send: trio.testing.MemorySendStream, receive: trio.testing.MemoryReceiveStream
    ) -> Callable[[], None]:
        def close() -> None:
            if not (self.silent or self.stalled):
                trio.testing.memory_stream_pump(send, receive)

        return close


class MemoryNetwork:
    """Sites in memory; a peer's address is `NAME:1`. What `names` says is what its certificate would."""

    def __init__(self) -> None:
        self.wires: list[LinkWire] = []
        self.handlers: dict[str, SecuredHandler] = {}
        self.unreachable: set[str] = set()
        self.distrusted: set[str] = set()
        self.nurseries: dict[str, trio.Nursery] = {}
        self.dials: list[tuple[float, str, str]] = []

    def transport(self, name: str, certified: str | None = None) -> LinkTransport:
        """For a site that listens as `name` and proves the name `certified` (the same, if None)."""
        return _MemoryTransport(self, name, certified or name)

    async def connect(self, caller: str, target: str, certified: str) -> tuple[trio.abc.Stream, str]:
        """A stream to the target, and the name that the target proves."""
        self.dials.append((trio.current_time(), caller, target))
        await trio.sleep(0.01)
        if target not in self.handlers or {caller, target} & self.unreachable:
            raise DialError("connection refused")
        wire = LinkWire()
        self.wires.append(wire)
        ours, theirs = wire.ends
        self.nurseries[target].start_soon(self.handlers[target], Secured(theirs, certified, f"{caller}:9"))
        return ours, target

    def cut(self) -> None:
        """Cut every connection there is."""
        for wire in self.wires:
            wire.cut()

    def silence(self) -> None:
        """Nothing passes on any connection any more, and nobody is told: what is written is lost."""
        for wire in self.wires:
            wire.silent = True

    def stall(self) -> None:
        """No connection takes any more: who writes waits until the connection ends."""
        for wire in self.wires:
            wire.stalled = True


class _MemoryTransport:
    def __init__(self, network: MemoryNetwork, name: str, certified: str) -> None:
        self._network = network
        self._name = name
        self._certified = certified

    async def dial(self, peer: PeerEntry) -> Secured:
        assert peer.address is not None
        target = peer.address.removesuffix(":1")
        stream, name = await self._network.connect(self._name, target, self._certified)
        return Secured(stream, name, peer.address)

    async def serve(
        self, handler: SecuredHandler, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with trio.open_nursery() as nursery:
            self._network.nurseries[self._name] = nursery
            self._network.handlers[self._name] = handler
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                del self._network.handlers[self._name]

    def refusal(self, secured: Secured) -> str | None:
        distrusted = secured.name in self._network.distrusted
        return f"the certificate of {secured.name} is revoked" if distrusted else None

    def explain(self, error: trio.BrokenResourceError) -> str:
        return "the connection was lost"


class RecordingBroker:
    """The broker's side of the links: records all, and answers copies and controls if `answers`."""

    def __init__(self) -> None:
        self.answers = True
        self.log: list[str] = []
        self.copies: list[Arrived] = []
        self.controls: list[ControlArrived] = []
        self.settled: list[Settled] = []
        self.lost: list[Transfer] = []
        self.refused: list[tuple[Transfer, str]] = []
        self.agreements: list[Agreement] = []
        self.order: list[str] = []
        self.open = trio.Event()
        self.open.set()
        self.links: LinkManager | None = None
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], object], within_s: float = 600.0) -> None:
        """Wait for something to become true; an hour of virtual time costs nothing."""
        with trio.fail_after(within_s):
            while not condition():
                await self._changed.wait()

    def peers_changed(self, peers: Mapping[str, PeerEntry]) -> None:
        self._note()

    def link_up(self, peer: str, agreement: Agreement, restarted: bool) -> None:
        self.agreements.append(agreement)
        self._note(f"up {peer}{' restarted' if restarted else ''}")

    def link_down(self, peer: str, reason: str) -> None:
        self._note(f"down {peer}: {reason}")

    def transfer_arrived(self, arrived: Arrived) -> None:
        self.copies.append(arrived)
        self.order.append(arrived.transfer.topic)
        self._answer(arrived.peer, arrived.connection, arrived.transfer.number)

    def transfer_refused(self, peer: str, transfer: Transfer, message: Message | None, reason: str) -> None:
        self.refused.append((transfer, reason))
        self._note()

    def control_arrived(self, arrived: ControlArrived) -> None:
        self.controls.append(arrived)
        self.order.append(arrived.control.kind)
        self._answer(arrived.peer, arrived.connection, arrived.control.number)

    def acknowledged(self, peer: str, settled: Settled) -> None:
        self.settled.append(settled)
        self._note()

    def dropped(self, peer: str, transfers: list[Transfer]) -> None:
        self.lost += transfers
        self._note()

    def room(self, peer: str) -> None:
        self._note(f"room {peer}")

    def probe_arrived(self, peer: str, probe: Probe) -> None:
        assert self.links is not None
        self.links.answer_probe(peer, probe)

    async def input_room(self) -> None:
        await self.open.wait()

    def _answer(self, peer: str, connection: int, number: int) -> None:
        if self.answers and number:
            assert self.links is not None
            self.links.acknowledge(peer, connection, [number], "accepted")
        self._note()

    def _note(self, line: str = "") -> None:
        if line:
            self.log.append(line)
        self._changed.set()
        self._changed = trio.Event()


class TestSite:
    """A link manager with its recording broker."""

    __test__ = False

    def __init__(self, name: str, broker: RecordingBroker, links: LinkManager) -> None:
        self.name = name
        self.broker = broker
        self.links = links

    @property
    def log(self) -> list[str]:
        return self.broker.log

    async def linked(self, *others: "TestSite") -> None:
        """Wait until this site and each of the others know of their link."""
        for other in others:
            for one, peer in ((self, other.name), (other, self.name)):
                await one.broker.until(lambda one=one, peer=peer: one.is_up(peer))  # type: ignore[misc] # bound now

    def is_up(self, peer: str) -> bool:
        return any(one.peer == peer and one.state == "up" for one in self.links.status())

    def send(
        self, peer: str, topic: str, lane: Lane = Lane.BULK, body: bytes = b"x", **fields: object
    ) -> int:
        """Send a message that was born here; returns its number."""
        return self.links.send(peer, copy(self.name, topic, body, **fields), lane)


def copy(origin: str, topic: str, body: bytes = b"x", **fields: object) -> Transfer:
    """A copy that `origin` sends on, of a message of its own."""
    message = Message(
        smuid=f"{origin}/0123456789ab-1-2",
        cmuid="c1",
        created="2026-11-21T10:00:00Z",
        account=f"ada:desk@{origin}",
        sections=(Section("text/plain", body),),
    )
    wire = encode_message(message)
    return Transfer(**{"topic": topic, "wire": wire, "hops": (origin,), **fields})  # type: ignore[arg-type] # of Transfer


@asynccontextmanager
async def site(
    network: MemoryNetwork,
    name: str,
    peers: Iterable[PeerEntry],
    *,
    installation: str | None = None,
    listens_as: str | None = None,
    transport: LinkTransport | None = None,
    boot: int = 1,
    features: tuple[str, ...] = (),
    settings: LinkSettings | None = None,
    wall_us: Callable[[], int] | None = None,
    broker: RecordingBroker | None = None,
    message_bytes_max: Callable[[], int] = lambda: MESSAGE_BYTES_MAX,
) -> AsyncIterator[TestSite]:
    """Run a site; its links end, without goodbye, with the block."""
    broker = broker or RecordingBroker()
    links = LinkManager(
        identity=SiteIdentity(server=name, site=installation or f"site-{name}", boot=boot, features=features),
        settings=settings or LinkSettings(),
        peers={peer.name: peer for peer in peers},
        transport=transport or network.transport(listens_as or name, name),
        port=broker,
        source=random.Random(name),
        wall_us=wall_us or (lambda: int(trio.current_time() * 1_000_000)),
        message_bytes_max=message_bytes_max,
    )
    broker.links = links
    async with trio.open_nursery() as nursery:
        await nursery.start(links.run)
        yield TestSite(name, broker, links)
        nursery.cancel_scope.cancel()


def dialled(name: str) -> PeerEntry:
    """A peer of the network that is dialled."""
    return PeerEntry(name=name, address=f"{name}:1")


class Puppet:
    """A peer that says exactly what the test tells it, by the daemon's own HTTP/2 lanes or by raw bytes.

    Attributes:
        heard: the units that came, WELCOME, PROBE and their like left out.
        closed: the reason in the other's GOAWAY; None until the connection has ended.
        closed_kind: of that GOAWAY.
    """

    def __init__(self, stream: trio.abc.Stream, name: str, target: str) -> None:
        self.stream = stream
        self.heard: list[Unit] = []
        self.closed: str | None = None
        self.closed_kind: ClosingKind = ""
        self.answers_probes = True
        self.gives_window = True
        self._name = name
        self._lanes = Lanes(dialled=True, peer=target, now=trio.current_time())
        self._readers = {lane: UnitReader(MESSAGE_BYTES_MAX) for lane in Lane}
        self._changed = trio.Event()
        self._sending = trio.Lock()

    async def run(self) -> None:
        """Read to the end of the connection."""
        reason = ""
        while True:
            try:
                data = await self.stream.receive_some(65_536)
            except trio.BrokenResourceError:
                data = b""
            if not data:
                break
            try:
                events = self._lanes.receive(bytes(data), trio.current_time())
            except LaneError:  # after raw bytes the two ends may see the connection differently
                break
            for event in events:
                match event:
                    case LaneData():
                        if self.gives_window:
                            self._lanes.credit(event.lane, event.flow_bytes)
                        self._take(event)
                    case PeerClosed():
                        reason = event.reason or reason
                        self.closed_kind = event.kind
            self._change()  # also of a window alone
            await self.flush()
        self.closed = reason
        self._change()

    def _take(self, event: LaneData) -> None:
        reader = self._readers[event.lane]
        reader.feed(event.data)
        while (unit := reader.take()) is not None:
            if isinstance(unit, Probe):
                if self.answers_probes:
                    reply = ProbeReply(unit.number, unit.sent_us, 1)
                    self._lanes.send(Lane.CONTROL, memoryview(encode(reply)))
            else:
                self.heard.append(unit)
        self._change()

    async def until(self, condition: Callable[[], object]) -> None:
        with trio.fail_after(600):
            while not condition():
                await self._changed.wait()

    async def hear(self, kind: type[Unit], count: int = 1) -> list[Unit]:
        """Wait for so many units of a kind."""
        await self.until(lambda: sum(isinstance(unit, kind) for unit in self.heard) >= count)
        return [unit for unit in self.heard if isinstance(unit, kind)]

    async def greet(self, **fields: object) -> None:
        """Become the link. The puppet decides nothing: its name must sort last."""
        hello = Hello(**{"server": self._name, "boot": 1, "site": "puppet", **fields})  # type: ignore[arg-type] # of Hello
        await self.say(Lane.CONTROL, encode(hello))
        await self.hear(Welcome)

    async def say(self, lane: Lane, data: bytes) -> None:
        """Bytes in a lane."""
        view = memoryview(data)
        while view and not self._lanes.closed:
            room = self._lanes.capacity(lane)
            if not room:
                changed = self._changed
                await changed.wait()
                continue
            self._lanes.send(lane, view[:room])
            view = view[room:]
            await self.flush()

    async def say_unit(self, unit: Transfer | Control, lane: Lane = Lane.BULK) -> None:
        if isinstance(unit, Transfer):
            data = encode_transfer(unit, unit.timeout_left_s)
        else:
            data = encode_control(unit)
        await self.say(lane, data)

    async def say_raw(self, data: bytes) -> None:
        """Bytes on the connection, as they are."""
        await self.flush()
        await self._send(data)

    async def close(self, reason: str, kind: ClosingKind = "") -> None:
        """Say GOAWAY."""
        self._lanes.close(reason, kind)
        await self.flush()

    async def flush(self) -> None:
        """Send what HTTP/2 has to say."""
        await self._send(self._lanes.outgoing())

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.stream.send_all(data)

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


@asynccontextmanager
async def puppet(network: MemoryNetwork, name: str, target: str) -> AsyncIterator[Puppet]:
    """Connect to a site as `name`, and read until the end of the block."""
    stream, _ = await network.connect(name, target, name)
    async with trio.open_nursery() as nursery:
        player = Puppet(stream, name, target)
        nursery.start_soon(player.run)
        yield player
        nursery.cancel_scope.cancel()
    await trio.aclose_forcefully(stream)
