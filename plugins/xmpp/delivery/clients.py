"""Who is logged in: a client for each full JID, within the bounds of the service and of its account."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import trio

from daemon.frontend import Identity, Right, Session
from plugins.xmpp.delivery.client import Client, ClientPort
from plugins.xmpp.forms.node_record import FRONT_END
from plugins.xmpp.forms.stanzas import StanzaError
from plugins.xmpp.known.identities import AccountRules, NoAccount, bare_of, channel_of
from plugins.xmpp.settings import XmppSettings
from routing.errors import Refusal

IDLE_S: Final = 300.0
"""After which the session of a JID that has nothing to do with us is closed."""


class ClientsPort(ClientPort, Protocol):
    """Whose they are; see `service.Service`."""

    settings: XmppSettings
    rules: AccountRules

    def start(self, task: Callable[[], Awaitable[object]], what: str = "") -> None: ...


class Clients(Mapping[str, Client]):
    """All, by full JID."""

    def __init__(self, service: ClientsPort) -> None:
        self._service = service
        self._by_jid: dict[str, Client] = {}
        self._of_accounts: dict[str, dict[str, Client]] = {}
        self._fewer = trio.Event()

    def __getitem__(self, jid: str) -> Client:
        return self._by_jid[jid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_jid)

    def __len__(self) -> int:
        return len(self._by_jid)

    def of(self, jid: str) -> Client:
        """The client of a full JID, logged in where it was not. Raises StanzaError, Refusal."""
        client = self._by_jid.get(jid)
        if client is None:
            account = self._service.rules.account_of(bare_of(jid))
            if account is None:
                raise NoAccount
            most, of_account = self._service.settings.clients_max, self._of_accounts.get(account, {})
            if len(self) >= most or len(of_account) >= max(most // 2, 1):
                raise StanzaError("resource-constraint", "wait", "too many clients")
            session = self._log_in(account, jid)
            client = self._by_jid[jid] = of_account[jid] = Client(self._service, jid, session)
            self._of_accounts[account] = of_account
            for each in self._service.registry.take_left_over(jid):
                client.quietly(session.unsubscribe, each.node, each.name)
            self._service.start(partial(self._run, client), f"the session of {jid}")
        return client

    def _log_in(self, account: str, jid: str) -> Session:
        try:
            return self._service.site.open_session(
                Identity(account=account), channel_of(jid), protocol=FRONT_END, remote=jid
            )
        except Refusal as refusal:
            if refusal.code == Refusal.BAD_LOGIN:
                raise NoAccount from refusal
            raise

    async def _run(self, client: Client) -> None:
        try:
            await client.run()
        finally:
            self._forget(client)

    def _forget(self, client: Client) -> None:
        service, of_account = self._service, self._of_accounts[client.session.account]
        del self._by_jid[client.jid], of_account[client.jid]
        if not of_account:
            del self._of_accounts[client.session.account]
        for subscription in service.registry.of(client.jid):
            service.registry.detached(subscription)
        service.ask_later(client.jid)
        service.assured.forget_sender(client.jid)
        fewer, self._fewer = self._fewer, trio.Event()
        fewer.set()

    def allowed(self, node: str, *rights: Right) -> Client | None:
        """Any client whose account has these rights on a node; None where there is none."""
        for clients in self._of_accounts.values():
            client = next(iter(clients.values()))
            if all(client.session.allows(right, node) for right in rights):
                return client
        return None

    async def all_gone(self) -> None:
        """Wait until all sessions have ended."""
        while self._by_jid:
            await self._fewer.wait()

    async def close_idle(self) -> None:
        """Close sessions that nobody uses. Runs until cancelled."""
        while True:
            await trio.sleep(IDLE_S / 5)
            self._service.assured.forget_old(trio.current_time())
            for client in list(self.values()):
                with suppress(Refusal):  # it is less now, or as much
                    client.session.hold_now(self._service.memory_of(client.jid))
                if client.idle and trio.current_time() - client.seen_at > IDLE_S:
                    client.session.close(why=f"nobody used it for {IDLE_S:g} s")
