"""The links of a running site: keys, peers and the link manager, from start over reloads to goodbye.

A site has links once its keys directory holds a site's key (`smqpd cert`), or once it is told to listen
for peers, or has peers: then missing keys are an error (`daemon.site.examination`). A site that gets its keys
while it runs begins to link with the next reload.
"""

import logging
import random
import re
import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from daemon.broker.broker import Broker
from daemon.certificates.expiry import Expiry
from daemon.certificates.trust import Signed
from daemon.control.client import Question
from daemon.control.federation import known_sites
from daemon.control.routes import routes
from daemon.control.socket import Tell
from daemon.link.keys import LinkKeys
from daemon.link.notary import LinkNotary
from daemon.link.peers_file import PeerEntry
from daemon.link.unacknowledged import with_unacknowledged
from daemon.operating.federation import LinkStatus
from daemon.settings import Settings
from daemon.site.state_mark import INSTALLATION
from daemon.system.private_files import replace
from routing.federation.enquiry import Ping, Trace, Why
from routing.names import check_topic, parse_smuid, server_name
from routing.peering.news import ATTACHED, DESTINATIONS

if TYPE_CHECKING:  # a site without links does without HTTP/2
    from daemon.link.manager import LinkManager
    from daemon.link.tls import TlsTransport

_log = logging.getLogger(__name__)

REFUSED_SHOWN_MAX: Final = 10
"""Sites in the log whose news is no longer trusted, one by one."""

IN_NEWS: Final[tuple[str, ...]] = (DESTINATIONS, ATTACHED)
"""What this site says that it knows not only to its peers, but also to all sites, in its news."""

_INSTALLATION_WORD: Final = r"[0-9a-f]{32}"


class SiteLinks:
    """Runs the link manager, if the site has links.

    Attributes:
        manager: None while the site has none.
        addresses: where peers are listened for.
    """

    def __init__(
        self,
        settings: Settings,
        broker: Broker,
        boot: int,
        peers: Mapping[str, PeerEntry],
        keys: LinkKeys | None,
        passed: Iterable[socket.socket] = (),
    ) -> None:
        """`keys`: None for a site without links. `passed`: sockets on which peers are listened for, in the
        place of the configured addresses.

        Raises OSError.
        """
        self.manager: LinkManager | None = None
        self._settings = settings
        self._broker = broker
        self._boot = boot
        self._passed = list(passed)
        self._peers = peers
        self._keys: LinkKeys | None = None
        self._transport: TlsTransport | None = None
        self._wanted = trio.Event()
        self.take(peers, keys)

    @property
    def peers(self) -> Mapping[str, PeerEntry]:
        """The peers that may link with the site, by name."""
        return self._peers

    @property
    def addresses(self) -> list[str]:
        """`host:port` each."""
        return self._transport.addresses if self._transport is not None else []

    @property
    def expiries(self) -> list[Expiry]:
        """When what is used now ends."""
        return self._keys.expiries if self._keys is not None else []

    @property
    def signed(self) -> list[tuple[str, Signed]]:
        """The certificates and lists that are used now, each after what it is."""
        return self._keys.signed if self._keys is not None else []

    def take(self, peers: Mapping[str, PeerEntry] | None, keys: LinkKeys | None) -> None:
        """Take on these peers and keys; what is None stays. Raises OSError where links begin."""
        if peers is not None:
            self._peers = peers
        if keys is None:
            if self.manager is None:
                self._broker.federating.peers_changed({})
        elif self._transport is None:
            self._begin(keys)
        else:
            self._transport.take(keys)
        if keys is not None:
            self._trust_news_by(keys)
        self._keys = keys or self._keys
        if self.manager is not None:
            self.manager.set_peers(self._peers)
            if keys is not None:
                self.manager.trust_changed()

    def _trust_news_by(self, keys: LinkKeys) -> None:
        notary = LinkNotary(keys, self._broker.clock.wall_us)
        refused = self._broker.door.set_notary(notary, IN_NEWS)
        for site, why in refused[:REFUSED_SHOWN_MAX]:
            _log.warning("forgot the news of %s: %s", site, why)
        if len(refused) > REFUSED_SHOWN_MAX:
            _log.warning("forgot the news of %d sites", len(refused))

    def _begin(self, keys: LinkKeys) -> None:
        from daemon.link.joining import OFFERED, joined
        from daemon.link.tls import TlsTransport

        settings, links, broker = self._settings, self._settings.links, self._broker
        self._transport = TlsTransport(
            keys, links.listen, broker.clock.wall_us, broker.mishaps.note, self._passed
        )
        self.manager = joined(
            broker,
            _installation(settings.site.state_directory),
            self._boot,
            (*OFFERED, *IN_NEWS),
            links,
            self._peers,
            self._transport,
            random.Random(),
        )
        # before it is known whom to trust: of peers that are forgotten then is kept what they want
        broker.federating.peers_changed(self._peers)
        self._wanted.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Let peers connect, of whom none is accepted before `run`; their ports close where it never begins.

        Where links begin by a reload, `run` listens. Raises ListenError.
        """
        transport = self._transport
        if transport is None:
            yield
            return
        await transport.listen()
        try:
            yield
        finally:
            transport.stop_listening()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Link with the peers until cancelled. Raises ListenError in a group."""
        if self.manager is not None:
            await self.manager.run(task_status)
            return
        task_status.started()
        await self._wanted.wait()
        assert self.manager is not None
        await self.manager.run()

    async def answer(self, question: Question, tell: Tell) -> None:
        """Answer what an operator asks, see `daemon.control.socket`. Raises Refusal."""
        ask = self._broker.federating.enquiring.ask
        match question.ask:
            case "peers":
                await tell(await self.status())
            case "federation":
                door = self._broker.door
                await tell(known_sites(door.server, door.outlook, self._broker.clock.now()))
            case "routes":
                await tell(routes(self._broker.door.outlook, question.name))
            case "ping":
                await ask(Ping(server_name(question.name)), question.timeout_s, tell)
            case "trace":
                topic = check_topic(question.name)
                trace = Trace(topic, question.mode, question.depth, question.deliver)
                await ask(trace, question.timeout_s, tell)
            case "quarantine-drop":
                await tell(await self._broker.reading.drop(question.name))
            case "awaited":
                await tell(self._broker.federating.awaited(str(parse_smuid(question.name))))
            case "why":
                await ask(Why(str(parse_smuid(question.name))), question.timeout_s, tell)

    async def status(self) -> list[LinkStatus]:
        """All peers, by name, with what waits for each."""
        if self.manager is None:
            return []
        copies = self._broker.door.outlook.copies
        return await with_unacknowledged(self.manager.status, copies, self._broker.clock.wall_ms())

    async def drain(self) -> None:
        """Say goodbye to the peers; what has been sent to them by then is theirs.

        Cancelled, it waits for none of them.
        """
        if self.manager is not None:
            await self.manager.drain()


def _installation(state_directory: Path) -> str:
    """The word; a new one where there is none, or what is there is none."""
    path = state_directory / INSTALLATION
    with suppress(FileNotFoundError):
        word = path.read_text(encoding="ascii", errors="replace").strip()
        if re.fullmatch(_INSTALLATION_WORD, word):
            return word
    word = secrets.token_hex(16)
    replace(path, word.encode(), 0o600)
    return word
