"""Accounts on the page and in the API: added, changed, removed, and what is refused of that."""

import logging
import os
from typing import Any

import msgspec
import pytest

from daemon.accounts.accounts_editor import AccountsEditor, edit
from daemon.accounts.accounts_file import ChangedMeanwhileError, read_accounts
from daemon.accounts.changing import change_file
from daemon.frontend import AccountSettings, Actor, Identity, Rights
from daemon.operating.accounts import PasswordChanged
from routing.errors import Refusal
from tests.plugins.web.test_pages import after, client
from tests.support.site import PASSWORD, BrokerSite
from tests.support.web import WebAnswer, WebBrowser, hidden_fields

JSON = {"content-type": "application/json"}


def accounts(site: BrokerSite) -> Any:
    return read_accounts(site.broker.settings.site.accounts_file)


async def send(browser: WebBrowser, path: str, **body: Any) -> WebAnswer:
    """As a program does, that has a session of a browser."""
    token = (await browser.get("/")).text.partition('name="token" value="')[2].partition('"')[0]
    headers = {**JSON, "origin": browser.origin, "x-csrf-token": token}
    return await browser.request("POST", path, msgspec.json.encode(body), headers)


def version(site: BrokerSite, name: str) -> str:
    found: str = accounts(site)[name].version
    return found


class TestPage:
    async def test_an_account_is_added_and_logs_in_at_once(self, site: BrokerSite, ada: WebBrowser) -> None:
        fields = {"publish": "orders.# \r\nnews.*", "operate": "look", "held_messages_max": "50"}
        answer = await ada.do("/account/add", name="fay", password="secret of fay", **fields)
        assert "Added fay." in await after(ada, answer)
        assert await site.authenticate("fay", "secret of fay", "192.0.2.1") == Identity(account="fay")
        fay = accounts(site)["fay"]
        assert fay.rights.publish == ("orders.#", "news.*")
        assert fay.rights.operate == "look"
        assert fay.quotas.given == {"held_messages_max": 50}

    async def test_a_password_that_is_made_is_shown_once_and_works(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        answer = await ada.do("/account/password", name="bob")
        assert answer.status == 200
        assert answer.headers["cache-control"] == "no-store"
        made = answer.text.partition('class="secret">')[2].partition("<")[0]
        assert await site.authenticate("bob", made, "192.0.2.1") == Identity(account="bob")
        for path in ("/", "/accounts", "/account?name=bob"):
            assert made not in (await ada.get(path)).text

    async def test_what_became_of_the_login_of_the_machine_is_said(
        self, site: BrokerSite, ada: WebBrowser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def changed(*given: object) -> PasswordChanged:
            return PasswordChanged(made="made", login="keys/admin.toml has the password of before")

        monkeypatch.setattr(site.operations, "set_password", changed)
        answer = await ada.do("/account/password", name="bob")
        assert "Changed the password of bob. keys/admin.toml has the password of before." in answer.text

    async def test_who_is_disabled_is_out_and_comes_back_once_enabled(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        bob = client(site, "bob")
        page = await after(ada, await ada.do("/account/disable", name="bob"))
        assert "It cannot log in." in page
        assert [type(event).__name__ for event in await bob.session.events()] == ["Ending"]
        bob.session.close()
        assert "Disable" in await after(ada, await ada.do("/account/enable", name="bob"))
        assert await site.authenticate("bob", PASSWORD, "192.0.2.1") == Identity(account="bob")

    async def test_rights_that_are_taken_hold_for_sessions_that_are_open(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        bob = client(site, "bob")
        await bob.publish("jobs", delivery="ONE")
        shown = version(site, "bob")
        await after(ada, await ada.do("/account/change", name="bob", version=shown, subscribe="#"))
        with pytest.raises(Refusal, match="may not publish"):
            bob.session.check_publish("jobs")
        bob.session.close()

    async def test_an_account_is_removed(self, site: BrokerSite, ada: WebBrowser) -> None:
        assert "Removed bob." in await after(ada, await ada.do("/account/remove", name="bob"))
        assert "bob" not in accounts(site)
        assert (await ada.get("/account?name=bob")).status == 404

    @pytest.mark.parametrize(
        ("path", "fields", "status", "said"),
        [
            ("add", {"name": "bob"}, 400, "there is an account bob already"),
            ("add", {"name": "b ob"}, 400, "cannot be an account"),
            ("add", {"name": "dead.bob"}, 400, "cannot be an account"),
            ("add", {"name": "fay", "password": "x" * 1_025}, 400, "a password has 1 to 1024 bytes"),
            ("add", {"name": "fay", "publish": "a.#.b"}, 400, "a.#.b"),
            ("add", {"name": "fay", "held_messages_max": "many"}, 400, "is a number"),
            ("add", {"name": "fay", "held_messages_max": "-1"}, 400, "&gt;= 0"),
            ("add", {"name": "fay", "publish_rate_per_s_max": "nan"}, 400, "publish_rate_per_s_max"),
            ("change", {"name": "absent"}, 404, "there is no account absent"),
            ("password", {"name": "bobb", "password": "x"}, 404, "did you mean bob"),
            ("remove", {"name": ""}, 404, "there is no account"),
        ],
    )
    async def test_what_cannot_be_is_refused_with_the_reason(
        self, site: BrokerSite, ada: WebBrowser, path: str, fields: dict[str, str], status: int, said: str
    ) -> None:
        before = site.broker.settings.site.accounts_file.read_bytes()
        answer = await ada.do(f"/account/{path}", **fields)
        assert (answer.status, said in answer.text) == (status, True), answer.text
        assert site.broker.settings.site.accounts_file.read_bytes() == before

    async def test_nobody_locks_the_last_one_out_unawares(self, site: BrokerSite, ada: WebBrowser) -> None:
        assert "the only account that may change this site" in (await ada.get("/account?name=ada")).text
        for path in ("disable", "remove", "change"):
            answer = await ada.do(f"/account/{path}", name="ada")
            assert answer.status == 409
            assert "nobody could change this site" in answer.text
        answer = await ada.do("/account/remove", name="ada", leave_nobody="yes")
        assert answer.status == 303
        assert (await ada.get("/accounts")).headers["location"].startswith("/login")

    async def test_with_another_who_may_change_the_site_one_goes_like_any(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        await ada.do("/account/change", name="bob", operate="change")
        assert "the only account" not in (await ada.get("/account?name=ada")).text
        assert (await ada.do("/account/disable", name="ada")).status == 303
        assert accounts(site)["ada"].disabled


async def test_many_accounts_are_searched_and_paged(site: BrokerSite, ada: WebBrowser) -> None:
    def change(editor: AccountsEditor) -> None:
        for number in range(120):
            editor.add(f"worker{number:03}", accounts(site)["bob"])

    change_file(site.broker.settings.site.accounts_file, change)
    site.take_on()
    first = (await ada.get("/accounts")).text
    assert "124 of 124 accounts" in first
    assert "worker110" not in first
    assert "101 to 124 of 124" in (await ada.get("/accounts?offset=100")).text
    found = (await ada.get("/accounts?search=WORKER11")).text
    assert "10 of 124 accounts" in found
    assert "worker110" in found
    assert "No accounts that match." in (await ada.get("/accounts?search=%3Cb%3E")).text


class TestRaces:
    async def test_a_form_that_was_shown_before_a_change_is_refused(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        shown = version(site, "bob")
        assert shown in (await ada.get("/account?name=bob")).text
        path = site.broker.settings.site.accounts_file
        change_file(path, lambda editor: editor.set_disabled("bob", True))  # by the command
        answer = await ada.do("/account/change", name="bob", version=shown, publish="#")
        assert answer.status == 409
        assert "somebody has changed it since" in answer.text
        assert accounts(site)["bob"].disabled
        assert (await ada.do("/account/remove", name="bob", version=shown)).status == 409
        assert "bob" in accounts(site)

    async def test_a_change_keeps_what_the_command_did_to_others(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        path = site.broker.settings.site.accounts_file
        change_file(path, lambda editor: editor.set_disabled("bob", True))
        assert (await ada.do("/account/disable", name="eve")).status == 303
        assert accounts(site)["bob"].disabled
        assert accounts(site)["eve"].disabled

    async def test_what_somebody_writes_by_hand_meanwhile_is_not_lost(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        path = site.broker.settings.site.accounts_file

        def change(editor: AccountsEditor) -> None:
            path.write_text(path.read_text() + "# by hand\n")
            editor.set_disabled("bob", True)

        with pytest.raises(ChangedMeanwhileError, match="by hand meanwhile"):
            change_file(path, change)
        assert path.read_text().endswith("# by hand\n")
        assert not accounts(site)["bob"].disabled

    async def test_who_waits_for_a_command_too_long_is_told(
        self, site: BrokerSite, ada: WebBrowser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("daemon.operations.accounts.PATIENCE_S", 0.0)
        with edit(site.broker.settings.site.accounts_file):
            answer = await ada.do("/account/disable", name="bob")
        assert answer.status == 503
        assert "right now" in answer.text

    async def test_a_file_that_is_bad_stays_and_is_named(self, site: BrokerSite, ada: WebBrowser) -> None:
        path = site.broker.settings.site.accounts_file
        path.write_text("[accounts")
        answer = await ada.do("/account/disable", name="bob")
        assert answer.status == 503
        assert "cannot be changed" in answer.text
        assert path.read_text() == "[accounts"


class TestWhoMay:
    async def test_who_may_look_sees_them_and_changes_none(self, site: BrokerSite, dan: WebBrowser) -> None:
        page = (await dan.get("/account?name=bob")).text
        assert "<form" not in page.partition("<main")[2]
        for path in ("add", "change", "disable", "enable", "password", "remove"):
            assert (await dan.do(f"/account/{path}", name="bob")).status == 403
            answer = await send(dan, "/api/account/remove", name="bob")
            assert answer.status == 403
        assert not accounts(site)["bob"].disabled

    @pytest.mark.parametrize("path", ["add", "change", "disable", "password", "remove"])
    async def test_a_form_without_its_token_does_nothing(
        self, site: BrokerSite, ada: WebBrowser, path: str
    ) -> None:
        before = site.broker.settings.site.accounts_file.read_bytes()
        assert (await ada.post(f"/account/{path}", name="bob", password="x")).status == 403
        assert site.broker.settings.site.accounts_file.read_bytes() == before

    async def test_a_site_that_may_not_write_them_says_what_does(
        self, site: BrokerSite, ada: WebBrowser
    ) -> None:
        path = site.broker.settings.site.accounts_file
        path.parent.chmod(0o500)
        try:
            if os.geteuid() == 0:
                path = path.rename(path.with_name("away.toml"))  # root may write everywhere
            page = (await ada.get("/accounts")).text
            assert "<code>smqpd account</code>" in page
            assert "/account/add" not in page
            assert "smqpd account rights" in (await ada.get("/account?name=bob")).text
            assert (await ada.do("/account/disable", name="bob")).status == 503
            assert (await ada.get("/api/accounts/fixed")).json["why"]
        finally:
            path.parent.chmod(0o700)


class TestRightsLost:
    """Who may change the site begins to ask for something, and may not any more when it would be done."""

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/account/add", {"name": "fay", "operate": "change"}),
            ("/account/password", {"name": "bob", "password": "known to ada"}),
            ("/topic/set", {"name": "jobs", "delivery": "ONE"}),
            ("/api/account/add", {"name": "fay", "settings": {"rights": {"operate": "change"}}}),
            ("/api/topic/settings?name=jobs", {"delivery": "ONE"}),
        ],
    )
    async def test_while_a_request_was_on_its_way(
        self, site: BrokerSite, ada: WebBrowser, path: str, body: dict[str, Any]
    ) -> None:
        file, app = site.broker.settings.site.accounts_file, ada.app
        before = accounts(site)["bob"].password

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            async def received() -> Any:
                if scope["path"] == path.partition("?")[0]:
                    change_file(file, lambda editor: editor.set_disabled("ada", True))
                    site.take_on()
                return await receive()

            await app(scope, received, send)

        ada.app = slow
        answer = await (send(ada, path, **body) if path.startswith("/api/") else ada.do(path, **body))
        assert answer.status == 403
        assert accounts(site)["ada"].disabled
        assert "fay" not in accounts(site)
        assert accounts(site)["bob"].password == before
        found = await site.operations.topic("jobs")
        assert found is None or found.summary.delivery is None

    async def test_while_a_message_was_on_its_way(self, site: BrokerSite, ada: WebBrowser) -> None:
        """Of who may still publish, and not by the API."""
        file, app = site.broker.settings.site.accounts_file, ada.app

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            async def received() -> Any:
                rights = Rights(operate="look", publish=("#",))
                change_file(file, lambda editor: editor.set_rights("ada", rights))
                site.take_on()
                return await receive()

            await app(scope, received, send)

        headers = {"origin": ada.origin, "x-csrf-token": hidden_fields(await ada.get("/"))["token"]}
        ada.app = slow
        answer = await ada.request("POST", "/api/topic/messages?name=jobs&delivery=ONE", b"x", headers)
        assert (answer.status, answer.json["error"]) == (403, "forbidden")
        assert await site.operations.topic("jobs") is None

    async def test_while_it_waited_for_another_change(self, site: BrokerSite) -> None:
        file = site.broker.settings.site.accounts_file
        change_file(file, lambda editor: editor.set_disabled("ada", True))  # the site has not heard of it yet
        by, wanted = Actor(name="ada", via="web"), AccountSettings(rights=Rights(operate="change"))
        with pytest.raises(Refusal, match="ada may not change this site any more"):
            await site.operations.add_account("fay", "", wanted, by)
        assert "fay" not in accounts(site)


class TestApi:
    async def test_a_program_adds_changes_and_removes(self, site: BrokerSite, ada: WebBrowser) -> None:
        settings = {"rights": {"publish": ["orders.#"]}, "quotas": {"sessions_max": 2}}
        answer = await send(ada, "/api/account/add", name="fay", settings=settings)
        made = answer.json["password"]
        assert answer.json["account"] == "fay"
        assert await site.authenticate("fay", made, "192.0.2.1") == Identity(account="fay")
        (fay,) = (each for each in (await ada.get("/api/accounts")).json if each["name"] == "fay")
        assert fay["own"] == {"sessions_max": 2}
        changed = {"name": "fay", "version": fay["version"], "settings": {"disabled": True}}
        assert (await send(ada, "/api/account/change", **changed)).status == 200
        assert (await send(ada, "/api/account/change", **changed)).json["error"] == "conflict"
        assert accounts(site)["fay"].rights.publish == ("orders.#",)
        answer = await send(ada, "/api/account/password", name="fay", password="another")
        assert answer.json == {"account": "fay", "password": "", "login": ""}
        assert (await send(ada, "/api/account/remove", name="fay", version=fay["version"])).status == 409
        assert (await send(ada, "/api/account/remove", name="fay")).status == 200
        assert "fay" not in accounts(site)

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("add", {"name": "fay", "settings": {"rights": {"publish": ["a.#.b"]}}}),
            ("add", {"name": "fay", "settings": {"quotas": {"sessions_max": -1}}}),
            ("add", {"name": "fay", "color": "red"}),
            ("add", {"name": "fay", "settings": {"rights": {"pubish": ["orders.#"]}}}),
            ("change", {"name": "bob", "settings": {"quotas": {"session_max": 1}}}),
            ("change", {"name": "bob", "settings": {"rights": {"operate": "everything"}}}),
            ("password", {}),
        ],
    )
    async def test_what_is_none_is_refused(
        self, site: BrokerSite, ada: WebBrowser, path: str, body: dict[str, Any]
    ) -> None:
        answer = await send(ada, f"/api/account/{path}", **body)
        assert (answer.status, answer.json["error"]) == (400, "bad-command")
        assert "fay" not in accounts(site)

    async def test_the_last_one_is_named_there_too(self, site: BrokerSite, ada: WebBrowser) -> None:
        body: dict[str, Any] = {"name": "ada", "settings": {"disabled": True}}
        assert (await send(ada, "/api/account/change", **body)).status == 409
        assert (await send(ada, "/api/account/change", **body, leave_nobody=True)).status == 200


async def test_each_change_is_in_the_log_with_who_did_it_and_no_password(
    ada: WebBrowser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await ada.do("/account/add", name="fay", password="very secret")
    await ada.do("/account/password", name="fay", password="very secret")
    await ada.do("/account/change", name="fay", publish="#")
    await ada.do("/account/remove", name="fay")
    by = ": by ada (web, 192.0.2.7:4711)"
    said = [record.getMessage() for record in caplog.records if record.name == "daemon.operations.accounts"]
    assert said == [
        f"Added the account fay{by}",
        f"Changed the password of fay{by}",
        f"Changed the account fay{by}",
        f"Removed the account fay{by}",
    ]
    assert "very secret" not in caplog.text
    assert "argon2" not in caplog.text
