"""Settings and rules, and how the front end starts and stops."""

from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from daemon.settings import ConfigError
from plugins.xmpp.known.identities import AccountRules, channel_of
from plugins.xmpp.plugin import plugin, read_secret
from plugins.xmpp.settings import JidRule, XmppSettings
from routing.names import channel_name
from tests.support.patience import PATIENCE_S
from tests.support.remembered import bytes_kept
from tests.support.site import running_site
from tests.support.xmpp import COMPONENT_NAME, xmpp_site
from tests.support.xmpp_pubsub import NODE, PUBSUB, error_of

RULES = AccountRules(
    (
        JidRule(jid="Admin@Work.example", account="operations"),
        JidRule(pattern="worker*@*.work.example", account="workers"),
        JidRule(domain="work.example", account="{local}"),
    )
)


@pytest.mark.parametrize(
    ("jid", "account"),
    [
        ("admin@work.example", "operations"),
        ("ADMIN@work.example", "operations"),
        # other letters than those of the rule, to a person and to an XMPP server
        ("adm\u0131n@work.example", None),
        ("wor\u212aer7@eu.work.example", None),
        ("worker7@eu.work.example", "workers"),
        ("worker@x@eu.work.example", None),
        ("ada@work.example", "ada"),
        ("work.example", None),
        ("a\\20b@work.example", None),
        ("ada@work.example.evil.example", None),
        ("ada@evilwork.example", None),
        ("ada@workXexample", None),
    ],
)
def test_the_first_rule_that_fits_says_the_account(jid: str, account: str | None) -> None:
    assert RULES.account_of(jid) == account


@pytest.mark.parametrize("jid", ["a@b/c", "a@b/" + "é" * 900, "b", "a@b/c d", "@/", "a@b/-"])
def test_every_full_jid_has_a_channel_of_its_own(jid: str) -> None:
    assert channel_name(channel_of(jid)) == channel_of(jid)
    assert channel_of(jid) != channel_of(jid + "x")


def test_long_jids_are_not_remembered() -> None:
    def hear_of(number: int) -> None:
        jid = f"{number:04d}{'x' * 1_000}@example.org"
        RULES.account_of(jid)
        channel_of(f"{jid}/{'r' * 1_000}")

    assert bytes_kept(hear_of) < 100_000


@pytest.mark.parametrize("rule", [{}, {"jid": "a@b", "domain": "b"}])
def test_a_rule_says_one_thing(rule: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"account": "a", **rule}, JidRule)


def test_a_secret_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with pytest.raises(ConfigError, match="secret: the component's secret cannot be read: No such file"):
        read_secret(path)
    path.write_text("secret\n")
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_secret(path)
    path.chmod(0o600)
    assert read_secret(path) == "secret"


async def test_without_a_name_it_does_not_start(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        with pytest.raises(ConfigError, match="component"):
            await plugin.serve(site, XmppSettings())  # type: ignore[arg-type] # nobody listens here


async def test_it_starts_before_the_xmpp_server_does(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    secret.chmod(0o600)
    settings = XmppSettings(component=COMPONENT_NAME, server="127.0.0.1:1", secret_file=secret)
    async with running_site(tmp_path) as site, trio.open_nursery() as nursery:
        await nursery.start(plugin.serve, site, settings)
        nursery.cancel_scope.cancel()


async def test_a_site_that_drains_answers_what_was_asked_and_refuses_the_rest(tmp_path: Path) -> None:
    async with xmpp_site(tmp_path) as (server, service, site):
        client = server.client("ada@shakespeare.lit/desk")
        text = f"<pubsub xmlns='{PUBSUB}'><publish node='{NODE}'><item id='i'/></publish></pubsub>"
        assert (await client.iq("set", text)).get("type") == "result"
        site.broker.drain()
        with trio.fail_after(PATIENCE_S):
            while service.clients:
                await trio.sleep(0.01)
        assert error_of(await client.iq("set", text)) == ("wait", "service-unavailable")
        site.draining.set()
        with trio.fail_after(PATIENCE_S):
            await service.drained()
