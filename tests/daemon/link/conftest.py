"""A network in memory."""

import pytest

from tests.support.links import Network


@pytest.fixture
def network() -> Network:
    return Network()
