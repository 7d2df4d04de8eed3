"""Passwords that were right a short while ago, so that logging in again does not cost a slow hash each time.

Nothing of it is ever written. Of a password only a digest is kept: PBKDF2 with a salt of its own and a key
that is random for each process. `daemon/README.md` says what that is worth to who can read its memory.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import Final

import msgspec
import trio

ACCOUNTS_MAX: Final = 20_000
"""The one that was right longest ago is forgotten first."""

REMEMBER_S: Final = 3_600.0
"""After it was right last."""

ROUNDS: Final = 1_000
"""Half a millisecond: enough for a thousand logins a second, and a thousand times the work of a bare hash."""


class _Remembered(msgspec.Struct):
    salt: bytes
    digest: bytes
    phc: str
    until: float


class RememberedPasswords:
    """By account; each is bound to the hash in the accounts file that it was right for."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._accounts: OrderedDict[str, _Remembered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def knows(self, account: str, password: str, phc: str) -> bool:
        """Whether the password was right for this hash a short while ago; False tells nothing."""
        found = self._accounts.get(account)
        if found is None or found.phc != phc:
            return False
        if found.until < trio.current_time():
            del self._accounts[account]
            return False
        if not hmac.compare_digest(self._digest(password, found.salt), found.digest):
            return False
        found.until = trio.current_time() + REMEMBER_S
        self._accounts.move_to_end(account)
        return True

    def note(self, account: str, password: str, phc: str) -> None:
        """Remember a password that has just been found right."""
        found = self._accounts.get(account)
        if found is not None and found.phc == phc:
            return  # many that log in at the same time find the same
        salt = secrets.token_bytes(16)
        until = trio.current_time() + REMEMBER_S
        self._accounts[account] = _Remembered(salt, self._digest(password, salt), phc, until)
        self._accounts.move_to_end(account)
        if len(self._accounts) > ACCOUNTS_MAX:
            self._accounts.popitem(last=False)

    def keep(self, hashes: dict[str, str]) -> None:
        """Forget every account that is not among these, or has another hash now."""
        for account in [name for name, found in self._accounts.items() if hashes.get(name) != found.phc]:
            del self._accounts[account]

    def mark(self, account: str, password: str) -> bytes:
        """Names a try to log in, so that tries with the same password can be told to be the same."""
        secret = password.encode("utf-8", "surrogatepass")
        named = len(account).to_bytes(4, "big") + account.encode("utf-8", "surrogatepass") + secret
        return hashlib.blake2b(named, key=self._key, digest_size=16).digest()

    def _digest(self, password: str, salt: bytes) -> bytes:
        secret = password.encode("utf-8", "surrogatepass")
        return hashlib.pbkdf2_hmac("sha256", secret, self._key + salt, ROUNDS)
