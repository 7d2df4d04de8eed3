"""What is true of every answer."""

import pytest

from tests.support.web import WebBrowser


async def test_nothing_is_run_framed_or_loaded_from_elsewhere(browser: WebBrowser) -> None:
    headers = (await browser.get("/health/live")).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "strict-transport-security" not in headers


async def test_over_tls_browsers_are_told_to_keep_to_it(browser: WebBrowser) -> None:
    browser.scheme = "https"
    assert "max-age=" in (await browser.get("/health/live")).headers["strict-transport-security"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:7780", "192.0.2.1", "[::1]:7780", "smqp.example:80"]
)
async def test_the_page_answers_to_its_own_names_and_to_addresses(browser: WebBrowser, host: str) -> None:
    browser.host = host
    assert (await browser.get("/health/live")).status == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7780"]
)
async def test_a_name_that_was_made_to_lead_here_is_refused(browser: WebBrowser, host: str) -> None:
    browser.host = host
    assert (await browser.get("/health/live")).status == 421


@pytest.mark.parametrize("path", ["/nothing", "/health/../nothing", "/health/live/", "//health/live", "/%00"])
async def test_what_is_not_there_is_not_found(browser: WebBrowser, path: str) -> None:
    assert (await browser.get(path)).status in (404, 307)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/health/live", {"GET", "HEAD"}),
        ("/login", {"GET", "HEAD", "POST"}),
        ("/api/topic/messages", {"GET", "HEAD", "POST"}),
        ("/logout", {"POST"}),
    ],
)
async def test_a_path_has_its_own_methods(browser: WebBrowser, path: str, methods: set[str]) -> None:
    answer = await browser.request("DELETE", path)
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == methods
