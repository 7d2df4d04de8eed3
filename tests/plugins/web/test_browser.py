"""The page in a real Chromium: what operators do, by keyboard too, on a telephone and on a large screen."""

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from daemon.frontend import KnownSite, LinkStatus, Route
from daemon.operations.site import SiteOperations
from plugins.web.serving import serve
from plugins.web.settings import WebSettings
from tests.plugins.web.test_drawing import known_sites
from tests.plugins.web.test_pages import client, dead_letter
from tests.support.required import may_skip
from tests.support.site import PASSWORD, ListeningSite

pytestmark = pytest.mark.server

WIDTHS: Final = (360, 1_600)
LONG: Final = "a-topic-" + "as-long-as-topics-may-be" * 9
PAGES: Final = (
    "/",
    "/topics?order=held",
    "/topic?name=orders.new",
    "/topic/messages?name=orders.new",
    "/topic/dead-letters?name=work",
    "/sessions",
    "/links",
    "/links?topic=orders.new",
    "/accounts",
    "/account?name=bob",
    "/account?name=ada",
    "/topic?name=unused",
    "/message",
)


def chromium() -> str:
    """Its path; the test is skipped where there is none."""
    found = shutil.which("chromium")
    if may_skip("chromium", found is not None):
        pytest.skip("no chromium is installed (apt-get install chromium)")
    if may_skip("playwright", find_spec("playwright") is not None):
        pytest.skip("playwright is not installed: pip install -e '.[browser]'")
    assert found is not None
    return found


def axe() -> str:
    """The script that looks for what keeps people out."""
    root = ""
    if shutil.which("npm"):
        told = subprocess.run(["npm", "root", "--global"], capture_output=True, text=True, check=False)
        root = told.stdout.strip()
    script = Path(root) / "axe-core" / "axe.min.js"
    if may_skip("axe-core", bool(root) and script.exists()):
        pytest.skip("axe-core is not installed: npm install --global axe-core@4")
    return script.read_text(encoding="utf-8")


class Chromium:
    """A browser, for one test; all is done in the thread of its own that playwright needs."""

    def __init__(self, browser: Any, address: str) -> None:
        self._browser = browser
        self.address = address
        self.said: list[str] = []

    def open(self, width: int = 1_600) -> Any:
        """A new window, which notes what its console says, and requests to elsewhere."""
        context = self._browser.new_context(viewport={"width": width, "height": 900})
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda r: self.said.append(r.url) if not r.url.startswith(self.address) else None)
        return page

    def logged_in(self, width: int = 1_600, account: str = "ada") -> Any:
        """One in which somebody has logged in, by keyboard."""
        page = self.open(width)
        page.goto(f"{self.address}/")
        page.wait_for_selector("input:focus")  # a moment after it is loaded
        page.keyboard.type(account)
        page.keyboard.press("Tab")
        page.keyboard.type(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:text-is('Overview')")
        return page


async def some_links() -> list[LinkStatus]:
    """One that is up, one that is not, and more."""
    await trio.lowlevel.checkpoint()
    return [
        LinkStatus(
            peer=f"{name}.a-long-name.example.org",
            state="up" if up else "waiting",
            since_s=3_725.0,
            remote="192.0.2.9:721",
            round_trip_s=0.0042 if up else None,
            waiting=12,
            in_flight=3,
            lag_s=44.2,
            why_down="" if up else "Connection refused",
            version="0.1.0",
            features=(),
        )
        for name, up in (("beta", True), ("gamma", False), ("delta", True), ("epsilon", True), ("zeta", True))
    ]


class WithOthers(SiteOperations):
    """A site that knows of others."""

    async def sites(self) -> list[KnownSite]:
        await trio.lowlevel.checkpoint()
        return known_sites()

    async def routes(self, name: str) -> list[Route]:
        await trio.lowlevel.checkpoint()
        peers = [f"{name}.a-long-name.example.org" for name in ("beta", "gamma")]
        why = ("", "the link is down")
        return [Route(peer=peer, kind="ALL", distance=1, why=no) for peer, no in zip(peers, why, strict=True)]


Use = Callable[[Callable[[Chromium], object]], Any]


@pytest.fixture(scope="session")
def thread() -> Iterator[Executor]:
    """Where playwright is used."""
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.fixture(scope="session")
def browser(thread: Executor) -> Iterator[Any]:
    """One for all tests, each of which has windows of its own: to start it takes a second."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    def launch() -> tuple[Any, Any]:
        playwright = sync_playwright().start()
        return playwright, playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])

    playwright, browser = thread.submit(launch).result()
    yield browser
    thread.submit(browser.close).result()
    thread.submit(playwright.stop).result()


@pytest.fixture
async def use(site: Any, nursery: trio.Nursery, thread: Executor, browser: Any) -> Use:
    """Has a function use the page of a site that has something to show, in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    running = ListeningSite(site.broker, {"http": [listening]}, None)
    running.operations = WithOthers(site.broker, some_links, take_on=site.take_on)
    await nursery.start(serve, running, WebSettings(listen=()))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    publisher = client(site)
    for topic in (LONG, *(f"sensors.building{number}.temperature" for number in range(55))):
        await publisher.publish(topic, b"x", delivery="ONE")
    await publisher.publish("orders.new", b'{"order": 1}', delivery="ONE", name="An order")
    await publisher.publish("orders.new", bytes(range(256)), delivery="ONE")
    await dead_letter(site, "work")
    await client(site, "bob").subscribe("orders.old")

    def used(work: Callable[[Chromium], object]) -> object:
        window = Chromium(browser, address)
        try:
            result = work(window)
        finally:
            for context in browser.contexts:
                context.close()
        assert window.said == []
        return result

    async def run(work: Callable[[Chromium], object]) -> object:
        return await trio.to_thread.run_sync(thread.submit(used, work).result)

    return run


async def test_an_operator_finds_a_topic_publishes_and_purges(use: Use, site: Any) -> None:
    def work(chromium: Chromium) -> None:
        page = chromium.logged_in()
        page.get_by_role("link", name="Topics").click()
        page.get_by_label("Name or pattern").fill("orders.#")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="orders.new").click()
        page.get_by_label("Body").fill("hello <b>world</b>")
        page.get_by_role("region", name="Publish a message").get_by_label("Delivery").select_option("ONE")
        page.get_by_role("button", name="Publish").click()
        page.get_by_role("status").get_by_text("Published").wait_for()
        page.get_by_role("link", name="Messages (3)").click()
        assert page.get_by_text("hello <b>world</b>").count() == 1
        page.get_by_role("link", name="The topic orders.new").click()
        page.get_by_text("Purge", exact=True).click()
        page.get_by_role("button", name="Yes, remove all 3 messages").click()
        page.get_by_role("status").get_by_text("Removed 3 messages").wait_for()

    await use(work)
    assert (await site.operations.topic("orders.new")) is None


async def test_dead_letters_are_replayed_and_a_session_is_closed(use: Use, site: Any) -> None:
    def work(chromium: Chromium) -> None:
        page = chromium.logged_in()
        page.goto(f"{chromium.address}/topic/dead-letters?name=work")
        page.get_by_text("cannot parse it").first.wait_for()
        page.get_by_role("button", name="Replay it").click()
        page.get_by_role("status").get_by_text("Replayed 1 to work.").wait_for()
        page.get_by_role("link", name="Sessions").click()
        page.get_by_label("Account, protocol or address").fill("bob")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Close the session of bob/desk").first.click()
        page.get_by_role("status").get_by_text("Closed the session.").wait_for()

    await use(work)


async def test_an_account_is_added_changed_and_removed_by_keyboard(use: Use, site: Any) -> None:
    def fields(page: Any, *texts: str) -> None:
        for text in texts:
            page.keyboard.press("Tab")
            page.keyboard.type(text)

    def work(chromium: Chromium) -> None:
        page = chromium.logged_in(360)
        page.goto(f"{chromium.address}/accounts")
        page.get_by_label("Name", exact=True).focus()
        page.keyboard.type("fay")
        fields(page, "", "orders.#", "news.*")
        page.keyboard.press("Shift+Tab")
        page.get_by_label("Name", exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="A password, shown once").wait_for()
        assert len(page.locator("code.secret").inner_text()) == 23
        page.get_by_role("link", name="The account fay").press("Enter")
        page.get_by_label("Administer").fill("orders.new")
        page.get_by_role("button", name="Change").press("Enter")
        page.get_by_role("status").get_by_text("Changed fay.").wait_for()
        page.get_by_text("Disable", exact=True).press("Enter")
        page.get_by_role("button", name="Yes, disable fay").press("Enter")
        page.get_by_text("It cannot log in.").wait_for()

    await use(work)
    fay = site.broker.accounts.every["fay"]
    assert fay.disabled
    assert (fay.rights.publish, fay.rights.administer) == (("orders.#",), ("orders.new",))


async def test_the_overview_changes_while_one_looks(use: Use, site: Any) -> None:
    token = trio.lowlevel.current_trio_token()

    def work(chromium: Chromium) -> None:
        page = chromium.logged_in()
        from playwright.sync_api import expect

        held = page.locator("[data-text=came]")
        before = int(held.inner_text())
        trio.from_thread.run(client(site).publish, "more", trio_token=token)
        expect(held).not_to_have_text(str(before), timeout=60_000)
        assert page.locator("[data-warnings] li.error").count() == 1

    await use(work)


async def test_the_page_is_used_by_keyboard_alone(use: Use) -> None:
    def work(chromium: Chromium) -> None:
        page = chromium.logged_in()
        page.goto(f"{chromium.address}/topics")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        page.wait_for_url("**#main")
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.closest('tbody') !== null"):
                break
        name = page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"h1:text-is('{name}')")

    await use(work)


@pytest.mark.parametrize("width", WIDTHS)
async def test_nothing_is_wider_than_the_screen(use: Use, width: int) -> None:
    def work(chromium: Chromium) -> None:
        page = chromium.logged_in(width)
        for path in (*PAGES, f"/topic?name={LONG}"):
            page.goto(chromium.address + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            for landmark in ("header", "main", "nav"):
                assert page.locator(landmark).count() >= 1

    await use(work)


async def test_nobody_is_kept_out_as_far_as_a_program_can_tell(use: Use) -> None:
    script = axe()

    def work(chromium: Chromium) -> dict[str, list[str]]:
        page = chromium.open()
        page.goto(f"{chromium.address}/login")
        found = violations(page, script)
        page = chromium.logged_in()
        for path in PAGES:
            page.goto(chromium.address + path)
            found |= violations(page, script)
        return {where: what for where, what in found.items() if what}

    assert await use(work) == {}


def violations(page: Any, script: str) -> dict[str, list[str]]:
    """What axe finds wrong with a page, in the colors of the day and in those of the night."""
    page.evaluate(script)
    violated = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        violated[f"{page.url} {scheme}"] = [
            f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]
        ]
    return violated


async def test_what_is_done_is_done_without_a_script_too(use: Use) -> None:
    def work(chromium: Chromium) -> None:
        context = chromium._browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{chromium.address}/topic?name=orders.new")
        page.get_by_label("Account").fill("ada")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="orders.new").wait_for()
        page.get_by_text("Delete", exact=True).click()
        page.get_by_role("button", name="Yes, delete orders.new").click()
        page.get_by_role("status").get_by_text("Deleted orders.new").wait_for()

    await use(work)
