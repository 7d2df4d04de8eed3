"""Requests of urn:xmpp:qos to clients, which are sent again until they are answered."""

from collections.abc import Mapping
from typing import Protocol

import trio

from plugins.xmpp.delivery.client import Client
from plugins.xmpp.known.transfers import Transfer, Transfers
from plugins.xmpp.wire.component import Component, StanzaTooLargeError
from plugins.xmpp.wire.serializer import UnsendableError


class RepeatingPort(Protocol):
    """Whose they are; see `service.Service`."""

    is_up: bool
    transfers: Transfers

    @property
    def clients(self) -> Mapping[str, Client]: ...

    @property
    def component(self) -> Component: ...


class Repeating:
    """All that are unanswered."""

    def __init__(self, service: RepeatingPort) -> None:
        self._service = service
        self._changed = trio.Event()

    async def begin(self, transfer: Transfer) -> None:
        """Send one for the first time. Raises UnsendableError, StanzaTooLargeError."""
        service = self._service
        service.transfers.begin(transfer, trio.current_time())
        self._changed.set()
        try:
            await service.component.send(transfer.stanza)
        except (UnsendableError, StanzaTooLargeError):
            service.transfers.forget(transfer.jid, transfer.number)
            raise

    def restart(self) -> None:
        """Have all sent again, by a new stream."""
        self._service.transfers.restart(trio.current_time())
        self._changed.set()

    async def run(self) -> None:
        """Send again what is not answered. Runs until cancelled."""
        service = self._service
        while True:
            # without a stream nobody fails to answer
            next_at = service.transfers.next_at() if service.is_up else None
            self._changed = trio.Event()
            with trio.move_on_at(float("inf") if next_at is None else next_at):
                await self._changed.wait()
            again, given_up = service.transfers.due(trio.current_time())
            for transfer in given_up:
                if (client := service.clients.get(transfer.jid)) is not None:
                    client.gone()
            for transfer in again:
                await service.component.send(transfer.stanza)
