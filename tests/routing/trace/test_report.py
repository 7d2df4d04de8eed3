"""The HTML page, as a browser shows it."""

import json
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.required import may_skip
from tests.support.traced import TracedLogs

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
def page_file(faulty: TracedLogs, tmp_path_factory: pytest.TempPathFactory) -> Path:
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


SITES = ["very-long-name-of-one-site.example.org", "mail.alpha.example.org", "mail.beta.example.org"]
TOPIC = "a-topic-as-long-as-topics-may-be" * 30


def route(smuid: str, topic: str) -> dict[str, Any]:
    """As the page has it: from the first site to the second, where it was lost, and somehow to the third."""
    from routing.trace import worst
    from routing.trace.proof import hop_records

    a, b, c = SITES
    times = dict.fromkeys(("sent_us", "sent_at_us", "received_us", "received_at_us"), 5)
    hop: dict[str, Any] = {"from": a, "to": b, "attempt": 1, "crossing": 1, "kind": "accepted", "level": 1}
    states = ((a, "finished"), (b, "lost"), (c, "unknown"))
    row = {
        "smuid": smuid,
        "topic": topic,
        "reached": 1,
        "last_delay_us": 5,
        "state": "partial",
        "origin": a,
        "mode": "ALL",
        "hops": [hop | times | {"delay_us": 5, "delay_raw_us": 5}],
        "copies": [{"server": server, "state": state} for server, state in states],
        "missing": [b, c],
    }
    record = {"version": 1, "server": a, "boot": 1, "time_us": 9, "smuid": smuid, "topic": topic}
    events: list[dict[str, Any]] = [
        {"event": "published"},
        {"event": "delivered", "subscription": TOPIC, "pattern": "weather.#"},
        {"event": "forwarded", "peer": b, "outcome": "accepted", "final": True},
    ]
    records = [record | {"record": number} | event for number, event in enumerate(events, 7)]
    return worst.shown(row, hop_records(records), {})


def small_page(path: Path, anomalies: int = 1) -> Path:
    """A page about three sites, of which one has lost so many copies."""
    a, b, c = SITES
    smuids = [f"{a}/019aa5d72900-1-{number + 1:x}" for number in range(anomalies)]
    sums = ("published", "received", "begin_missing", "finished", "held", "gone", "lost", "log_missing")
    log: dict[str, Any] = {
        "log": "whole",
        "records": 9,
        "missing": 0,
        "offset_us": 12.5,
        "drift_ppm": 0.5,
        "linked": True,
    }
    times: dict[str, Any] = {"delay_p50_us": 1000, "delay_p99_us": 2000, "raw_p50_us": 1000}
    counts: dict[str, Any] = {
        "messages": 9,
        "bytes": 90,
        "attempts": 18,
        "tried": 18,
        "unknown_days": 0,
        "days": 2,
        "lost": 9,
        "retries": 9,
        "duplicates": 0,
    }
    data = {
        "summary": {
            "messages": {"total": 2, "complete": 1, "partial": 1},
            "balance": dict.fromkeys(sums, 1) | {"closes": False},
            "days": ["2025-11-21"],
            "logs": {"records": 27, "servers": 3, "absent": [], "gaps": []},
        },
        "logs": {"absent": "", "gaps": ""},
        "day": None,
        "kinds": {"lost": 1_200, "log missing": 34},
        "totals": {"anomalies": 1_234, "links": 3, "balance": 1, "sites": 8},
        "sites": [
            log | {"server": name, "x": x, "y": y} for name, x, y in ((a, 0, 0), (b, 1, 0.5), (c, 0.4, 1))
        ],
        "links": [
            counts | times | {"from": a, "to": b},
            counts | times | {"from": b, "to": c, "tried": 9, "lost": 0, "retries": 0, "unknown_days": 1},
            counts
            | times
            | {"from": c, "to": b, "tried": 0, "lost": None, "retries": None, "unknown_days": 2},
        ],
        "anomalies": [
            {
                "kind": "lost",
                "server": b,
                "peer": a,
                "smuid": smuid,
                "topic": TOPIC,
                "time_us": 1,
                "detail": "what is proven of it " * 9,
            }
            for smuid in smuids
        ],
        "balance": [
            {"server": a, "topic": TOPIC, "day": "2025-11-21", "unknown": 0, "closes": False}
            | dict.fromkeys(sums, 1)
        ],
        "routes": [route(smuids[0], TOPIC), *(route(f"{b}/019aa5d72900-1-{n:x}", "t") for n in range(1, 40))],
    }
    from routing.trace import report

    path.write_text(report.render(data), encoding="utf-8")
    return path


def test_a_click_on_an_anomaly_leads_to_its_route(browser: Any, tmp_path: Path) -> None:
    page, said = opened(browser, small_page(tmp_path / "page.html", anomalies=2))
    assert page.locator("h2").all_text_contents()[0] == "Anomalies"  # what was lost comes first
    opened_route = page.locator("#routes details[open]")
    assert opened_route.count() == 0
    page.click("#anomalies tbody tr:nth-child(1)")
    assert opened_route.count() == 1
    assert f"{SITES[0]}/019aa5d72900-1-1" in opened_route.inner_text()
    assert f"{SITES[1]} after" in opened_route.inner_text()
    assert f"how it came here is not known: {SITES[2]} · unknown" in opened_route.inner_text()
    assert "by the pattern weather.#\n" in f"{opened_route.inner_text()}\n"
    assert f"proven: the copy at {SITES[1]} was lost\n" in opened_route.inner_text()
    assert f"not known: what became of the copy at {SITES[2]}\n" in opened_route.inner_text()
    assert (
        f"{SITES[1]} · lost: {SITES[1]} has acknowledged it to {SITES[0]}, 1970-01-01T00:00:00.000+00:00 by"
        f" the clock of {SITES[0]} (its record 9). Of the log of {SITES[1]} no record is missing between"
        " those of what it answered before and after, and none of them is of this message: it was lost there."
    ) in opened_route.inner_text()
    assert page.evaluate("document.querySelector('#routes details[open]').getBoundingClientRect().top") < 10
    page.click("#anomalies tbody tr:nth-child(2)")
    assert f"smqpd trace route {SITES[0]}/019aa5d72900-1-2" in page.inner_text("#elsewhere")
    assert said == []
    page.close()


def test_what_the_page_does_not_have_it_says(browser: Any, tmp_path: Path) -> None:
    page, said = opened(browser, small_page(tmp_path / "page.html"))
    assert page.inner_text("#kinds") == (
        "There are: lost 1,200, log missing 34. To see more: smqpd trace anomalies --limit N --out DIR"
    )
    assert page.inner_text("#anomalies .filter span") == "1 of 1; the gravest of 1,234"
    assert page.inner_text("#links .filter span") == "3 of 3"
    assert page.inner_text("#sites .filter span") == "3 of 3; those with a log, then others, of 8"
    assert said == []
    page.close()


def test_sentences_are_whole_and_no_number_is_torn(browser: Any, tmp_path: Path) -> None:
    page, _ = opened(browser, small_page(tmp_path / "page.html"), viewport={"width": 400, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    long = page.locator(".long").all_text_contents()
    assert set(long) == {TOPIC, f"{TOPIC} "}
    lines = """(cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return new Set([...range.getClientRects()].map((box) => box.top)).size;
    }"""
    cells = page.locator("td.number").all()
    assert {cell.evaluate(lines) for cell in cells if cell.text_content()} == {1}
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.close()


def test_on_a_telephone_names_are_whole_and_labels_large_and_a_long_topic_small(
    browser: Any, tmp_path: Path
) -> None:
    page, _ = opened(browser, small_page(tmp_path / "page.html"), viewport={"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    # a name stands in no more lines than it has parts, each of which is in one line
    torn = """() => [...document.querySelectorAll("td, li, summary")].flatMap((element) => {
      const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), torn = [];
      while (walker.nextNode()) for (const word of walker.currentNode.data.matchAll(/[a-z0-9]{2,20}/g)) {
        if (walker.currentNode.parentElement.closest(".long")) continue;
        const range = document.createRange();
        range.setStart(walker.currentNode, word.index);
        range.setEnd(walker.currentNode, word.index + word[0].length);
        if (range.getClientRects().length > 1) torn.push(word[0]);
      }
      return torn;
    })"""
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    assert page.evaluate(torn) == []
    graph = page.evaluate("document.querySelector('#graph').getBoundingClientRect()")
    label = "[...document.querySelectorAll('#graph text')].map((text) => text.getBoundingClientRect())"
    for box in page.evaluate(label):
        assert box["height"] >= 12
        assert box["left"] >= 0
        assert box["top"] >= graph["top"]
        assert box["right"] <= 400
    assert sorted(page.locator("#graph text").all_text_contents()) == sorted(
        [SITES[0].split(".")[0], *SITES[1:]]
    )
    rows = page.evaluate("[...document.querySelectorAll('tbody tr')].map((row) => row.offsetHeight)")
    assert max(rows) < 200
    page.close()


def test_loss_is_that_of_the_days_of_which_it_is_known(spark: Any, browser: Any, tmp_path: Path) -> None:
    from routing.trace import report

    days = [("a", "b", 4, 2), ("a", "b", 8, None), ("a", "b", 4, 0), ("b", "a", 4, None)]
    others = (
        "messages",
        "bytes",
        "duplicates",
        "loops",
        "timed",
        "delay_p50_us",
        "delay_p99_us",
        "raw_p50_us",
    )
    columns = ["`from`", "`to`", "attempts", "lost", "lost as retries", *(f"1 as {name}" for name in others)]
    frame = spark.createDataFrame(days, "`from` string, `to` string, attempts long, lost long")
    found = {row["from"]: row.asDict() for row in report.per_link(frame.selectExpr(*columns))}
    names = ("attempts", "tried", "lost", "retries", "unknown_days", "days")
    assert [found["a"][name] for name in names] == [16, 8, 2, 2, 1, 3]
    assert [found["b"][name] for name in names] == [4, 0, None, None, 1, 1]

    page, _ = opened(browser, small_page(tmp_path / "page.html"))
    partly = "(unknown on 1 of 2 days)"
    shown = [page.locator(f"#links td:nth-child({column})").all_inner_texts() for column in (5, 6)]
    assert shown == [["50.00 %", f"0.00 % {partly}", "unknown"], ["9", f"0 {partly}", "unknown"]]
    title = page.locator("#graph line title").nth(1).text_content()
    assert f"0.00 % {partly} of attempts lost" in title
    page.close()


def test_the_page_renders_and_its_console_is_clean(browser: Any, page_file: Path, faulty: TracedLogs) -> None:
    from routing.trace.anomalies import KINDS

    page, said = opened(browser, page_file)
    assert page.locator("#graph circle").count() == len(faulty.sites)
    assert page.locator("#graph line").count() == len(faulty.links)
    assert "the balance does not close" in page.inner_text("#head")
    found = faulty.summary["anomalies"]
    listed = ", ".join(f"{kind} {found[kind]}" for kind in KINDS if kind in found)
    assert page.inner_text("#kinds") == f"There are: {listed}."
    assert page.locator("#routes details").count() > 0
    assert said == []
    page.close()


def test_filters_and_sorting_work(browser: Any, page_file: Path, faulty: TracedLogs) -> None:
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


def test_choosing_a_site_shows_only_its_links(browser: Any, page_file: Path, faulty: TracedLogs) -> None:
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
