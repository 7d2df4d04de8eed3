"""Who may log in to a running site, and with which rights.

A wrong password, an unknown account and a disabled one are answered alike, after the same work and a delay,
0.5 s at first and 8 s at most for an account from one address. Who guesses is slowed, who knows the password
is not:

    wrong a short while ago, and the same again    refused after the delay, without work
    right a short while ago                        let in without work (`remembered_passwords`)
    else                                           verified, in turn (`verifying`)

Of one account from one address `GUESSES` different passwords may be tried at once, and then one in
`GUESS_S`; a right one gives its guess back. A client that is set up with an old password tries the same one
again and again, and so holds up nobody. No try is made to wait for its guess longer than `GUESS_WAIT_S`,
since the right one may be among them: who has many connections tries as many passwords in that time.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon.accounts.accounts_file import Account, read_accounts
from daemon.accounts.passwords import unmatched_hash
from daemon.accounts.remembered_passwords import RememberedPasswords
from daemon.accounts.tokens import token_hash
from daemon.accounts.verifying import Verifier
from daemon.connections.addresses import counted_as
from daemon.frontend import Identity
from daemon.system.outlasting import OutlastingMemory
from routing.errors import Refusal
from routing.quotas import Quotas
from routing.rights import RightsTable

FIRST_DELAY_S: Final = 0.5
DELAY_S_MAX: Final = 8.0
FORGET_S: Final = 900.0

GUESSES: Final = 30
GUESS_S: Final = 1.0

GUESS_WAIT_S: Final = 4.0
"""The longest wait for a guess: what a flood of others costs who knows the password, besides its hashes."""

PAIRS_MAX: Final = 10_000
"""Accounts at addresses of which something is remembered; what is of one address is forgotten together."""

ACCOUNTS_MAX: Final = 64
"""Of one address; the one with the fewest failures is forgotten first."""

WRONG_MAX: Final = 16
"""Wrong passwords that are remembered of one account from one address."""


class _Pair(msgspec.Struct, eq=False):
    """One account from one address.

    Attributes:
        failures: since the last success.
        failed_at: trio's time of the last one.
        used_until: trio's time when all guesses will be there again.
        pending: tries that are being verified, by the mark of their password.
        wrong: marks of passwords, with the hash that each was wrong for.
    """

    failures: int = 0
    failed_at: float = 0.0
    used_until: float = 0.0
    pending: dict[bytes, int] = {}
    wrong: dict[bytes, str] = {}

    def guess(self, now: float) -> float:
        """Take a guess; returns trio's time when it may be made."""
        may_be_made_at = min(max(self.used_until - GUESSES * GUESS_S + GUESS_S, now), now + GUESS_WAIT_S)
        self.used_until = min(max(self.used_until, now), may_be_made_at + (GUESSES - 1) * GUESS_S) + GUESS_S
        return may_be_made_at

    def note_wrong(self, mark: bytes, phc: str) -> None:
        """Note that a password, as `mark` names it, is not the one that the hash was made from."""
        self.wrong.pop(mark, None)
        self.wrong[mark] = phc
        if len(self.wrong) > WRONG_MAX:
            del self.wrong[next(iter(self.wrong))]

    def failed(self) -> float:
        """Count a failure; returns the seconds after which it is answered."""
        self.failures += 1
        self.failed_at = trio.current_time()
        return min(FIRST_DELAY_S * 2.0 ** min(self.failures - 1, 10), DELAY_S_MAX)

    def forgive(self) -> None:
        """Give back the guess that was the right password, and count failures from the first again."""
        self.failures = 0
        self.used_until -= GUESS_S


def wrong_login() -> Refusal:
    """The same for who is not there, who is disabled and who has another password, or it would tell which."""
    return Refusal(Refusal.BAD_LOGIN, "account or password is wrong")


class Accounts:
    """The accounts of a site, as the file says or, where that went bad, as it last said."""

    def __init__(self, path: Path, server_name: str, memory: OutlastingMemory | None = None) -> None:
        """Reads the file. Raises ConfigError. `memory` is where passwords are remembered over a restart."""
        self._path = path
        self._server_name = server_name
        self._verifier = Verifier()
        self._remembered = RememberedPasswords(memory)
        self._addresses: OrderedDict[str, dict[str, _Pair]] = OrderedDict()  # pairs by account
        self._pairs = 0
        self._nobody = unmatched_hash()
        self._default_quotas = Quotas()
        self._quotas: dict[str, Quotas] = {}  # over these defaults; asked for with each message
        self.replace(self.read())

    def read(self) -> dict[str, Account]:
        """What the file says now; changes nothing. Raises ConfigError."""
        return read_accounts(self._path)

    def replace(self, accounts: dict[str, Account]) -> None:
        """Let these be the accounts from now on. Sessions that are open are not looked at."""
        self._accounts = accounts
        self._quotas.clear()
        self._remembered.keep(
            {name: account.password for name, account in accounts.items() if not account.disabled}
        )
        self._tokens = {
            token.hash: (name, called, token.expires)
            for name, account in accounts.items()
            for called, token in account.tokens.items()
        }
        self.rights = rights_table(self._server_name, accounts)

    @property
    def every(self) -> dict[str, Account]:
        """All of them, by name."""
        return dict(sorted(self._accounts.items()))

    def quotas(self, account: str, defaults: Quotas) -> Quotas:
        """What the account may use; `defaults` are those of the configuration."""
        if defaults is not self._default_quotas:
            self._default_quotas = defaults
            self._quotas.clear()
        quotas = self._quotas.get(account)
        if quotas is None:
            found = self._accounts.get(account)
            if found is None:
                return defaults
            quotas = self._quotas[account] = found.quotas.over(defaults)
        return quotas

    def enabled(self, account: str) -> bool:
        """Whether the account is there and may be used."""
        found = self._accounts.get(account)
        return found is not None and not found.disabled

    def credential(self, account: str) -> str:
        """Names the password that the account has: another one where it is changed; "" for no account."""
        found = self._accounts.get(account)
        return "" if found is None else hashlib.sha256(found.password.encode()).hexdigest()

    def may_subscribe(self, account: str, topic: str) -> bool:
        """See `routing.matching.SubscribeRights`."""
        return self.rights.allows(account, "subscribe", topic)

    def subscribable(self, account: str, pattern: str) -> list[str]:
        """See `SubscribeRights`."""
        return self.rights.subscribable(account, pattern)

    def why_refused(self, account: str) -> str:
        """The reason why this account and its password were refused, for the log alone."""
        found = self._accounts.get(account)
        if found is None:
            return "there is no such account"
        return "the account is disabled" if found.disabled else "the password is wrong"

    async def authenticate(self, account: str, password: str, remote: str) -> Identity:
        """Check a password; `remote` is the peer's address, with or without its port.

        Raises Refusal (bad-login). Who is cancelled has used up its guess. It can take longer than a client
        has to log in: that time is the site's, and is not to be counted.
        """
        account, address = account[:65], counted_as(remote)
        began = trio.current_time()
        mark = self._remembered.mark(account, password)
        pair = self._pair(address, account)
        phc = self._hash(account)
        right = False
        if pair.wrong.get(mark) != phc and mark not in pair.pending:
            if (may_be_made_at := pair.guess(began)) > began:
                await trio.sleep_until(may_be_made_at)
            phc = self._hash(account)
        if pair.wrong.get(mark) != phc:
            right = await self._verify(pair, mark, account, password, phc, address)
            if right and self.enabled(account) and self._hash(account) == phc:
                pair.forgive()
                if not (pair.wrong or pair.pending):
                    self._forget(address, account, pair)
                await trio.lowlevel.checkpoint_if_cancelled()
                return Identity(account=account)
        if not right:
            pair.note_wrong(mark, phc)
        await trio.sleep_until(max(began + pair.failed(), trio.current_time()))
        raise wrong_login()

    async def authenticate_token(self, token: str, remote: str) -> tuple[Identity, str]:
        """Whose token it is, and what that is called. Raises Refusal (bad-login), as late as for passwords.

        Who has one is not slowed by who guesses.
        """
        found = self._tokens.get(token_hash(token))
        if found is not None:
            account, called, expires = found
            if self.enabled(account) and (expires is None or expires > datetime.now(UTC)):
                await trio.lowlevel.checkpoint()
                return Identity(account=account), called
        began = trio.current_time()
        pair = self._pair(counted_as(remote), "")  # no account has this name
        await trio.sleep_until(max(pair.guess(began), began + pair.failed()))
        raise Refusal(Refusal.BAD_LOGIN, "the token is wrong, or has ended")

    def why_token_refused(self, token: str) -> str:
        """The reason why this token was refused, for the log alone."""
        found = self._tokens.get(token_hash(token))
        if found is None:
            return "there is no such token"
        account, called, _ = found
        return f"the token {called} has expired" if self.enabled(account) else f"{account} is disabled"

    async def _verify(
        self, pair: _Pair, mark: bytes, account: str, password: str, phc: str, address: str
    ) -> bool:
        """Whether the hash is of this password, whether or not the account may be used."""
        pair.pending[mark] = pair.pending.get(mark, 0) + 1
        try:
            if self.enabled(account) and self._remembered.knows(account, password, phc):
                return True
            right = await self._verifier.verify(mark, password, phc, address)
            if right and self.enabled(account) and self._hash(account) == phc:
                self._remembered.note(account, password, phc)
            return right
        finally:
            pair.pending[mark] -= 1
            if not pair.pending[mark]:
                del pair.pending[mark]

    def _hash(self, account: str) -> str:
        """What a password of this account is verified against; for an unknown one as well."""
        found = self._accounts.get(account)
        return found.password if found is not None else self._nobody

    def _pair(self, address: str, account: str) -> _Pair:
        """What is remembered, or nothing yet."""
        of_address = self._addresses.setdefault(address, {})
        self._addresses.move_to_end(address)
        pair = of_address.get(account)
        if pair is None:
            if len(of_address) >= ACCOUNTS_MAX:
                least = min(of_address, key=lambda name: of_address[name].failures)
                self._forget(address, least, of_address[least])
                of_address = self._addresses.setdefault(address, of_address)
            pair = of_address[account] = _Pair()
            self._pairs += 1
            while self._pairs > PAIRS_MAX:
                self._pairs -= len(self._addresses.popitem(last=False)[1])
        elif trio.current_time() - pair.failed_at > FORGET_S:
            pair.failures = 0
        return pair

    def _forget(self, address: str, account: str, pair: _Pair) -> None:
        """Where that is what is remembered: it may have made room for others meanwhile."""
        of_address = self._addresses.get(address, {})
        if of_address.get(account) is pair:
            del of_address[account]
            self._pairs -= 1
            if not of_address:
                del self._addresses[address]


def rights_table(server_name: str, accounts: Mapping[str, Account]) -> RightsTable:
    """The table of who may do what at the site of this name."""
    return RightsTable(
        server_name,
        {name: account.rights for name, account in accounts.items()},
        [name for name, account in accounts.items() if account.disabled],
    )
