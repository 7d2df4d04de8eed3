"""The accounts of a site, as they stand in a file of TOML:

    [accounts.ann]
    password = "$argon2id$v=19$m=19456,t=2,p=1$..."
    disabled = false

    [accounts.ann.rights]
    publish = ["orders.#"]
    subscribe = ["orders.#", "news.*"]
    operate = "look"

    [accounts.ann.quotas]
    held_messages_max = 10_000

    [accounts.ann.tokens.grafana]
    hash = "9f86d081884c7d65..."
    created = 2030-01-31T12:00:00Z

Rights are patterns of topics, and what may be done at the site itself: see `routing.rights`. Quotas are what
it may use, where the configuration's own are not to hold: see `routing.quotas.OwnQuotas`. Tokens are for
programs: see `daemon.accounts.tokens`. `daemon.accounts.accounts_editor` changes the file.
"""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from daemon.accounts.passwords import PHC_PATTERN, lacking
from daemon.accounts.tokens import TOKEN_EXPECTED, TOKEN_NAME, Token
from daemon.configuration.config import nearest, read_toml, typed
from daemon.settings import ConfigError
from daemon.system import private_files
from routing.names import ACCOUNT_PATTERN, DEAD_LETTER_PREFIX, SERVER_ACCOUNT
from routing.quotas import OwnQuotas
from routing.rights import Rights

ACCOUNT_NAME: Final = re.compile(rf"(?!{re.escape(DEAD_LETTER_PREFIX)}|{SERVER_ACCOUNT}\Z){ACCOUNT_PATTERN}")
"""`dead.` is kept for dead-letter topics: the system topic of an account `dead.ann` would be
where the dead letters of `ann` go. `smqpd` is the server's own: receipts come from it."""

ACCOUNT_EXPECTED: Final = "an account name is 1 to 64 of A-Z a-z 0-9 . _ + -, and not `smqpd` or `dead.`..."


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One account, as it stands in the file; `password` is an Argon2id hash in PHC form."""

    password: Annotated[
        str, msgspec.Meta(pattern=PHC_PATTERN, extra={"expected": "an Argon2id hash; see `smqpd account`"})
    ]
    disabled: bool = False
    rights: Rights = Rights()
    quotas: OwnQuotas = OwnQuotas()
    tokens: dict[str, Token] = {}

    @property
    def version(self) -> str:
        """Names what it may do: another one where that is something else."""
        said = msgspec.json.encode((self.disabled, self.rights, self.quotas))
        return hashlib.blake2b(said, digest_size=8).hexdigest()


def read_accounts(path: Path) -> dict[str, Account]:
    """All accounts. Raises ConfigError, also where the file is open to others."""
    document = read_toml(path)
    try:
        private_files.refuse_loose(path)
    except PermissionError as error:
        raise ConfigError(path, "", str(error)) from None
    return parse_accounts(path, document)


def parse_accounts(path: Path, document: dict[str, Any]) -> dict[str, Account]:
    """All accounts of a file with this content. Raises ConfigError."""
    for key in document:
        if key != "accounts":
            raise ConfigError(path, key, "unknown key" + nearest(key, ["accounts"]))
    tables = document.get("accounts", {})
    if not isinstance(tables, dict):
        raise ConfigError(path, "accounts", "expected tables [accounts.NAME]")
    accounts = {}
    for name, table in tables.items():
        key = f"accounts.{name}"
        if not ACCOUNT_NAME.fullmatch(name):
            raise ConfigError(path, key, ACCOUNT_EXPECTED)
        if not isinstance(table, dict):
            raise ConfigError(path, key, f"expected a table [{key}]")
        accounts[name] = typed(path, key, table, Account)
        if lacks := lacking(accounts[name].password):
            raise ConfigError(path, f"{key}.password", f"expected an Argon2id hash with {lacks}")
        for token in accounts[name].tokens:
            if not TOKEN_NAME.fullmatch(token):
                raise ConfigError(path, f"{key}.tokens.{token[:80]}", TOKEN_EXPECTED)
    return accounts


class NoSuchAccountError(Exception):
    """The file has no account of this name; the text names the nearest."""


class ChangedMeanwhileError(Exception):
    """What was to be changed is not what it was when that was decided; nothing was changed."""
