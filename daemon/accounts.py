"""Who may log in to a running site, and with which rights.

A wrong password, an unknown account and a disabled one are answered alike, after the same work. Each
failure of one account from one address makes the next answer to the pair later, 0.5 s at first and 8 s
at most; attempts of such a pair wait for each other, so that making many at a time gains nothing.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon.accounts_file import Account, read_accounts
from daemon.frontend import Identity
from daemon.passwords import generate_password, hash_password, verify_password
from routing.errors import Refusal
from routing.rights import RightsTable

VERIFICATIONS_MAX: Final = 2
"""At a time: each holds 19 MiB and a core."""

FIRST_DELAY_S: Final = 0.5
DELAY_S_MAX: Final = 8.0
FORGET_S: Final = 900.0
WAIT_S_MAX: Final = 30.0
"""An attempt that would have to wait longer behind others of its pair is refused at once."""

PAIRS_MAX: Final = 10_000
"""Pairs with failures that are remembered; the oldest is forgotten first."""


class _Failures(msgspec.Struct):
    """Of one account from one address.

    Attributes:
        count: since the last success.
        waiting: attempts that have their turn still to come; taken for failures until they are made.
        free_at: trio's time of the next free turn.
    """

    count: int = 0
    waiting: int = 0
    free_at: float = 0.0


class Accounts:
    """The accounts of a site, as the file says or, where that went bad, as it last said."""

    def __init__(self, path: Path, server_name: str) -> None:
        """Reads the file. Raises ConfigError."""
        self._path = path
        self._server_name = server_name
        self._verifying = trio.CapacityLimiter(VERIFICATIONS_MAX)
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._nobody = hash_password(generate_password())
        self.replace(self.read())

    def read(self) -> dict[str, Account]:
        """What the file says now; changes nothing. Raises ConfigError."""
        return read_accounts(self._path)

    def replace(self, accounts: dict[str, Account]) -> None:
        """From now on these are the accounts. Sessions that are open are not looked at."""
        self._accounts = accounts
        self.rights = RightsTable(
            self._server_name,
            {name: account.rights for name, account in accounts.items()},
            [name for name, account in accounts.items() if account.disabled],
        )

    def enabled(self, account: str) -> bool:
        """Whether the account is there and may be used."""
        found = self._accounts.get(account)
        return found is not None and not found.disabled

    async def authenticate(self, account: str, password: str, remote: str) -> Identity:
        """Check a password; `remote` is the peer's address, with or without its port.

        Raises Refusal(bad-login). A wrong password counts also where the caller is cancelled meanwhile.
        """
        pair = (account[:65], _host(remote))
        while True:
            delayed = await self._turn(pair)
            async with self._verifying:
                if not delayed and pair in self._failures:
                    continue
                found = self._accounts.get(account)
                phc = found.password if found else self._nobody
                right = await trio.to_thread.run_sync(verify_password, password, phc)
                break
        if right and self.enabled(account):
            self._failures.pop(pair, None)
            return Identity(account=account)
        await trio.sleep(self._failed(pair))
        raise Refusal(Refusal.BAD_LOGIN, "account or password is wrong")

    async def _turn(self, pair: tuple[str, str]) -> bool:
        """Wait behind the other attempts of a pair that has failures; False for a pair without."""
        failures = self._failures.get(pair)
        now = trio.current_time()
        if failures is None or now - failures.free_at > FORGET_S:
            self._failures.pop(pair, None)
            return False
        if failures.free_at - now > WAIT_S_MAX:
            raise Refusal(Refusal.BAD_LOGIN, "too many attempts; wait and try again")
        turn = max(failures.free_at, now)
        failures.waiting += 1
        failures.free_at = turn + _delay_s(failures.count + failures.waiting)
        try:
            await trio.sleep_until(turn)
        finally:
            failures.waiting -= 1
        return True

    def _failed(self, pair: tuple[str, str]) -> float:
        """Count a failure; returns the seconds after which it is answered."""
        failures = self._failures.pop(pair, None) or _Failures()
        self._failures[pair] = failures
        if len(self._failures) > PAIRS_MAX:
            self._failures.popitem(last=False)
        failures.count += 1
        delay_s = _delay_s(failures.count)
        failures.free_at = max(failures.free_at, trio.current_time() + delay_s)
        return delay_s


def _delay_s(count: int) -> float:
    return min(FIRST_DELAY_S * 2.0 ** min(count - 1, 10), DELAY_S_MAX)


def _host(remote: str) -> str:
    host, colon, port = remote.rpartition(":")
    return host if colon and port.isdigit() else remote
