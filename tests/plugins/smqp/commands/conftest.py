from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.command_line import CommandLine
from tests.support.site import PASSWORD, BrokerSite, running_site
from tests.support.smqp_peer import serve_connection


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path / "site") as site:
        yield site


@pytest.fixture
async def address(site: BrokerSite, nursery: trio.Nursery) -> str:
    async def serve(stream: Any) -> None:
        await serve_connection(site, stream, "127.0.0.1:1")

    (listener,) = await nursery.start(
        lambda task_status: trio.serve_tcp(serve, 0, host="127.0.0.1", task_status=task_status)
    )
    return f"127.0.0.1:{listener.socket.getsockname()[1]}"


@pytest.fixture
def smqpd(tmp_path: Path, address: str) -> CommandLine:
    return CommandLine(
        tmp_path, SMQPD_SERVER=address, SMQPD_ACCOUNT="ada", SMQPD_PASSWORD=PASSWORD, LANG="C.UTF-8"
    )
