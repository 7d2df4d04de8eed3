"""The store of a site as an earlier version left it, with every kind of stored thing in it."""

import sqlite3
from pathlib import Path

EARLIER = Path(__file__).parent / "f168fa2.sql"


def make_earlier_store(directory: Path) -> None:
    """Have it in the state directory of a site."""
    store = sqlite3.connect(directory / "smqpd.db", isolation_level=None)
    # one transaction: each statement by itself would wait for the disk
    store.executescript(f"PRAGMA synchronous = OFF; {EARLIER.read_text()}")
    store.close()
