"""`smqpd account quotas`: what accounts may use, what they use, and a change of that."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from daemon.accounts.accounts_file import read_accounts
from daemon.cli.account_changing import AnyAccountName, change_accounts
from daemon.cli.asking import value
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, read_settings
from daemon.configuration.config import nearest
from daemon.control.operators import AskAccounts
from daemon.operating.accounts import AccountStatus, Used
from daemon.settings import Settings
from daemon.terminal.failure import UNREACHABLE, USAGE, Failure
from daemon.terminal.figures import bytes_shown, exactly
from daemon.terminal.output import JsonOption, show_table
from routing.quotas import OwnQuotas, Quotas

if TYPE_CHECKING:
    from daemon.accounts.accounts_editor import AccountsEditor


class AccountQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """One account. `own` are those that its file has; `used` is None where the site does not run."""

    name: str
    quotas: Quotas
    own: OwnQuotas
    used: Used | None


def quotas(
    name: AnyAccountName = "",
    sessions: Annotated[
        int | None, typer.Option("--sessions", metavar="N", min=0, help="Logins at a time.")
    ] = None,
    publish_rate: Annotated[
        float | None, typer.Option("--publish-rate", metavar="N", min=0, help="Messages a second.")
    ] = None,
    publish_burst: Annotated[
        int | None,
        typer.Option("--publish-burst", metavar="N", min=0, help="Messages at once before that holds."),
    ] = None,
    held_messages: Annotated[
        int | None,
        typer.Option(
            "--held-messages", metavar="N", min=0, help="Messages that it has published and are held."
        ),
    ] = None,
    held_bytes: Annotated[
        int | None, typer.Option("--held-bytes", metavar="N", min=0, help="Bytes of their bodies.")
    ] = None,
    unfinished_bytes: Annotated[
        int | None,
        typer.Option(
            "--unfinished-bytes", metavar="N", min=0, help="Memory for bodies and transactions on their way."
        ),
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Those not given here are as the configuration says again.")
    ] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show what accounts may use, and use; or set those quotas of NAME that are given. 0 is no limit.

    What is not set for an account is as `quotas`, a table of the configuration, says for all.
    """
    settings = read_settings(config)
    given = OwnQuotas(
        sessions_max=sessions,
        publish_rate_per_s_max=publish_rate,
        publish_burst_max=publish_burst,
        held_messages_max=held_messages,
        held_bytes_max=held_bytes,
        unfinished_bytes_max=unfinished_bytes,
    ).given
    accounts = read_accounts(settings.site.accounts_file)
    if name and name not in accounts:
        raise _none(name, accounts)
    if given or clear:
        if not name:
            raise Failure("say whose quotas: smqpd account quotas NAME ...", USAGE)

        def changed(held: OwnQuotas) -> OwnQuotas:
            return msgspec.structs.replace(OwnQuotas() if clear else held, **given)

        def change(editor: "AccountsEditor") -> None:
            editor.set_quotas(name, changed(editor.account(name).quotas))  # as it is by now

        if changed(accounts[name].quotas) != accounts[name].quotas:
            typer.echo(change_accounts(config, f"Changed the quotas of {name}.", change), err=True)
    found = _found(settings)
    if not name:
        _show_all(list(found.values()), as_json)
    elif name in found:
        _show_one(found[name], as_json)
    else:  # somebody has removed it meanwhile
        raise _none(name, found)


def _none(name: str, accounts: Collection[str]) -> Failure:
    return Failure(f"there is no account {name}{nearest(name, accounts)}")


def _found(settings: Settings) -> dict[str, AccountQuotas]:
    try:
        of_site = value(settings, AskAccounts(), list[AccountStatus])
        used = {each.name: each.used for each in of_site}
    except Failure as failure:
        if failure.exit_code != UNREACHABLE:
            raise
        used = {}
    return {
        name: AccountQuotas(
            name=name,
            quotas=account.quotas.over(settings.quotas),
            own=account.quotas,
            used=used.get(name),
        )
        for name, account in read_accounts(settings.site.accounts_file).items()
    }


def _show_all(found: list[AccountQuotas], as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    rows = [(each.name, *(text for _, text in _uses(each))) for each in found]
    show_table(
        ("account", "sessions", "publish", "held", "held bytes", "unfinished"), rows, folds=("account",)
    )


def _show_one(found: AccountQuotas, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    for title, text in _uses(found):
        typer.echo(f"{title:<12}{text}")


def _uses(found: AccountQuotas) -> list[tuple[str, str]]:
    """What is used of what may be, such as `2 of 10`."""
    quotas, used = found.quotas, found.used or Used()
    rate, burst = quotas.publish_rate_per_s_max, quotas.publish_burst_max
    pace = f"{exactly(rate)}/s" + (f", {burst:,} at once" if burst else "") if rate else "-"

    def of(now: str, most: str, bounded: float) -> str:
        shown = now if found.used is not None else "?"
        return f"{shown} of {most}" if bounded else shown

    return [
        ("sessions", of(f"{used.sessions:,}", f"{quotas.sessions_max:,}", quotas.sessions_max)),
        ("publish", pace),
        ("held", of(f"{used.held_messages:,}", f"{quotas.held_messages_max:,}", quotas.held_messages_max)),
        (
            "held bytes",
            of(bytes_shown(used.held_bytes), bytes_shown(quotas.held_bytes_max), quotas.held_bytes_max),
        ),
        (
            "unfinished",
            of(
                bytes_shown(used.unfinished_bytes),
                bytes_shown(quotas.unfinished_bytes_max),
                quotas.unfinished_bytes_max,
            ),
        ),
    ]
