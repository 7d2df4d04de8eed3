"""`smqpd reload` and `smqpd status`: a running site reads its files again, and says how it stands to them."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import typer

from daemon.cli import telling
from daemon.cli.asking import decoded, line
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, state_directory
from daemon.control.client import ForbiddenError, NotRunningError
from daemon.control.operators import AskOverview
from daemon.hops.files import list_files
from daemon.operating.overview import Overview
from daemon.settings import HOPS
from daemon.site.standing import Standing, said
from daemon.store.reserve import RESERVE
from daemon.terminal.failure import FAILED, UNREACHABLE, Failure, forbidden
from daemon.terminal.figures import (
    bytes_shown,
    counted,
    counts_shown,
    duration_shown,
    guaranteed_shown,
    rate_shown,
    time_shown,
)
from daemon.terminal.output import JsonOption
from daemon.terminal.printable import printable
from routing.traffic import COUNTERS


def reload(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Have the running site read its files again; ends with 1 where it has not taken on all of them."""
    standing = _standing(config, telling.reload)
    refused = standing.not_taken_on
    if as_json:
        typer.echo(msgspec.json.encode(standing))
    else:
        telling.warn([finding for finding in standing.findings if finding not in refused])
    if refused:
        reasons = "; ".join(f"{finding.part}: {finding.problem}" for finding in refused)
        is_through = all(finding.part != "everything" for finding in refused)
        rest = " (everything else is taken on)" if is_through else ""
        raise Failure(f"not taken on, and as it was before: {reasons}{rest}")
    if not as_json:
        typer.echo("Reloaded.")


def status(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Show how the running site does; ends with 1 where it has not taken on its files, or cannot use them.

    So it does where it cannot store messages. `smqpd check` is made for monitoring.
    """
    standing = _standing(config, telling.status)
    state = state_directory(config)
    overview = decoded(line(state, AskOverview()), Overview)
    hop_log_bytes, reserve_bytes = _hop_log_bytes(state), _reserve_bytes(state)
    if as_json:
        shown = {
            **msgspec.to_builtins(overview),
            "hop_log_bytes": hop_log_bytes,
            "reserve_bytes": reserve_bytes,
            "findings": msgspec.to_builtins(standing.findings),
        }
        typer.echo(msgspec.json.encode(shown))
    else:
        typer.echo(f"{standing.server} runs, smqpd {standing.version}: {standing.counts}")
        for text in about(overview)[1:]:
            typer.echo(text)
        hop_log = (
            "a hop log that cannot be read"
            if hop_log_bytes is None
            else f"{bytes_shown(hop_log_bytes)} of hop log"
        )
        reserve = f", {bytes_shown(reserve_bytes)} reserve for a full disk" if reserve_bytes else ""
        typer.echo(f"  {'keeps':<9} {hop_log}{reserve}")
        for finding in standing.findings:
            level = "" if finding.level == "refused" else f"{finding.level}: "
            typer.echo(level + said(finding))
        said_already = {said(finding) for finding in standing.findings}
        for warned in overview.warnings:
            if warned.text not in said_already and warned.about != "errors":
                typer.echo(printable(f"{warned.level}: {warned.text}"))
    stores = not overview.disk_full and not overview.store_failed
    if any(finding.level != "warning" for finding in standing.findings) or not stores:
        raise typer.Exit(FAILED)


def _hop_log_bytes(state: Path) -> int | None:
    """None where this user may not see it."""
    try:
        return sum(file.size_bytes for file in list_files(state / HOPS))
    except OSError:
        return None


def _reserve_bytes(state: Path) -> int | None:
    """0 where there is none; None where this user may not see it."""
    try:
        return (state / RESERVE).stat().st_size
    except FileNotFoundError:
        return 0
    except OSError:
        return None


def about(site: Overview) -> list[str]:
    """The whole site, in a few lines for people."""
    counters = {name: counter for name, counter in COUNTERS.items() if counter.in_status}
    lines = [
        ("up", f"{duration_shown(site.up_s)}, since {time_shown(site.started_at)} (UTC)"),
        (
            "rates",
            f"{rate_shown(site.in_per_s, '0')}/s in, {rate_shown(site.out_per_s, '0')}/s out",
        ),
        ("so far", counts_shown(site.totals, counters)),
        (
            "holds",
            f"{counted(site.held, 'message')}{guaranteed_shown(site.held, site.held_guaranteed)},"
            f" {bytes_shown(site.held_bytes)}; topics: {site.topics:,},"
            f" subscriptions: {site.subscriptions:,}, dead letters: {site.dead_letters:,}",
        ),
        ("sessions", f"{site.sessions:,} in {counted(site.connections, 'connection')}"),
        (
            "uses",
            f"{bytes_shown(site.memory_bytes)} of memory, {bytes_shown(site.store_bytes)} of database,"
            f" {bytes_shown(site.disk_free_bytes)} free",
        ),
    ]
    if site.links:
        lines.append(("links", f"{site.links_up} of {site.links} up"))
    lines += [("listens", address) for address in site.listening]
    first = f"{site.server}, smqpd {site.version}{', draining' if site.draining else ''}"
    return [first, *(f"  {name:<9} {text}" for name, text in lines)]


def _standing(config: Path, ask: Callable[[Path], Standing]) -> Standing:
    state = state_directory(config)
    try:
        return ask(state)
    except ForbiddenError:
        raise forbidden(state) from None
    except NotRunningError as error:
        raise Failure(str(error), UNREACHABLE) from None
