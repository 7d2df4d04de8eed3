"""The store of a site that has never run: made once by each process of the tests, which copies it.

To make one takes as long as all else that a site needs to start, and what that does is tested in
`tests/daemon/store`.
"""

import tempfile
from functools import cache
from pathlib import Path

from daemon.settings import STORE
from daemon.store.store import make_store


@cache
def empty_store() -> bytes:
    """Nobody's, and no start is counted in it."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / STORE
        make_store(path, "", "")
        return path.read_bytes()


def put_store(state: Path) -> None:
    """Give a state directory an empty store, if it has none."""
    path = state / STORE
    if not path.exists():
        path.write_bytes(empty_store())
