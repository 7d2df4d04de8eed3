"""Networks of real sites that can be cut: network namespaces where we may make them, else a cutting proxy.

`Namespaces` gives each site a network of its own, with one wire to each neighbour over a bridge elsewhere.
A cut takes the bridge down, so that packets vanish and nobody is told, as in a broken route.
`Proxies` joins sites on loopback: each dials its neighbour through a relay of this process. A cut stops the
relay from reading and writing, and nobody is told either.
`Loopback` cannot be cut, and costs this process nothing: each site dials its neighbour itself.
"""

import contextlib
import ctypes
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Final, Protocol

import trio

from tests.support.ports import free_port

SitePair = tuple[str, str]

LINK_PORT: Final = 721
_NAMESPACES: Final = Path("/run/netns")
_CLONE_NEWNET: Final = 0x40000000


class HostNetwork(Protocol):
    """What joins sites.

    Attributes:
        kind: in words.
    """

    kind: str

    def listen(self, site: str) -> str:
        """`host:port` where a site waits for its neighbours."""

    def address(self, site: str, neighbour: str) -> str:
        """`host:port` where a site dials a neighbour."""

    def namespace(self, site: str) -> Path | None:
        """The network namespace of a site's processes; None for ours."""

    async def connect(self, site: str, port: int) -> trio.abc.Stream:
        """Connect to a port of a site's loopback, however the site is cut off. Raises OSError."""


class CutNetwork(HostNetwork, Protocol):
    """What joins sites, and can part them."""

    def cut(self, a: str, b: str) -> None:
        """What two neighbours send each other vanishes from now on."""

    def heal(self, a: str, b: str) -> None:
        """It arrives again."""


class Namespaces:
    """Sites in network namespaces."""

    kind = "network namespaces"

    def __init__(self, sites: Iterable[str], pairs: Iterable[SitePair]) -> None:
        self._prefix = f"smqpd-{secrets.token_hex(3)}-"
        self._sites = list(sites)
        self._pairs = [_pair(*pair) for pair in pairs]

    def listen(self, site: str) -> str:
        """See `HostNetwork`."""
        return f"0.0.0.0:{LINK_PORT}"

    def address(self, site: str, neighbour: str) -> str:
        """See `HostNetwork`."""
        return f"{self._host(neighbour, site)}:{LINK_PORT}"

    def namespace(self, site: str) -> Path | None:
        """See `HostNetwork`."""
        return _NAMESPACES / (self._prefix + site)

    async def connect(self, site: str, port: int) -> trio.abc.Stream:
        """See `HostNetwork`."""
        with self._inside(site):
            opened = trio.socket.from_stdlib_socket(socket.socket())
        try:
            await opened.connect(("127.0.0.1", port))
        except BaseException:
            opened.close()
            raise
        return trio.SocketStream(opened)

    def cut(self, a: str, b: str) -> None:
        """See `CutNetwork`."""
        self._set(a, b, "down")

    def heal(self, a: str, b: str) -> None:
        """See `CutNetwork`."""
        self._set(a, b, "up")

    def _set(self, a: str, b: str, state: str) -> None:
        _ip("-n", f"{self._prefix}wires", "link", "set", f"br{self._number(a, b)}", state)

    def make(self) -> None:
        """Make all namespaces and wires."""
        wires = f"{self._prefix}wires"
        for name in (wires, *(self._prefix + site for site in self._sites)):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        for number, pair in enumerate(self._pairs):
            _ip("-n", wires, "link", "add", f"br{number}", "type", "bridge")
            for end, site in enumerate(pair):
                port, inside = f"p{number}-{end}", self._prefix + site
                peer = ("peer", "name", f"w{number}", "netns", inside)
                _ip("-n", wires, "link", "add", port, "type", "veth", *peer)
                _ip("-n", wires, "link", "set", port, "master", f"br{number}", "up")
                _ip(
                    "-n",
                    inside,
                    "address",
                    "add",
                    f"{self._host(site, pair[1 - end])}/24",
                    "dev",
                    f"w{number}",
                )
                _ip("-n", inside, "link", "set", f"w{number}", "up")
            self.heal(*pair)

    def destroy(self) -> None:
        """Take everything away again; what still runs in a namespace keeps it."""
        for name in ("wires", *self._sites):
            subprocess.run(["ip", "netns", "del", self._prefix + name], check=False, capture_output=True)

    def _number(self, a: str, b: str) -> int:
        return self._pairs.index(_pair(a, b))

    def _host(self, site: str, neighbour: str) -> str:
        return f"10.77.{self._number(site, neighbour)}.{1 if site < neighbour else 2}"

    @contextmanager
    def _inside(self, site: str) -> Iterator[None]:
        """This thread is in a site's namespace: a socket made here stays in it."""
        with open("/proc/thread-self/ns/net") as here, open(_NAMESPACES / (self._prefix + site)) as there:
            enter(there.fileno())
            try:
                yield
            finally:
                enter(here.fileno())


class Loopback:
    """Sites on loopback that dial each other."""

    kind = "loopback"

    def __init__(self, sites: Iterable[str]) -> None:
        self._ports = {site: free_port() for site in sites}

    def listen(self, site: str) -> str:
        """See `HostNetwork`."""
        return f"127.0.0.1:{self._ports[site]}"

    def address(self, site: str, neighbour: str) -> str:
        """See `HostNetwork`."""
        return self.listen(neighbour)

    def namespace(self, site: str) -> Path | None:
        """See `HostNetwork`."""
        return None

    async def connect(self, site: str, port: int) -> trio.abc.Stream:
        """See `HostNetwork`."""
        return await trio.open_tcp_stream("127.0.0.1", port)


class Proxies(Loopback):
    """Sites on loopback that dial each other through relays."""

    kind = "a cutting proxy on loopback"

    def __init__(self, sites: Iterable[str], pairs: Iterable[SitePair]) -> None:
        super().__init__(sites)
        self._pairs = [_pair(*pair) for pair in pairs]
        self._relays: dict[SitePair, str] = {}
        self._open = {pair: trio.Event() for pair in self._pairs}
        for opened in self._open.values():
            opened.set()

    def address(self, site: str, neighbour: str) -> str:
        """See `HostNetwork`."""
        return self._relays[site, neighbour]

    def cut(self, a: str, b: str) -> None:
        """See `CutNetwork`."""
        self._open[_pair(a, b)] = trio.Event()

    def heal(self, a: str, b: str) -> None:
        """See `CutNetwork`."""
        self._open[_pair(a, b)].set()

    async def serve(self, nursery: trio.Nursery) -> None:
        """Start the relays, one for each direction of dialling."""
        for pair in self._pairs:
            for site, other in (pair, pair[::-1]):
                relay = self._relay(pair, self._ports[other])
                [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
                self._relays[site, other] = f"127.0.0.1:{listener.socket.getsockname()[1]}"
                nursery.start_soon(trio.serve_listeners, relay, [listener])

    def _relay(self, pair: SitePair, port: int) -> Callable[[trio.SocketStream], Awaitable[None]]:
        async def relay(near: trio.SocketStream) -> None:
            await self._open[pair].wait()
            with contextlib.suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                far = await trio.open_tcp_stream("127.0.0.1", port)
                async with far, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump, pair, near, far)
                    await self._pump(pair, far, near)
                    nursery.cancel_scope.cancel()

        return relay

    async def _pump(self, pair: SitePair, source: trio.SocketStream, target: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some():
                await self._open[pair].wait()
                await target.send_all(data)
            await self._open[pair].wait()
            await target.send_eof()


@cache
def may_make_namespaces() -> bool:
    """Whether this process may make network namespaces, wires and bridges, and enter them."""
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("nsenter")):
        return False
    trial = Namespaces(["a", "b"], [("a", "b")])
    try:
        trial.make()
        with trial._inside("a"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        trial.destroy()


@asynccontextmanager
async def cut_network(
    sites: Iterable[str], pairs: Iterable[SitePair], *, namespaces: bool | None = None
) -> AsyncIterator[CutNetwork]:
    """A network that lasts as long as the block; `namespaces` None: where they can be made."""
    if may_make_namespaces() if namespaces is None else namespaces:
        spaces = Namespaces(sites, pairs)
        try:
            spaces.make()
            yield spaces
        finally:
            spaces.destroy()
        return
    proxies = Proxies(sites, pairs)
    async with trio.open_nursery() as nursery:
        await proxies.serve(nursery)
        yield proxies
        nursery.cancel_scope.cancel()


def _pair(a: str, b: str) -> SitePair:
    return (a, b) if a < b else (b, a)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def enter(descriptor: int) -> None:
    """This thread is in another network namespace from now on. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
