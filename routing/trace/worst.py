"""The routes of the worst messages, as the page has them: the tree, and what is proven of each copy."""

import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from routing.trace import tables
from routing.trace.anomalies import by_gravity
from routing.trace.births import birthdays
from routing.trace.journal import left_open, outline
from routing.trace.proof import MessageRecords, hop_records, proofs

SLOW_ROUTES_MAX: Final = 20
GRAVE_ROUTES_MAX: Final = 100
ANOMALIES_READ_MAX: Final = 500
"""Of the gravest, to find those messages: several may be of one."""

STOPS_SHOWN_MAX: Final = 200
PROOFS_SHOWN_MAX: Final = 20
PATTERNS_SHOWN_MAX: Final = 20
NAMES_SHOWN_MAX: Final = 20

SENTENCE_CHARS_MAX: Final = 4_000
"""What is told of a copy or an anomaly may name everybody: `route` and `anomalies` print all of it."""

_NONE: Final = ("", MessageRecords({}))


def worst_routes(
    session: SparkSession, out: str, routes: DataFrame, anomalies: DataFrame
) -> list[dict[str, Any]]:
    """Of `routes` those with `anomalies`, the gravest first, then the slowest."""
    wrong = anomalies.where("smuid is not null").orderBy(*by_gravity()).limit(ANOMALIES_READ_MAX).collect()
    grave = list(dict.fromkeys(row.smuid for row in wrong))[:GRAVE_ROUTES_MAX]
    ranks = {smuid: rank for rank, smuid in enumerate(grave)}
    timed = routes.where("last_delay_us is not null").orderBy(f.desc("last_delay_us"), "smuid")
    slow = [row.smuid for row in timed.select("smuid").limit(SLOW_ROUTES_MAX).collect()]
    named = sorted({*grave, *slow})
    if not named:
        return []
    # One message at a time: the hops and records of all of them may be many.
    chosen = routes.where(f.col("smuid").isin(named)).orderBy("smuid")
    logs = {row["server"]: row.asDict() for row in tables.read(session, out, "coverage").collect()}
    records = _records(session, out, named)
    found, of_one = [], next(records, _NONE)
    for row in chosen.toLocalIterator():
        while of_one is not _NONE and of_one[0] < row["smuid"]:
            of_one = next(records, _NONE)
        of_it = of_one[1] if of_one[0] == row["smuid"] else _NONE[1]
        found.append(shown(row.asDict(recursive=True), of_it, logs))
    return sorted(
        found,
        key=lambda one: (ranks.get(one["smuid"], len(ranks)), -(one["last_delay_us"] or 0), one["smuid"]),
    )


def _records(session: SparkSession, out: str, smuids: list[str]) -> Iterator[tuple[str, MessageRecords]]:
    """Of each message that has any, what the table of records has of it, by Smuid."""
    records = tables.read(session, out, "records").where(
        f.col("day").isin(birthdays(smuids)) & f.col("smuid").isin(smuids)
    )
    rows = (row.asDict(recursive=True) for row in records.drop("day").orderBy("smuid").toLocalIterator())
    for smuid, of_it in groupby(rows, lambda row: str(row["smuid"])):
        yield smuid, hop_records(of_it)


def shown(
    route: dict[str, Any], records: MessageRecords, logs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A row of the routes as the page has it; `records` and `logs` as in `proof.proofs`.

    Its tree as `lines`, what is left `open`, the `proof` of each copy, the worst first, and deliveries
    `by_pattern`; of each of them `more` says how many the page has not.
    """
    proven = proofs(route, records, logs)
    told = {name: route[name] for name in ("smuid", "topic", "origin", "reached", "last_delay_us", "state")}
    every = {
        "lines": outline(route, sys.maxsize),
        "proof": [
            {"server": one.server, "state": one.state, "sentence": cut(one.sentence)} for one in proven
        ],
        "by_pattern": [
            {"server": one.server, "subscription": each.subscription, "pattern": each.pattern}
            for one in proven
            for each in one.deliveries
            if each.pattern
        ],
    }
    most = {"lines": STOPS_SHOWN_MAX, "proof": PROOFS_SHOWN_MAX, "by_pattern": PATTERNS_SHOWN_MAX}
    return (
        told
        | {"open": left_open(route, NAMES_SHOWN_MAX)}
        | {name: items[: most[name]] for name, items in every.items()}
        | {"more": {name: max(0, len(items) - most[name]) for name, items in every.items()}}
    )


def cut(sentence: str) -> str:
    """As much of it as the page has, and how much more there is."""
    more = len(sentence) - SENTENCE_CHARS_MAX
    return sentence if more <= 0 else f"{sentence[:SENTENCE_CHARS_MAX]} ... and {more:,} characters more"
