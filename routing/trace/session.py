"""The Spark session of one command: local unless a master is given or spark-submit has set one.

Local sizes: half of the memory for the one JVM, at least four shuffle partitions for each core so that a core
that is slow does not hold up the rest. Everything is on the loopback address, without Spark's web server.
"""

import os
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from routing.trace import java

HEAP_BYTES_MIN: Final = 1 << 30
HEAP_BYTES_MAX: Final = 24 << 30
"""Above 32 GB a JVM's references double in size; the jobs gain nothing there."""

LINE_BYTES_READ_MAX: Final = 1 << 20
"""Of a longer line only this much is read: enough to see that it is no record."""

SHUFFLE_PARTITIONS_MIN: Final = 8

MESSAGES_NESTED_AT_ONCE: Final = 20_000
"""Routes that one task gathers in memory before it sorts what follows; Spark's own number is 128."""

THROUGHPUT_JAVA: Final = "-XX:+UseParallelGC"
"""A job has no pauses to fear, and this collector takes the least processor time."""


def open_session(
    master: str | None = None,
    partitions: int | None = None,
    heap_bytes: int | None = None,
    java_options: str = THROUGHPUT_JAVA,
) -> SparkSession:
    """A session for these jobs; `master` None means all cores of this machine, whose JVM gets `java_options`.

    Under spark-submit the submitter's settings win. Raises `java.NoJava`.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName("smqpd trace")
    local = not submitted and (master is None or master.startswith("local"))
    if not submitted:
        cache = Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "smqpd"
        os.environ["JAVA_HOME"] = str(java.choose(dict(os.environ), cache))
        builder = builder.master(master or "local[*]")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        heap = heap_bytes or min(max(memory_bytes() // 2, HEAP_BYTES_MIN), HEAP_BYTES_MAX)
        builder = (
            builder.config("spark.driver.memory", f"{heap >> 20}m")
            .config("spark.driver.extraJavaOptions", java_options)
            # Checksums find disks and networks that lie to a cluster; here a file is read as it was written.
            .config("spark.shuffle.checksum.enabled", "false")
            .config("spark.sql.shuffle.orderIndependentChecksum.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.warehouse.dir", str(Path(tempfile.gettempdir()) / "smqpd-trace-warehouse"))
        )
    cores = os.cpu_count() or 1
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
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
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def memory_bytes() -> int:
    """What this machine has, or what its control group allows."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    try:
        text = limit.read_text().strip()
    except OSError:
        return total
    return min(total, int(text)) if text.isdigit() else total


def partitions_for(input_bytes: int, cores: int | None = None) -> int:
    """Shuffle partitions for logs of this size: four a core, and about one for each 128 MB beyond."""
    cores = cores or os.cpu_count() or 1
    return max(SHUFFLE_PARTITIONS_MIN, 4 * cores, input_bytes // (128 << 20))
