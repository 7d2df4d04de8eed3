"""`smqpd ping`: whether a server of the federation can be reached, and how long it takes there and back."""

import time
from typing import Annotated, Final

import msgspec
import typer

from daemon.cli.asking import TimeoutOption, told
from daemon.cli.options import DEFAULT_CONFIG, ConfigOption, read_settings
from daemon.control.client import Question
from daemon.control.reports import Heard, Report
from daemon.settings import Settings
from daemon.terminal.failure import FAILED, INTERRUPTED, USAGE, Failure
from daemon.terminal.figures import counted
from daemon.terminal.output import JsonOption
from daemon.terminal.printable import printable
from routing.errors import Refusal
from routing.names import server_name

INTERVAL_S_MAX: Final = 86_400.0


class PingResult(msgspec.Struct, kw_only=True):
    """One probe.

    Attributes:
        round_trip_s: None where it did not come back.
        hops: the sites on the way, this one first and the server last; as far as is known.
        why: it did not come back; "" where it did.
    """

    number: int
    round_trip_s: float | None
    hops: tuple[str, ...]
    why: str = ""


class Summary(msgspec.Struct, kw_only=True):
    """What `--json` prints; seconds, None where nothing came back."""

    server: str
    sent: int
    answered: int
    least_s: float | None
    mean_s: float | None
    most_s: float | None
    probes: list[PingResult]


def ping(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Any server of the federation.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100_000, help="How many probes.")] = 4,
    interval_s: Annotated[
        float,
        typer.Option(
            "--interval", metavar="SECONDS", min=0.02, max=INTERVAL_S_MAX, help="From one probe to the next."
        ),
    ] = 1.0,
    timeout_s: TimeoutOption = 5.0,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Send probes over the links to a server and back: round-trip times and loss, or why it is not reached.

    A probe takes the way of a message: through the daemon of each site that lies between.
    """
    try:
        server_name(server)
    except Refusal as refusal:
        raise Failure(refusal.text, USAGE) from None
    settings = read_settings(config)
    probes: list[PingResult] = []
    interrupted = False
    try:
        for number in range(1, count + 1):
            begun = time.monotonic()
            probes.append(_probe(settings, server, number, timeout_s))
            if not as_json:
                typer.echo(_line(probes[-1]))
            if number < count:
                time.sleep(max(begun + interval_s - time.monotonic(), 0.0))
    except KeyboardInterrupt:
        if not probes:
            raise
        interrupted = True
    summary = _summary(server, probes)
    if as_json:
        typer.echo(msgspec.json.encode(summary))
    else:
        typer.echo(_in_words(summary))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if not summary.answered:
        last = probes[-1]
        where = f" at {last.hops[-1]}" if len(last.hops) > 1 else ""
        raise Failure(f"{server} is not reached: {last.why}; see `smqpd peers`{where}", FAILED)


def _probe(settings: Settings, server: str, number: int, timeout_s: float) -> PingResult:
    for one in told(settings, Question(ask="ping", name=server, timeout_s=timeout_s)):
        if isinstance(one, Heard):
            report = one.report
            hops = (*report.hops, report.at)
            if report.outcome == "reached" and report.at == server:
                return PingResult(number=number, round_trip_s=one.after_s, hops=hops)
            return PingResult(number=number, round_trip_s=None, hops=hops, why=_why(report))
    return PingResult(number=number, round_trip_s=None, hops=(), why=f"no answer within {timeout_s:g} s")


def _why(report: Report) -> str:
    return f"at {report.at}: {report.reason or report.outcome}"


def _summary(server: str, probes: list[PingResult]) -> Summary:
    times = [probe.round_trip_s for probe in probes if probe.round_trip_s is not None]
    return Summary(
        server=server,
        sent=len(probes),
        answered=len(times),
        least_s=min(times, default=None),
        mean_s=sum(times) / len(times) if times else None,
        most_s=max(times, default=None),
        probes=probes,
    )


def _line(probe: PingResult) -> str:
    if probe.round_trip_s is None:
        return printable(f"{probe.number:>4}  lost: {probe.why}")
    links = len(probe.hops) - 1
    way = f"{counted(links, 'link')}: {' > '.join(probe.hops)}"
    return printable(f"{probe.number:>4}  {probe.round_trip_s * 1000:8.2f} ms   {way}")


def _in_words(summary: Summary) -> str:
    lost = summary.sent - summary.answered
    counts = f"{summary.sent} sent, {summary.answered} answered, {100 * lost / summary.sent:.0f} % lost"
    if summary.least_s is None or summary.mean_s is None or summary.most_s is None:
        return f"{summary.server}: {counts}."
    times = (f"{1000 * seconds:.2f}" for seconds in (summary.least_s, summary.mean_s, summary.most_s))
    return f"{summary.server}: {counts}; round trip {' / '.join(times)} ms (least / mean / most)."
