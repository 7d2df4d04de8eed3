"""What the log and `config diff` say of settings that have changed."""

from pathlib import Path
from typing import Any

import msgspec

from daemon.settings import Settings, SiteSettings
from daemon.site.difference import of_settings
from plugins.stomp.settings import StompSettings


class Held(msgspec.Struct, frozen=True):
    """Settings of a front end that keeps what nobody else is to read."""

    password: str = "opensesame"
    tokens: tuple[str, ...] = ("opensesame",)
    tokens_max: int = 3


def settings(**plugins: Any) -> Settings:
    site = SiteSettings(server_name="alpha.example", accounts_file=Path("accounts.toml"))
    return Settings(site=site, plugins=plugins)


def told(before: Settings, after: Settings) -> list[str]:
    return [str(difference) for difference in of_settings(before, after, ())]


def test_a_switch_is_no_secret_whatever_it_is_called_and_is_told_as_the_file_has_it() -> None:
    off, on = settings(stomp=StompSettings()), settings(stomp=StompSettings(token_passcode=True))
    assert "plugins.stomp.token_passcode is added: false" in told(settings(), off)
    assert told(off, on) == ["plugins.stomp.token_passcode: true, before false"]


def test_a_secret_is_not_told() -> None:
    assert told(settings(), settings(held=Held())) == [
        "plugins.held.password is added: a secret",
        "plugins.held.tokens is added: a secret",
        "plugins.held.tokens_max is added: 3",
    ]


class HeldAccount(msgspec.Struct, frozen=True):
    """One of several that a front end keeps."""

    jids: tuple[str, ...] = ("ann@example.org",)
    password: str = "opensesame"
    enabled: bool = True
    channel: str | None = None


class HeldAccounts(msgspec.Struct, frozen=True):
    """Settings that have tables in a list."""

    accounts: tuple[HeldAccount, ...] = (HeldAccount(),)


def test_tables_in_a_list_are_told_as_the_file_has_them_without_secrets() -> None:
    assert told(settings(), settings(held=HeldAccounts())) == [
        "plugins.held.accounts is added: [{jids = [ann@example.org], password = a secret, enabled = true}]"
    ]
