"""/metrics as Prometheus reads it, and the alert rules and the dashboard that are made of it."""

import json
import re
import shutil
import socket
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from daemon.frontend import Identity
from daemon.operating.operations import Actor
from daemon.operating.topics import TOPICS_MAX
from plugins.web.app import make_app
from plugins.web.serving import serve
from plugins.web.settings import WebSettings
from routing.message import Message, Section
from tests.support.installed import ROOT
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.required import may_skip
from tests.support.site import PASSWORD, BrokerSite, ListeningSite
from tests.support.web import WebBrowser

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
MONITORING = ROOT / "etc" / "monitoring"
HOSTILE = 'a"b\\<script>{x="y"}'

needs_prometheus = pytest.mark.skipif(
    may_skip("prometheus", shutil.which("prometheus") is not None), reason="prometheus is not installed"
)


@pytest.fixture
def settings() -> WebSettings:
    return WebSettings(metrics_login=False, metrics_topics_max=4)


async def publish(site: Any, *topics: str, guarantee: bool = True) -> None:
    session = site.open_session(Identity("ada"), "desk", protocol="test", remote="192.0.2.1:1")
    try:
        for topic in topics:
            sections = (Section("text/plain", b"x"),)
            session.publish(topic, Message(delivery="ONE", sections=sections, guarantee=guarantee), 1)
            if guarantee:
                await session.events()
    finally:
        session.close()


async def values(browser: WebBrowser, name: str) -> dict[tuple[str, ...], float]:
    """Of one sample of a metric, by the values of its labels."""
    answer = await browser.get("/metrics", accept=OPEN_METRICS)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name == name
    }


async def test_what_goes_through_is_told_in_open_metrics(site: BrokerSite, browser: WebBrowser) -> None:
    await publish(site, "jobs", "jobs", "news")
    assert (await values(browser, "smqpd_messages_total"))["came",] == 3
    assert (await values(browser, "smqpd_messages_total"))["unwanted",] == 0
    assert await values(browser, "smqpd_topic_unwanted_total") == {("jobs",): 0, ("news",): 0}
    assert await values(browser, "smqpd_held") == {(): 3}
    assert await values(browser, "smqpd_topic_held") == {("jobs",): 2, ("news",): 1}
    assert await values(browser, "smqpd_topic_came_total") == {("jobs",): 2, ("news",): 1}
    assert (await values(browser, "smqpd_stored_seconds_count"))[()] == 3
    assert (await values(browser, "smqpd_commit_seconds_count"))[()] > 0


async def test_what_has_no_guarantee_is_held_too_and_told_apart(
    site: BrokerSite, browser: WebBrowser
) -> None:
    await publish(site, "jobs", "news", guarantee=False)
    await publish(site, "jobs")
    assert await values(browser, "smqpd_held") == {(): 3}
    assert await values(browser, "smqpd_held_guaranteed") == {(): 1}
    assert await values(browser, "smqpd_topic_held") == {("jobs",): 2, ("news",): 1}
    assert await values(browser, "smqpd_topic_held_guaranteed") == {("jobs",): 1, ("news",): 0}


async def test_who_asks_for_the_older_text_gets_it(browser: WebBrowser) -> None:
    answer = await browser.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "smqpd_held 0.0\n" in answer.text


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ('application/openmetrics-text;version="1.0.0"', "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text;version=new", "text/plain; version=0.0.4"),
        ("text/plain;version=new,*/*", "text/plain; version=0.0.4"),
    ],
)
async def test_a_version_may_be_quoted_and_one_that_is_none_gets_the_older_text(
    site: BrokerSite, browser: WebBrowser, accept: str, given: str
) -> None:
    answer = await browser.get("/metrics", accept=accept)
    assert (answer.status, answer.headers["content-type"].startswith(given)) == (200, True)
    assert site.broker.mishaps.count == 0


async def test_of_many_topics_those_that_matter_are_told(site: BrokerSite, browser: WebBrowser) -> None:
    await publish(site, *(f"topic{number:02}" for number in range(20)), "large", "large", "larger", "larger")
    told = await values(browser, "smqpd_topic_held")
    assert len(told) <= 4
    assert {("large",), ("larger",)} <= told.keys()
    assert (await values(browser, "smqpd_topics"))[()] == 22


@pytest.mark.parametrize(("topics_max", "told"), [(0, set()), (1, {("jobs",)})])
async def test_of_two_topics_no_more_are_told_than_may_be(
    site: Any, topics_max: int, told: set[tuple[str]]
) -> None:
    browser = WebBrowser(make_app(site, WebSettings(metrics_login=False, metrics_topics_max=topics_max)))
    await publish(site, "jobs", "jobs", "news")
    assert (await values(browser, "smqpd_topic_held")).keys() == told


async def test_more_topics_are_told_than_one_page_has(site: Any) -> None:
    topics_max = 2 * TOPICS_MAX + 4
    browser = WebBrowser(make_app(site, WebSettings(metrics_login=False, metrics_topics_max=topics_max)))
    topics = [f"topic{number:04}" for number in range(topics_max)]
    await publish(site, *topics, guarantee=False)
    assert await values(browser, "smqpd_topic_held") == {(topic,): 1 for topic in topics}
    await publish(site, "one.more", guarantee=False)
    assert len(await values(browser, "smqpd_topic_held")) > TOPICS_MAX


async def test_topics_that_are_forgotten_meanwhile_hide_no_others(site: Any, nursery: trio.Nursery) -> None:
    topics = [f"topic{number:04}" for number in range(2 * TOPICS_MAX + 500)]
    browser = WebBrowser(make_app(site, WebSettings(metrics_login=False, metrics_topics_max=len(topics))))
    await publish(site, *topics, guarantee=False)
    gone, there = topics[:400], topics[400:]

    async def purge() -> None:
        for topic in gone:
            await site.operations.purge(topic, Actor(name="root", via="control"))

    nursery.start_soon(purge)
    assert {(topic,) for topic in there} <= (await values(browser, "smqpd_topic_held")).keys()


async def test_names_cannot_forge_lines(site: BrokerSite, browser: WebBrowser) -> None:
    topic = HOSTILE.replace("{", "").replace(">", "")
    await publish(site, topic)
    assert await values(browser, "smqpd_topic_held") == {(topic,): 1}


class TestLogin:
    @pytest.fixture
    def settings(self) -> WebSettings:
        return WebSettings()

    @pytest.mark.parametrize(
        ("credentials", "status"),
        [
            (None, 401),
            ("Basic " + b64encode(f"ada:{PASSWORD}".encode()).decode(), 200),
            ("Basic " + b64encode(f"dan:{PASSWORD}".encode()).decode(), 200),
            ("Basic " + b64encode(f"eve:{PASSWORD}".encode()).decode(), 403),
            ("Basic " + b64encode(b"ada:wrong").decode(), 401),
            ("Basic " + b64encode(b"no colon").decode(), 401),
            ("Basic \xe9\xe9\xe9", 401),
            ("Basic " + "A" * 10_000, 401),
            ("Bearer abc", 401),
            ("", 401),
        ],
    )
    async def test_who_may_look_reads_metrics(
        self, browser: WebBrowser, credentials: str | None, status: int, autojump_clock: object
    ) -> None:
        headers = {} if credentials is None else {"authorization": credentials}
        answer = await browser.get("/metrics", **headers)
        assert answer.status == status
        if status == 401:
            assert answer.headers["www-authenticate"].startswith("Basic ")


class TestHealth:
    async def test_a_site_that_works_is_ready(self, browser: WebBrowser) -> None:
        answer = await browser.get("/health/ready")
        assert (answer.status, answer.json) == (200, {"ready": True, "problems": []})

    async def test_a_site_that_drains_is_not(self, site: BrokerSite, browser: WebBrowser) -> None:
        site.draining.set()
        answer = await browser.get("/health/ready")
        assert (answer.status, answer.json) == (503, {"ready": False, "problems": ["draining"]})
        assert (await browser.get("/health/live")).status == 200

    async def test_a_site_that_cannot_store_is_not(self, site: BrokerSite, browser: WebBrowser) -> None:
        site.broker._store_health.fails(OSError("no such disk"))
        assert (await browser.get("/health/ready")).json["problems"] == ["store"]

    async def test_a_link_that_must_be_up_and_is_not_is_named(self, site: Any) -> None:
        browser = WebBrowser(make_app(site, WebSettings(ready_links=("beta.example",))))
        assert (await browser.get("/health/ready")).json["problems"] == ["link beta.example"]


# -- what is made of it ---------------------------------------------------------------------------


def told_names(text: str) -> set[str]:
    """Every name under which Prometheus has a sample, whether or not it has one now."""
    found = set()
    for family in text_string_to_metric_families(text):
        found |= {family.name, *(sample.name for sample in family.samples)}
        if family.type == "counter":
            found.add(f"{family.name}_total")
    return found


@pytest.mark.parametrize("file", ["smqpd.rules.yml", "grafana-dashboard.json"])
async def test_every_metric_that_is_asked_for_is_there(
    site: BrokerSite, browser: WebBrowser, file: str
) -> None:
    await publish(site, "jobs")
    there = told_names((await browser.get("/metrics", accept=OPEN_METRICS)).text)
    asked = set(re.findall(r"\bsmqpd_\w+", (MONITORING / file).read_text()))
    assert asked - there == set()
    assert len(asked) > 10


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    assert dashboard["title"] == "smqpd"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    for panel in dashboard["panels"]:
        assert panel["title"]
        for target in panel.get("targets", ()):
            assert target["expr"].count("(") == target["expr"].count(")")


@pytest.mark.skipif(
    may_skip("promtool", shutil.which("promtool") is not None), reason="no promtool is installed"
)
@pytest.mark.parametrize(
    "command", [("check", "rules", "smqpd.rules.yml"), ("test", "rules", "smqpd.rules.test.yml")]
)
def test_promtool_takes_the_alerts(command: tuple[str, ...]) -> None:
    *words, file = command
    done = subprocess.run(
        ["promtool", *words, MONITORING / file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.server
@needs_prometheus
async def test_prometheus_scrapes_a_site(site: Any, tmp_path: Path, nursery: trio.Nursery) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    running = ListeningSite(site.broker, {"http": [listening]}, None)
    await nursery.start(serve, running, WebSettings(listen=()))
    await publish(site, "jobs")
    example = (MONITORING / "prometheus.yml").read_text()
    example = example.replace("127.0.0.1:7780", f"127.0.0.1:{listening.getsockname()[1]}")
    example = example.replace("15s", "1s").replace("username: monitor", "username: dan")
    (tmp_path / "password").write_text(PASSWORD)
    example = example.replace("/etc/prometheus/smqpd-password", str(tmp_path / "password"))
    example = example.replace("smqpd.rules.yml", str(MONITORING / "smqpd.rules.yml"))
    (tmp_path / "prometheus.yml").write_text(example)
    port = free_port()
    command = (
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    prometheus = await nursery.start(
        lambda task_status: trio.run_process(
            command, capture_stderr=True, check=False, task_status=task_status
        )
    )
    try:
        with trio.fail_after(PATIENCE_S):
            while not (found := await asked_of(port, 'smqpd_topic_held{topic="jobs"}')):
                await trio.sleep(0.2)
        assert found[0]["value"][1] == "1"
        (up,) = await asked_of(port, "up")
        assert up["value"][1] == "1"
    finally:
        prometheus.terminate()


async def asked_of(port: int, query: str) -> list[Any]:
    """What Prometheus answers; nothing while it starts."""
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        return []
    async with stream:
        body = f"query={query}".replace("{", "%7B").replace("}", "%7D").replace('"', "%22")
        head = (
            f"POST /api/v1/query HTTP/1.0\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
        )
        await stream.send_all((head + body).encode())
        said = b"".join([data async for data in stream])
    answer, _, told = said.partition(b"\r\n\r\n")
    return json.loads(told)["data"]["result"] if b" 200 " in answer.split(b"\r\n")[0] else []
