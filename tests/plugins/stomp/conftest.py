import pytest

from daemon.settings import Limits
from plugins.stomp.settings import StompSettings
from tests.support.site import running_site
from tests.support.stomp import stomp_server


@pytest.fixture
def settings():
    return StompSettings()


@pytest.fixture
def limits():
    return Limits()


@pytest.fixture
async def site(tmp_path, limits):
    async with running_site(tmp_path, limits) as site:
        yield site


@pytest.fixture
async def connect(site, settings):
    """Makes a client of the site that is not logged in."""
    async with stomp_server(site, settings) as connect:
        yield connect


@pytest.fixture
async def ada(connect):
    """A client that is logged in with STOMP 1.2."""
    client = connect()
    await client.connect()
    return client
