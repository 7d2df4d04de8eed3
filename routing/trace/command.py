"""The command `smqpd trace`. Spark and Java are looked for only when a command runs that needs them.

Exit codes: 0 done, 1 it failed (no Java, no Spark, no such table), 2 usage.
"""

import glob
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from routing.trace.journal import jsonable
from routing.trace.show import (
    can_be_drawn_on,
    console,
    milliseconds,
    moment,
    plain,
    route_tree,
    summary,
    table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from routing.trace.proof import Proof

app = typer.Typer(no_args_is_help=True, help="Rebuild every route from the hop logs of all sites.")


def _there(logs: list[str]) -> list[str]:
    """Refuses a misspelled path before Spark is started; patterns and URLs are for Spark to look up."""
    for path in logs:
        if not ("://" in path or glob.has_magic(path) or os.path.exists(path)):
            raise typer.BadParameter(f"there is no {path}")
    return logs


Logs = Annotated[
    list[str],
    typer.Argument(metavar="LOGS", help="Directories or files of hop logs.", callback=_there),
]
Out = Annotated[str, typer.Option("--out", metavar="DIR", help="The directory of the tables.")]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="A Spark master; all cores of this machine without it.")
]
Day = Annotated[
    datetime | None, typer.Option("--day", formats=["%Y-%m-%d"], help="Messages born on this UTC day.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Rows at most.")]

DELIVERIES_SHOWN_MAX = 200

NOT_HERE = "the trace jobs are not installed here; install them with: pip install 'smqpd[trace]'"


def _fail(text: str, code: int = 1) -> NoReturn:
    print("smqpd: " + " ".join(str(plain(text)).split()), file=sys.stderr)
    raise typer.Exit(code)


@contextmanager
def _spark(*sources: str, master: str | None = None) -> Iterator["SparkSession"]:
    """A session for what is below `sources`; for anything, where there are none."""
    try:
        from routing.trace import java
        from routing.trace.session import is_small, open_session
    except ModuleNotFoundError:
        _fail(NOT_HERE)
    from pyspark.errors import PySparkException

    from routing.trace.tables import NoTable

    try:
        session = open_session(master, small=bool(sources) and is_small(*sources))
    except java.NoJava as error:
        _fail(str(error))
    except PySparkException as error:
        _fail(f"Spark does not start: {str(error).splitlines()[0]}")
    try:
        yield session
    except NoTable as error:
        _fail(str(error))
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            _fail(f"there is no {(error.getMessageParameters() or {}).get('path')}")
        _fail(f"Spark could not do it: {str(error).splitlines()[0]}")
    finally:
        session.stop()


@contextmanager
def _writing(what: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _fail(f"{what} cannot be written: {error.strerror or error}")


def _check_writable(out: str) -> None:
    """Fail before Spark is started where there can be no tables; what is no path is for Spark to look up."""
    if "://" in out or out.startswith("file:"):
        return
    directory = Path(out)
    with _writing(directory):
        made = [each for each in (directory, *directory.parents) if not each.exists()]
        if not made and not directory.is_dir():
            _fail(f"{directory} cannot be written: it is no directory")
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
        for each in made:
            each.rmdir()


@contextmanager
def _steps(*, are_few: bool = True) -> Iterator[Callable[[str], None]]:
    """Says on standard error what is being done: in one place at a terminal, else a line each (of few)."""
    errors = console(stderr=True)
    if not can_be_drawn_on(errors):
        yield lambda step: print(f"smqpd: {step}", file=sys.stderr, flush=True) if are_few else None
        return
    with errors.status("starting") as status:
        yield lambda step: status.update(step)


def _read(session: "SparkSession", out: str, name: str, day: datetime | None) -> "DataFrame":
    from routing.trace import tables

    frame = tables.read(session, out, name)
    return frame.where(frame["day"] == day.date().isoformat()) if day is not None else frame


def _print(
    rows: list[Any], as_json: bool, title: str, columns: dict[str, Callable[[Any], object] | str]
) -> None:
    if as_json:
        print(json.dumps(jsonable(rows), indent=1))
        return
    shown = [[row[how] if isinstance(how, str) else how(row) for how in columns.values()] for row in rows]
    console().print(table(title, list(columns), shown))


@app.command()
def run(
    logs: Logs,
    out: Out,
    day: Day = None,
    master: Master = None,
    server: Annotated[
        list[str] | None, typer.Option(help="Only records of this server count; may be given again.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read hop logs and write the tables of routes, links, custody, receipts, anomalies and the balance."""
    _check_writable(out)
    with _spark(*logs, out, master=master) as session:
        from routing.trace import batch

        with _steps() as say:
            found = batch.run(
                session, logs, out, day=day.date() if day else None, servers=server or (), progress=say
            )
    if as_json:
        print(json.dumps(jsonable(found), indent=1))
    else:
        summary(console(), found, out)


@app.command()
def route(
    smuid: Annotated[str, typer.Argument(help="The message.")],
    out: Out,
    form: Annotated[str, typer.Option("--format", help="text, json or otlp.")] = "text",
) -> None:
    """Show the route of one message, with its delays and with what is proven of each copy.

    As text, JSON or OTLP JSON, which has the route alone.
    """
    if form not in ("text", "json", "otlp"):
        _fail(f"--format {form} is none of text, json, otlp", 2)
    with _spark(out) as session:
        from routing.trace import tables

        routes = tables.read(session, out, "routes")
        # The Smuid begins with the time of birth, so only that day is read.
        born = smuid.rpartition("/")[2][:12]
        try:
            near = datetime.fromtimestamp(int(born, 16) / 1000, UTC).date().isoformat()
        except (ValueError, OverflowError, OSError):
            _fail(f"{smuid} is no Smuid; it is written server/time-boot-counter", 2)
        days = [str(row.day) for row in routes.select("day").distinct().collect()]
        if near in days:
            routes = routes.where(routes["day"] == near)
        found = routes.where(routes["smuid"] == smuid).first()
        if found is None:
            _fail(f"no log that was read tells of {smuid}")
        row = found.asDict(recursive=True)
        proven = _proven(session, out, row, near) if form != "otlp" else []
    if form == "otlp":
        from routing.trace.journal import otlp

        print(json.dumps(otlp(row)))
    elif form == "json":
        row["proof"] = [asdict(one) for one in proven]
        print(json.dumps(jsonable(row), indent=1))
    else:
        console().print(route_tree(row))
        rows = ((one.server, one.state, one.sentence) for one in proven)
        console().print(table("proven", ("server", "copy", "by its records"), rows))
        _print_deliveries(proven)


def _print_deliveries(proven: "list[Proof]") -> None:
    """To which subscriptions it was delivered, and by which patterns."""
    rows = [
        (
            one.server,
            each.subscription,
            each.pattern or "its topic",
            moment(each.delivered_us or None),
            "-" if each.committed_us is None else moment(each.committed_us),
        )
        for one in proven
        for each in one.deliveries
    ]
    if not rows:
        return
    more = len(rows) - DELIVERIES_SHOWN_MAX
    title = "deliveries" if more <= 0 else f"deliveries (and {more} more, see --format json)"
    columns = ("server", "subscription", "by", "delivered", "committed")
    console().print(table(title, columns, rows[:DELIVERIES_SHOWN_MAX]))


def _proven(session: "SparkSession", out: str, route: dict[str, Any], day: str) -> "list[Proof]":
    from routing.trace import tables
    from routing.trace.proof import hop_records, proofs

    records = tables.read(session, out, "records").where(f"day = '{day}'")
    of_it = records.where(records["smuid"] == route["smuid"]).drop("day").collect()
    coverage = {row["server"]: row.asDict() for row in tables.read(session, out, "coverage").collect()}
    return proofs(route, hop_records(row.asDict(recursive=True) for row in of_it), coverage)


@app.command()
def links(out: Out, day: Day = None, as_json: Json = False, limit: Limit = 1000) -> None:
    """Show what each link did: messages, bytes, loss, retries, duplicates, delay."""
    with _spark(out) as session:
        frame = _read(session, out, "links", day)
        rows = frame.orderBy("day", "from", "to").limit(limit).collect()
    _print(
        rows,
        as_json,
        "links",
        {
            "day": "day",
            "from": "from",
            "to": "to",
            "messages": "messages",
            "lost": lambda r: "unknown" if r["lost"] is None else r["lost"],
            "retries": lambda r: "unknown" if r["retries"] is None else r["retries"],
            "duplicates": "duplicates",
            "p50": lambda r: milliseconds(r["delay_p50_us"]),
            "p99": lambda r: milliseconds(r["delay_p99_us"]),
            "logs": "logs",
        },
    )


@app.command()
def anomalies(
    out: Out,
    kind: Annotated[str | None, typer.Option(help="Only this kind, such as lost or 'clock jump'.")] = None,
    as_json: Json = False,
    limit: Limit = 100,
) -> None:
    """Show what should not be, the worst first: lost, two custodians, wrong receipts, slow links."""
    with _spark(out) as session:
        from routing.trace.anomalies import by_gravity

        frame = _read(session, out, "anomalies", None)
        if kind is not None:
            frame = frame.where(frame["kind"] == kind)
        rows = frame.orderBy(*by_gravity()).limit(limit).collect()
    _print(
        rows,
        as_json,
        "anomalies",
        {
            "kind": "kind",
            "server": "server",
            "peer": "peer",
            "message": "smuid",
            "topic": "topic",
            "since": lambda r: moment(r["time_us"]),
            "detail": "detail",
        },
    )


@app.command()
def balance(out: Out, day: Day = None, as_json: Json = False, limit: Limit = 1000) -> None:
    """Show for each server, topic and day that copies received = finished + held, or what is missing."""
    with _spark(out) as session:
        frame = _read(session, out, "balance", day)
        rows = frame.orderBy("closes", "server", "topic", "day").limit(limit).collect()
    columns = (
        "server topic day published received begin_missing finished held gone lost log_missing unknown closes"
    )
    _print(rows, as_json, "balance", {name.replace("_", " "): name for name in columns.split()})


@app.command()
def slowest(out: Out, day: Day = None, as_json: Json = False, limit: Limit = 20) -> None:
    """Show the messages that took longest from their origin to the last server."""
    with _spark(out) as session:
        frame = _read(session, out, "routes", day).where("last_delay_us is not null")
        rows = (
            frame.orderBy(frame["last_delay_us"].desc(), "smuid")
            .limit(limit)
            .select("smuid", "topic", "origin", "reached", "last_delay_us", "state")
            .collect()
        )
    _print(
        rows,
        as_json,
        "slowest",
        {
            "message": "smuid",
            "topic": "topic",
            "servers": "reached",
            "took": lambda r: milliseconds(r["last_delay_us"]),
            "route": "state",
        },
    )


@app.command()
def compare(
    first: Annotated[
        datetime,
        typer.Argument(formats=["%Y-%m-%d"], metavar="DAY", help="Of what is compared; UTC, YYYY-MM-DD."),
    ],
    second: Annotated[
        datetime,
        typer.Argument(formats=["%Y-%m-%d"], metavar="DAY", help="Of what it is compared with, likewise."),
    ],
    out: Out,
    as_json: Json = False,
    limit: Limit = 1000,
) -> None:
    """Show how the links of two days differ."""
    with _spark(out) as session:
        from routing.trace import tables
        from routing.trace.links import compared

        frame = compared(
            tables.read(session, out, "links"), first.date().isoformat(), second.date().isoformat()
        )
        rows = frame.limit(limit).collect()
    _print(
        rows,
        as_json,
        f"{first.date()} and {second.date()}",
        {
            "from": "from",
            "to": "to",
            "messages": lambda r: f"{r['messages']} -> {r['messages_then']}",
            "lost": lambda r: f"{_or_unknown(r['lost'])} -> {_or_unknown(r['lost_then'])}",
            "p50": lambda r: f"{milliseconds(r['delay_p50_us'])} -> {milliseconds(r['delay_p50_us_then'])}",
            "times": lambda r: "unknown" if r["delay_times"] is None else round(r["delay_times"], 2),
        },
    )


def _or_unknown(value: object) -> str:
    return "unknown" if value is None else str(value)


@app.command()
def report(
    out: Out,
    page: Annotated[Path, typer.Option("--page", help="The HTML file to write.")] = Path("trace.html"),
    day: Day = None,
) -> None:
    """Write one self-contained HTML page: map, links, anomalies, balance and the worst routes."""
    with _spark(out) as session:
        from routing.trace import report as job

        written = job.page(session, out, day.date().isoformat() if day else None)
    with _writing(page):
        page.write_text(written, encoding="utf-8")
    console().print(plain(f"wrote {page}"))


@app.command()
def compact(logs: Logs, out: Out, master: Master = None) -> None:
    """Rewrite closed logs as Parquet by the hour, sorted by Smuid, which every command here reads as well."""
    _check_writable(out)
    with _spark(*logs, out, master=master) as session:
        from routing.trace import compaction

        count = compaction.compact(session, logs, out)
    console().print(plain(f"{count:,} records in {out}"))


@app.command()
def stream(
    logs: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="The directory in which closed logs appear.",
            callback=lambda directory: _there([directory])[0],
        ),
    ],
    out: Out,
    master: Master = None,
    once: Annotated[bool, typer.Option("--once", help="Take what is there and end.")] = False,
    every_s: Annotated[int, typer.Option("--every", min=1, help="Seconds between looks.")] = 60,
) -> None:
    """Keep the tables stream/links and stream/routes near live while logs arrive."""
    _check_writable(out)
    with _spark(master=master) as session:
        from routing.trace import stream as job

        job.run(session, logs, out, once=once, every_s=every_s)


@app.command()
def package(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the two files go.")],
) -> None:
    """Write what spark-submit needs: the jobs as a zip, and the script that starts them."""
    from routing.trace import package as job

    with _writing(directory):
        script, archive = job.build(directory)
    console().print(plain(f"spark-submit --master URL --py-files {archive} {script} run LOGS --out DIR"))


@app.command()
def generate(
    out: Annotated[Path, typer.Option("--out", metavar="DIR")],
    sites: Annotated[int, typer.Option(min=2, max=1000)] = 10,
    messages: Annotated[int, typer.Option(min=1)] = 1000,
    seed: int = 1,
    absent: Annotated[int, typer.Option(min=0, help="Sites without a log.")] = 0,
    missing: Annotated[float, typer.Option(min=0, max=1, help="Share of records missing.")] = 0.0,
    repeated: Annotated[float, typer.Option(min=0, max=1, help="Share of lines that stand twice.")] = 0.0,
    day_off: Annotated[int, typer.Option(min=0, help="Sites whose clock is up to a day off.")] = 0,
    jumps: Annotated[int, typer.Option(min=0, help="Sites whose clock jumps.")] = 0,
    faults: Annotated[int, typer.Option(min=0, help="Broken promises of each kind.")] = 0,
    compress: Annotated[bool, typer.Option("--compress", help="Write .jsonl.gz.")] = False,
    truth: Annotated[bool, typer.Option(help="Write what became of each message.")] = True,
) -> None:
    """Write the logs of a federation that never was, with the truth beside them."""
    from routing.trace.synthetic.plan import Plan
    from routing.trace.synthetic.write import generate as write

    plan = Plan(
        sites=sites,
        messages=messages,
        seed=seed,
        absent=absent,
        missing=missing,
        repeated=repeated,
        day_off=day_off,
        jumps=jumps,
        faults=faults,
    )
    with _writing(out), _steps(are_few=False) as say:
        count = write(
            plan, out, compress=compress, truth=truth, progress=lambda done: say(f"{done:,} messages")
        )
    console().print(plain(f"{count:,} records of {sites} sites in {out}, the truth in {out / 'truth'}"))
