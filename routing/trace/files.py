"""Closed log files as such: what their names claim, and whether they have been changed since.

A file's name says which records it holds, and its last line what the CRC-32 of all before is (`routing.hops.
Closing`). A compressed file has checks of its own, which fail when it is read; files of earlier versions have
none.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from routing.trace import schema, tables

LOG_NAMES: Final = "hops-*.{jsonl,jsonl.gz,jsonl.zst}"
PLAIN_NAMES: Final = "hops-*.jsonl"
PACKED_NAMES: Final = "hops-*.{jsonl.gz,jsonl.zst}"
COMPACTED_NAMES: Final = "*.parquet"

CHECKED_BYTES_MAX: Final = 256 << 20
"""A file is checked in the memory of one task; daemons close theirs at 64 MB unless told otherwise."""

CLOSING_BYTES_MAX: Final = 1_024

CLAIMS: Final = t.StructType(
    [
        t.StructField("spelled", t.StringType()),
        t.StructField("first_claimed", t.LongType()),
        t.StructField("last_claimed", t.LongType()),
    ]
)

_NAME: Final = re.compile(r"hops-([^/]+)-\d{1,19}-(\d{1,19})-(\d{1,19})\.jsonl[^/]*$", re.ASCII)


_PASSES_OVER: Final = "spark.sql.files.ignoreCorruptFiles"
_CANNOT_READ: Final = "[FAILED_READ_FILE"

_GLOB: Final = re.compile(r"([\[\]{}*?\\])")

Result = TypeVar("Result")

Claims = dict[str, tuple[int, int]]
"""By the server's name as in names of files (`spelled`): the first and the last record number claimed."""


def claimed(session: SparkSession, paths: Sequence[str]) -> Claims:
    """What the names of the files below `paths` claim."""
    found: Claims = {}
    for path in _reader(session, LOG_NAMES).load(list(paths)).inputFiles():
        name = _NAME.search(unquote(path))
        if name is not None:
            spelled, first, last = name.groups()
            claim(found, spelled, min(int(first), schema.LONG_MAX), min(int(last), schema.LONG_MAX))
    return found


def any_below(session: SparkSession, path: str) -> bool:
    """Whether there is a closed log, or a compaction of some, at or below a path."""
    return any(_reader(session, names).load([path]).inputFiles() for names in (LOG_NAMES, COMPACTED_NAMES))


def claim(claims: Claims, spelled: str, first: int, last: int) -> None:
    """Add what one file claims: from the first to the last record that any of its server's does."""
    before = claims.get(spelled, (first, last))
    claims[spelled] = (min(first, before[0]), max(last, before[1]))


def claims_frame(session: SparkSession, claims: Claims) -> DataFrame:
    """The table of claims, one row for each server: spelled, first_claimed, last_claimed."""
    return tables.few(session, [(name, *ends) for name, ends in sorted(claims.items())], CLAIMS)


def spelled(server: Column) -> Column:
    """A server's name as the names of its files have it."""
    return f.regexp_replace(server, "[^A-Za-z0-9.-]", "_")


def damaged(session: SparkSession, paths: Sequence[str]) -> list[str]:
    """The files below `paths` whose checksum is wrong, as `_metadata.file_path` names them.

    And those that cannot be read to their end, where they are passed over: see `reading`.
    """
    found = _reader(session, PLAIN_NAMES).load(list(paths))
    whole = found.where(f.col("length").between(1, CHECKED_BYTES_MAX))
    size = f.col("length").cast("int")
    tail_from = f.greatest(size - CLOSING_BYTES_MAX, f.lit(0))
    tail = f.decode(f.substring("content", tail_from + 1, f.lit(CLOSING_BYTES_MAX)), "ISO-8859-1")
    at = f.instr("tail", schema.CLOSING_BEGINS)
    stated = f.get_json_object(f.substring("tail", at, f.lit(CLOSING_BYTES_MAX)), "$.crc32").try_cast("long")
    before = f.substring("content", f.lit(1), tail_from + at - 1)
    unread = unreadable(session, paths) if session.conf.get(_PASSES_OVER) == "true" else []
    return unread + [
        row.path
        for row in whole.select(
            f.col("_metadata.file_path").alias("path"), "length", "content", tail.alias("tail")
        )
        .where((at > 0) & f.coalesce(f.crc32(before) != stated, f.lit(True)))
        .select("path")
        .collect()
    ]


def reading(session: SparkSession, work: Callable[[], Result]) -> Result:
    """What `work` makes of logs; where one of them cannot be read to its end, it is done again without that.

    What is torn, or has another checksum than what packed it has noted, ends a job of Spark. Then such
    files are read as far as they can be, and `damaged` names them, so that nothing in them is believed.
    """
    try:
        return work()
    except (PySparkException, Py4JJavaError) as error:
        if session.conf.get(_PASSES_OVER) == "true" or _CANNOT_READ not in str(error):
            raise
    session.conf.set(_PASSES_OVER, "true")
    try:
        return work()
    finally:
        session.conf.set(_PASSES_OVER, "false")


def unreadable(session: SparkSession, paths: Sequence[str]) -> list[str]:
    """The files below `paths` that cannot be read to their end. All are read, halves of them where one is."""
    found = []
    for names, kind in ((PACKED_NAMES, "text"), (COMPACTED_NAMES, "parquet")):
        below = _reader(session, names).load(list(paths)).select(f.col("_metadata.file_path").alias("path"))
        doubted = [[row.path for row in below.collect()]]
        while doubted:
            some = doubted.pop()
            if not some or _can_read(session, some, kind):
                continue
            if len(some) == 1:
                found += some
            else:
                half = len(some) // 2
                doubted += [some[:half], some[half:]]
    return found


def _can_read(session: SparkSession, some: Sequence[str], kind: str) -> bool:
    """Whether all of these files can be read to their end."""
    reader = session.read.option("ignoreCorruptFiles", False)
    if kind == "parquet":
        reader = reader.schema(schema.RECORD)
    lines = reader.format(kind).load([_GLOB.sub(r"\\\1", unquote(one)) for one in some])
    try:
        lines.write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JJavaError) as error:
        if _CANNOT_READ not in str(error):
            raise
        return False
    return True


def _reader(session: SparkSession, names: str) -> DataFrameReader:
    reader = session.read.format("binaryFile").option("recursiveFileLookup", True)
    return reader.option("pathGlobFilter", names)
