"""What the jobs of the trace make of records that a test has written, without any table."""

from dataclasses import dataclass
from typing import Any

from routing.hops import HopRecord
from tests.support.hop_logs import records_frame


@dataclass
class Found:
    """By Smuid, by server and Smuid, or by server.

    Attributes:
        twice: messages that began or ended twice.
        looped: messages of which a copy came back.
        deep: messages of which a copy went too far.
        missing: beginnings of copies at a server `torn`.
    """

    routes: dict[str, Any]
    custody: dict[str, Any]
    receipts: dict[str, Any]
    twice: set[str]
    looped: set[str]
    deep: set[str]
    held: set[tuple[str, str]]
    states: dict[tuple[str, str], str]
    logs: dict[str, dict[str, Any]]
    holdings: dict[str, str]
    missing: int


def found(spark: Any, records: list[HopRecord]) -> Found:
    """What the jobs make of these records."""
    from pyspark.sql import functions as f

    from routing.trace import (
        anomalies,
        balance,
        clocks,
        coverage,
        custody,
        ends,
        facts,
        homecoming,
        links,
        routes,
        vanished,
    )

    read = records_frame(spark, records)
    words = coverage.words(read)
    covered = coverage.coverage(read, words, coverage.gaps(words)).localCheckpoint()
    incomplete = [row.server for row in covered.where("log in ('gaps', 'absent')").collect()]
    shortened = [row.server for row in covered.where("first_record > 1").collect()]
    paired = facts.facts(read, incomplete, shortened=shortened).localCheckpoint()
    home = homecoming.stays(facts.copies(paired), read)
    made = routes.routes(paired, clocks.segments_frame(spark, []), covered, home=home).localCheckpoint()
    wrong = anomalies._of_routes(made.withColumn("day", routes.day()))
    copies = ends.states(facts.copies(paired), covered, home=home).localCheckpoint()
    hops = facts.hops(paired).withColumn("kind", links.kind_name())
    gone = vanished.proven_vanished(hops, read, covered)

    def by_smuid(frame: Any) -> dict[str, Any]:
        return {row.smuid: row.asDict(recursive=True) for row in frame.collect()}

    return Found(
        routes=by_smuid(made),
        custody=by_smuid(custody.custody(made, gone)),
        receipts=by_smuid(custody.receipts(made, read)),
        twice={row.smuid for row in copies.where(balance.begun_twice() | balance.ended_twice()).collect()},
        looped={row.smuid for row in wrong.where("kind = 'looped'").collect()},
        deep={row.smuid for row in wrong.where("kind = 'over depth'").collect()},
        held={(row.server, row.smuid) for row in copies.where("state = 'held'").collect()},
        states={(row.server, row.smuid): row.state for row in copies.collect()},
        logs={row.server: row.asDict() for row in covered.collect()},
        holdings={row.server: row.verdict for row in balance.holdings(copies, covered, read).collect()},
        missing=balance.balance(copies.where("server = 'torn'")).agg(f.sum("begin_missing")).collect()[0][0],
    )
