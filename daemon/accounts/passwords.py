"""Passwords are kept as Argon2id hashes in PHC form, with OWASP's second recommended cost: 19 MiB, 2 passes.

`hash_password` and `verify_password` block for about 30 ms of one core and hold 19 MiB meanwhile.
"""

import base64
import os
import re
import secrets
from typing import Final

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

MEMORY_KIB: Final = 19_456
PASSES: Final = 2
LANES: Final = 1
PASSWORD_BYTES_MAX: Final = 1_024
"""What is longer is no password; it is refused before it is hashed."""

PHC_PATTERN: Final = (
    r"^\$argon2id\$v=19\$m=[1-9][0-9]{1,5},t=[1-9][0-9]?,p=[1-9]"
    r"\$[A-Za-z0-9+/]{11,64}\$[A-Za-z0-9+/]{22,86}\Z"
)
"""Bounds the cost too: a hash may ask for 1 GB at most."""

_COST: Final = re.compile(r"m=([0-9]+),t=[0-9]+,p=([0-9]+)")


def hash_password(password: str) -> str:
    """The PHC string to keep. Raises ValueError where `password` is empty or too long."""
    secret = password.encode()
    if not 1 <= len(secret) <= PASSWORD_BYTES_MAX:
        raise ValueError(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
    kdf = Argon2id(salt=os.urandom(16), length=32, iterations=PASSES, lanes=LANES, memory_cost=MEMORY_KIB)
    return kdf.derive_phc_encoded(secret)


def unmatched_hash() -> str:
    """A PHC string that no password matches; to verify one against it takes as long as against any other."""
    salt, digest = (base64.b64encode(os.urandom(size)).decode().rstrip("=") for size in (16, 32))
    return f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${digest}"


def verify_password(password: str, phc: str) -> bool:
    """Whether `phc` was made from `password`; the same time is spent when it was not."""
    secret = password.encode("utf-8", "surrogatepass")[: PASSWORD_BYTES_MAX + 1]
    try:
        Argon2id.verify_phc_encoded(secret, phc)
    except InvalidKey:
        return False
    return len(secret) <= PASSWORD_BYTES_MAX


def lacking(phc: str) -> str:
    """What keeps every password from being verified against a hash of this pattern; "" for nothing.

    Source: RFC 9106 3.1.
    """
    cost = _COST.search(phc)
    assert cost is not None
    memory_kib, lanes = int(cost[1]), int(cost[2])
    return f"m of {8 * lanes} at least, as p is {lanes}" if memory_kib < 8 * lanes else ""


def generate_password() -> str:
    """20 letters and digits in groups, 100 bits: to be shown once and typed if need be."""
    alphabet = "abcdefghijkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(alphabet) for _ in range(5)) for _ in range(4))
