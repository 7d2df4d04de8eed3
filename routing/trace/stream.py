"""The same aggregations over logs as they arrive: routes and links a few minutes after the event.

Each message is gathered in a window of its birth, which its Smuid tells, so that both ends of a hop fall into
the same window whatever their clocks say. A window is written once, when births have moved on by the
lateness; what comes later is for the batch, which is the truth. Births that lie in the future are set aside:
they would end every window at once. Clocks are not corrected here, so delays are as logged.

Sources are closed files, which appear by rename and never change.
"""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from routing.trace import facts, files, ingest, links
from routing.trace.coded import COPY, HOP

WINDOW: Final = "5 minutes"
LATENESS: Final = "10 minutes"
"""Files close after a minute or 64 MB; ten leave time for shipping them."""

FILES_AT_ONCE: Final = 2_000

_TEXT: Final = t.StructType([t.StructField("value", t.StringType())])


def lines(session: SparkSession, logs: str) -> DataFrame:
    """The checked lines of closed logs that appear below `logs`."""
    text = (
        session.readStream.schema(_TEXT)
        .option("recursiveFileLookup", True)
        .option("pathGlobFilter", files.LOG_NAMES)
        .option("maxFilesPerTrigger", FILES_AT_ONCE)
        .option("ignoreCorruptFiles", True)
        .text(logs)
        .select(f.col("_metadata.file_path").alias("file"), "value")
    )
    return ingest.checked(ingest.parsed(text), None, ingest.FUTURE_MAX_STREAM_US)


def windowed(records: DataFrame) -> DataFrame:
    """`records` with `born` under a watermark and the `window` of birth, which later groups are kept by."""
    born = records.withColumn("born", f.timestamp_micros("birth_us")).withWatermark("born", LATENESS)
    return born.withColumn("window", f.window("born", WINDOW))


def paired(records: DataFrame) -> DataFrame:
    """`facts.facts` for each window."""
    return facts.facts(windowed(records), by=("window",))


def route_rows(paired: DataFrame) -> DataFrame:
    """One row for each message of a window that has ended.

    window_start timestamp, smuid, topic, servers long, commits long, hops: array of struct `from`, `to`,
    attempt, kind int (`schema.KINDS`), sent_us, received_us.
    """
    kind = f.col("kind")
    shown = f.struct(
        "from",
        "to",
        "attempt",
        links.kind().cast("int").alias("kind"),
        "sent_us",
        "received_us",
    )
    return (
        facts.named(paired, ("window",))
        .groupBy("window", "smuid")
        .agg(
            f.max("topic").alias("topic"),
            f.count_if(kind == COPY).alias("servers"),
            f.count("committed_us").alias("commits"),
            f.collect_list(f.when(kind == HOP, shown)).alias("hops"),
        )
        .select(f.col("window.start").alias("window_start"), "smuid", "topic", "servers", "commits", "hops")
    )


def link_rows(paired: DataFrame) -> DataFrame:
    """One row for each link and window: window_start, `from`, `to`, messages, duplicates, loops, bytes,
    raw_p50_us, raw_min_us.
    """
    kind = links.kind()
    delay = f.when(kind == 1, f.col("received_us") - f.col("sent_us"))
    return (
        facts.named(paired.where(f.col("kind") == HOP), ("window",))
        .groupBy("window", "from", "to")
        .agg(
            f.count_if(kind == 1).alias("messages"),
            f.count_if(kind == 3).alias("duplicates"),
            f.count_if(kind == 4).alias("loops"),
            f.coalesce(f.sum(f.when(kind == 1, f.col("bytes"))), f.lit(0)).alias("bytes"),
            f.percentile_approx(delay, 0.5, 1000).alias("raw_p50_us"),
            f.min(delay).alias("raw_min_us"),
        )
        .withColumn("window_start", f.col("window.start"))
        .drop("window")
    )


def start(session: SparkSession, logs: str, out: str, *, once: bool, every_s: int) -> list[Any]:
    """Start both queries; checkpoints are below `out`/stream/checkpoints."""
    queries = []
    for name, rows in (("routes", route_rows), ("links", link_rows)):
        found = rows(paired(ingest.records(lines(session, logs))))
        writer = (
            found.withColumn("day", f.col("window_start").cast("date"))
            .writeStream.outputMode("append")
            .format("parquet")
            .partitionBy("day")
            .option("path", f"{out}/stream/{name}")
            .option("checkpointLocation", f"{out}/stream/checkpoints/{name}")
            .queryName(name)
        )
        when: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
        writer = writer.trigger(**when)
        queries.append(writer.start())
    return queries


def run(session: SparkSession, logs: str, out: str, *, once: bool, every_s: int) -> None:
    """Keep the near-live tables until interrupted, or with `once` until all that is there has been read."""
    queries = start(session, logs, out, once=once, every_s=every_s)
    try:
        for query in queries:
            query.awaitTermination()
    except KeyboardInterrupt:
        for query in queries:
            query.stop()
