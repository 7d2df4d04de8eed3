"""What is tried on pages: each attack by itself, and that it comes to nothing."""

from base64 import b64encode
from typing import Any
from urllib.parse import quote

import pytest
import trio
from trio.testing import MockClock

from daemon.frontend import Identity
from daemon.settings import Limits
from plugins.web.app import make_app
from plugins.web.settings import WebSettings
from routing.errors import Refusal
from routing.message import Message, Section
from tests.support.site import PASSWORD, BrokerSite
from tests.support.web import WebBrowser, hidden_fields

HOSTILE = "<script>alert(1)</script>\"'><img/src=x/onerror=alert(1)>".replace("/", "|").replace(">", "&gt")
"""What a topic may be called: no white space, no slash, no `>`."""

SCRIPT = b"<script>alert(1)</script><img src=x onerror=alert(1)>"
FORM = "application/x-www-form-urlencoded"


async def publish(site: Any, topic: str, message: Message) -> None:
    session = site.open_session(Identity("ada"), "<b>desk", protocol="test", remote="192.0.2.1:1")
    try:
        session.publish(topic, message, 1)
        await session.events()
    finally:
        session.close()


async def held(site: BrokerSite, topic: str) -> int:
    found = await site.operations.topic(topic)
    return 0 if found is None else found.summary.held


class TestCsrf:
    """A page of somebody else has the browser of an operator send something."""

    @pytest.fixture
    async def site(self, site: BrokerSite) -> BrokerSite:
        await publish(site, "jobs", Message(delivery="ONE"))
        return site

    @pytest.mark.parametrize("token", ["", "x", "é", "A" * 43])
    async def test_a_form_without_its_token_changes_nothing(
        self, site: BrokerSite, ada: WebBrowser, token: str
    ) -> None:
        assert (await ada.post("/topic/purge", name="jobs", token=token)).status == 403
        assert await held(site, "jobs") == 1

    async def test_the_token_of_another_session_changes_nothing(
        self, site: BrokerSite, ada: WebBrowser, dan: WebBrowser
    ) -> None:
        token = hidden_fields(await dan.get("/"))["token"]
        assert (await ada.post("/topic/purge", name="jobs", token=token)).status == 403
        assert await held(site, "jobs") == 1

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://["},
            {"origin": "http://127.0.0.1:7781"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
        ],
    )
    @pytest.mark.parametrize("path", ["/topic/purge", "/logout", "/login"])
    async def test_a_form_of_another_page_changes_nothing_even_with_the_token(
        self, site: BrokerSite, ada: WebBrowser, headers: dict[str, str], path: str
    ) -> None:
        token = hidden_fields(await ada.get("/"))["token"]
        body = f"name=jobs&token={token}&account=ada&password={quote(PASSWORD)}".encode()
        answer = await ada.request("POST", path, body, {"content-type": FORM, **headers})
        assert answer.status == 403
        assert answer.cookies == []
        assert await held(site, "jobs") == 1
        assert site.broker.mishaps.count == 0

    @pytest.mark.parametrize("path", ["/topic/purge?name=jobs", "/api/topic/purge?name=jobs"])
    async def test_an_address_alone_changes_nothing(
        self, site: BrokerSite, ada: WebBrowser, path: str
    ) -> None:
        assert (await ada.get(path)).status == 405
        assert await held(site, "jobs") == 1

    async def test_the_api_takes_no_cookie_without_the_token(self, site: BrokerSite, ada: WebBrowser) -> None:
        path = "/api/topic/purge?name=jobs"
        assert (await ada.request("POST", path, headers={"origin": ada.origin})).status == 403
        assert await held(site, "jobs") == 1
        token = hidden_fields(await ada.get("/"))["token"]
        headers = {"origin": ada.origin, "x-csrf-token": token}
        assert (await ada.request("POST", path, headers=headers)).json == {"messages": 1}

    async def test_nor_remembered_credentials_from_another_page(
        self, site: BrokerSite, browser: WebBrowser
    ) -> None:
        """Browsers send Basic credentials that they were once asked for with every request."""
        basic = "Basic " + b64encode(f"ada:{PASSWORD}".encode()).decode()
        headers = {"authorization": basic, "sec-fetch-site": "cross-site"}
        assert (await browser.request("POST", "/api/topic/purge?name=jobs", headers=headers)).status == 403
        assert await held(site, "jobs") == 1


class TestScripts:
    """A topic, a body or a header that is a script."""

    @pytest.fixture
    async def site(self, site: BrokerSite) -> BrokerSite:
        message = Message(
            delivery="ONE",
            name=SCRIPT.decode(),
            others=(("X-<img>", SCRIPT.decode()),),
            sections=(Section("text/html", SCRIPT), Section("application/json", b'"%b"' % SCRIPT)),
        )
        await publish(site, HOSTILE, message)
        await publish(site, "jobs", message)
        return site

    @pytest.mark.parametrize(
        "path",
        [
            "/topics",
            f"/topics?search={quote('<script>alert(1)</script>')}",
            f"/topics?search={quote('<script>#')}",
            f"/topic?name={quote(HOSTILE)}",
            f"/topic?name={quote('<script>alert(1)</script>')}",
            f"/topic/messages?name={quote(HOSTILE)}",
            "/topic/messages?name=jobs",
            f"/topic/dead-letters?name={quote('<script>')}",
            f"/sessions?search={quote('<script>')}",
            f"/login?next={quote('/<script>')}",
            f"/{quote('<script>')}",
        ],
    )
    async def test_it_is_shown_and_not_run(self, ada: WebBrowser, path: str) -> None:
        answer = await ada.get(path)
        text = answer.text.replace('<script type="module" src="/static/page.js"></script>', "")
        assert "<script" not in text
        assert "<img" not in text
        assert "unsafe-inline" not in answer.headers.get("content-security-policy", "")

    async def test_what_is_published_comes_back_as_text(self, ada: WebBrowser) -> None:
        page = await ada.get("/topic/messages?name=jobs")
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text

    async def test_the_api_is_never_taken_for_a_page(self, ada: WebBrowser) -> None:
        for path in ("/api/topics", f"/api/topic?name={quote('<script>')}", "/metrics"):
            headers = (await ada.get(path)).headers
            assert not headers["content-type"].startswith("text/html")
            assert headers["x-content-type-options"] == "nosniff"


class TestSessions:
    """Cookies that were not given, or no longer hold."""

    async def test_a_session_that_was_planted_is_not_taken_over(self, browser: WebBrowser) -> None:
        name = await cookie_name(browser)
        browser.cookies[name] = "ada|planted|0|AAAA"
        assert (await browser.get("/")).status == 303
        await browser.log_in("ada", PASSWORD)
        assert "planted" not in browser.cookies[name]

    async def test_a_login_makes_a_new_session_each_time(self, ada: WebBrowser) -> None:
        before = dict(ada.cookies)
        await ada.log_in("ada", PASSWORD)
        assert ada.cookies.keys() == before.keys()
        assert ada.cookies != before

    async def test_nobody_becomes_another_by_changing_a_cookie(self, dan: WebBrowser) -> None:
        ((name, value),) = dan.cookies.items()
        dan.cookies[name] = value.replace("dan|", "ada|", 1)
        assert (await dan.get("/")).status == 303

    @pytest.mark.parametrize("cookie", ["", "|", "|||", "a|b|c|d", "ada|s|nan|x", "é|é|é|é", "x" * 10_000])
    async def test_a_cookie_that_is_none_logs_nobody_in(self, browser: WebBrowser, cookie: str) -> None:
        browser.cookies[await cookie_name(browser)] = cookie
        assert (await browser.get("/")).status == 303

    @pytest.mark.parametrize("session_s", [60.0, 28_800.0])
    async def test_a_session_lasts_while_requests_come_and_so_long_after_the_last(
        self, site: Any, mock_clock: MockClock, session_s: float
    ) -> None:
        browser = WebBrowser(make_app(site, WebSettings(session_s=session_s)))
        await browser.log_in("ada", PASSWORD)
        for rests_s in (min(59, session_s / 11), *[session_s - 1] * 4):
            mock_clock.jump(rests_s)
            assert (await browser.get("/")).status == 200
        mock_clock.jump(1.1 * session_s + 1)
        assert (await browser.get("/")).status == 303

    async def test_a_cookie_is_of_no_use_after_its_logout(self, ada: WebBrowser) -> None:
        kept = dict(ada.cookies)
        assert (await ada.do("/logout")).status == 303
        assert ada.cookies == {}
        ada.cookies = kept
        assert (await ada.get("/")).headers["location"] == "/login"

    async def test_a_cookie_ends_with_the_password_it_was_given_for(
        self, site: BrokerSite, ada: WebBrowser, dan: WebBrowser
    ) -> None:
        """Who has stolen one is out, too."""
        assert (await ada.do("/account/password", name="dan", password="another")).status == 303
        assert (await dan.get("/")).status == 303
        stolen = WebBrowser(ada.app)
        stolen.cookies = dict(ada.cookies)
        assert (await ada.do("/account/password", name="ada", password="another")).status == 303
        assert (await ada.get("/")).status == 200
        assert (await stolen.get("/")).status == 303

    async def test_nor_is_it_of_use_for_another_account_of_that_name(
        self, site: BrokerSite, ada: WebBrowser, dan: WebBrowser
    ) -> None:
        await ada.do("/account/remove", name="dan")
        await ada.do("/account/add", name="dan", operate="change")
        assert (await dan.get("/")).status == 303

    async def test_an_account_that_is_disabled_is_out_at_once(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        site.disable_all()
        assert (await ada.get("/")).status == 303
        assert (await ada.get("/api/overview")).status == 401

    async def test_scripts_and_other_sites_never_see_a_cookie(self, browser: WebBrowser) -> None:
        (cookie,) = (await browser.log_in("ada", PASSWORD)).cookies
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "Domain" not in cookie

    async def test_over_tls_a_cookie_is_for_this_host_and_for_tls_alone(self, browser: WebBrowser) -> None:
        browser.scheme = "https"
        (cookie,) = (await browser.log_in("ada", PASSWORD)).cookies
        assert cookie.startswith("__Host-")
        assert "; Secure" in cookie

    @pytest.mark.parametrize(
        "there", ["//evil.example", "https://evil.example", "/\\evil.example", "/\r\nX: y", ""]
    )
    async def test_a_login_leads_nowhere_else(self, browser: WebBrowser, there: str) -> None:
        answer = await browser.log_in("ada", PASSWORD, there)
        assert answer.headers["location"] == "/"

    async def test_who_asked_for_a_page_comes_to_it_after_the_login(self, browser: WebBrowser) -> None:
        there = (await browser.get("/topic?name=a.b")).headers["location"]
        assert there == "/login?next=%2Ftopic%3Fname%3Da.b"
        fields = hidden_fields(await browser.get(there))
        assert (await browser.log_in("ada", PASSWORD, fields["next"])).headers[
            "location"
        ] == "/topic?name=a.b"


async def cookie_name(browser: WebBrowser) -> str:
    """Of the cookie of a session."""
    await browser.log_in("ada", PASSWORD)
    (name,) = browser.cookies
    browser.cookies.clear()
    return name


class TestGuessing:
    async def test_guesses_are_answered_later_and_later(
        self, browser: WebBrowser, autojump_clock: MockClock
    ) -> None:
        began = trio.current_time()
        for number in range(8):
            answer = await browser.log_in("ada", f"guess {number}")
            assert answer.status == 403
            assert "account or password is wrong" in answer.text
            assert answer.cookies == []
        assert trio.current_time() - began > 20.0

    async def test_an_unknown_account_looks_like_a_wrong_password(
        self, browser: WebBrowser, autojump_clock: MockClock
    ) -> None:
        unknown = await browser.log_in("nobody", "x")
        wrong = await browser.log_in("ada", "x")
        assert unknown.text.replace("nobody", "ada") == wrong.text

    async def test_who_may_not_look_is_told_so_only_with_the_right_password(
        self, site: BrokerSite, browser: WebBrowser, autojump_clock: MockClock
    ) -> None:
        """And it is counted as refused, which a wrong password is among logins."""
        assert "may neither look" in (await browser.log_in("eve", PASSWORD)).text
        assert "may neither look" not in (await browser.log_in("eve", "x")).text
        assert site.metrics.refused == {Refusal.FORBIDDEN: 1}


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "/static/../settings.py",
            "/static/..%2fsettings.py",
            "/static/%2e%2e/settings.py",
            "/static//etc/passwd",
            "/static/page.css/../../app.py",
            "/static/",
            "/static/page.css%00.js",
            "/templates/base.html",
            "/static/PAGE.CSS",
        ],
    )
    async def test_only_the_files_of_the_page_are_served(self, browser: WebBrowser, path: str) -> None:
        assert (await browser.get(path)).status == 404

    async def test_those_need_no_login_and_are_asked_for_anew(self, browser: WebBrowser) -> None:
        answer = await browser.get("/static/page.css")
        assert answer.status == 200
        tag = {"if-none-match": answer.headers["etag"]}
        assert (await browser.request("GET", "/static/page.css", headers=tag)).status == 304

    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/topics",
            "/topic?name=a",
            "/topic/messages?name=a",
            "/topic/dead-letters?name=a",
            "/sessions",
            "/accounts",
            "/links",
        ],
    )
    async def test_no_page_is_open(self, browser: WebBrowser, path: str) -> None:
        answer = await browser.get(path)
        assert answer.status == 303
        assert answer.headers["location"].startswith("/login")


class TestLookingOnly:
    """Who may look changes nothing, and reads no messages of topics that are not his."""

    @pytest.mark.parametrize(
        "path",
        [
            "/topic/publish",
            "/topic/set",
            "/topic/purge",
            "/topic/delete",
            "/topic/remove",
            "/topic/replay",
            "/session/close",
        ],
    )
    async def test_forms_are_refused(self, site: BrokerSite, dan: WebBrowser, path: str) -> None:
        await publish(site, "jobs", Message(delivery="ONE"))
        answer = await dan.do(path, name="jobs", id="1", smuid="a.example/1")
        assert answer.status == 403
        assert "may look at this site, and not change it" in answer.text
        assert await held(site, "jobs") == 1

    async def test_bodies_are_for_who_may_subscribe(self, site: BrokerSite, dan: WebBrowser) -> None:
        said = Message(delivery="ONE", sections=(Section("text/plain", b"secret words"),))
        for topic in ("news.open", "jobs"):
            await publish(site, topic, said)
        assert "secret words" in (await dan.get("/topic/messages?name=news.open")).text
        assert "secret words" not in (await dan.get("/topic/messages?name=jobs")).text
        assert (await dan.get("/api/topic/messages?name=jobs")).status == 403

    async def test_its_pages_have_no_forms_to_change(self, site: BrokerSite, dan: WebBrowser) -> None:
        await publish(site, "jobs", Message(delivery="ONE"))
        for path in ("/topic?name=jobs", "/topic/messages?name=jobs", "/sessions"):
            text = (await dan.get(path)).text
            assert text.count('method="post"') == 1  # to log out


class TestUploads:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(message_bytes_max=100_000, unfinished_bytes_max=200_000)

    @pytest.mark.parametrize("path", ["/login", "/topic/purge", "/logout"])
    async def test_a_form_that_is_too_large_is_refused(self, ada: WebBrowser, path: str) -> None:
        assert (await ada.post(path, name="x" * 70_000)).status == 413

    async def test_so_is_one_that_lies_about_its_length(self, ada: WebBrowser) -> None:
        headers = {"content-type": FORM, "origin": ada.origin, "content-length": "10"}
        assert (await ada.request("POST", "/topic/purge", b"name=" + b"x" * 70_000, headers)).status == 413

    @pytest.mark.parametrize("length", ["99999999999999999999999", "-1", "1e3", "é"])
    async def test_a_length_that_is_none_is_refused(self, ada: WebBrowser, length: str) -> None:
        headers = {"content-type": FORM, "origin": ada.origin, "content-length": length}
        assert (await ada.request("POST", "/topic/purge", b"name=x", headers)).status == 413

    async def test_a_message_that_is_too_large_is_refused(self, site: BrokerSite, ada: WebBrowser) -> None:
        headers = {"origin": ada.origin, "x-csrf-token": hidden_fields(await ada.get("/"))["token"]}
        path = "/api/topic/messages?name=jobs"
        assert (await ada.request("POST", path, b"x" * 100_001, headers)).status == 413
        assert (await ada.request("POST", path, b"x" * 100_000, headers)).status == 200
        assert site.broker.unfinished.bytes == 0

    async def test_many_uploads_at_a_time_share_one_bound(
        self, site: Any, ada: WebBrowser, autojump_clock: MockClock
    ) -> None:
        """What has been announced counts, as for bodies of other front ends."""
        session = site.open_session(Identity("ada"), "other", protocol="test", remote="192.0.2.7:1")
        await session.hold(100_000)
        headers = {"origin": ada.origin, "x-csrf-token": hidden_fields(await ada.get("/"))["token"]}
        answer = await ada.request("POST", "/api/topic/messages?name=jobs", b"x" * 90_000, headers)
        assert (answer.status, answer.json["error"]) == (429, "too-many")
        session.close()

    @pytest.mark.parametrize(
        ("path", "length"),
        [
            ("/topic/purge", 60_000),
            ("/logout", 60_000),
            ("/logout", None),
            ("/api/topic/settings?name=a", 9_000),
        ],
    )
    async def test_forms_and_json_count_by_address_while_they_come(
        self, site: Any, ada: WebBrowser, autojump_clock: MockClock, path: str, length: int | None
    ) -> None:
        session = site.open_session(Identity("ada"), "other", protocol="test", remote="192.0.2.7:1")
        await session.hold(97_000)
        headers = {"content-type": FORM, "origin": ada.origin}
        headers |= {"x-csrf-token": hidden_fields(await ada.get("/"))["token"]}
        headers |= {"content-length": str(length)} if length else {"transfer-encoding": "chunked"}
        answer = await ada.request("POST", path, b"", headers)
        assert answer.status == 429
        session.close()
        assert (await ada.request("POST", path, b"", headers)).status in (400, 403)
        assert site.broker.unfinished.bytes == 0

    async def test_nobody_holds_more_before_a_login_than_a_login_takes(
        self, site: BrokerSite, browser: WebBrowser
    ) -> None:
        fields = {"account": "ada", "next": "/"}
        assert (await browser.post("/login", **fields, password=PASSWORD, more="x" * 3_900)).status == 303
        assert (await browser.post("/login", **fields, password=PASSWORD, more="x" * 4_096)).status == 413

    @pytest.mark.parametrize("body", [b"%zz=%zz&&&", b"\xff\xfe", b"a=1&" * 1_000, b"no equals"])
    async def test_a_form_that_is_none_is_refused(self, ada: WebBrowser, body: bytes) -> None:
        headers = {"content-type": FORM, "origin": ada.origin}
        assert (await ada.request("POST", "/topic/purge", body, headers)).status in (400, 403)

    async def test_other_kinds_of_bodies_are_no_forms(self, ada: WebBrowser) -> None:
        """What other pages can have a browser send without asking."""
        headers = {"content-type": "text/plain", "origin": ada.origin}
        assert (await ada.request("POST", "/topic/purge", b"name=jobs", headers)).status == 400
