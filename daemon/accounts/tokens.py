"""Tokens: what a program shows in the place of account and password, where its front end takes them.

One is 256 random bits, so of it a plain digest is kept, with the account; a slow hash would add nothing. It
has the rights of its account, each is revoked by itself, and it does not end with the password.
"""

import hashlib
import re
import secrets
from datetime import datetime
from typing import Annotated, Final

import msgspec

TOKEN_PREFIX: Final = "smqpd_"
"""So that people, and programs that look for secrets in files, see what it is."""

TOKEN_NAME: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}")
TOKEN_EXPECTED: Final = "the name of a token is 1 to 64 of A-Z a-z 0-9 . _ + -"
TOKENS_MAX: Final = 100
"""Of one account."""

Time = Annotated[
    datetime, msgspec.Meta(tz=True, extra={"expected": "a time with its offset, as 2030-01-31T12:00:00Z"})
]


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """As it stands in the file. Without `expires` it holds until it is revoked."""

    hash: Annotated[
        str,
        msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z", extra={"expected": "a digest; see `smqpd account token`"}),
    ]
    created: Time
    expires: Time | None = None


def make_token() -> str:
    """A new token, to be shown once."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """The hash of a token, which is what is kept of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
