"""The commands that ask tables: one route, what links did, what should not be, the balance."""

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from routing.trace.births import birthday
from routing.trace.command_line import Day, Json, Limit, Out, check_word, fail, spark
from routing.trace.journal import jsonable
from routing.trace.show import console, milliseconds, moment, route_tree, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from routing.trace.proof import Proof

DELIVERIES_SHOWN_MAX = 200


def _read(session: "SparkSession", out: str, name: str, day: datetime | None) -> "DataFrame":
    from routing.trace import tables

    frame = tables.read(session, out, name)
    return frame.where(frame["day"] == day.date().isoformat()) if day is not None else frame


def _first(frame: "DataFrame", limit: int) -> tuple[list[Any], int]:
    """Its first rows, and how many more there are."""
    rows = frame.limit(limit + 1).collect()
    return rows[:limit], frame.count() - limit if len(rows) > limit else 0


def print_rows(
    rows: list[Any],
    as_json: bool,
    title: str,
    columns: dict[str, Callable[[Any], object] | str],
    *,
    more: int = 0,
) -> None:
    """`more`: rows that are not among these; standard error says so, beside JSON too."""
    if as_json:
        print(json.dumps(jsonable(rows), indent=1))
    else:
        shown = [[row[how] if isinstance(how, str) else how(row) for how in columns.values()] for row in rows]
        console().print(table(title, list(columns), shown))
    if more:
        print(f"{more:,} more: see --limit.", file=sys.stderr)


def route(
    smuid: Annotated[str, typer.Argument(help="The message.")],
    out: Out,
    form: Annotated[str, typer.Option("--format", help="text, json or otlp.")] = "text",
) -> None:
    """Show the route of one message, with its delays and with what is proven of each copy.

    As text, JSON or OTLP JSON, which has the route alone.
    """
    check_word("--format", form, ("text", "json", "otlp"))
    # The Smuid begins with the time of birth, so only that day is read.
    near = birthday(smuid)
    if near is None:
        fail(f"{smuid} is no Smuid; it is written server/time-boot-counter", 2)
    with spark(out) as session:
        from routing.trace import tables

        routes = tables.read(session, out, "routes")
        days = [str(row.day) for row in routes.select("day").distinct().collect()]
        if near in days:
            routes = routes.where(routes["day"] == near)
        found = routes.where(routes["smuid"] == smuid).first()
        if found is None:
            fail(f"no log that was read tells of {smuid}")
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


def links(out: Out, day: Day = None, as_json: Json = False, limit: Limit = 1000) -> None:
    """Show what each link did: messages, bytes, loss, retries, duplicates, delay."""
    with spark(out) as session:
        frame = _read(session, out, "links", day)
        rows, more = _first(frame.orderBy("day", "from", "to"), limit)
    print_rows(
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
        more=more,
    )


def anomalies(
    out: Out,
    kind: Annotated[str | None, typer.Option(help="Only this kind, such as lost or 'clock jump'.")] = None,
    as_json: Json = False,
    limit: Limit = 100,
) -> None:
    """Show what should not be, the worst first: lost, two custodians, wrong receipts, slow links."""
    if kind is not None:
        with contextlib.suppress(ModuleNotFoundError):  # which Spark says
            from routing.trace.anomalies import KINDS

            check_word("--kind", kind, KINDS)
    with spark(out) as session:
        from routing.trace.anomalies import by_gravity

        frame = _read(session, out, "anomalies", None)
        if kind is not None:
            frame = frame.where(frame["kind"] == kind)
        rows, more = _first(frame.orderBy(*by_gravity()), limit)
    print_rows(
        rows,
        as_json,
        "anomalies",
        {
            "kind": "kind",
            "server": "server",
            "peer": "peer",
            "message": "smuid",
            "topic": "topic",
            "since": lambda r: moment(r["time_us"] or None),  # a log that lacks its beginning has 0
            "detail": "detail",
        },
        more=more,
    )


def balance(out: Out, day: Day = None, as_json: Json = False, limit: Limit = 1000) -> None:
    """Show for each server, topic and day that copies received = finished + held, or what is missing."""
    with spark(out) as session:
        frame = _read(session, out, "balance", day)
        rows, more = _first(frame.orderBy("closes", "server", "topic", "day"), limit)
    names = (
        "server topic day published received begin_missing finished held gone lost log_missing unknown closes"
    )
    print_rows(rows, as_json, "balance", {name.replace("_", " "): name for name in names.split()}, more=more)


def slowest(out: Out, day: Day = None, as_json: Json = False, limit: Limit = 20) -> None:
    """Show the messages that took longest from their origin to the last server."""
    with spark(out) as session:
        frame = _read(session, out, "routes", day).where("last_delay_us is not null")
        rows = (
            frame.orderBy(frame["last_delay_us"].desc(), "smuid")
            .limit(limit)
            .select("smuid", "topic", "origin", "reached", "last_delay_us", "state")
            .collect()
        )
    print_rows(
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
    with spark(out) as session:
        from routing.trace import tables
        from routing.trace.links import compared

        frame = compared(
            tables.read(session, out, "links"), first.date().isoformat(), second.date().isoformat()
        )
        rows, more = _first(frame, limit)
    print_rows(
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
        more=more,
    )


def _or_unknown(value: object) -> str:
    return "unknown" if value is None else str(value)
