from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon.settings import Limits
from plugins.web.app import make_app
from plugins.web.settings import WebSettings
from tests.support.site import PASSWORD, BrokerSite, running_site
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


@pytest.fixture
async def ada(browser: WebBrowser) -> WebBrowser:
    """Logged in, and may change the site."""
    assert (await browser.log_in("ada", PASSWORD)).status == 303
    return browser


@pytest.fixture
async def dan(site: Any, settings: WebSettings) -> WebBrowser:
    """Logged in, may look at the site, and read `*.open`."""
    browser = WebBrowser(make_app(site, settings))
    assert (await browser.log_in("dan", PASSWORD)).status == 303
    return browser
