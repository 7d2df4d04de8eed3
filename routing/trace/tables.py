"""Where the results are: one directory of Parquet for each table below the output directory.

Tables of messages are partitioned by UTC day of birth (`day=2026-11-21`); running a day again replaces that
day. The others describe the last run and are replaced whole. The directory may be on any Hadoop file system.
"""

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

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
WHOLE: Final = ("coverage", "gaps", "clocks", "holdings", "anomalies", "aside")


NO_DAY: Final = "1970-01-01"
"""A table without a row has a file without a row, on a day when nothing was born: it tells the columns."""


class NoTable(Exception):
    """The table was not written; the text says what to run."""


def path(out: str, name: str) -> str:
    """The directory of a table."""
    return f"{out.rstrip('/')}/{name}"


def write(frame: DataFrame, out: str, name: str) -> None:
    """Write a table of `BY_DAY` (with a column `day`) or of `WHOLE`."""
    writer = frame.write.mode("overwrite")
    if name in BY_DAY:
        writer = writer.partitionBy("day")
    writer.parquet(path(out, name))
    if name in BY_DAY:
        try:
            frame.sparkSession.read.parquet(path(out, name))
        except AnalysisException:
            columns = frame.limit(0).drop("day")
            columns.write.mode("overwrite").parquet(f"{path(out, name)}/day={NO_DAY}")


def read(session: SparkSession, out: str, name: str) -> DataFrame:
    """A table that was written before; `day` is a string where it is partitioned by it. Raises NoTable."""
    try:
        return session.read.parquet(path(out, name))
    except AnalysisException as error:
        raise NoTable(f"{out} has no table {name}: run smqpd trace run first") from error
