"""Programs that show a bearer token: let in with the rights of its account, and each refused alike."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
import trio
from trio.testing import MockClock

from daemon.accounts.changing import change_file
from daemon.accounts.tokens import Token, make_token, token_hash
from tests.support.site import BrokerSite
from tests.support.web import WebBrowser

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JSON = {"content-type": "application/json"}


def give(site: BrokerSite, account: str, name: str, expires: datetime | None = None) -> str:
    """A token that the site knows."""
    token = make_token()
    kept = Token(hash=token_hash(token), created=NOW, expires=expires)
    change_file(site.broker.settings.site.accounts_file, lambda editor: editor.set_token(account, name, kept))
    site.take_on()
    return token


def shows(browser: WebBrowser, token: str) -> WebBrowser:
    browser.headers["authorization"] = f"Bearer {token}"
    return browser


async def test_a_token_opens_the_api_and_the_metrics(site: BrokerSite, browser: WebBrowser) -> None:
    program = shows(browser, give(site, "ada", "grafana"))
    assert (await program.get("/api/overview")).status == 200
    assert (await program.get("/metrics")).status == 200
    await program.request("POST", "/api/topic/messages?name=jobs&delivery=ONE", b"[1]", JSON)
    assert (await program.request("POST", "/api/topic/purge?name=jobs")).json == {"messages": 1}


async def test_it_may_what_its_account_may(site: BrokerSite, browser: WebBrowser) -> None:
    program = shows(browser, give(site, "dan", "grafana"))
    assert (await program.get("/api/overview")).status == 200
    assert (await program.request("POST", "/api/topic/purge?name=jobs")).status == 403
    assert (await shows(browser, give(site, "bob", "x")).get("/api/overview")).status == 403


async def test_of_a_token_only_a_digest_is_kept(site: BrokerSite) -> None:
    token = give(site, "ada", "grafana")
    kept = site.broker.settings.site.accounts_file.read_text()
    assert token not in kept
    assert token_hash(token) in kept


async def test_one_that_is_revoked_has_expired_or_whose_account_is_disabled_opens_nothing(
    site: BrokerSite, browser: WebBrowser, autojump_clock: MockClock
) -> None:
    path = site.broker.settings.site.accounts_file
    revoked, expired, ended = (
        give(site, "ada", "a"),
        give(site, "ada", "b", datetime.now(UTC) - timedelta(seconds=1)),
        give(site, "dan", "c", datetime.now(UTC) + timedelta(days=1)),
    )
    change_file(path, lambda editor: editor.remove_token("ada", "a"))
    change_file(path, lambda editor: editor.set_disabled("dan", True))
    site.take_on()
    for token in (revoked, expired, ended, "", "é", "smqpd_", token_hash(revoked), "x" * 100_000):
        assert (await shows(browser, token).get("/api/overview")).status == 401, token


async def test_who_guesses_is_slowed_and_who_has_one_is_not(
    site: BrokerSite, browser: WebBrowser, autojump_clock: MockClock
) -> None:
    good = give(site, "ada", "grafana")
    began = trio.current_time()
    for _ in range(4):
        assert (await shows(browser, make_token()).get("/api/overview")).status == 401
    assert trio.current_time() - began >= 0.5 + 1 + 2 + 4
    began = trio.current_time()
    assert (await shows(browser, good).get("/api/overview")).status == 200
    assert trio.current_time() == began


async def test_what_it_does_is_in_the_log_with_its_name(
    site: BrokerSite, browser: WebBrowser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    token = give(site, "ada", "deploy")
    program = shows(browser, token)
    await program.request("POST", "/api/topic/messages?name=jobs&delivery=ONE", b"[1]", JSON)
    await program.request("POST", "/api/topic/purge?name=jobs")
    assert "by ada (web, token deploy, 192.0.2.7:4711)" in caplog.text
    assert token not in caplog.text


async def test_a_token_makes_no_session_of_a_browser(site: BrokerSite, browser: WebBrowser) -> None:
    program = shows(browser, give(site, "ada", "deploy"))
    assert (await program.post("/account/password", name="ada", password="another")).status == 303
    assert not program.cookies


async def test_what_one_program_did_is_not_told_to_another(site: BrokerSite, browser: WebBrowser) -> None:
    await shows(browser, give(site, "ada", "deploy")).post("/account/disable", name="bob")
    assert "Disabled bob." not in (await shows(browser, give(site, "dan", "grafana")).get("/")).text


async def test_the_page_names_it(site: BrokerSite, ada: WebBrowser) -> None:
    give(site, "bob", "grafana")
    assert "<code>grafana</code>" in (await ada.get("/account?name=bob")).text
