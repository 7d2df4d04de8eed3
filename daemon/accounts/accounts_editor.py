"""Changes to the accounts file by programs: comments and order stay, and the file is replaced whole.

So the daemon never reads half of one. It reads the file without this, and the library that keeps comments.

That library puts no table into what is written with dotted keys or inline tables. Such an account, or all of
them where they are written so as one, is written anew before it gets one, and only then loses its comments.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import tomlkit
from tomlkit.container import Container
from tomlkit.items import InlineTable, Table

from daemon.accounts.accounts_file import (
    Account,
    ChangedMeanwhileError,
    NoSuchAccountError,
    parse_accounts,
    read_accounts,
)
from daemon.accounts.tokens import Token
from daemon.configuration.config import nearest, parse_toml
from daemon.system import private_files
from routing.quotas import OwnQuotas
from routing.rights import RIGHTS, Rights

HEADER: Final = """\
# The accounts of this site. Change them with `smqpd account`, which also tells a running site; after
# a change by hand `smqpd reload` does. Rights are topic patterns: `*` is one level, a last `#` any rest; who
# may `operate = "look"` or "change" logs in to the page of the site.

[accounts]
"""


class AccountsEditor:
    """Changes to the file, made in memory; `edit` writes them."""

    def __init__(self, document: tomlkit.TOMLDocument, path: Path = Path("accounts.toml")) -> None:
        self._document = document
        self._path = path

    @property
    def accounts(self) -> dict[str, Account]:
        """All accounts, as they are by now. Raises ConfigError."""
        return parse_accounts(self._path, self._document.unwrap())

    def account(self, name: str) -> Account:
        """One of them, as it is by now. Raises NoSuchAccountError, ConfigError."""
        self._table(name)
        return self.accounts[name]

    def check_version(self, name: str, version: str) -> None:
        """Raises ChangedMeanwhileError where the account is another by now; NoSuchAccountError."""
        if self.account(name).version != version:
            raise ChangedMeanwhileError(f"{name} is not as it was shown: somebody has changed it since")

    @classmethod
    def parse(cls, text: str) -> "AccountsEditor":
        """An editor of the text of a file that has been read before, or is new."""
        return cls(tomlkit.parse(text))

    def add(self, name: str, account: Account) -> None:
        """Add an account. Raises FileExistsError where there is one of this name."""
        tables = self._ordinary_tables()
        if name in tables:
            raise FileExistsError(f"there is an account {name} already")
        table = tomlkit.table()
        table["password"] = account.password
        table["disabled"] = account.disabled
        table["rights"] = self._rights_table(account.rights)
        tables[name] = table
        self.set_quotas(name, account.quotas)

    def remove(self, name: str) -> None:
        """Remove an account. Raises NoSuchAccountError."""
        self._table(name)
        del self._tables()[name]

    def set_password(self, name: str, phc: str) -> None:
        self._table(name)["password"] = phc

    def set_disabled(self, name: str, disabled: bool) -> None:
        self._table(name)["disabled"] = disabled

    def set_rights(self, name: str, rights: Rights) -> None:
        self._ordinary_table(name)["rights"] = self._rights_table(rights)

    def set_quotas(self, name: str, quotas: OwnQuotas) -> None:
        table = self._ordinary_table(name)
        table.pop("quotas", None)
        if quotas.given:
            table["quotas"] = tomlkit.item(quotas.given)

    def set_token(self, name: str, token: str, kept: Token) -> None:
        """Add a token to an account. Raises FileExistsError where it has one of this name."""
        table = self._ordinary_table(name)
        tokens = table.setdefault("tokens", tomlkit.table(is_super_table=True))
        if isinstance(tokens, InlineTable):
            table["tokens"] = tomlkit.item(tokens.unwrap())
            tokens = table["tokens"]
        if token in tokens:
            raise FileExistsError(f"{name} has a token {token} already")
        tokens[token] = {
            key: value for key, value in msgspec.structs.asdict(kept).items() if value is not None
        }

    def remove_token(self, name: str, token: str) -> None:
        """Remove a token of an account. Raises NoSuchAccountError, also without such a token."""
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

    def _ordinary_tables(self) -> Table:
        """All of them, in which there is room for a table."""
        tables = self._tables()
        if isinstance(tables, Table) and not _is_dotted(self._document, "accounts"):
            return tables
        every = tables.unwrap()
        del self._document["accounts"]
        self._document["accounts"] = tomlkit.table(is_super_table=True)
        for name, account in every.items():
            self._tables()[name] = tomlkit.item(account)
        return self._tables()

    def _ordinary_table(self, name: str) -> Table:
        """The same of one."""
        self._table(name)
        tables = self._ordinary_tables()
        table, written = tables[name], tables.value
        if isinstance(table, InlineTable) or _is_dotted(written, name) or _has_dotted_keys(written, name):
            del tables[name]
            tables[name] = tomlkit.item(table.unwrap())
        return self._table(name)

    @staticmethod
    def _rights_table(rights: Rights) -> Table:
        table = tomlkit.table()
        for right in RIGHTS:
            if getattr(rights, right):
                table[right] = list(getattr(rights, right))
        if rights.operate:
            table["operate"] = rights.operate
        return table


def _is_dotted(container: Container, name: str) -> bool:
    """Whether something of this name is there by a dotted key."""
    return any(key is not None and key.key == name and key.is_dotted() for key, _ in container.body)


def _has_dotted_keys(container: Container, name: str) -> bool:
    """The same of what is in the table of this name."""
    found = (item for key, item in container.body if key is not None and key.key == name)
    inner = (key for item in found if isinstance(item, Table) for key, _ in item.value.body)
    return any(key is not None and key.is_dotted() for key in inner)


@contextmanager
def edit(path: Path, patience_s: float | None = None) -> Iterator[AccountsEditor]:
    """Change the file at `path`: one editor at a time, and all of the block's changes or none.

    Raises ConfigError where the file is bad before, or would be after, ChangedMeanwhileError where somebody
    has written it by hand meanwhile, and BlockingIOError where another editor is at it for longer than
    `patience_s`; it is then as it was.
    """
    with private_files.alone(path.parent, patience_s):
        read_accounts(path)
        before = path.read_text(encoding="utf-8")
        editor = AccountsEditor(tomlkit.parse(before), path)
        yield editor
        text = editor.text()
        parse_accounts(path, parse_toml(path, text.encode()))
        if path.read_text(encoding="utf-8") != before:
            raise ChangedMeanwhileError(f"{path} has been written by hand meanwhile; try again")
        private_files.replace(path, text.encode())
