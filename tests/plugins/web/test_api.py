"""What programs do by the API."""

from base64 import b64encode
from urllib.parse import urlencode

import pytest

from tests.support.broker import SessionClient
from tests.support.site import PASSWORD, BrokerSite
from tests.support.web import WebBrowser


@pytest.fixture
def program(browser: WebBrowser) -> WebBrowser:
    browser.headers["authorization"] = "Basic " + b64encode(f"ada:{PASSWORD}".encode()).decode()
    return browser


class TestApi:
    async def test_a_program_publishes_looks_and_purges(self, program: WebBrowser) -> None:
        path = "/api/topic/messages?name=jobs"
        sent = {"content-type": "application/json"}
        published = await program.request("POST", f"{path}&delivery=ONE", b"[1]", sent)
        assert published.json["smuid"].startswith("smqp.example/")
        (held,) = (await program.get(path)).json
        assert held["smuid"] == published.json["smuid"]
        assert (await program.get("/api/topics?search=jo")).json["topics"][0]["held"] == 1
        assert (await program.get("/api/overview")).json["held"] == 1
        assert (await program.request("POST", "/api/topic/purge?name=jobs")).json == {"messages": 1}

    async def test_a_subscription_that_nobody_uses_is_ended(
        self, site: BrokerSite, program: WebBrowser
    ) -> None:
        bob = SessionClient(site.broker, "bob", "desk")
        await bob.subscribe("jobs", name="one")
        await SessionClient(site.broker, "ada", "desk").publish("jobs")
        path = "/api/topic/unsubscribe?name=jobs&account=bob&channel="
        used = await program.request("POST", f"{path}desk&subscription=one")
        assert (used.status, used.json["error"]) == (409, "conflict")
        assert f"sessions {bob.session.id}" in used.json["text"]
        bob.session.close()
        for there_is_none in (f"{path}desk", f"{path}phone&subscription=one"):
            answer = await program.request("POST", there_is_none)
            assert (answer.status, answer.json["error"]) == (404, "not-found")
        done = await program.request("POST", f"{path}desk&subscription=one")
        assert (done.status, done.json) == (200, {"waited": 1})
        assert (await program.request("POST", f"{path}desk&subscription=one")).status == 404

    async def test_settings_that_are_left_out_stay(self, program: WebBrowser) -> None:
        path = "/api/topic/settings?name=jobs"
        await program.request("POST", path, b'{"delivery": "ONE", "timeout_s": 5.0}')
        answer = await program.request("POST", path, b'{"timeout_s": null}')
        summary = answer.json["summary"]
        assert (summary["delivery"], summary["timeout_s"]) == ("ONE", None)
        answer = await program.request("POST", path, b'{"timeout_s": "INFINITE"}')
        assert answer.json["summary"]["timeout_s"] == "INFINITE"

    @pytest.mark.parametrize(
        ("method", "path", "sent", "status", "error"),
        [
            ("GET", "/api/topic", b"", 400, "bad-command"),
            ("GET", "/api/topic?name=unused", b"", 404, "not-found"),
            ("GET", "/api/topics?order=shoe-size", b"", 400, "bad-command"),
            ("POST", "/api/topic/messages?name=no%20topic", b"x", 400, "bad-topic"),
            ("POST", "/api/topic/messages?name=a&delivery=SOME", b"x", 400, "bad-header"),
            ("POST", "/api/topic/settings?name=a", b"{", 400, "bad-command"),
            ("POST", "/api/topic/settings?name=a", b'{"timeout": 1}', 400, "bad-command"),
            ("POST", "/api/topic/settings?name=a", b'{"timeout_s": -1}', 400, "bad-header"),
            ("POST", "/api/topic/settings?name=a", b'{"timeout_s": 1e999}', 400, "bad-command"),
            ("POST", "/api/topic/remove?name=a&smuid=x", b"", 400, "bad-header"),
            ("POST", "/api/topic/unsubscribe?name=a&account=b", b"", 400, "bad-command"),
            ("POST", "/api/topic/unsubscribe?name=a&account=b%20b&channel=c", b"", 400, "bad-command"),
            ("POST", "/api/topic/unsubscribe?name=a%20b&account=b&channel=c", b"", 400, "bad-topic"),
            ("POST", "/api/session/close", b"", 400, "bad-command"),
        ],
    )
    async def test_errors_are_told_with_a_word_for_programs(
        self, program: WebBrowser, method: str, path: str, sent: bytes, status: int, error: str
    ) -> None:
        answer = await program.request(method, path, sent, {"content-type": "text/plain"})
        assert (answer.status, answer.json["error"]) == (status, error)

    async def test_the_schema_tells_of_each_path(self, program: WebBrowser) -> None:
        schema = (await program.get("/api/openapi.json")).json
        assert schema["openapi"].startswith("3.1")
        for path, methods in schema["paths"].items():
            for method, told in methods.items():
                needed = "&".join(f"{each['name']}=1" for each in told["parameters"] if each["required"])
                answer = await program.request(method.upper(), f"{path}?{needed}")
                assert answer.status != 405, path
                assert answer.headers["content-type"] == "application/json"
        assert "Overview" in schema["components"]["schemas"]

    @pytest.mark.parametrize("value", ["abc", "1.5", "-1", "+1", "1_0", "\u0663", "", "9" * 19, "9" * 5_000])
    async def test_what_is_no_integer_is_refused_wherever_one_is_taken(
        self, program: WebBrowser, value: str
    ) -> None:
        schema = (await program.get("/api/openapi.json")).json
        looked_at = 0
        for path, methods in schema["paths"].items():
            for method, told in methods.items():
                for wrong in told["parameters"]:
                    if wrong["schema"]["type"] != "integer":
                        continue
                    given = {each["name"]: "1" for each in told["parameters"] if each["required"]}
                    query = urlencode({**given, wrong["name"]: value})
                    answer = await program.request(method.upper(), f"{path}?{query}")
                    assert (answer.status, answer.json["error"]) == (400, "bad-command"), path
                    assert answer.json["text"].startswith(wrong["name"])
                    looked_at += 1
        assert looked_at > 6

    async def test_who_may_look_reads_and_changes_nothing(self, dan: WebBrowser) -> None:
        assert (await dan.get("/api/sessions")).status == 200
        assert (await dan.request("POST", "/api/topic/purge?name=jobs")).status == 403
