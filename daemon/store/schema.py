"""The tables of the store, as steps that are only ever appended.

To change the stored format, append a migration; never edit one that has been released. A step and the
note that it was taken share one transaction, so that a migration that is interrupted has not happened.
A store that knows a step which this version does not know is refused: it was written by a newer one.

    site           one row: boot number, last hop record that came true, the clock (`daemon.system.clock`),
                   whose store it is (see `daemon.store.ownership`)
    topic          topics with settings of their own
    subscription   durable subscriptions
    message        guaranteed messages that are held; `wire` behind all that a scan reads
    mark           what a subscription has left on a message; subscription 0 counts returns of mode ONE
    publication    Cmuids of the last minutes, oldest first
    quarantine     messages that were set aside, see `daemon.store.quarantine`

Of what crosses links, and empty where there are no peers:

    copy           how far a held message may go, by which servers it came, which peers have to have it
    seen           Smuids of other servers that have been here
    removal        Smuids of messages that were removed
    interest       what each peer wants
    receipt        receipts that peers have a part in; they outlive their message
    answer         last answers to the questions of peers for receipts, until the peer has them
"""

import sqlite3
from typing import Any

from sqlite_utils import Database, Migrations

migrations = Migrations("smqpd")


@migrations()
def first(db: Any) -> None:
    """The tables of version 0.1."""
    db.execute(
        "CREATE TABLE site (id INTEGER PRIMARY KEY CHECK (id = 1), boot INTEGER NOT NULL,"
        " last_record INTEGER NOT NULL, site_time REAL NOT NULL, wall_time REAL NOT NULL,"
        " machine_boot TEXT NOT NULL, machine_time REAL NOT NULL)"
    )
    db.execute("INSERT INTO site VALUES (1, 0, 0, 0.0, 0.0, '', 0.0)")
    db.execute("CREATE TABLE topic (name TEXT PRIMARY KEY, mode TEXT, timeout_s REAL) WITHOUT ROWID")
    db.execute(
        "CREATE TABLE subscription (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, owner TEXT NOT NULL,"
        " name TEXT NOT NULL, credit INTEGER NOT NULL, accepts TEXT NOT NULL, ordered INTEGER NOT NULL,"
        " lock_s REAL, since INTEGER NOT NULL, used_at REAL NOT NULL)"
    )
    db.execute(
        "CREATE TABLE message (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, origin NOT NULL,"
        " priority INTEGER NOT NULL, size INTEGER NOT NULL, flags INTEGER NOT NULL, deadline REAL,"
        " receipt_due INTEGER NOT NULL, receipt_mode TEXT NOT NULL, sequence INTEGER NOT NULL,"
        " publisher TEXT NOT NULL, cmuid TEXT NOT NULL, wire BLOB NOT NULL)"
    )
    db.execute(
        "CREATE TABLE mark (message INTEGER NOT NULL, subscription INTEGER NOT NULL,"
        " received INTEGER NOT NULL, done INTEGER NOT NULL, has_it INTEGER NOT NULL,"
        " attempts INTEGER NOT NULL, PRIMARY KEY (message, subscription)) WITHOUT ROWID"
    )
    db.execute(
        "CREATE TABLE publication (id INTEGER PRIMARY KEY, publisher TEXT NOT NULL, cmuid TEXT NOT NULL,"
        " smuid TEXT NOT NULL, at REAL NOT NULL)"
    )


@migrations()
def second(db: Any) -> None:
    """What crosses links."""
    db.execute(
        "CREATE TABLE copy (id INTEGER PRIMARY KEY, depth INTEGER NOT NULL, hops TEXT NOT NULL,"
        " forwards TEXT NOT NULL)"
    )
    db.execute(
        "CREATE TABLE seen (smuid TEXT PRIMARY KEY, entry INTEGER NOT NULL, depth INTEGER NOT NULL,"
        " custody INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID"
    )
    db.execute("CREATE INDEX seen_until ON seen (until)")
    db.execute(
        "CREATE TABLE removal (smuid TEXT PRIMARY KEY, topic TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID"
    )
    db.execute(
        "CREATE TABLE interest (peer TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,"
        " distance INTEGER NOT NULL, PRIMARY KEY (peer, kind, name)) WITHOUT ROWID"
    )
    db.execute(
        "CREATE TABLE receipt (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, origin NOT NULL,"
        " priority INTEGER NOT NULL, size INTEGER NOT NULL, flags INTEGER NOT NULL, deadline REAL,"
        " mode TEXT NOT NULL, publisher TEXT NOT NULL, cmuid TEXT NOT NULL, due INTEGER NOT NULL,"
        " have INTEGER NOT NULL, parent TEXT NOT NULL, query INTEGER NOT NULL, children TEXT NOT NULL)"
    )
    db.execute(
        "CREATE TABLE answer (peer TEXT NOT NULL, query INTEGER NOT NULL, due INTEGER NOT NULL,"
        " have INTEGER NOT NULL, PRIMARY KEY (peer, query)) WITHOUT ROWID"
    )


@migrations()
def third(db: Any) -> None:
    """What is set aside, and a checksum of each message; NULL for those that were there before."""
    db.execute("ALTER TABLE message ADD COLUMN checksum INTEGER")
    db.execute(
        "CREATE TABLE quarantine (id INTEGER PRIMARY KEY, smuid TEXT NOT NULL, topic TEXT NOT NULL,"
        " account TEXT NOT NULL, at_us INTEGER NOT NULL, reason TEXT NOT NULL, wire BLOB NOT NULL)"
    )


@migrations()
def ownership(db: Any) -> None:
    """Whose store it is; empty in one of an earlier version, until a site has opened it."""
    db.execute("ALTER TABLE site ADD COLUMN server_name TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE site ADD COLUMN identity TEXT NOT NULL DEFAULT ''")


class TooNewError(Exception):
    """The store was written by a newer smqpd, which must go on with it."""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a store up to date. Raises TooNewError, leaving it as it was."""
    refuse_newer(connection)
    migrations.apply(Database(connection))


def refuse_newer(connection: sqlite3.Connection) -> None:
    """Raise TooNewError for a store that this version cannot run; changes nothing."""
    db = Database(connection)
    applied = [step.name for step in migrations.applied(db)]
    own = [step.name for step in migrations.pending(Database(memory=True))]
    unknown = [name for name in applied if name not in own]
    if unknown:
        raise TooNewError(
            f"the store has the change {unknown[0]!r}, which this version does not know;"
            " run the newer smqpd that wrote it"
        )
