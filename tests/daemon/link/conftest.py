"""A network in memory."""

import pytest

from tests.support.links import MemoryNetwork


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork()
