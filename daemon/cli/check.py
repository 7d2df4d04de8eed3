"""`smqpd check`: for monitoring. One line and performance data, as plugins of Nagios and others print.

Ends with 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN), also for wrong usage. A site that does not run is
CRITICAL. Source: Monitoring Plugins Development Guidelines.
"""

import ctypes
import os
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from daemon.certificates.expiry import Expiry
from daemon.certificates.files import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, REVOCATION_FILE
from daemon.cli.asking import decoded, line
from daemon.cli.completing import complete_topic
from daemon.cli.monitoring import Checks, Level, Measured, conclude, monitored
from daemon.cli.options import (
    DEFAULT_CONFIG,
    CheckedConfigOption,
    config_file,
    read_settings,
    state_directory,
)
from daemon.configuration.discovery import installed_plugins
from daemon.control.client import Question
from daemon.control.operators import AskOverview, AskSubscribed, AskTopic
from daemon.operating.federation import LinkStatus
from daemon.operating.overview import Overview
from daemon.operating.topics import SubscriptionStatus, TopicStatus
from daemon.settings import Settings
from daemon.site.examination import examine
from daemon.terminal.failure import USAGE, Failure, forbidden
from daemon.terminal.figures import bytes_shown, counted, duration_shown
from daemon.terminal.output import JsonOption
from routing.names import check_topic, dead_letter_topic

UNSYNCHRONISED: Final = 5
"""What adjtimex(2) returns where nothing keeps the clock in step: TIME_ERROR."""

app = typer.Typer(
    cls=Checks, no_args_is_help=True, help="Checks for monitoring: one line, and 0, 1, 2 or 3 at the end."
)


PatienceOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        "-t",
        metavar="SECONDS",
        min=0.1,
        max=600,
        help="An answer that takes longer is critical.",
    ),
]
DEFAULT_TIMEOUT_S: Final = 10.0
"""After which what runs these commands ends them, which would say nothing of the site."""

WarningOption = Annotated[float | None, typer.Option("--warning", "-w", metavar="N", help="From here on.")]
CriticalOption = Annotated[float | None, typer.Option("--critical", "-c", metavar="N", help="From here on.")]


@app.command()
@monitored
def site(
    timeout: PatienceOption = DEFAULT_TIMEOUT_S,
    config: CheckedConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Whether it runs, answers, and stores messages; warns of all that is to be seen to."""
    began = time.monotonic()
    found = decoded(line(state_directory(config), AskOverview(), timeout), Overview)
    took_s = time.monotonic() - began
    grave = {"disk", "store"}
    problems: list[tuple[Level, str]] = [
        ("CRITICAL" if warned.level == "error" and warned.about in grave else "WARNING", warned.text)
        for warned in found.warnings
    ]
    if found.draining:
        problems.append(("CRITICAL", "it drains, and is about to stop"))
    there = f"{counted(found.sessions, 'session')}, {found.held:,} held"
    good = f"{found.server} runs for {duration_shown(found.up_s)}: {there}"
    values = [
        Measured(label="answer", value=took_s, unit="s"),
        Measured(label="held", value=found.held),
        Measured(label="held_guaranteed", value=found.held_guaranteed),
        Measured(label="in_per_s", value=found.in_per_s),
        Measured(label="out_per_s", value=found.out_per_s),
        Measured(label="sessions", value=found.sessions),
        Measured(label="dead_letters", value=found.dead_letters),
        Measured(label="memory", value=found.memory_bytes, unit="B"),
        Measured(label="errors", value=found.errors, unit="c"),
    ]
    conclude(as_json, problems, good, values)


@app.command()
@monitored
def links(
    peer: Annotated[
        list[str] | None, typer.Option("--peer", metavar="NAME", help="Only this one. Repeatable.")
    ] = None,
    down: Annotated[
        float, typer.Option("--down", metavar="SECONDS", min=0, help="So long down is critical.")
    ] = 60.0,
    warning: WarningOption = None,
    critical: CriticalOption = None,
    timeout: PatienceOption = DEFAULT_TIMEOUT_S,
    config: CheckedConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Whether the links are up; with -w and -c, whether too much waits for a peer."""
    answer = line(state_directory(config), Question(ask="peers"), timeout)
    found = decoded(answer, list[LinkStatus])
    wanted = [link for link in found if peer is None or link.peer in peer]
    missing = set(peer or ()) - {link.peer for link in found}
    problems: list[tuple[Level, str]] = [("CRITICAL", f"{name} is no peer") for name in sorted(missing)]
    for link in wanted:
        if link.state != "up":
            why = f" ({link.why_down})" if link.why_down else ""
            level: Level = "CRITICAL" if link.since_s >= down else "WARNING"
            problems.append((level, f"{link.peer} is {link.trouble} for {duration_shown(link.since_s)}{why}"))
    values = []
    for link in wanted:
        waiting = Measured(
            label=f"{link.peer} waiting", value=link.waiting, warning=warning, critical=critical
        )
        values.append(waiting)
        if link.round_trip_s is not None:
            values.append(Measured(label=f"{link.peer} round trip", value=link.round_trip_s, unit="s"))
        if link.lag_s is not None:
            values.append(Measured(label=f"{link.peer} lag", value=link.lag_s, unit="s"))
    good = f"{counted(len(wanted), 'link')} up" if wanted else "this site has no peers"
    conclude(as_json, problems, good, values)


@app.command()
@monitored
def topic(
    name: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)],
    warning: WarningOption = None,
    critical: CriticalOption = None,
    age_warning: Annotated[
        float | None, typer.Option("--age-warning", metavar="SECONDS", help="Of what waits longest.")
    ] = None,
    age_critical: Annotated[
        float | None, typer.Option("--age-critical", metavar="SECONDS", help="Of what waits longest.")
    ] = None,
    subscribed: Annotated[
        bool, typer.Option("--subscribed", help="Critical where no session consumes from it.")
    ] = False,
    timeout: PatienceOption = DEFAULT_TIMEOUT_S,
    config: CheckedConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """How many messages a topic holds, and for how long the oldest waits; warns of dead letters."""
    state, ends_at = state_directory(config), time.monotonic() + timeout
    found = _asked_topic(state, check_topic(name), timeout)
    held = 0 if found is None else found.summary.held
    oldest_s = None if found is None else found.summary.oldest_s
    problems: list[tuple[Level, str]] = []
    if found is None:
        subscriptions = _asked_subscribed(state, name, max(ends_at - time.monotonic(), 0.1), subscribed)
        dead = _dead_letters(state, name, max(ends_at - time.monotonic(), 0.1))
    else:
        subscriptions, dead = found.subscriptions, found.summary.dead_letters
    attached = sum(len(each.sessions) for each in subscriptions)
    if subscribed and not attached:
        problems.append(("CRITICAL", f"nobody consumes from {name}"))
    if dead:
        problems.append(("WARNING", f"{counted(dead, 'dead letter')} of {name}"))
    values = [
        Measured(label="held", value=held, warning=warning, critical=critical),
        Measured(label="oldest", value=oldest_s or 0.0, unit="s", warning=age_warning, critical=age_critical),
        Measured(label="sessions", value=attached),
        Measured(label="dead_letters", value=dead),
    ]
    oldest = "" if oldest_s is None else f", the oldest {duration_shown(oldest_s)} old"
    good = f"{name} holds {counted(held, 'message')}{oldest}"
    conclude(as_json, problems, f"nothing is known of {name}" if found is None else good, values)


def _asked_topic(state: Path, name: str, timeout: float) -> TopicStatus | None:
    answer = line(state, AskTopic(topic=name), timeout)
    return decoded(answer, TopicStatus | None)  # type: ignore[arg-type] # a union


def _asked_subscribed(state: Path, name: str, timeout: float, needed: bool) -> tuple[SubscriptionStatus, ...]:
    """Who gets by patterns what comes to a topic that the site has forgotten.

    A daemon of the version before does not know the question: nobody then, unless that is `needed`.
    """
    try:
        answer = line(state, AskSubscribed(topic=name), timeout)
    except Failure as failure:
        if needed or failure.exit_code != USAGE:
            raise
        return ()
    return decoded(answer, tuple[SubscriptionStatus, ...])


def _dead_letters(state: Path, name: str, timeout: float) -> int:
    """Of a topic that the site has forgotten, as it does where nothing else is held and nobody subscribes."""
    found = _asked_topic(state, dead_letter_topic(name), timeout)
    return 0 if found is None else found.summary.held


@app.command()
@monitored
def store(
    warning: Annotated[
        float, typer.Option("--warning", "-w", metavar="PERCENT", help="So little free disk, or less.")
    ] = 10.0,
    critical: Annotated[
        float, typer.Option("--critical", "-c", metavar="PERCENT", help="So little free disk, or less.")
    ] = 5.0,
    timeout: PatienceOption = DEFAULT_TIMEOUT_S,
    config: CheckedConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Whether messages can be stored, and how much room there is on the disk."""
    state = state_directory(config)
    found = decoded(line(state, AskOverview(), timeout), Overview)
    try:
        disk = shutil.disk_usage(state)
    except OSError as error:
        raise Failure(f"{state}: {error.strerror}") from None
    problems: list[tuple[Level, str]] = []
    if found.disk_full:
        problems.append(("CRITICAL", "the disk is full: no messages are taken"))
    elif found.store_failed:
        problems.append(("CRITICAL", f"the store fails: {found.store_failed}"))
    if found.damaged:
        problems.append(("WARNING", counted(found.damaged, "damaged row")))
    free = Measured(
        label="free",
        value=100 * found.disk_free_bytes / disk.total,
        unit="%",
        warning=warning,
        critical=critical,
        falls=True,
    )
    good = (
        f"the store has {bytes_shown(found.store_bytes)}, the disk {bytes_shown(found.disk_free_bytes)} free"
    )
    conclude(as_json, problems, good, [free, Measured(label="store", value=found.store_bytes, unit="B")])


@app.command()
@monitored
def certificates(
    warning: Annotated[
        float, typer.Option("--warning", "-w", metavar="DAYS", help="So soon, or sooner.")
    ] = 30.0,
    critical: Annotated[
        float, typer.Option("--critical", "-c", metavar="DAYS", help="So soon, or sooner.")
    ] = 7.0,
    config: CheckedConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """When the certificates and revocation lists in the site's files end, whether it runs or not.

    What a start would refuse of them is critical, and so is what peers do: a certificate of this site that is
    revoked.
    """
    file, now = config_file(config), datetime.now(UTC)
    settings = read_settings(file)
    _refuse_stranger(settings)
    found = examine(file, settings, installed_plugins(), now)
    expiries = [
        *(found.tls.expiries if found.tls is not None else ()),
        *(found.keys.expiries if found.keys is not None else ()),
    ]
    parts = ("tls", "keys", "certificates")
    problems: list[tuple[Level, str]] = [
        ("CRITICAL", finding.problem)
        for finding in found.findings
        if finding.part in parts and finding.level != "warning"
    ]
    values, named = [], []
    for expiry in sorted(expiries, key=lambda each: each.at):
        days = (expiry.at - now).total_seconds() / 86_400
        label = f"{expiry.path.name} {expiry.what}"
        one = Measured(label=label, value=days, warning=warning, critical=critical, falls=True)
        values.append(one)
        words = expiry.words(now)
        if words is not None and one.level != "OK":
            problems.append(("CRITICAL" if expiry.is_invalid(now) else one.level, words))
            named.append(label)
    first = f"; the first ends in {values[0].value:.0f} days" if values else ""
    conclude(as_json, problems, f"{_listed(expiries)}{first}", values, named)


def _listed(expiries: Collection[Expiry]) -> str:
    """`2 certificates and 1 list`; without what there is none of."""
    lists = sum(expiry.path.name == REVOCATION_FILE for expiry in expiries)
    parts = ((len(expiries) - lists, "certificate"), (lists, "revocation list"))
    shown = [counted(number, thing) for number, thing in parts if number]
    return " and ".join(shown) or "the site has no certificates"


def _refuse_stranger(settings: Settings) -> None:
    """Raise Failure for a user who may not see the site's keys: nothing is known of them then.

    The user that the site runs as has to see them, and what keeps it from that is a problem of the site.
    """
    state, keys, tls = settings.site.state_directory, settings.links.keys_directory, settings.tls
    with suppress(OSError):
        if state.stat().st_uid == os.geteuid():
            return
    names = (KEY_FILE, CERTIFICATE_FILE, AUTHORITY_FILE, REVOCATION_FILE)
    for path in (tls.certificate, tls.key, keys, *(keys / name for name in names)):
        if path is None:
            continue
        try:
            path.stat()
        except PermissionError:
            raise forbidden(path) from None
        except OSError:  # whoever reads it says why
            continue
        if not os.access(path, os.R_OK, effective_ids=True):
            raise forbidden(path)


@app.command()
@monitored
def clock(
    warning: Annotated[
        float, typer.Option("--warning", "-w", metavar="SECONDS", help="It was set by so much.")
    ] = 1.0,
    critical: Annotated[
        float, typer.Option("--critical", "-c", metavar="SECONDS", help="It was set by so much.")
    ] = 30.0,
    timeout: PatienceOption = DEFAULT_TIMEOUT_S,
    config: CheckedConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Whether something keeps the machine's clock in step, and how far it was set since the site started."""
    found = decoded(line(state_directory(config), AskOverview(), timeout), Overview)
    set_by_s = time.time() - found.started_at - found.up_s
    kept = _clock_is_kept()
    problems: list[tuple[Level, str]] = []
    if kept is False:
        problems.append(("WARNING", "nothing keeps the clock in step (NTP)"))
    step = Measured(label="step", value=abs(set_by_s), unit="s", warning=warning, critical=critical)
    conclude(as_json, problems, f"it was set by {set_by_s:.1f} s since the site started", [step])


def _clock_is_kept() -> bool | None:
    """What the kernel says; None where it cannot be asked."""
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(1_024))) != UNSYNCHRONISED
    except (OSError, AttributeError):
        return None
