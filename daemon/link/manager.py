"""The links of a site: one task for each peer that is dialled, one for what is accepted, one that watches.

Everything that a peer's link is, over all its connections, is in its `LinkPeer`: settings, exchange, the
connection that is the link, how it last ended. The manager alone changes it, in synchronous steps, so a
connection is the link or is not, and the broker hears `link_up` and `link_down` in turn.

A connection that cannot become the link is told why, and both sites log it. Source: routing contract 8;
which of two connections is the link: `routing.link.agreement`.
"""

import itertools
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
import trio

from daemon.link.connection import DRAINING, LINKED, PeerConnection
from daemon.link.controls import NameClaimed
from daemon.link.dialling import BackOff
from daemon.link.exchange import Exchange
from daemon.link.peer import LinkPeer
from daemon.link.peers_file import PeerEntry
from daemon.link.port import RouterPort, SiteIdentity
from daemon.link.refusals import Refusals
from daemon.link.transport import DialError, LinkTransport, Secured
from daemon.operating.federation import LinkStatus
from daemon.settings import LinkSettings
from daemon.system.mishaps import Mishaps
from routing.link.agreement import agree, is_arbiter, judge, refusal
from routing.link.units import Control, Hello, Lane, Probe, Transfer, TransferOutcome

_log = logging.getLogger(__name__)

TRUST_CHECK_S: Final = 2.0
"""How soon a certificate that has expired ends its link."""
GONE: Final = "it has said goodbye, and not come back"
GREETINGS_MAX: Final = 8
"""Connections of one peer that may be greeting at a time."""


class LinkManager:
    """Implements `daemon.link.port.Links`. Make it, `run` it in a nursery, then call it."""

    def __init__(
        self,
        *,
        identity: SiteIdentity,
        settings: LinkSettings,
        peers: Mapping[str, PeerEntry],
        transport: LinkTransport,
        port: RouterPort,
        source: random.Random,
        wall_us: Callable[[], int],
        message_bytes_max: Callable[[], int],
        mishaps: Mishaps | None = None,
    ) -> None:
        """`source` spreads the back-off; `wall_us` is the wall clock, for stamps alone. `message_bytes_max`
        bounds a message as it travels, headers and all; it is asked whenever something comes.
        """
        self._own = Hello(
            server=identity.server,
            site=identity.site,
            boot=identity.boot,
            features=identity.features,
            window_units=settings.window_units_max,
            window_bytes=settings.window_bytes_max,
        )
        self._settings = settings
        self._mishaps = mishaps or Mishaps()
        self._transport = transport
        self._port = port
        self._random = source
        self._wall_us = wall_us
        self._message_bytes_max = message_bytes_max
        self._peers: dict[str, LinkPeer] = {}
        self._nursery: trio.Nursery | None = None
        self._draining = False
        self._refusals = Refusals(_log)
        self._serving: dict[PeerConnection, LinkPeer] = {}
        self._served = trio.Event()
        self._wanted = dict(peers)
        self._connection_numbers = itertools.count(1)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Link with the peers until cancelled; started once peers can dial this site."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self._transport.serve, self._accepted)
            keep_going = self._mishaps.keep_going
            nursery.start_soon(keep_going, "certificates that are no longer trusted", self._watch_trust)
            self.set_peers(self._wanted)
            task_status.started()

    def set_peers(self, peers: Mapping[str, PeerEntry]) -> None:
        """Replace the peers by these. A link with one that is none any more is ended at once."""
        self._wanted = dict(peers)
        if self._nursery is None:  # `run` begins with them
            return
        for name in [name for name in self._peers if name not in peers]:
            gone = self._peers.pop(name)
            gone.removed = True
            for connection in gone.connections:
                connection.end(f"{name} is no longer a peer of {self._own.server}")
            gone.change()
            gone.back_off.hurry()
        for name, settings in peers.items():
            known = self._peers.get(name)
            if known is None:
                known = self._peers[name] = self._new_peer(settings)
                self._nursery.start_soon(self._keep_dialling, known)
            elif known.settings.address != settings.address:
                known.back_off.succeeded()
                known.back_off.hurry()
            known.settings = settings
            known.change()
        self._port.peers_changed({name: peer.settings for name, peer in self._peers.items()})

    def trust_changed(self) -> None:
        """End the links that certificates and revocations do not allow any more; dial the others."""
        self._end_untrusted()
        for peer in self._peers.values():
            peer.back_off.succeeded()
            peer.back_off.hurry()

    async def drain(self) -> None:
        """Say goodbye to all peers, and return when no connection is left: each has been told the reason.

        Cancelling leaves the rest as it is.
        """
        self._draining = True
        for peer in self._peers.values():
            for connection in list(peer.greeting):
                connection.end(DRAINING, "left")
            if peer.link is not None:
                peer.link.leave()
            peer.change()
            peer.back_off.hurry()
        while self._serving:
            await self._served.wait()

    def has_room(self, peer: str) -> bool:
        """See `Links`."""
        known = self._peers.get(peer)
        return known is not None and known.exchange.sender.has_room

    def has_memory(self, peer: str) -> bool:
        """See `Links`."""
        known = self._peers.get(peer)
        return known is not None and known.exchange.sender.has_memory

    def last_sent(self, peer: str, reference: object) -> tuple[int, int]:
        """See `Links`."""
        known = self._peers.get(peer)
        return (0, 0) if known is None else known.exchange.sender.last_sent(reference)

    def send(self, peer: str, unit: Transfer | Control, lane: Lane) -> int:
        """See `Links`."""
        return self._peers[peer].exchange.put(unit, lane)

    def acknowledge(
        self, peer: str, connection: int, numbers: Iterable[int], outcome: TransferOutcome, reason: str = ""
    ) -> None:
        """See `Links`."""
        known = self._peers.get(peer)
        if known is not None:
            known.exchange.answer(connection, numbers, outcome, reason)

    def answer_probe(self, peer: str, probe: Probe) -> None:
        """See `Links`."""
        known = self._peers.get(peer)
        if known is not None and known.link is not None:
            known.link.say_probed(probe)

    def end(self, peer: str, reason: str) -> None:
        """See `Links`."""
        known = self._peers.get(peer)
        if known is not None and known.link is not None:
            known.link.end(reason, error=True)

    def status(self) -> list[LinkStatus]:
        """See `Links`."""
        return [self._peers[name].status() for name in sorted(self._peers)]

    def greeted(self, connection: PeerConnection) -> None:
        """Judge a connection whose HELLO has come: see `daemon.link.connection.ConnectionOwner`."""
        peer = self._peers.get(connection.secured.name)
        hello = connection.hello
        assert hello is not None
        if peer is None:
            name = connection.secured.name
            self._refuse(connection, f"{name} is no longer a peer of {self._own.server}")
            return
        reason = refusal(self._own, hello, peer.name)
        if reason is not None:
            self._refuse(connection, reason)
            return
        current = peer.link
        verdict = judge(current.hello if current is not None else None, hello)
        if verdict == "name-claimed":
            assert current is not None
            current.probe_soon()
            claimed = msgspec.json.encode(NameClaimed(connection.secured.remote))
            peer.exchange.put(Control(kind="claimed", payload=claimed), Lane.CONTROL)
            other = f"the other one is at {current.secured.remote}"
            self._refuse(connection, f"two sites claim the name {peer.name}; {other}")
        elif is_arbiter(self._own.server, peer.name):
            if verdict == "linked":
                assert current is not None
                current.probe_soon()
                connection.end(LINKED, "linked")
            else:
                connection.welcome()
                self._link(peer, connection)

    def welcomed(self, connection: PeerConnection) -> None:
        """Take a connection as the link: see `daemon.link.connection.ConnectionOwner`."""
        peer = self._peers.get(connection.secured.name)
        if peer is not None and not is_arbiter(self._own.server, peer.name):
            self._link(peer, connection)

    def ended(self, connection: PeerConnection) -> None:
        """See `daemon.link.connection.ConnectionOwner`."""
        peer = self._serving.get(connection)
        reason = connection.reason
        assert reason is not None
        if peer is None:
            return
        if peer.link is connection:
            self._unlink(peer, connection, f"it says: {reason}" if connection.said else reason)
        elif connection in peer.greeting:
            peer.greeting.discard(connection)
            if peer.link is None and connection.ending == "other":
                if connection.by_peer:
                    says = f" and says: {reason}" if connection.said else " without a word"
                    reason = f"closed the connection{says}"
                self._failed(peer, reason)

    def proved(self, connection: PeerConnection) -> None:
        """See `daemon.link.connection.ConnectionOwner`."""
        peer = self._serving.get(connection)
        if peer is not None:
            peer.back_off.succeeded()
            peer.logged = ""

    def probe_arrived(self, peer: str, probe: Probe) -> None:
        """See `daemon.link.connection.ConnectionOwner`."""
        self._port.probe_arrived(peer, probe)

    async def input_room(self) -> None:
        """See `daemon.link.connection.ConnectionOwner`."""
        await self._port.input_room()

    def _new_peer(self, settings: PeerEntry) -> LinkPeer:
        exchange = Exchange(
            settings.name,
            window_units=self._settings.window_units_max,
            window_bytes=self._settings.window_bytes_max,
            port=self._port,
            wall_us=self._wall_us,
        )
        back_off = BackOff(self._settings.back_off_first_s, self._settings.back_off_max_s, self._random)
        return LinkPeer(settings, exchange, back_off)

    async def _keep_dialling(self, peer: LinkPeer) -> None:
        """Dial the peer whenever there is no link and an address, as long as it is a peer."""
        while not (peer.removed or self._draining):
            if peer.link is not None or peer.settings.address is None:
                await peer.changed.wait()
                continue
            try:
                await self._dial(peer)
            except Exception as error:
                self._mishaps.note(f"a try to dial {peer.name}", error)
                self._failed(peer, "cannot be dialled, by an error of smqpd")
            if peer.link is None and not (peer.removed or self._draining):
                await peer.back_off.wait()

    async def _dial(self, peer: LinkPeer) -> None:
        """Dial once, and serve the connection to its end."""
        peer.dialling = True
        try:
            with trio.fail_after(self._settings.greeting_timeout_s):
                secured = await self._transport.dial(peer.settings)
        except (DialError, trio.TooSlowError) as error:
            reason = str(error) or f"no connection within {self._settings.greeting_timeout_s:g} s"
            self._failed(peer, f"cannot be dialled at {peer.settings.address}: {reason}")
            return
        finally:
            peer.dialling = False
        connection = self._connection(secured, dialled=True)
        if secured.name != peer.name:
            self._failed(peer, f"was dialled, but the certificate there is for {secured.name}")
            self._refuse(connection, f"{peer.name} was dialled, but its certificate is for {secured.name}")
        elif peer.removed or self._draining:
            connection.end(DRAINING, "left")
        await self._serve(connection)

    async def _accepted(self, secured: Secured) -> None:
        connection = self._connection(secured, dialled=False)
        peer = self._peers.get(secured.name)
        if secured.name == self._own.server:
            self._refuse(connection, f"there is another certificate for the name {self._own.server}")
        elif peer is None:
            self._refuse(connection, f"{secured.name} is not a peer of {self._own.server}")
        elif self._draining:
            connection.end(DRAINING, "left")
        elif len(peer.greeting) >= GREETINGS_MAX:
            self._refuse(connection, f"{secured.name} has {GREETINGS_MAX} connections that are no link yet")
        await self._serve(connection)

    def _connection(self, secured: Secured, *, dialled: bool) -> PeerConnection:
        return PeerConnection(
            secured,
            dialled=dialled,
            own=self._own,
            owner=self,
            transport=self._transport,
            settings=self._settings,
            message_bytes_max=self._message_bytes_max,
            wall_us=self._wall_us,
        )

    async def _serve(self, connection: PeerConnection) -> None:
        """Run a connection; whatever ends it, the other links live on."""
        if connection.reason is None and (reason := self._transport.refusal(connection.secured)):
            self._refuse(connection, reason)  # what is trusted has changed since the handshake began
        peer = self._peers.get(connection.secured.name)
        if peer is not None and connection.reason is None:
            peer.greeting.add(connection)
            self._serving[connection] = peer
        try:
            await connection.run()
        except Exception as error:
            self._mishaps.note(f"a connection with {connection.secured.name}", error)
        finally:
            self._serving.pop(connection, None)
            self._served.set()
            self._served = trio.Event()

    def _link(self, peer: LinkPeer, connection: PeerConnection) -> None:
        hello = connection.hello
        assert hello is not None
        if peer.link is not None:
            peer.link.end("replaced by a newer connection")
        peer.greeting.discard(connection)
        peer.link = connection
        peer.agreement = agree(self._own, hello)
        peer.since = trio.current_time()
        number = next(self._connection_numbers)
        restarted = peer.exchange.connected(hello, peer.agreement, number, connection.wake)
        connection.establish(peer.exchange)
        how = "dialled" if connection.dialled else "accepted"
        if peer.site not in ("", hello.site):
            _log.warning("the name %s is another installation than it was before", peer.name)
        peer.site = hello.site
        _log.info("link with %s is up (%s %s)", peer.name, how, connection.secured.remote)
        self._port.link_up(peer.name, peer.agreement, restarted)
        if self._draining:
            connection.leave()
        peer.change()

    def _unlink(self, peer: LinkPeer, connection: PeerConnection, reason: str) -> None:
        has_left = connection.ending == "left"
        peer.link = None
        peer.exchange.disconnected()
        peer.since = trio.current_time()
        peer.why_down = GONE if has_left and connection.by_peer else reason
        level = logging.INFO if has_left else logging.WARNING
        _log.log(level, "link with %s is down: %s", peer.name, reason)
        self._port.link_down(peer.name, reason)
        peer.change()

    def _refuse(self, connection: PeerConnection, reason: str) -> None:
        """End a connection that must not be a link, and say why in both logs: `reason` is true at either."""
        name = connection.secured.name
        connection.end(f"refused: {reason}", "refused")
        peer = self._peers.get(name)
        if peer is not None and peer.link is None:
            peer.why_down = f"refused by this site: {reason}"
        self._refusals.log(name, f"{name} ({connection.secured.remote})", reason)

    def _failed(self, peer: LinkPeer, reason: str) -> None:
        """An attempt at a link failed; said once, until the reason changes."""
        peer.why_down = reason
        level = logging.DEBUG if reason == peer.logged else logging.WARNING
        peer.logged = reason
        _log.log(level, "%s %s", peer.name, reason)

    async def _watch_trust(self) -> None:
        while True:
            await trio.sleep(TRUST_CHECK_S)
            self._end_untrusted()

    def _end_untrusted(self) -> None:
        for peer in self._peers.values():
            for connection in peer.connections:
                reason = self._transport.refusal(connection.secured)
                if reason is not None:
                    self._refuse(connection, reason)
