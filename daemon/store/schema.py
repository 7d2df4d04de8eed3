"""The tables of the store, as steps that are only ever appended.

To change the stored format, append a migration; never edit one that has been released. All steps that a
store lacks and the notes that they were taken share one transaction, so that a migration that is interrupted
has not happened, and a new store that is interrupted is none.
A store that knows a step which this version does not know is refused: it was written by a newer one.

    site           one row: boot number, last hop record that came true, clock (see `daemon.system.clock`),
                   how long all its stops were, whose store it is (see `daemon.store.ownership`)

All others are made here and described in `daemon.store.tables`, each in its own file; what a file says of its
columns is what may be read from them today, the statements that make it are those of the versions.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, Final

from daemon.store.tables import (
    annotations,
    answers,
    copies,
    interest,
    marks,
    messages,
    news,
    publications,
    quarantine,
    receipts,
    removals,
    seen,
    subscriptions,
    topics,
    wants,
)

MIGRATIONS: Final = "smqpd"
"""What the steps of this store are called together, beside those that others may take in it."""

STEPS: Final[list[Callable[[Any], None]]] = []
"""In order; each is noted in the store by its name."""


def _step(step: Callable[[Any], None]) -> Callable[[Any], None]:
    STEPS.append(step)
    return step


@_step
def first(db: Any) -> None:
    """Make the tables of version 0.1."""
    db.execute(
        "CREATE TABLE site (id INTEGER PRIMARY KEY CHECK (id = 1), boot INTEGER NOT NULL,"
        " last_record INTEGER NOT NULL, site_time REAL NOT NULL, wall_time REAL NOT NULL,"
        " machine_boot TEXT NOT NULL, machine_time REAL NOT NULL)"
    )
    db.execute("INSERT INTO site VALUES (1, 0, 0, 0.0, 0.0, '', 0.0)")
    db.execute(topics.CREATE)
    db.execute(subscriptions.CREATE)
    db.execute(messages.CREATE)
    db.execute(marks.CREATE)
    db.execute(publications.CREATE)


@_step
def second(db: Any) -> None:
    """Make the tables of what crosses links."""
    db.execute(copies.CREATE)
    db.execute(seen.CREATE)
    db.execute(seen.CREATE_INDEX)
    db.execute(removals.CREATE)
    db.execute(interest.CREATE)
    db.execute(receipts.CREATE)
    db.execute(answers.CREATE)


@_step
def third(db: Any) -> None:
    """Make the table of what is set aside; add a checksum of each message, NULL for those of before."""
    db.execute(messages.ADD_CHECKSUM)
    db.execute(quarantine.CREATE)


@_step
def ownership(db: Any) -> None:
    """Add whose store it is; empty in one of an earlier version, until a site has opened it."""
    db.execute("ALTER TABLE site ADD COLUMN server_name TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE site ADD COLUMN identity TEXT NOT NULL DEFAULT ''")


@_step
def annotation(db: Any) -> None:
    """Make the table of what front ends keep with topics."""
    db.execute(annotations.CREATE)


@_step
def patterns(db: Any) -> None:
    """Keep earlier versions out: what is subscribed to or wanted may be a pattern, damage to them."""


@_step
def rights_of_patterns(db: Any) -> None:
    """Add since when accounts may have what they get by patterns."""
    db.execute(subscriptions.ADD_ALLOWED_SINCE)


@_step
def news_of_sites(db: Any) -> None:
    """Make the table of what each site says of itself."""
    db.execute(news.CREATE)


@_step
def groups(db: Any) -> None:
    """Keep earlier versions out: messages may be of a group, by a flag that is damage to them."""


@_step
def wants_of_sites(db: Any) -> None:
    """Make the table of what each site says that it wants."""
    db.execute(wants.CREATE)


@_step
def destinations(db: Any) -> None:
    """Add which sites copies are for."""
    db.execute(copies.ADD_DESTINATIONS)


@_step
def counts(db: Any) -> None:
    """Add what sites have counted for receipts."""
    for statement in seen.ADD_COUNTS:
        db.execute(statement)


@_step
def stops(db: Any) -> None:
    """Add how long the site has not run; times of what is remembered, and of use, are stored without that."""
    db.execute("ALTER TABLE site ADD COLUMN stopped REAL NOT NULL DEFAULT 0")


class TooNewError(Exception):
    """The store was written by a newer smqpd, which must go on with it."""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a store up to date. Raises TooNewError, leaving it as it was."""
    if len(refuse_newer(connection)) == len(STEPS):
        return
    from sqlite_utils import Database, Migrations  # 3 MB, which a site whose store is up to date does without

    migrations = Migrations(MIGRATIONS)
    for step in STEPS:
        migrations()(step)
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        migrations.apply(Database(connection))


def refuse_newer(connection: sqlite3.Connection) -> list[str]:
    """The names of the steps that a store has taken; changes nothing.

    Raises TooNewError where this version does not know one, and cannot run it.
    """
    table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '_sqlite_migrations'"
    if connection.execute(table).fetchone() is None:
        return []
    query = "SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY rowid"
    taken = [name for (name,) in connection.execute(query, (MIGRATIONS,))]
    own = {step.__name__ for step in STEPS}
    for name in taken:
        if name not in own:
            raise TooNewError(
                f"the store has the change {name!r}, which this version does not know;"
                " run the newer smqpd that wrote it"
            )
    return taken
