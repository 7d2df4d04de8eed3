from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon.settings import Limits
from plugins.stomp.settings import StompSettings
from routing.quotas import Quotas
from tests.support.site import BrokerSite, running_site
from tests.support.stomp import ConnectStomp, StompClient, stomp_server


@pytest.fixture
def settings() -> Any:
    return StompSettings()


@pytest.fixture
def limits() -> Any:
    return Limits()


@pytest.fixture
def quotas() -> Any:
    return Quotas()


@pytest.fixture
async def site(tmp_path: Path, limits: Any, quotas: Any) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path, limits, quotas=quotas) as site:
        yield site


@pytest.fixture
async def connect(site: BrokerSite, settings: Any) -> AsyncIterator[Any]:
    """Makes a client of the site that is not logged in."""
    async with stomp_server(site, settings) as connect:
        yield connect


@pytest.fixture
async def ada(connect: ConnectStomp) -> StompClient:
    """A client that is logged in with STOMP 1.2."""
    client: StompClient = connect()
    await client.connect()
    return client
