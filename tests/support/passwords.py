"""Hashes of passwords that cost next to nothing to verify: the tests log in thousands of times."""

import os

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id


def cheap_hash(password: str) -> str:
    """As `daemon.accounts.passwords` keeps it, but for 64 KiB and one pass."""
    kdf = Argon2id(salt=os.urandom(16), length=32, iterations=1, lanes=1, memory_cost=64)
    return kdf.derive_phc_encoded(password.encode())
