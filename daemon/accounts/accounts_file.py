"""The accounts of a site in TOML, for people and for `smqpd account`:

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
it may use, where the configuration's own are not to hold: see `daemon.settings.OwnQuotas`. Tokens are for
programs: see `daemon.accounts.tokens`. Changes keep comments and order, and replace the file whole, so that
the daemon never reads half of one.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import tomlkit
from tomlkit.items import Table

from daemon.accounts.passwords import PHC_PATTERN
from daemon.accounts.tokens import TOKEN_EXPECTED, TOKEN_NAME, Token
from daemon.configuration.config import nearest, parse_toml, read_toml, typed
from daemon.settings import ConfigError, OwnQuotas
from daemon.system import private_files
from routing.rights import RIGHTS, Rights

ACCOUNT_NAME: Final = re.compile(r"(?!dead\.|smqpd\Z)[A-Za-z0-9._+-]{1,64}")
"""`dead.` is kept for dead-letter topics: the system topic of an account `dead.ann` would be
where the dead letters of `ann` go. `smqpd` is the server's own: receipts come from it."""

ACCOUNT_EXPECTED: Final = "an account name is 1 to 64 of A-Z a-z 0-9 . _ + -, and not `smqpd` or `dead.`..."

HEADER: Final = """\
# The accounts of this site. Change them with `smqpd account`, which also tells a running site; after
# a change by hand `smqpd reload` does. Rights are topic patterns: `*` is one level, a last `#` any rest; who
# may `operate = "look"` or "change" logs in to the page of the site.

[accounts]
"""


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
    return _parse(path, document)


def _parse(path: Path, document: dict[str, Any]) -> dict[str, Account]:
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
        for token in accounts[name].tokens:
            if not TOKEN_NAME.fullmatch(token):
                raise ConfigError(path, f"{key}.tokens.{token[:80]}", TOKEN_EXPECTED)
    return accounts


class NoSuchAccountError(Exception):
    """The file has no account of this name; the text names the nearest."""


class ChangedMeanwhileError(Exception):
    """What was to be changed is not what it was when that was decided; nothing was changed."""


class AccountsEditor:
    """Changes to the file, made in memory; `edit` writes them."""

    def __init__(self, document: tomlkit.TOMLDocument, path: Path = Path("accounts.toml")) -> None:
        self._document = document
        self._path = path

    @property
    def accounts(self) -> dict[str, Account]:
        """All of them, as they are by now. Raises ConfigError."""
        return _parse(self._path, self._document.unwrap())

    def check_version(self, name: str, version: str) -> None:
        """Raises ChangedMeanwhileError where the account is another by now; NoSuchAccountError."""
        self._table(name)
        if self.accounts[name].version != version:
            raise ChangedMeanwhileError(f"{name} is not as it was shown: somebody has changed it since")

    @classmethod
    def parse(cls, text: str) -> "AccountsEditor":
        """For the text of a file that has been read before, or is new."""
        return cls(tomlkit.parse(text))

    def add(self, name: str, account: Account) -> None:
        """Raises FileExistsError where there is one of this name."""
        tables = self._tables()
        if name in tables:
            raise FileExistsError(f"there is an account {name} already")
        table = tomlkit.table()
        table["password"] = account.password
        table["disabled"] = account.disabled
        table["rights"] = self._rights_table(account.rights)
        tables[name] = table
        self.set_quotas(name, account.quotas)

    def remove(self, name: str) -> None:
        """Raises NoSuchAccountError."""
        self._table(name)
        del self._tables()[name]

    def set_password(self, name: str, phc: str) -> None:
        self._table(name)["password"] = phc

    def set_disabled(self, name: str, disabled: bool) -> None:
        self._table(name)["disabled"] = disabled

    def set_rights(self, name: str, rights: Rights) -> None:
        self._table(name)["rights"] = self._rights_table(rights)

    def set_quotas(self, name: str, quotas: OwnQuotas) -> None:
        table = self._table(name)
        table.pop("quotas", None)
        if quotas.given:
            table["quotas"] = tomlkit.item(quotas.given)

    def set_token(self, name: str, token: str, kept: Token) -> None:
        """Raises FileExistsError where it has one of this name."""
        table = self._table(name)
        tokens = table.setdefault("tokens", tomlkit.table(is_super_table=True))
        if token in tokens:
            raise FileExistsError(f"{name} has a token {token} already")
        tokens[token] = {
            key: value for key, value in msgspec.structs.asdict(kept).items() if value is not None
        }

    def remove_token(self, name: str, token: str) -> None:
        """Raises NoSuchAccountError."""
        tokens = self._table(name).get("tokens", {})
        if token not in tokens:
            raise NoSuchAccountError(f"{name} has no token {token}{nearest(token, tokens)}")
        del tokens[token]

    def text(self) -> str:
        return tomlkit.dumps(self._document)

    def _tables(self) -> Table:
        if "accounts" not in self._document:
            self._document["accounts"] = tomlkit.table()
        tables: Table = self._document["accounts"]
        return tables

    def _table(self, name: str) -> Table:
        tables = self._tables()
        if name not in tables:
            raise NoSuchAccountError(f"there is no account {name}{nearest(name, tables)}")
        table: Table = tables[name]
        return table

    @staticmethod
    def _rights_table(rights: Rights) -> Table:
        table = tomlkit.table()
        for right in RIGHTS:
            if getattr(rights, right):
                table[right] = list(getattr(rights, right))
        if rights.operate:
            table["operate"] = rights.operate
        return table


@contextmanager
def edit(path: Path, patience_s: float | None = None) -> Iterator[AccountsEditor]:
    """Change the file at `path`: one editor at a time, and all of the block's changes or none.

    Raises ConfigError where the file is bad before, or would be after, ChangedMeanwhileError where somebody
    has written it by hand meanwhile, and BlockingIOError where another editor is at it for longer than
    `patience_s`; it is then as it was.
    """
    with private_files.alone(path.parent, patience_s):
        read_accounts(path)
        before = path.read_text()
        editor = AccountsEditor(tomlkit.parse(before), path)
        yield editor
        text = editor.text()
        _parse(path, parse_toml(path, text.encode()))
        if path.read_text() != before:
            raise ChangedMeanwhileError(f"{path} has been written by hand meanwhile; try again")
        private_files.replace(path, text.encode())
