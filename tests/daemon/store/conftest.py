"""A new store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "smqpd.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store(path)
    yield store
    store.close()
