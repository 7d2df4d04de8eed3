"""`smqpd account`: who may log in, and with which rights. A running site takes it on, or says why not."""

import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, Literal

import msgspec
import typer

from daemon.accounts.accounts import rights_table
from daemon.accounts.accounts_file import Account, read_accounts
from daemon.accounts.changing import check_new
from daemon.accounts.passwords import generate_password, hash_password
from daemon.cli.account_changing import AccountName, Secret, change_accounts
from daemon.cli.account_quotas import quotas
from daemon.cli.account_token import tokens
from daemon.cli.asking import YesOption, sure, value
from daemon.cli.completing import complete_topic
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, config_file, read_settings
from daemon.configuration.config import nearest
from daemon.control.operators import AskMay
from daemon.operating.accounts import Verdict
from daemon.operations.rights import VERBS, check_asked, verdict
from daemon.settings import STORE, Settings
from daemon.site.lock import StateInUseError, running_pid, state_lock
from daemon.terminal.failure import REFUSED, UNREACHABLE, USAGE, Failure, because
from daemon.terminal.output import JsonOption, show_table
from daemon.terminal.printable import printable
from routing.errors import Refusal
from routing.rights import RIGHTS, Operating, Right, Rights

if TYPE_CHECKING:
    from daemon.accounts.accounts_editor import AccountsEditor

app = typer.Typer(help="Accounts, their rights and quotas.", no_args_is_help=True)
app.command()(quotas)
app.add_typer(tokens, name="token")

PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file", metavar="FILE", help="Read the password from its first line; - is stdin."
    ),
]
Generate = Annotated[bool, typer.Option("--generate", help="Make a password and print it once.")]
Patterns = list[str] | None
Publish = Annotated[Patterns, typer.Option("--publish", metavar="PATTERN", help="Topics it may publish to.")]
Subscribe = Annotated[
    Patterns, typer.Option("--subscribe", metavar="PATTERN", help="Topics it may subscribe to.")
]
Remove = Annotated[
    Patterns, typer.Option("--remove", metavar="PATTERN", help="Topics it may remove messages of.")
]
Administer = Annotated[
    Patterns, typer.Option("--administer", metavar="PATTERN", help="Topics whose settings it may change.")
]
Operate = Annotated[
    Literal["look", "change", "nothing"] | None,
    typer.Option(
        "--operate",
        metavar="look|change|nothing",
        help="Whether it may look at the site on its page, or change it, too.",
    ),
]

_OPERATING: Final[dict[str, Operating]] = {"look": "look", "change": "change", "nothing": ""}


@app.command()
def add(
    name: AccountName,
    publish: Publish = None,
    subscribe: Subscribe = None,
    remove: Remove = None,
    administer: Administer = None,
    operate: Operate = None,
    password_file: PasswordFile = None,
    generate: Generate = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Add an account. Rights are topic patterns; an option can be given several times.

    Where the site's keys/admin.toml is for it, as for an administrator who was removed, the password is put
    there.
    """
    settings = read_settings(config)
    accounts = read_accounts(settings.site.accounts_file)
    try:
        check_new(name, accounts)
    except ValueError as error:
        more = "; see `smqpd account passwd` and `rights`" if name in accounts else ""
        raise Failure(f"{error}{more}") from None
    rights = _rights(Rights(), publish, subscribe, remove, administer, operate)
    password = _password(password_file, generate)
    account = Account(password=_hashed(password), rights=rights)
    _password_of(name, password if generate else "", as_json).change(
        config,
        f"Added {name}.",
        lambda editor: editor.add(name, account),
        lambda: _kept_login(config, settings, name, password),
    )


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Show all accounts with their rights."""
    accounts = read_accounts(read_settings(config).site.accounts_file)
    if json:
        rows = [
            {
                "name": name,
                "disabled": account.disabled,
                "rights": account.rights,
                "quotas": account.quotas.given,
                "tokens": [*account.tokens],
            }
            for name, account in accounts.items()
        ]
        typer.echo(msgspec.json.encode(rows))
        return
    table = [
        (
            name,
            "disabled" if account.disabled else "enabled",
            *(" ".join(getattr(account.rights, right)) or "-" for right in RIGHTS),
            account.rights.operate or "-",
        )
        for name, account in accounts.items()
    ]
    show_table(("account", "state", *RIGHTS, "operate"), table, folds=("account", *RIGHTS))


@app.command()
def disable(name: AccountName, config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Refuse its logins and end its sessions; its subscriptions and messages stay."""
    done = change_accounts(config, f"Disabled {name}.", lambda editor: editor.set_disabled(name, True))
    _say(name, done + _lost_login(config, name), as_json)


@app.command()
def enable(name: AccountName, config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Let it log in again."""
    done = change_accounts(config, f"Enabled {name}.", lambda editor: editor.set_disabled(name, False))
    _say(name, done, as_json)


@app.command("remove")
def remove_(
    name: AccountName,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Remove it for good, and end its sessions and subscriptions; what waits for these is lost.

    `smqpd account disable` keeps both. What waits on its system topics stays until its timeout: an account of
    this name that is added before gets it.
    """
    settings = read_settings(config)
    _existing(settings, name)
    sure(yes, f"Remove the account {name}, its subscriptions, and what waits for them?")
    done = change_accounts(config, f"Removed {name}.", lambda editor: editor.remove(name))
    _end_subscriptions(settings.site.state_directory, name)
    _say(name, done + _lost_login(config, name), as_json)


def _end_subscriptions(state: Path, name: str) -> None:
    """End those of an account that is gone, where the site does not run, which ends them otherwise."""
    from daemon.store.ended_accounts import end_subscriptions
    from daemon.store.schema import TooNewError

    try:
        if running_pid(state) is None and (state / STORE).exists():
            with state_lock(state):
                end_subscriptions(state / STORE, name)
    except (OSError, StateInUseError, sqlite3.Error, TooNewError) as error:
        typer.echo(
            f"smqpd: warning: its subscriptions have not ended: {because(error)}; `smqpd reload` ends them"
            f" while the site runs; an account {name} that is added before has them",
            err=True,
        )


@app.command("test")
def may(
    name: AccountName,
    right: Annotated[str, typer.Argument(metavar="publish|subscribe|remove|administer")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Say whether it may do this to TOPIC, and why; ends with 4 where it may not.

    One subscribes to a pattern, too: `smqpd account test ada subscribe 'weather.#'`. A running site is asked;
    of one that does not run the file says it.
    """
    if right not in RIGHTS:
        raise Failure(f"{right} is none of {', '.join(RIGHTS)}", USAGE)
    try:
        check_asked(right, topic)
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    settings = read_settings(config)
    found = _verdict(settings, name, right, topic)
    if as_json:
        typer.echo(msgspec.json.encode(found))
    else:
        may = "may" if found.allowed else "may not"
        typer.echo(printable(f"{name} {may} {VERBS[right]} {topic}: {found.why}"))
    if not found.allowed:
        raise typer.Exit(REFUSED)


def _verdict(settings: Settings, name: str, right: Right, topic: str) -> Verdict:
    question = AskMay(account=name, right=right, topic=topic)
    try:
        return value(settings, question, Verdict)
    except Failure as failure:
        if failure.exit_code != UNREACHABLE:
            raise
    accounts = read_accounts(settings.site.accounts_file)
    return verdict(rights_table(settings.site.server_name, accounts), name, accounts.get(name), right, topic)


@app.command()
def passwd(
    name: AccountName,
    password_file: PasswordFile = None,
    generate: Generate = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Give it another password. Sessions that are open stay, but for those of the page.

    That of the login in the site's keys/admin.toml, with which commands on this machine log in, is put there.
    """
    settings = read_settings(config)
    _existing(settings, name)
    password = _password(password_file, generate)
    phc = _hashed(password)
    _password_of(name, password if generate else "", as_json).change(
        config,
        f"Changed the password of {name}.",
        lambda editor: editor.set_password(name, phc),
        lambda: _kept_login(config, settings, name, password),
    )


def _password_of(name: str, made: str, as_json: bool) -> Secret:
    again = f"`smqpd account passwd {name} --generate` makes another"
    return Secret("Password", made, as_json, lambda said: _say(name, said, as_json, made), again)


def _kept_login(config: Path, settings: Settings, name: str, password: str) -> str:
    """What is to be said of the login for commands on this machine, once that has the password, too."""
    from daemon.site.admin_login import LOGIN, keep_password

    try:
        is_kept = keep_password(config_file(config).parent, settings, name, password)
    except OSError as error:
        typer.echo(f"smqpd: warning: {LOGIN} has the password of before: {because(error)}", err=True)
        return ""
    return f" {LOGIN} has the password, for commands on this machine." if is_kept else ""


def _lost_login(config: Path, name: str) -> str:
    """What is to be said of the login for commands on this machine, where that is of an account that goes."""
    from daemon.site.admin_login import LOGIN, is_login_of

    if not is_login_of(config_file(config).parent, name):
        return ""
    return f" `smqpd pub`, `sub` and `bench` with --site cannot log in now: {LOGIN} is for {name}."


@app.command()
def rights(
    name: AccountName,
    publish: Publish = None,
    subscribe: Subscribe = None,
    remove: Remove = None,
    administer: Administer = None,
    operate: Operate = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take all rights that are not given here.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Show its rights, or replace those that are given; an option can be given several times."""

    def changed(held: Rights) -> Rights:
        return _rights(Rights() if clear else held, publish, subscribe, remove, administer, operate)

    held = _existing(read_settings(config), name).rights
    wanted = changed(held)
    if wanted != held:

        def change(editor: "AccountsEditor") -> None:
            nonlocal wanted
            wanted = changed(editor.account(name).rights)  # not of what was read, which others may change
            editor.set_rights(name, wanted)

        typer.echo(change_accounts(config, f"Changed the rights of {name}.", change), err=True)
    if json:
        typer.echo(msgspec.json.encode(wanted))
        return
    for right in RIGHTS:
        typer.echo(f"{right:<11}{' '.join(getattr(wanted, right)) or '-'}")
    typer.echo(f"{'operate':<11}{wanted.operate or '-'}")


def _existing(settings: Settings, name: str) -> Account:
    accounts = read_accounts(settings.site.accounts_file)
    if name not in accounts:
        raise Failure(f"there is no account {name}{nearest(name, accounts)}")
    return accounts[name]


def _rights(
    rights: Rights,
    publish: Patterns,
    subscribe: Patterns,
    remove: Patterns,
    administer: Patterns,
    operate: Literal["look", "change", "nothing"] | None,
) -> Rights:
    given = {"publish": publish, "subscribe": subscribe, "remove": remove, "administer": administer}
    changed = {right: tuple(patterns) for right, patterns in given.items() if patterns}
    try:
        return Rights(
            **{right: changed.get(right, getattr(rights, right)) for right in RIGHTS},
            operate=rights.operate if operate is None else _OPERATING[operate],
        )
    except ValueError as error:
        raise Failure(str(error), USAGE) from None


def _say(name: str, done: str, as_json: bool, password: str = "") -> None:
    """What was done; with the `password` that was made for it, which people were shown before."""
    if not as_json:
        typer.echo(done)
        return
    shown = {"account": name, "done": done} | ({"password": password} if password else {})
    typer.echo(msgspec.json.encode(shown))


def _password(file: Path | None, generate: bool) -> str:
    """One that is generated, in a file, piped in or asked for; never an argument."""
    if generate and file is not None:
        raise Failure("give --generate or --password-file, not both", USAGE)
    if generate:
        return generate_password()
    if file is not None and str(file) != "-":
        try:
            with file.open("rb") as stream:
                return _first_line(stream)
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"--password-file cannot be read: {because(error)}") from None
    if file is not None or not sys.stdin.isatty():
        try:
            return _first_line(sys.stdin.buffer)
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"no password can be read from standard input: {because(error)}") from None
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))


def _first_line(stream: BinaryIO) -> str:
    """In UTF-8, whatever the locale. Raises OSError and UnicodeDecodeError."""
    return stream.readline().decode().rstrip("\r\n")


def _hashed(password: str) -> str:
    try:
        return hash_password(password)
    except ValueError as error:
        raise Failure(str(error), USAGE) from None
