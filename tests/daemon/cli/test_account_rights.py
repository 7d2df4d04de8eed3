"""`smqpd account`: accounts that go, and whether one may do something, and why."""

import json
from pathlib import Path

import pytest
import trio

from daemon.accounts.accounts_editor import edit
from daemon.control import operators
from daemon.control.operators import AnyOperatorQuestion
from daemon.control.socket import Tell, serve_control
from daemon.operations.site import SiteOperations
from daemon.terminal.failure import FAILED, REFUSED, USAGE
from plugins.smqp.connection import ConnectionLost
from routing.errors import Refusal
from routing.options import SubscribeOptions
from tests.support.broker import virtual_site
from tests.support.process import daemon
from tests.support.running import SiteProcess, message


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


async def test_an_account_is_added_and_removed_by_a_program(site: SiteProcess) -> None:
    code, out, _ = await site.command("account", "add", "ada", "--publish", "w.#", "--generate", "--json")
    assert code == 0
    made = json.loads(out)
    assert (made["account"], len(made["password"]) > 10) == ("ada", True)
    assert made["done"] == "Added ada. The site does not run; this holds from its next start."
    assert (await site.asked("account", "disable", "ada"))["done"].startswith("Disabled ada.")
    assert "password" not in await site.asked("account", "enable", "ada")
    assert (await site.command("account", "remove", "ada"))[0] == USAGE
    assert (await site.asked("account", "remove", "ada", "--yes"))["done"].startswith("Removed ada.")
    assert "ada" not in {account["name"] for account in await site.asked("account", "list")}
    assert (await site.command("account", "remove", "ada", "--yes"))[0] == FAILED


async def test_who_is_removed_is_logged_out(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        await eve.publish("weather", message(b"rain"))
        assert await site.printed("account", "remove", "eve", "--yes") == (
            "Removed eve. The site has taken it on.\n"
        )
        with pytest.raises(ConnectionLost, match="disabled"):
            await anext(eve)


async def test_with_an_account_its_subscriptions_go_and_with_one_that_is_disabled_they_stay(
    site: SiteProcess,
) -> None:
    async with daemon(site.config):
        async with site.eve() as eve:
            await eve.subscribe("weather", SubscribeOptions(durable=True))
        await site.printed("account", "disable", "eve")
        assert len((await site.asked("topic", "show", "weather"))["subscriptions"]) == 1
        await site.printed("account", "remove", "eve", "--yes")
        assert (await site.command("topic", "show", "weather"))[0] == FAILED


@pytest.mark.parametrize("is_added", [False, True])
async def test_with_an_account_its_subscriptions_go_also_while_the_site_does_not_run(
    site: SiteProcess, *, is_added: bool
) -> None:
    async with daemon(site.config), site.eve() as eve:
        await eve.subscribe("weather", SubscribeOptions(durable=True))
        await eve.publish("weather", message(b"rain"))
    assert (await site.asked("account", "remove", "eve", "--yes"))["done"] == (
        "Removed eve. The site does not run; this holds from its next start."
    )
    if is_added:
        await site.asked("account", "add", "eve", "--subscribe", "#", "--generate")
    async with daemon(site.config):
        assert await site.printed("topics") == "There are no topics.\n"


async def test_what_keeps_subscriptions_from_going_with_their_account_is_said(site: SiteProcess) -> None:
    async with daemon(site.config):
        pass
    (site.config.parent / "state" / "smqpd.db").write_bytes(b"no store at all" * 1_000)
    code, out, why = await site.command("account", "remove", "eve", "--yes")
    assert (code, out.partition(".")[0]) == (0, "Removed eve")
    assert "its subscriptions have not ended: " in why


async def test_a_token_is_printed_once_listed_and_revoked(site: SiteProcess) -> None:
    out = await site.printed("account", "token", "add", "eve", "grafana", "--expires", "30")
    token = out.partition("Token: ")[2].partition("\n")[0]
    assert token.startswith("smqpd_")
    assert token not in (site.config.parent / "accounts.toml").read_text()
    made = await site.asked("account", "token", "add", "eve", "deploy", "--expires", "2199-12-31")
    assert made["expires"] == "2200-01-01T00:00:00Z"
    listed = await site.asked("account", "token", "list", "eve")
    assert [each["name"] for each in listed] == ["grafana", "deploy"]
    assert token not in await site.printed("account", "token", "list")
    assert (await site.command("account", "token", "revoke", "eve", "grafana"))[0] == USAGE
    assert (await site.asked("account", "token", "revoke", "eve", "grafana", "--yes"))["name"] == "grafana"
    await site.printed("account", "token", "revoke", "eve", "deploy", "--yes")
    assert await site.printed("account", "token", "list") == "There are no tokens.\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("eve", "a b"), USAGE, "cannot be a token"),
        (("evi", "a"), FAILED, "did you mean eve"),
        (("eve", "a", "--expires", "soon"), USAGE, "days or a date"),
        (("eve", "a", "--expires", "0"), USAGE, "over already"),
        (("eve", "a", "--expires", "2001-01-01"), USAGE, "over already"),
        (("eve", "a", "--expires", "9" * 30), USAGE, "days or a date"),
    ],
)
async def test_a_token_that_cannot_be_is_refused(
    site: SiteProcess, words: tuple[str, ...], code: int, said: str
) -> None:
    ended, _, err = await site.command("account", "token", "add", *words)
    assert (ended, said in err) == (code, True), err


@pytest.mark.parametrize("runs", [True, False])
async def test_whether_an_account_may_is_told_with_the_reason(site: SiteProcess, runs: bool) -> None:
    await site.command("account", "add", "ada", "--publish", "weather.#", "--generate")

    async def ask_all() -> None:
        async def may(*words: str) -> tuple[int, str]:
            code, out, _ = await site.command("account", "test", "ada", *words)
            return code, out

        assert await may("publish", "weather.oslo") == (
            0,
            "ada may publish to weather.oslo: its publish rights have the pattern weather.#\n",
        )
        assert await may("publish", "news") == (
            REFUSED,
            "ada may not publish to news: none of its publish patterns covers it: weather.#\n",
        )
        assert await may("subscribe", "news") == (
            REFUSED,
            "ada may not subscribe to news: it has no subscribe rights\n",
        )
        assert (await may("eat", "news"))[0] == USAGE
        assert (await may("publish", "weather.#"))[0] == USAGE
        assert (await site.command("account", "test", "nobody", "publish", "x"))[0] == REFUSED
        assert (await site.asked("account", "test", "ada", "publish", "weather"))["allowed"]

    if runs:
        async with daemon(site.config):
            await ask_all()
    else:
        await ask_all()


async def test_what_an_account_may_use_is_set_and_what_it_uses_is_shown(site: SiteProcess) -> None:
    code, out, err = await site.command("account", "quotas", "eve", "--held-messages", "2", "--sessions", "1")
    assert (code, err) == (
        0,
        "Changed the quotas of eve. The site does not run; this holds from its next start.\n",
    )
    assert "held        ? of 2\n" in out
    async with daemon(site.config), site.eve() as eve:
        await eve.publish("weather", message(b"rain", delivery="ONE"))
        assert await site.printed("account", "quotas", "eve") == (
            "sessions    1 of 1\npublish     -\nheld        1 of 2\nheld bytes  4 B\nunfinished  0 B\n"
        )
        await site.command(
            "account", "quotas", "eve", "--publish-rate", "5", "--publish-burst", "20", "--held-messages", "1"
        )
        with pytest.raises(Refusal, match="held_messages_max"):
            await eve.publish("weather", message(b"rain", delivery="ONE"))
        (found,) = [each for each in await site.asked("account", "quotas") if each["name"] == "eve"]
        assert found["own"] == {
            "sessions_max": 1,
            "publish_rate_per_s_max": 5.0,
            "publish_burst_max": 20,
            "held_messages_max": 1,
        }
        assert "5/s, 20 at once  1 of 1" in await site.printed("account", "quotas")
        changes = await site.printed("account", "quotas", "eve", "--clear")
        assert "held        1\n" in changes
    assert (await site.command("account", "quotas", "nobody", "--sessions", "1"))[0] == FAILED
    assert (await site.command("account", "quotas", "--sessions", "1"))[0] == USAGE


async def test_of_an_account_that_goes_while_its_quotas_are_asked_for_it_is_told_that_there_is_none(
    tmp_path: Path, site: SiteProcess
) -> None:
    async with virtual_site(tmp_path) as running, trio.open_nursery() as nursery:

        async def answer(question: AnyOperatorQuestion, tell: Tell) -> None:
            with edit(site.config.parent / "accounts.toml") as editor:
                editor.remove("eve")
            await tell(await operators.answer(SiteOperations(running.broker), question))

        state, mishap = site.config.parent / "state", running.broker.mishaps.note
        await nursery.start(serve_control, state, answer, mishap)
        said = "there is no account eve; known are admin"
        assert await site.command("account", "quotas", "eve") == (FAILED, "", said)
        nursery.cancel_scope.cancel()
