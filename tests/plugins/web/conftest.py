from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon.settings import Limits
from plugins.web.app import make_app
from plugins.web.settings import WebSettings
from tests.support.site import BrokerSite, running_site
from tests.support.web import WebBrowser


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def settings() -> WebSettings:
    return WebSettings()


@pytest.fixture
async def site(tmp_path: Path, limits: Limits) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path, limits) as running:
        yield running


@pytest.fixture
def browser(site: Any, settings: WebSettings) -> WebBrowser:
    """Nobody is logged in."""
    return WebBrowser(make_app(site, settings))
