"""Between the links and the broker: what each tells the other. All calls but `input_room` are synchronous
and never wait.

The broker implements `RouterPort`; `daemon.link.manager.LinkManager` offers the calls of `Links`. A copy
that arrives is the broker's from `transfer_arrived` on; it owes one `acknowledge`, after the fsync that
makes the outcome true. A copy that is sent is answered by `acknowledged`; until then it is the broker's to
send again. The links repeat nothing: what has no answer when a link goes down they forget, and when the next
one is up the broker sends what its store still owes, with `attempt` as the store knows it.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from daemon.link.peers_file import PeerEntry
from daemon.operating.federation import LinkStatus
from routing.link.agreement import Agreement
from routing.link.sender import Settled
from routing.link.units import Control, Lane, Probe, Transfer, TransferOutcome
from routing.message import Message


class SiteIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who this site is to its peers.

    Attributes:
        server: the server name.
        site: identifies the installation (one line of text), so that two sites with one name are noticed.
        boot: raised by one at each start of the daemon.
        features: words of the router; those that the peer says too are in the link's agreement.
    """

    server: str
    site: str
    boot: int
    features: tuple[str, ...] = ()


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """A copy from a peer.

    Attributes:
        connection: number of the one that it came by; with its own number it names the copy in `acknowledge`.
        message: the transfer's wire, parsed. Its Hops and Depth are those with which the peer took it, its
            Timeout that of its publisher; those of the copy stand in the transfer.
        received_us: when it came, UTC microseconds.
    """

    peer: str
    connection: int
    transfer: Transfer
    message: Message
    received_us: int


class ControlArrived(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer's router says; acknowledged like a copy, once what it says is on disk."""

    peer: str
    connection: int
    control: Control


class RouterPort(Protocol):
    """What the links want of the broker."""

    def peers_changed(self, peers: Mapping[str, PeerEntry]) -> None:
        """Take on who the peers are and what may cross, at the start and after each reload.

        What was sent to a peer that is no longer there has been forgotten.
        """

    def link_up(self, peer: str, agreement: Agreement, restarted: bool) -> None:
        """Begin with a link: nothing is on its way. `restarted`: not by the same boot as the last one."""

    def link_down(self, peer: str, reason: str) -> None:
        """Note that a link is down, and with it what was sent and has no answer, and the answers owed."""

    def transfer_arrived(self, arrived: Arrived) -> None:
        """Take a copy. One with a number is owed an `acknowledge`."""

    def transfer_refused(self, peer: str, transfer: Transfer, message: Message | None, reason: str) -> None:
        """Note a copy that was denied to the peer: it cannot be read (message None) or is forged."""

    def control_arrived(self, arrived: ControlArrived) -> None:
        """Take what the peer's router says; it is owed an `acknowledge`."""

    def acknowledged(self, peer: str, settled: Settled) -> None:
        """Take what the peer says became of a copy or control."""

    def dropped(self, peer: str, transfers: list[Transfer]) -> None:
        """Called with unguaranteed copies that were not written before the link went down."""

    def room(self, peer: str) -> None:
        """Called when `has_room` is true again after it was false."""

    def probe_arrived(self, peer: str, probe: Probe) -> None:
        """Call `answer_probe` from where arrivals are handled: the answer proves that they are."""

    async def input_room(self) -> None:
        """Return once more may arrive. Waited for between batches, so that a slow disk slows the peers."""


class Links(Protocol):
    """What the broker may ask of the links."""

    def has_room(self, peer: str) -> bool:
        """Whether a transfer can be sent; False for who is no peer. `RouterPort.room` tells of a change."""

    def has_memory(self, peer: str) -> bool:
        """Whether an unguaranteed transfer can be sent, if only to wait; else it is to be dropped."""

    def last_sent(self, peer: str, reference: object) -> tuple[int, int]:
        """The attempt of the last transfer with this reference that a peer has still to answer, and when it
        was sent, UTC microseconds; 0 and 0 where there is none.
        """

    def send(self, peer: str, unit: Transfer | Control, lane: Lane) -> int:
        """Send a unit as soon as there is a link; returns its number, 0 for an unguaranteed copy.

        Never refuses, whatever `has_room` says. Transfers go in the urgent or the bulk lane, controls in
        the control lane. Raises KeyError for who is no peer.
        """

    def acknowledge(
        self, peer: str, connection: int, numbers: Iterable[int], outcome: TransferOutcome, reason: str = ""
    ) -> None:
        """Tell the peer that what the outcome promises is on disk, unless the link is another one by now."""

    def answer_probe(self, peer: str, probe: Probe) -> None:
        """Send a probe back."""

    def end(self, peer: str, reason: str) -> None:
        """End the link with a peer, if there is one; it is dialled again."""

    def status(self) -> list[LinkStatus]:
        """All peers, by name."""
