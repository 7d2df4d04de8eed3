"""The peers of a site: who may link with it, where they are dialled, and what may cross.

They stand in a file of their own, peers.toml beside the configuration, one table a peer, so that
`smqpd peer` can edit it (`daemon.link.peers_editor`) and a reload can take it without the rest:

    [[peers]]
    name = "beta.example:720"       # the name in its certificate
    address = "192.0.2.7:721"       # where it is dialled; absent: it dials us
    allow_in = ["weather.#"]        # topics that may come; absent: all
    allow_out = ["#"]               # topics that may go; absent: all
    depth_max = 8                   # the greatest remaining depth accepted: more is cut to it; -1: any
    flood = false                   # true: send also what nobody there has subscribed to
"""

from pathlib import Path
from typing import Annotated, Final

import msgspec

from daemon.configuration.config import read_toml, typed
from daemon.connections.listen import split_address
from daemon.settings import ConfigError
from routing.errors import Refusal
from routing.message import DEPTH_UNLIMITED
from routing.names import SERVER_EXPECTED, is_server_name
from routing.numbers import Depth
from routing.patterns import check_pattern

EVERYTHING: Final = ("#",)
PEERS_MAX: Final = 1_000
ADDRESS: Final = r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]):[1-9][0-9]{0,4}\Z"


class PeerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One peer.

    Attributes:
        name: the server name that its certificate must carry.
        address: `host:port` to dial; None where the peer is only waited for.
        allow_in, allow_out: patterns of the topics that may come from it, and go to it. System topics
            (replies, receipts) may always cross.
        depth_max: a copy that may still go further than this when it arrives is taken, and goes only so far;
            -1 for no limit. Replies and receipts go as far as whoever is due to have them.
        flood: messages go there whether or not anybody there wants them.
    """

    name: str
    address: (
        Annotated[str, msgspec.Meta(pattern=ADDRESS, extra={"expected": "`host:port` or `[v6]:port`"})] | None
    ) = None
    allow_in: tuple[str, ...] = EVERYTHING
    allow_out: tuple[str, ...] = EVERYTHING
    depth_max: Depth = DEPTH_UNLIMITED
    flood: bool = False

    def __post_init__(self) -> None:
        if not is_server_name(self.name):
            raise ValueError(f"{self.name!r} is not {SERVER_EXPECTED}")
        if self.address is not None and not _can_be_dialled(self.address):
            raise ValueError(f"address: {self.address[:80]!r} has a host or a port that cannot be")
        for pattern in (*self.allow_in, *self.allow_out):
            try:
                check_pattern(pattern)
            except Refusal as refusal:
                raise ValueError(refusal.text) from None


def _can_be_dialled(address: str) -> bool:
    """Whether who dials it can be told that nobody answers, rather than that there is no such address."""
    try:
        host, _ = split_address(address)
        return host is not None and bool(host.encode("idna"))
    except ValueError:  # also of a label that is empty or too long
        return False


class _File(msgspec.Struct, frozen=True):
    peers: Annotated[tuple[PeerEntry, ...], msgspec.Meta(max_length=PEERS_MAX)] = ()


def load_peers(path: Path) -> dict[str, PeerEntry]:
    """The peers in the file, by name; none where there is no file. Raises ConfigError."""
    if not path.exists():
        return {}
    found = typed(path, "", read_toml(path), _File).peers
    peers = {peer.name: peer for peer in found}
    if len(peers) != len(found):
        names = [peer.name for peer in found]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(path, "peers", f"{twice} is there twice")
    return peers
