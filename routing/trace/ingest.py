"""From log files to records that the jobs may trust, and the lines that are set aside.

Read are closed log files (`hops-*.jsonl`, `.gz`, `.zst`; never `open-*`) and Parquet compactions of them,
below any directory of any Hadoop file system. What a line claims is checked once, here: everything later
relies on it. A line that fails is counted, kept aside with the reason, and harms no other.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from routing.hop_words import LINE_BYTES_MAX
from routing.trace import schema
from routing.trace.files import LOG_NAMES
from routing.trace.session import together

COMPACTED_NAMES: Final = "*.parquet"

FUTURE_MAX_BATCH_US: Final = 2 * schema.DAY_US
"""A clock may be a day off; two days from now is no clock but rubbish."""

FUTURE_MAX_STREAM_US: Final = 300_000_000
"""A stream's watermark follows the latest birth, so one bad clock would make every other record late."""

SHOWN_CHARS: Final = 500

REASONS: Final = (
    "damaged file",
    "not a record",
    "line too long",
    "missing field",
    "wrong value",
    "newer version",
    "time out of range",
    "other server",
)

_CORRUPT: Final = "_corrupt"

_KEPT_CHARS: Final = 2 * LINE_BYTES_MAX
"""Of a line that is too long: enough to see that it is."""


def logs(session: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Lines and compacted records below `paths`: `file`, `value` (null where compacted), `record`.

    A line of more than `session.LINE_BYTES_READ_MAX` is passed over, and shows as a gap.
    """

    def named(names: str) -> DataFrameReader:
        return session.read.option("recursiveFileLookup", True).option("pathGlobFilter", names)

    text = together(named(LOG_NAMES).text(list(paths)))
    lines = parsed(text.select(f.col("_metadata.file_path").alias("file"), "value"))
    parquet = named(COMPACTED_NAMES).schema(schema.RECORD).parquet(*paths)
    if not parquet.inputFiles():  # the checks of a line are not planned for what is not there
        return lines
    return lines.unionByName(
        parquet.select(
            f.col("_metadata.file_path").alias("file"),
            f.lit(None).cast("string").alias("value"),
            f.struct(*schema.RECORD.names, f.lit(None).cast("string").alias(_CORRUPT)).alias("record"),
        )
    )


def parsed(text: DataFrame) -> DataFrame:
    """Lines (`file`, `value`) with their record beside them; one that is too long is cut, its record is null.

    The lines that close files tell of no copy, and are left out.
    """
    with_corrupt = t.StructType([*schema.RECORD.fields, t.StructField(_CORRUPT, t.StringType())])
    fits = f.octet_length("value") <= LINE_BYTES_MAX
    return text.where(~f.coalesce(f.col("value").startswith(schema.CLOSING_BEGINS), f.lit(False))).select(
        "file",
        f.when(fits, f.col("value")).otherwise(f.substring("value", 1, _KEPT_CHARS)).alias("value"),
        f.from_json(
            f.when(fits, f.col("value")), with_corrupt, {"columnNameOfCorruptRecord": _CORRUPT}
        ).alias("record"),
    )


def checked(
    lines: DataFrame,
    now_us: int | None,
    future_us: int,
    servers: Iterable[str] = (),
    damaged: Collection[str] = (),
) -> DataFrame:
    """`lines` with `birth_us` and `problem`, null where sound.

    `now_us`: what counts as now, None for the clock as each batch begins; times more than `future_us` later
    are no times. `servers`: the names whose records are wanted; none given means all. `damaged`: files of
    which nothing is believed (`files.damaged`): any record in them may say what it did not.
    """
    now = f.unix_micros(f.current_timestamp()) if now_us is None else f.lit(now_us)
    lines = lines.withColumn("birth_us", birth_us(f.col("record")))
    found = problem(now + future_us, tuple(servers))
    if damaged:
        found = f.when(f.col("file").isin(*damaged), "damaged file").otherwise(found)
    return lines.withColumn("problem", found)


def birth_us(record: Column) -> Column:
    """When the message was born, UTC microseconds by its first server's clock: the Smuid begins with it.

    What tells of no message (a heartbeat, or a publication that was refused) was born when it was written.
    """
    unnamed = f.coalesce(f.length(record["smuid"]), f.lit(0)) == 0
    of_no_message = (record["event"] == "heartbeat") | ((record["event"] == "denied") & unnamed)
    uid = f.substring_index(record["smuid"], "/", -1)
    born = f.conv(f.substring(uid, 1, 12), 16, 10).cast("long") * 1000
    sound = record["smuid"].rlike(schema.SMUID_PATTERN)
    return f.when(of_no_message, record["time_us"]).when(sound, born)


def problem(latest: Column, servers: tuple[str, ...]) -> Column:
    """The first of `REASONS` that holds, null for a sound record."""
    record = f.col("record")
    needed = [record[name] for name in ("version", "server", "boot", "record", "time_us", "event")]
    absent = needed[0].isNull()
    for column in needed[1:]:
        absent = absent | column.isNull()
    a_name = f.length(record["server"]).between(1, schema.NAME_CHARS_MAX)
    short = (
        a_name
        & (f.coalesce(f.length(record["peer"]), f.lit(0)) <= schema.NAME_CHARS_MAX)
        & (f.coalesce(f.length(record["topic"]), f.lit(0)) <= schema.NAME_CHARS_MAX)
        & (f.coalesce(f.length(record["subscription"]), f.lit(0)) <= schema.NAME_CHARS_MAX)
        & (f.coalesce(f.length(record["pattern"]), f.lit(0)) <= schema.NAME_CHARS_MAX)
        & ~f.coalesce(f.contains(record["pattern"], f.lit(" ")), f.lit(False))
        & (f.coalesce(f.size(record["hops"]), f.lit(0)) <= schema.HOPS_MAX)
        & _are_names(record["hops"])
        & _are_names(record["destinations"])
    )
    counted = (
        (f.coalesce(record["size"], f.lit(0)) <= schema.SIZE_MAX)
        & _in_bounds(record, t.LongType(), schema.LONG_MAX)
        & _in_bounds(record, t.IntegerType(), schema.INT_MAX)
    )
    worded = f.coalesce(record["mode"], f.lit("ALL")).isin("ONE", "ALL") & f.coalesce(
        record["outcome"], f.lit("")
    ).isin("", *schema.OUTCOMES)
    linked = record["event"].isin("received", "forwarded", "duplicate", "loop", "depth")
    peer = f.coalesce(record["peer"], f.lit(""))
    placed = ~linked | ((peer != "") & (peer != record["server"]))
    # a message is published at the site that its Smuid names
    placed &= (record["event"] != "published") | (
        f.substring_index(record["smuid"], "/", 1) == record["server"]
    )
    born = f.col("birth_us").isNotNull()
    sound = record["event"].isin(*schema.EVENTS) & worded & short & counted & placed & born
    timely = record["time_us"].between(f.lit(schema.EARLIEST_US), latest) & f.col("birth_us").between(
        f.lit(schema.EARLIEST_US), latest
    )
    found = (
        f.when(record.isNull() & (f.octet_length("value") > LINE_BYTES_MAX), "line too long")
        .when(record.isNull() | record[_CORRUPT].isNotNull(), "not a record")
        .when(absent, "missing field")
        .when(record["version"] > schema.VERSIONS_READ[1], "newer version")
        .when((record["version"] < schema.VERSIONS_READ[0]) | ~f.coalesce(sound, f.lit(False)), "wrong value")
        .when(~timely, "time out of range")
    )
    if servers:
        found = found.when(~record["server"].isin(*servers), "other server")
    return found


def _in_bounds(record: Column, kind: t.DataType, most: int) -> Column:
    """Whether the numbers of a kind are ones that a `HopRecord` may hold."""
    names = {field.name for field in schema.RECORD.fields if field.dataType == kind}
    from_minus_one = [record[name] for name in sorted(names.intersection(schema.FROM_MINUS_ONE))]
    from_zero = [record[name] for name in sorted(names.difference(schema.FROM_MINUS_ONE))]
    return (
        (f.greatest(*from_zero, *from_minus_one, f.lit(0)) <= most)
        & (f.least(*from_zero, f.lit(0)) >= 0)
        & (f.least(*from_minus_one, f.lit(0)) >= -1)
    )


def _are_names(names: Column) -> Column:
    """Whether there is neither a null in an array nor an empty or too long name: where there is a null, Spark
    answers null to what an array contains.
    """
    named = f.coalesce(~f.array_contains(names, f.lit("")), names.isNull())
    # nearly always all of them together are as short as one may be, which takes no function for each
    joined = f.array_join(f.coalesce(names, f.array().cast("array<string>")), "")
    each = f.forall(names, lambda name: f.length(name) <= schema.NAME_CHARS_MAX)
    return named & ((f.length(joined) <= schema.NAME_CHARS_MAX) | each)


def records(lines: DataFrame) -> DataFrame:
    """The sound records of `checked` lines: the fields of `schema.RECORD` with their defaults filled in, plus
    `birth_us` long and `day` date (UTC day of birth).
    """
    record = f.col("record")
    blank = {"due", "hops", "destinations"}
    texts = {"mode": "ALL"}
    columns = []
    for field in schema.RECORD.fields:
        column = record[field.name]
        if field.name == "guarantee":
            column = f.coalesce(column, f.lit(True))
        elif isinstance(field.dataType, t.StringType):
            column = f.coalesce(column, f.lit(texts.get(field.name, "")))
        elif isinstance(field.dataType, t.BooleanType):
            column = f.coalesce(column, f.lit(False))
        elif field.name not in blank:
            column = f.coalesce(column, f.lit(0).cast(field.dataType))
        columns.append(column.alias(field.name))
    day = f.timestamp_micros("birth_us").cast("date").alias("day")
    return lines.where(f.col("problem").isNull()).select(*columns, "birth_us", day)


def unseen(records: DataFrame, held: DataFrame) -> DataFrame:
    """The ones of `records` that `held` has not, by server, number and `content`.

    A number alone tells no record: a server that was installed anew gives it again.
    """
    identity = ["server", "record"]
    before = held.select(*identity, content().alias("content"))
    return (
        records.withColumn("content", content())
        .join(before, [*identity, "content"], "left_anti")
        .select(*records.columns)
    )


def content() -> Column:
    """What tells two records from each other that one server has given the same number."""
    return f.xxhash64("boot", "time_us", "event", "smuid")


def aside(lines: DataFrame) -> DataFrame:
    """The lines that are no records: `schema.ASIDE`.

    Bytes that are no UTF-8 are replaced in `line`: what reads Parquet may refuse a whole file for them.
    """
    line = f.make_valid_utf8(f.coalesce(f.col("value"), f.lit("")))
    return lines.where(f.col("problem").isNotNull()).select(
        "file",
        f.col("problem").alias("reason"),
        f.substring(f.coalesce(f.col("record.server"), f.lit("")), 1, schema.NAME_CHARS_MAX).alias("server"),
        f.substring(line, 1, SHOWN_CHARS).alias("line"),
    )
