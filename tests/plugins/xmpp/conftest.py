"""One Prosody and one ejabberd for all tests of the run: each is started when the first test asks for it.

Where they are not installed their tests are skipped; where they have to be there, `SMQPD_TEST_REQUIRE`
names them.
"""

from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from tests.support.required import may_skip
from tests.support.xmpp_servers import RealServer, installed


@pytest.fixture(scope="session", params=["prosody", "ejabberd"])
def started_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealServer]:
    if may_skip(request.param, installed(request.param)):
        pytest.skip(f"{request.param} is not installed")
    real = RealServer(request.param, tmp_path_factory.mktemp(request.param) / "server")
    try:
        trio.run(real.start)
        trio.run(real.register)
        yield real
    finally:
        real.kill()


@pytest.fixture
async def server(started_server: RealServer) -> AsyncIterator[RealServer]:
    """Running; a test may kill it."""
    yield started_server
    if not started_server.running:
        await started_server.start()
        await started_server.register()
