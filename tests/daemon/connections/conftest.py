"""STOMP at a site, for what is the same whatever a client speaks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from plugins.stomp.settings import StompSettings
from tests.support.site import BrokerSite, running_site
from tests.support.stomp import ConnectStomp, stomp_server


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path / "site") as site:
        yield site


@pytest.fixture
async def connect(site: BrokerSite) -> AsyncIterator[ConnectStomp]:
    """Makes a client of the site that is not logged in."""
    async with stomp_server(site, StompSettings()) as connect:
        yield connect
