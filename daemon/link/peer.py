"""All that the manager keeps of one peer, whatever connections come and go."""

from typing import Final

import trio

from daemon.link.connection import PeerConnection
from daemon.link.dialling import BackOff
from daemon.link.exchange import Exchange
from daemon.link.peers_file import PeerEntry
from daemon.operating.federation import LinkState, LinkStatus
from routing.link.agreement import Agreement

LEAVING: Final = "it has said goodbye"


class LinkPeer:
    """All that the manager knows of one peer.

    Attributes:
        link: the connection that is the link; None while there is none.
        greeting: connections that may become it.
        changed: set, and replaced by a new one, whenever what the dialling task goes by has changed.
        site: the installation that was last linked with under this name.
        logged: the reason of the last failure in the log, so that it is not repeated.
    """

    def __init__(self, settings: PeerEntry, exchange: Exchange, back_off: BackOff) -> None:
        self.settings = settings
        self.exchange = exchange
        self.back_off = back_off
        self.link: PeerConnection | None = None
        self.agreement: Agreement | None = None
        self.greeting: set[PeerConnection] = set()
        self.changed = trio.Event()
        self.removed = False
        self.dialling = False
        self.since = trio.current_time()
        self.why_down = ""
        self.site = ""
        self.logged = ""

    @property
    def name(self) -> str:
        """The server name."""
        return self.settings.name

    @property
    def connections(self) -> list[PeerConnection]:
        """All that have not ended."""
        return [*self.greeting, *([self.link] if self.link is not None else [])]

    def change(self) -> None:
        """Wake whoever waits for `changed`."""
        self.changed.set()
        self.changed = trio.Event()

    def status(self) -> LinkStatus:
        """See `daemon.operating.federation.LinkStatus`."""
        now = trio.current_time()
        sender = self.exchange.sender
        oldest = sender.oldest_put_at()
        link, agreement = self.link, self.agreement
        since, why_down = self.since, self.why_down
        state: LinkState = "dialling" if self.dialling or self.greeting else "waiting"
        if link is not None:
            state, why_down = "up", ""
            if link.goodbye_at is not None:
                state, since = "leaving", link.goodbye_at
                why_down = "this site leaves" if link.leaving else LEAVING
        return LinkStatus(
            peer=self.name,
            state=state,
            since_s=now - since,
            remote=link.secured.remote if link is not None else self.settings.address or "",
            round_trip_s=link.round_trip_s if link is not None else None,
            waiting=sender.waiting,
            in_flight=sender.in_flight,
            lag_s=None if oldest is None else now - oldest,
            why_down=why_down,
            version=f"{agreement.version[0]}.{agreement.version[1]}" if agreement is not None else "",
            features=agreement.features if agreement is not None else (),
        )
