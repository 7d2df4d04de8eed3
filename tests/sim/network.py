"""A network in memory: what TCP gives, with delay, loss, partitions, and hosts that vanish.

Within a connection bytes come whole and in order, as TCP's do: a lost packet is one that comes later. A
connection is lost or half open as in life: one end learns of it at once, late, or only by its own probe.
What was under way on a lost connection may come all the same, after the next one has been made; so copies
are doubled and reordered across connections.
"""

import math
import random
from collections import deque
from collections.abc import Iterator
from typing import Final

import trio

from daemon.link.peers_file import PeerEntry
from daemon.link.transport import DialError, LinkTransport, Secured, SecuredHandler

BUFFER_BYTES: Final = 262_144
"""Under way in one direction; a sender waits above it."""

RETRANSMISSION_S: Final = 0.2
UNANSWERED_DIAL_S: Final = 3.0


class Path:
    """The way from one site to another, one direction.

    Attributes:
        loss: share of what is sent that has to be sent again.
        blocked: nothing passes.
    """

    def __init__(self, delay_s: float, jitter_s: float, loss: float) -> None:
        self.delay_s = delay_s
        self.jitter_s = jitter_s
        self.loss = loss
        self.blocked = False

    def travel_s(self, chance: random.Random) -> float:
        """How long what is sent now will take, unless the path is blocked meanwhile."""
        travel_s = self.delay_s + self.jitter_s * chance.random()
        again_s = RETRANSMISSION_S
        while chance.random() < self.loss:
            travel_s += again_s
            again_s *= 2
        return travel_s


class NetworkEnd(trio.abc.Stream):
    """One end of a connection; `other` is set by the network, which makes both."""

    other: "NetworkEnd"

    def __init__(self, network: "SimulatedNetwork", own: str, peer: str) -> None:
        self.own = own
        self.peer = peer
        self._network = network
        self._chunks: deque[tuple[float, bytes]] = deque()  # to this end: when each comes
        self._bytes = 0
        self._last_at = 0.0
        self._finished = False  # the other end has closed: nothing comes after the chunks
        self._broken_at: float | None = None
        self._closed = False
        self._vanished = False  # its host has lost power: it answers nothing, not even with a reset
        self._changed = trio.Event()
        self._sleep = trio.CancelScope()  # of who waited last for a chunk

    @property
    def _path(self) -> Path:
        return self._network.paths[self.own, self.peer]

    @property
    def _broken(self) -> bool:
        return self._broken_at is not None and self._broken_at <= trio.current_time()

    @property
    def is_open(self) -> bool:
        """Whether this end has neither closed nor noticed that the connection is gone."""
        return not (self._closed or self._broken)

    @property
    def all_come_at(self) -> float:
        """When what is under way to this end has come, unless its path is blocked then; 0 for nothing."""
        return self._chunks[-1][0] if self._chunks else 0.0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See `trio.abc.SendStream`."""
        await trio.lowlevel.checkpoint()
        self._check()
        if not data:
            return
        other, path = self.other, self._path
        at = max(other._last_at, trio.current_time() + path.travel_s(self._network.chance))
        other._last_at = at
        if other._closed:
            self._reset_by_peer()
        else:
            other._add(at, bytes(data))
        while other._bytes > BUFFER_BYTES and not other._closed:
            await self._sleep_until(self._broken_at)
            self._check()

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See `trio.abc.ReceiveStream`."""
        await trio.lowlevel.checkpoint()
        while True:
            self._check()
            blocked = self._network.paths[self.peer, self.own].blocked
            if self._chunks and not blocked and self._chunks[0][0] <= trio.current_time():
                return self._take(max_bytes or BUFFER_BYTES)
            if self._finished and not self._chunks and not blocked:
                return b""
            comes_at = self._chunks[0][0] if self._chunks and not blocked else None
            await self._sleep_until_chunk(comes_at)

    def _add(self, at: float, data: bytes) -> None:
        self._chunks.append((at, data))
        self._bytes += len(data)
        if not self._network.paths[self.peer, self.own].blocked:
            self._sleep.deadline = min(self._sleep.deadline, at)  # who waits is not woken before that

    def _take(self, max_bytes: int) -> bytes:
        at, data = self._chunks.popleft()
        if len(data) > max_bytes:
            self._chunks.appendleft((at, data[max_bytes:]))
            data = data[:max_bytes]
        was_full = self._bytes > BUFFER_BYTES
        self._bytes -= len(data)
        if was_full:
            self.other.change()
        return data

    async def aclose(self) -> None:
        """See `trio.abc.AsyncResource`."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close this end, as the kernel does also for a process that is killed.

        Unread bytes make it a reset, which takes with it what is still under way.
        """
        if self._closed:
            return
        self._closed = True
        other = self.other
        if self._chunks and self._network.chance.random() < 0.5:
            other.break_at(max(other._last_at, trio.current_time() + self._path.delay_s))
        other._finished = True
        self.change()
        other.change()

    def vanish(self) -> None:
        """The host has lost power: nothing more comes from here, and nobody is told."""
        self._closed = self._vanished = True
        now, other = trio.current_time(), self.other
        while other._chunks and other._chunks[-1][0] > now + self._path.delay_s:
            other._bytes -= len(other._chunks.pop()[1])
        self.change()
        other.change()

    def break_at(self, at: float) -> None:
        """This end finds the connection broken at some time."""
        self._broken_at = at if self._broken_at is None else min(at, self._broken_at)
        self.change()

    def unblocked(self) -> None:
        """The path to this end is free again: what was lost meanwhile is sent once more."""
        if self._chunks:
            first_at = trio.current_time() + self._network.chance.uniform(0, RETRANSMISSION_S)
            self._chunks = deque((max(at, first_at), data) for at, data in self._chunks)
            self._last_at = max(self._last_at, first_at)
        if self.other._closed:
            self.other._reset_if_heard()
        self.change()

    def _reset_if_heard(self) -> None:
        """This end is closed, and its peer goes on sending."""
        if self.other._bytes or not self.other._finished:
            self.other._reset_by_peer()

    def _reset_by_peer(self) -> None:
        """What this end sends meets no connection: a reset comes back, unless nothing can."""
        back = self._network.paths[self.peer, self.own]
        other = self.other
        if self._path.blocked or back.blocked or (other._vanished and not self._network.is_up(self.peer)):
            return
        self.break_at(trio.current_time() + self._path.delay_s + back.delay_s)

    def powered(self) -> None:
        """The peer's host is back: it answers what it does not know with a reset."""
        if self.other._vanished and self.is_open:
            self._reset_by_peer()

    def change(self) -> None:
        """Wake whoever waits at this end."""
        self._changed.set()
        self._changed = trio.Event()

    def _check(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError
        if self._broken:
            raise trio.BrokenResourceError

    async def _sleep_until(self, at: float | None) -> None:
        with trio.move_on_at(math.inf if at is None else at):
            await self._changed.wait()

    async def _sleep_until_chunk(self, comes_at: float | None) -> None:
        at = min((at for at in (comes_at, self._broken_at) if at is not None), default=math.inf)
        with trio.move_on_at(at) as self._sleep:
            await self._changed.wait()


class SimulatedNetwork:
    """Paths between sites, and the connections over them.

    Attributes:
        chance: decides over delays and losses.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.paths: dict[tuple[str, str], Path] = {}
        self._hosts: dict[str, tuple[SecuredHandler, trio.Nursery]] = {}
        self._powered: set[str] = set()
        self._ends: list[NetworkEnd] = []

    def join(self, a: str, b: str, delay_s: float, jitter_s: float, loss: float) -> None:
        """There is a way between two sites."""
        for pair in ((a, b), (b, a)):
            self.paths[pair] = Path(delay_s, jitter_s, loss)

    def transport(self, name: str) -> LinkTransport:
        """For the link manager of a site."""
        return _Transport(self, name)

    def is_up(self, name: str) -> bool:
        """Whether the host has power."""
        return name in self._powered

    def switch_on(self, name: str) -> None:
        """A host has power (again)."""
        self._powered.add(name)
        for end in self._open_ends():
            if end.peer == name:
                end.powered()

    def listen(self, name: str, handler: SecuredHandler, nursery: trio.Nursery) -> None:
        """Who connects to a site is handed to `handler`."""
        self._hosts[name] = (handler, nursery)

    def stop_listening(self, name: str) -> None:
        """Whoever connects from now on is refused."""
        self._hosts.pop(name, None)

    def kill(self, name: str) -> None:
        """A process ends: its kernel closes its connections."""
        self.stop_listening(name)
        for end in self._open_ends():
            if end.own == name:
                end.close()

    def lose_power(self, name: str) -> None:
        """A host is gone, and cannot say so."""
        self.stop_listening(name)
        self._powered.discard(name)
        for end in self._open_ends():
            if end.own == name:
                end.vanish()

    def block(self, a: str, b: str) -> None:
        """Nothing passes from a to b."""
        self.paths[a, b].blocked = True

    def unblock(self, a: str, b: str) -> None:
        """It does again."""
        path = self.paths[a, b]
        if path.blocked:
            path.blocked = False
            for end in self._ends:
                if (end.peer, end.own) == (a, b):
                    end.unblocked()

    def cut(self, a: str, b: str) -> None:
        """The connections between two sites break; each end learns of it in its own time."""
        for end in self._open_ends():
            if {end.own, end.peer} == {a, b}:
                end.break_at(trio.current_time() + self.chance.choice((0.0, self.chance.random())))

    def backed_off(self, for_s: float) -> Iterator[tuple[str, str]]:
        """Pairs of sites with a connection on which something that is under way comes only after so long.

        It was sent again and again while the path lost much, each time after twice as long, and all that was
        sent since has to wait for it.
        """
        for end in self._open_ends():
            if end.all_come_at > trio.current_time() + for_s:
                yield min(end.own, end.peer), max(end.own, end.peer)

    def _open_ends(self) -> list[NetworkEnd]:
        self._ends = [end for end in self._ends if end.is_open or end.other.is_open]
        return [end for end in self._ends if end.is_open]

    async def connect(self, caller: str, target: str) -> Secured:
        """Dial. Raises DialError."""
        there, back = self.paths[caller, target], self.paths[target, caller]
        await trio.sleep(there.travel_s(self.chance) + back.travel_s(self.chance))
        if there.blocked or back.blocked or not self.is_up(target):
            await trio.sleep(UNANSWERED_DIAL_S)
            raise DialError("connection timed out")
        if target not in self._hosts:
            raise DialError("connection refused")
        handler, nursery = self._hosts[target]
        ours, theirs = NetworkEnd(self, caller, target), NetworkEnd(self, target, caller)
        ours.other, theirs.other = theirs, ours
        self._open_ends()
        self._ends += [ours, theirs]
        nursery.start_soon(handler, Secured(theirs, caller, f"{caller}:9"))
        return Secured(ours, target, f"{target}:1")


class _Transport:
    """Without TLS: who dials is believed to be who it says."""

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        self._network = network
        self._name = name

    async def dial(self, peer: PeerEntry) -> Secured:
        return await self._network.connect(self._name, peer.name)

    async def serve(
        self, handler: SecuredHandler, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with trio.open_nursery() as nursery:
            self._network.listen(self._name, handler, nursery)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._network.stop_listening(self._name)

    def refusal(self, secured: Secured) -> str | None:
        return None

    def explain(self, error: trio.BrokenResourceError) -> str:
        return "the connection was lost"
