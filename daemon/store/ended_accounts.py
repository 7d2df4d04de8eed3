"""What ends with an account that is removed while no daemon has the store open.

A running site ends the subscriptions of whoever may not have them. A start ends none: it may have found
another file of accounts by mistake. And an account of the same name that is added before is another one.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from daemon.store.schema import refuse_newer
from daemon.store.tables.subscriptions import END_OF_ACCOUNT


def end_subscriptions(path: Path, account: str) -> None:
    """End those of an account, in a store that no daemon has open: nothing is due to them from then on.

    Raises FileNotFoundError, TooNewError and sqlite3.Error.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no store at {path}")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        refuse_newer(connection)
        connection.execute(END_OF_ACCOUNT, {"owners": f"{account}:"})
