import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from routing.message import Message, Section
from routing.quotas import Quotas
from tests.support.receiving import OutputFile, ServerInMemory
from tests.support.site import BrokerSite, running_site


@pytest.fixture
def quotas() -> Quotas:
    return Quotas()


@pytest.fixture
async def site(tmp_path: Path, quotas: Quotas) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path / "site", quotas=quotas) as site:
        yield site


@pytest.fixture
def server(site: BrokerSite, nursery: trio.Nursery) -> ServerInMemory:
    return ServerInMemory(site, nursery)


@pytest.fixture
async def output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OutputFile]:  # async: within the test, as pytest puts its own in place before that
    file = tmp_path / "output"
    with file.open("wb") as opened:
        output = OutputFile(file, opened.fileno())
        monkeypatch.setattr(sys, "stdout", output)
        monkeypatch.setattr(sys, "stderr", output.said)
        yield output


@pytest.fixture
async def publish(site: BrokerSite, nursery: trio.Nursery) -> Any:
    publisher = ServerInMemory(site, nursery)

    async def publish(text: bytes, topic: str = "t") -> str:
        async with publisher.connect("pub") as client:
            sections = (Section("text/plain", text),)
            smuid: str = await client.publish(topic, Message(sections=sections, delivery="ONE"))
            return smuid

    return publish
