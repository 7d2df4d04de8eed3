"""The HTML page, as a browser shows it."""

import json
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.required import may_skip
from tests.support.traced import Traced

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\"><!--"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium")
    if may_skip("chromium", chromium is not None):
        pytest.skip("no chromium is installed (apt-get install chromium)")
    if may_skip("playwright", find_spec("playwright") is not None):
        pytest.skip("playwright is not installed: pip install -e '.[browser]'")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page_file(faulty: Traced, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from routing.trace import report

    path = tmp_path_factory.mktemp("page") / "trace.html"
    path.write_text(report.page(faulty.spark, faulty.out), encoding="utf-8")
    return path


def opened(browser: Any, path: Path, **options: Any) -> tuple[Any, list[str]]:
    """The page, and what its console said."""
    page = browser.new_page(**options)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda r: said.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    return page, said


def test_the_page_renders_and_its_console_is_clean(browser: Any, page_file: Path, faulty: Traced) -> None:
    page, said = opened(browser, page_file)
    assert page.locator("#graph circle").count() == len(faulty.sites)
    assert page.locator("#graph line").count() == len(faulty.links)
    assert "the balance does not close" in page.inner_text("#head")
    assert page.locator("#routes details").count() > 0
    assert said == []
    page.close()


def test_filters_and_sorting_work(browser: Any, page_file: Path, faulty: Traced) -> None:
    page, said = opened(browser, page_file)
    rows = page.locator("#anomalies tbody tr")
    lost = sum("lost" in message["faults"] for message in faulty.messages.values())
    page.fill("#anomalies input", "lost acknowledged")
    assert rows.count() == lost
    page.fill("#anomalies input", "no such word")
    assert rows.count() == 0
    page.click("#links th:nth-child(3)")
    numbers = [
        int(text.replace(",", "")) for text in page.locator("#links td:nth-child(3)").all_inner_texts()
    ]
    assert numbers == sorted(numbers, reverse=True)
    page.click("#links th:nth-child(3)")
    numbers = [
        int(text.replace(",", "")) for text in page.locator("#links td:nth-child(3)").all_inner_texts()
    ]
    assert numbers == sorted(numbers)
    assert said == []
    page.close()


def test_choosing_a_site_shows_only_its_links(browser: Any, page_file: Path, faulty: Traced) -> None:
    page, _ = opened(browser, page_file)
    site = next(iter(faulty.sites))
    page.click(f'#graph circle[data-server="{site}"]')
    of_site = sum(site in link for link in faulty.links)
    assert page.locator("#links tbody tr").count() == of_site
    assert page.locator("#graph line.faded").count() == len(faulty.links) - of_site
    page.close()


def test_it_fits_a_telephone(browser: Any, page_file: Path) -> None:
    page, _ = opened(browser, page_file, viewport={"width": 360, "height": 740}, device_scale_factor=2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_names_from_logs_are_text_and_not_html(browser: Any, tmp_path: Path, page_file: Path) -> None:
    from routing.trace import report

    block = page_file.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]
    data = json.loads(block)
    data["anomalies"][0]["topic"] = data["routes"][0]["topic"] = data["links"][0]["from"] = HOSTILE
    data["sites"][0]["server"] = data["balance"][0]["topic"] = HOSTILE
    path = tmp_path / "hostile.html"
    path.write_text(report.render(data), encoding="utf-8")
    page, said = opened(browser, path)
    assert page.title() == "Routes"
    assert page.locator("img").count() == 0
    assert HOSTILE in page.inner_text("#anomalies tbody tr:first-child")
    assert said == []
    page.close()
