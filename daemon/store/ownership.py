"""Whose store it is: a server's name, and a word of its own that no other store has.

The name is in every Smuid, receipt and reply address that other sites and clients hold, so a store keeps the
name that it began with. Read here before a daemon opens the store, which changes it.
"""

import secrets
import sqlite3
from pathlib import Path

import msgspec

from daemon.store.read_only import read_only
from daemon.store.schema import refuse_newer


class Ownership(msgspec.Struct, frozen=True):
    """Both are empty in a store of an earlier version that no site has opened since."""

    server_name: str = ""
    identity: str = ""


def new_identity() -> str:
    """A word that no other store has."""
    return secrets.token_hex(16)


def own(connection: sqlite3.Connection, server_name: str, identity: str) -> str:
    """The store's identity; one that belonged to nobody is the server's from now on, as `identity`."""
    connection.execute(
        "UPDATE site SET server_name = ?, identity = ? WHERE identity = ''", (server_name, identity)
    )
    owned: str = connection.execute("SELECT identity FROM site").fetchone()[0]
    return owned


def read_ownership(path: Path) -> Ownership:
    """Whose the store at `path` is; changes nothing, and leaves no file beside it.

    Raises FileNotFoundError, also for a file without any table, TooNewError and sqlite3.Error.
    """
    with read_only(path) as reader:
        if not reader.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise FileNotFoundError(f"there is no store at {path}")
        refuse_newer(reader)
        columns = {row[1] for row in reader.execute("PRAGMA table_info(site)")}
        if not columns or not reader.execute("SELECT count(*) FROM site").fetchone()[0]:
            raise sqlite3.DatabaseError("it is not a store of smqpd")
        if "identity" not in columns:
            return Ownership()
        return Ownership(*reader.execute("SELECT server_name, identity FROM site").fetchone())
