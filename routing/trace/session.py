"""The Spark session of one command: local unless a master is given or spark-submit has set one.

What is small is done by a machine that has just started: to compile its queries would take ten times longer
than to run them as they are. Local sizes: half of the memory for the one JVM, at least four shuffle
partitions for each core so that a core that is slow does not hold up the rest. Everything is on the loopback
address, without Spark's web server.
"""

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark import SparkConf, SparkContext, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from routing.trace import java

HEAP_BYTES_MIN: Final = 1 << 30
HEAP_BYTES_MAX: Final = 24 << 30
"""Above 32 GB a JVM's references double in size; the jobs gain nothing there."""

LINE_BYTES_READ_MAX: Final = 1 << 26
"""A longer line is passed over: what reads it for Spark would not say how much of it there is in memory."""

SHUFFLE_PARTITIONS_MIN: Final = 8

SMALL_BYTES_MAX: Final = 8 << 20
"""Of logs or tables: some 30,000 records."""

SMALL_HEAP_BYTES: Final = 1 << 30

PACKED_TIMES: Final = 12
"""By so much are lines larger than the Parquet or the packed file of them, about."""

MESSAGES_NESTED_AT_ONCE: Final = 20_000
"""Routes that one task gathers in memory before it sorts what follows; Spark's own number is 128."""

SMALL: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.default.parallelism": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.maxSinglePartitionBytes": "9223372036854775807b",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "100",
}
"""To plan takes longer than to run: nothing is looked for that pays only with many rows, no plan is checked
again after each rule or printed for a page that is not served, and each step is one task. All rows are in one
part, so that none are exchanged or broadcast, each of which is a job or a stage, be they as many as Spark
guesses that a join of joins may give."""

_GENERATES: Final = "spark.sql.codegen.factoryMode"

QUICK_JAVA: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
)
"""For a JVM that lives for a minute. Told to compile lightly it has place for a fifth of the code that it has
otherwise, and from the second minute on it would throw away code to compile it again; and it would look for
garbage each time that the place for classes grows."""

EXPRESSION_CLASSES: Final = (
    "functions",
    "org.apache.spark.sql.functions",
    "PythonUtils",
    "PythonSQLUtils",
)
"""By these names PySpark asks for the classes of which it makes expressions."""

THROUGHPUT_JAVA: Final = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
"""A job has no pauses to fear, and this collector takes the least processor time. Of the checks of a
line Spark makes one method, of a size that a JVM would interpret for ever."""


def open_session(
    master: str | None = None,
    partitions: int | None = None,
    heap_bytes: int | None = None,
    java_options: str = "",
    *,
    small: bool = False,
) -> SparkSession:
    """A session for these jobs; `master` None means all cores of this machine, whose JVM gets `java_options`.

    `small`: for no more than about `SMALL_BYTES_MAX`. Under spark-submit the submitter's settings win. Raises
    `java.NoJava`.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName("smqpd trace")
    local = not submitted and (master is None or master.startswith("local"))
    kept = ""
    if not submitted:
        cache, stays = cache_directory()
        home = java.choose(dict(os.environ), cache)
        os.environ["JAVA_HOME"] = str(java.wrapped(home, cache))
        is_stated = not local or bool(os.environ.get("SPARK_HOME"))
        if not is_stated and (lean := java.lean_home(Path(pyspark.__file__).parent, cache)) is not None:
            os.environ["SPARK_HOME"] = str(lean)
        library = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
        kept = java.kept_classes(home, cache, library) if stays and library.is_dir() else ""
        builder = builder.master(master or "local[*]")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not the python3 in PATH
        heap = heap_bytes or min(max(memory_bytes() // 2, HEAP_BYTES_MIN), HEAP_BYTES_MAX)
        heap = min(heap, SMALL_HEAP_BYTES) if small else heap
        java_options = java_options or f"{QUICK_JAVA if small else THROUGHPUT_JAVA} {kept}"
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        builder = (
            builder.config("spark.driver.memory", f"{heap >> 20}m")
            .config("spark.driver.extraJavaOptions", f"{java_options} -Dlog4j2.configurationFile={quiet}")
            # Checksums find disks and networks that lie to a cluster; here a file is read as it was written.
            .config("spark.shuffle.checksum.enabled", "false")
            .config("spark.sql.shuffle.orderIndependentChecksum.enabled", "false")
            # What is kept between two steps is read once or twice: to pack it takes longer than to write it.
            .config("spark.sql.inMemoryColumnarStorage.compressed", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.warehouse.dir", str(Path(tempfile.gettempdir()) / "smqpd-trace-warehouse"))
        )
    cores = os.cpu_count() or 1
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Where in Python each expression was written: for people at a notebook, at a call for each.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(partitions or max(SHUFFLE_PARTITIONS_MIN, 4 * cores)),
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(MESSAGES_NESTED_AT_ONCE),
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.hadoop.mapreduce.input.linerecordreader.line.maxlength": str(LINE_BYTES_READ_MAX),
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.parquet.enable.summary-metadata": "false",
    }
    if local and small:
        settings |= SMALL
    if submitted:
        SparkContext._ensure_initialized()
        stated = SparkConf()
        settings = {name: value for name, value in settings.items() if not stated.contains(name)}
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _resolve_once(session)
    return session


def cache_directory() -> tuple[Path, bool]:
    """Where what a job makes ready for later ones lies; one for this job and False where there is none."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    cache = (Path(stated) if os.path.isabs(stated) else Path.home() / ".cache") / "smqpd"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        if os.access(cache, os.W_OK | os.X_OK):
            return cache, True
    except OSError:
        pass  # a home that is not there, or nobody may write to
    own = tempfile.mkdtemp(prefix="smqpd-trace-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own), False


def kept(frame: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER) -> DataFrame:
    """`frame`, worked out once for all that reads it, when the first does; `unpersist` lets it go.

    A small session keeps the rows as they are, whatever the `level`, and until nothing refers to them any
    more: to read columns back it would compile a reader for each choice of them, and look in each plan for
    those that are kept. On a cluster they would be gone with the executor that keeps them.
    """
    if is_for_small(frame.sparkSession):
        return frame.localCheckpoint(eager=False)
    return frame.persist(level)


def together(frame: DataFrame) -> DataFrame:
    """`frame`, which reads files, in a small session as one part: what follows does not move its rows."""
    return frame.coalesce(1) if is_for_small(frame.sparkSession) else frame


def broadcast(frame: DataFrame) -> DataFrame:
    """`frame`, of few rows, is sent whole to each part of what it is joined with.

    Not in a small session, which has one part: to gather what is sent would be a job.
    """
    return frame if is_for_small(frame.sparkSession) else f.broadcast(frame)


def spread(frame: DataFrame, by: str) -> DataFrame:
    """`frame`, all rows with the same `by` in the same part; in a small session all rows are in one."""
    return frame if is_for_small(frame.sparkSession) else frame.repartition(by)


def is_for_small(session: SparkSession) -> bool:
    """Whether it was opened as `small`: all rows are in one part, and it keeps what it will read again."""
    local = str(session.sparkContext.master).startswith("local")
    return local and session.conf.get(_GENERATES) == SMALL[_GENERATES]


class _JavaClass:
    """A class of the JVM of which each member is looked for once, and not at each call."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        setattr(self, name, member)
        return member


def _resolve_once(session: SparkSession) -> None:
    """For each column that is named the JVM would look through its jars, and through all functions."""
    machine: Any = session.sparkContext._jvm
    for name in EXPRESSION_CLASSES:
        if name not in vars(machine):
            setattr(machine, name, _JavaClass(getattr(machine, name)))


def is_small(*paths: str) -> bool:
    """Whether all that lies below these paths is known to be small; what is on no local disk is not known."""
    total = 0
    for path in paths:
        if "://" in path:
            return False
        files = [path] if os.path.isfile(path) else _below(path)
        for file in files:
            with contextlib.suppress(OSError):
                total += os.path.getsize(file) * (1 if file.endswith(".jsonl") else PACKED_TIMES)
            if total > SMALL_BYTES_MAX:
                return False
    return True


def _below(path: str) -> Iterator[str]:
    return (os.path.join(directory, name) for directory, _, names in os.walk(path) for name in names)


def memory_bytes() -> int:
    """What this machine has, or what its control group allows."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    try:
        text = limit.read_text().strip()
    except OSError:
        return total
    return min(total, int(text)) if text.isdigit() else total
