"""Where the results are: one directory of Parquet for each table below the output directory.

Tables of messages are partitioned by UTC day of birth (`day=2026-11-21`). To the records each run adds what
was not there; the others are made of them, and replaced day by day. Those without a day describe the last run
and are replaced whole. The directory may be on any Hadoop file system.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from routing.trace import schema
from routing.trace.session import is_for_small, kept, together

BY_DAY: Final = (
    "records",
    "hops",
    "copies",
    "deliveries",
    "routes",
    "links",
    "link_hours",
    "custody",
    "receipts",
    "balance",
)
WHOLE: Final = ("claims", "coverage", "gaps", "clocks", "holdings", "anomalies", "aside")

RECORDS: Final = t.StructType(
    [
        *schema.RECORD.fields,
        t.StructField("birth_us", t.LongType()),
        t.StructField("day", t.StringType()),
    ]
)
"""The table of records; a field that the version that wrote it did not know is null."""

DELIVERIES: Final = t.StructType(
    [
        t.StructField("smuid", t.StringType()),
        t.StructField("server", t.StringType()),
        t.StructField("subscription", t.StringType()),
        t.StructField("pattern", t.StringType()),
        t.StructField("delivered_us", t.LongType()),
        t.StructField("committed_us", t.LongType()),
        t.StructField("attempts", t.IntegerType()),
        t.StructField("returned", t.BooleanType()),
        t.StructField("one", t.BooleanType()),
        t.StructField("unguaranteed", t.BooleanType()),
        t.StructField("day", t.StringType()),
    ]
)
"""The table of deliveries; likewise."""

_OF_EARLIER: Final = {"records": RECORDS, "deliveries": DELIVERIES}

NO_DAY: Final = "1970-01-01"
"""A table without a row has a file without a row, on a day when nothing was born: it tells the columns."""


class NoTable(Exception):
    """The table was not written; the text says what to run."""


def few(session: SparkSession, rows: Iterable[Sequence[object]], columns: t.StructType) -> DataFrame:
    """Rows that the driver has made, as one text in the query.

    `createDataFrame` would start two processes of Python, to hand over what is as good as nothing.
    """
    text = json.dumps([dict(zip(columns.names, row, strict=True)) for row in rows])
    found = f.from_json(f.lit(text), t.ArrayType(columns), {"mode": "FAILFAST"})
    return session.range(0, 1, 1, 1).select(f.inline(found))


def path(out: str, name: str) -> str:
    """The directory of a table."""
    return f"{out.rstrip('/')}/{name}"


def write(frame: DataFrame, out: str, name: str, *, add: bool = False) -> None:
    """Write a table of `BY_DAY` (with a column `day`) or of `WHOLE`; `add`: to the rows that are there."""
    writer = frame.write.mode("append" if add else "overwrite")
    if name in BY_DAY:
        writer = writer.partitionBy("day")
    writer.parquet(path(out, name))
    if name in BY_DAY and not _has_a_day(frame.sparkSession, path(out, name)):
        none = frame.limit(0).drop("day")
        none.write.mode("overwrite").parquet(f"{path(out, name)}/day={NO_DAY}")


def written(
    frame: DataFrame, out: str, name: str, telling: Callable[[DataFrame], DataFrame] | None = None
) -> DataFrame:
    """`write`, and the table as `read` gives it, without asking its files for the columns: that is a job.

    `telling` observes what is written. In a small session a table that has no rows but these is kept and not
    read again; a `day` is then a date.
    """
    session = frame.sparkSession
    is_all = is_for_small(session) and (name in WHOLE or not _has_a_day(session, path(out, name)))
    rows = kept(frame) if is_all else frame
    write(telling(rows) if telling is not None else rows, out, name)
    if is_all:
        return rows
    return together(session.read.schema(_columns(name, frame.schema)).parquet(path(out, name)))


def _has_a_day(session: SparkSession, directory: str) -> bool:
    machine: Any = session.sparkContext._jvm
    days = machine.org.apache.hadoop.fs.Path(f"{directory}/day=*")
    found = days.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()).globStatus(days)
    return bool(found)


def read(session: SparkSession, out: str, name: str) -> DataFrame:
    """A table that was written before; `day` is a string where it is partitioned by it. Raises NoTable."""
    reader = session.read
    if name in _OF_EARLIER:
        reader = reader.schema(_OF_EARLIER[name])
    try:
        found = together(reader.parquet(path(out, name)))
    except AnalysisException as error:
        raise NoTable(f"{out} has no table {name}: run smqpd trace run first") from error
    # where the columns are stated, what a run that failed has left would pass for a table without a row
    if name in _OF_EARLIER and not _has_a_day(session, path(out, name)):
        raise NoTable(f"{out} has no table {name}: run smqpd trace run first")
    return found


def _columns(name: str, written: t.StructType) -> t.StructType:
    """What files hold of a table that was written with these; its day is in the names of directories."""
    if name == "records":
        return RECORDS
    return t.StructType([field for field in written.fields if name in WHOLE or field.name != "day"])
