"""Passwords that were right a short while ago, so that logging in again does not cost a slow hash each time.

Nothing of it is ever on disk. Of a password only a digest is kept: PBKDF2 with a salt of its own and a random
key. Key and digests outlast a restart, after which everybody comes back at once, in the memory that
`daemon.system.outlasting` describes; where that is not to be had they are the process's own.
`daemon/README.md` says what that is worth to who can read its memory.
"""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from typing import Annotated, Final

import msgspec
import trio

from daemon.system.outlasting import OutlastingMemory

ACCOUNTS_MAX: Final = 20_000
"""The one that was right longest ago is forgotten first."""

REMEMBER_S: Final = 3_600.0
"""After it was right last."""

ROUNDS: Final = 1_000
"""Half a millisecond: enough for a thousand logins a second, and a thousand times the work of a bare hash."""


WRITE_AGAIN_S: Final = 900.0
"""A later use is written to the memory that outlasts the process only so often."""

KEY_BYTES: Final = 32
SALT_BYTES: Final = 16


class _Remembered(msgspec.Struct):
    salt: bytes
    digest: bytes
    phc: str
    until: float
    written: float = 0.0
    """What the outlasting memory has for `until`."""


class _Written(msgspec.Struct, array_like=True):
    """A record of the outlasting memory; the first one is the key, bare. `until` is of CLOCK_BOOTTIME."""

    account: str
    salt: Annotated[bytes, msgspec.Meta(min_length=SALT_BYTES, max_length=SALT_BYTES)]
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    phc: str
    until: float


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Written).decode


class RememberedPasswords:
    """By account; each is bound to the hash in the accounts file that it was right for."""

    def __init__(self, memory: OutlastingMemory | None = None) -> None:
        """With `memory`, what an earlier process remembered there is remembered again; needs trio's clock."""
        self._accounts: OrderedDict[str, _Remembered] = OrderedDict()
        self._memory = memory
        key, *records = (memory.read() if memory is not None else []) or [b""]
        self._key = key if len(key) == KEY_BYTES else secrets.token_bytes(KEY_BYTES)
        if len(key) == KEY_BYTES:
            self._recall(records)
        self._write_all()

    def _recall(self, records: list[bytes]) -> None:
        now, boot_now = trio.current_time(), time.clock_gettime(time.CLOCK_BOOTTIME)
        for record in records:
            try:
                found = _decode(record)
            except msgspec.DecodeError:
                continue
            left_s = min(found.until - boot_now, REMEMBER_S)
            if left_s > 0:
                self._accounts[found.account] = _Remembered(found.salt, found.digest, found.phc, now + left_s)
                self._accounts.move_to_end(found.account)
        while len(self._accounts) > ACCOUNTS_MAX:
            self._accounts.popitem(last=False)

    def _write_all(self) -> None:
        if self._memory is not None:
            self._memory.replace([self._key, *map(self._record, self._accounts, self._accounts.values())])

    def _write(self, account: str, found: _Remembered) -> None:
        if self._memory is not None and not self._memory.append(self._record(account, found)):
            self._write_all()

    def _record(self, account: str, found: _Remembered) -> bytes:
        found.written = found.until
        until = time.clock_gettime(time.CLOCK_BOOTTIME) + found.until - trio.current_time()
        return _encode(_Written(account, found.salt, found.digest, found.phc, until))

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
        if found.until - found.written > WRITE_AGAIN_S:
            self._write(account, found)
        return True

    def note(self, account: str, password: str, phc: str) -> None:
        """Remember a password that has just been found right."""
        found = self._accounts.get(account)
        if found is not None and found.phc == phc:
            return  # many that log in at the same time find the same
        salt = secrets.token_bytes(SALT_BYTES)
        until = trio.current_time() + REMEMBER_S
        new = self._accounts[account] = _Remembered(salt, self._digest(password, salt), phc, until)
        self._accounts.move_to_end(account)
        self._write(account, new)
        if len(self._accounts) > ACCOUNTS_MAX:
            self._accounts.popitem(last=False)

    def keep(self, hashes: dict[str, str]) -> None:
        """Forget every account that is not among these, or has another hash now."""
        forgotten = [name for name, found in self._accounts.items() if hashes.get(name) != found.phc]
        for account in forgotten:
            del self._accounts[account]
        if forgotten:
            self._write_all()

    def mark(self, account: str, password: str) -> bytes:
        """Names a try to log in, so that tries with the same password can be told to be the same."""
        secret = password.encode("utf-8", "surrogatepass")
        named = len(account).to_bytes(4, "big") + account.encode("utf-8", "surrogatepass") + secret
        return hashlib.blake2b(named, key=self._key, digest_size=16).digest()

    def _digest(self, password: str, salt: bytes) -> bytes:
        secret = password.encode("utf-8", "surrogatepass")
        return hashlib.pbkdf2_hmac("sha256", secret, self._key + salt, ROUNDS)
