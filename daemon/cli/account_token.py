"""`smqpd account token`: what programs show to the page and its API in the place of a password."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
import typer

from daemon.accounts.accounts_file import read_accounts
from daemon.accounts.tokens import TOKEN_EXPECTED, TOKEN_NAME, TOKENS_MAX, Token, make_token, token_hash
from daemon.cli.account_changing import AccountName, AnyAccountName, Secret, change_accounts
from daemon.cli.asking import YesOption, sure
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, read_settings
from daemon.configuration.config import nearest
from daemon.terminal.failure import USAGE, Failure
from daemon.terminal.output import JsonOption, show_table

tokens = typer.Typer(help="Tokens for programs, for the page's API and /metrics.", no_args_is_help=True)

TokenName = Annotated[str, typer.Argument(metavar="TOKEN", help="What it is called, such as grafana.")]


@tokens.command()
def add(
    name: AccountName,
    token: TokenName,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            metavar="DAYS|DATE",
            help="Days from now, or the day after which it holds no more, as 2030-01-31 (UTC).",
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Make a token for an account, and print it once. It may what the account may."""
    if not TOKEN_NAME.fullmatch(token):
        raise Failure(f"{token} cannot be a token: {TOKEN_EXPECTED}", USAGE)
    now = datetime.now(UTC).replace(microsecond=0)
    ends = None if expires is None else _ends(expires, now)
    accounts = read_accounts(read_settings(config).site.accounts_file)
    if name not in accounts:
        raise Failure(f"there is no account {name}{nearest(name, accounts)}")
    if token in accounts[name].tokens:
        raise Failure(
            f"{name} has a token {token} already; `smqpd account token revoke {name} {token}` ends it"
        )
    if len(accounts[name].tokens) >= TOKENS_MAX:
        raise Failure(f"{name} has {TOKENS_MAX} tokens already")
    made = make_token()
    kept = Token(hash=token_hash(made), created=now, expires=ends)

    def say(said: str) -> None:
        shown = {"account": name, "name": token, "token": made, "expires": ends, "done": said}
        typer.echo(msgspec.json.encode(shown) if as_json else said)

    again = f"revoke it with `smqpd account token revoke {name} {token}`, and add another"
    Secret("Token", made, as_json, say, again).change(
        config, f"Added the token {token} of {name}.", lambda editor: editor.set_token(name, token, kept)
    )


@tokens.command("list")
def list_(
    name: AnyAccountName = "",
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show the tokens of one account, or of all."""
    accounts = read_accounts(read_settings(config).site.accounts_file)
    if name and name not in accounts:
        raise Failure(f"there is no account {name}{nearest(name, accounts)}")
    found = [
        (account, called, token)
        for account, each in accounts.items()
        if name in ("", account)
        for called, token in each.tokens.items()
    ]
    if as_json:
        rows = [
            {"account": account, "name": called, "created": token.created, "expires": token.expires}
            for account, called, token in found
        ]
        typer.echo(msgspec.json.encode(rows))
        return
    if not found:
        typer.echo("There are no tokens.")
        return
    now = datetime.now(UTC)
    show_table(
        ("account", "token", "created", "expires"),
        [(account, called, _day(token.created), _ended(token, now)) for account, called, token in found],
        folds=("account", "token"),
    )


@tokens.command()
def revoke(
    name: AccountName,
    token: TokenName,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """End a token, at once."""
    accounts = read_accounts(read_settings(config).site.accounts_file)
    if name not in accounts:
        raise Failure(f"there is no account {name}{nearest(name, accounts)}")
    if token not in accounts[name].tokens:
        raise Failure(f"{name} has no token {token}{nearest(token, accounts[name].tokens)}")
    sure(yes, f"Revoke the token {token} of {name}?")
    done = f"Revoked the token {token} of {name}."
    said = change_accounts(config, done, lambda editor: editor.remove_token(name, token))
    typer.echo(msgspec.json.encode({"account": name, "name": token, "done": said}) if as_json else said)


def _ends(text: str, now: datetime) -> datetime:
    try:
        if text.isascii() and text.isdigit():
            ends = now + timedelta(days=int(text))
        else:
            ends = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise Failure(f"--expires is days or a date as 2030-01-31, and not {text[:40]}", USAGE) from None
    if ends <= now:
        raise Failure(f"--expires {text} is over already", USAGE)
    return ends


def _day(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d")


def _ended(token: Token, now: datetime) -> str:
    if token.expires is None:
        return "never"
    shown = token.expires.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{shown} (over)" if token.expires <= now else shown
