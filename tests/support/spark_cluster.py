"""A Spark standalone cluster on this machine, each master and worker a process of its own."""

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from routing.trace import java
from routing.trace.session import QUICK_JAVA, SMALL, cache_directory

SETTINGS = SMALL | {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
"""For a small log of which two workers are to have a part each."""


@dataclass
class Cluster:
    """Its processes keep files of their own below `directory`; applications are in `directory`/work.

    `java_options`: of each of its JVMs.
    """

    directory: Path
    home: Path
    environment: dict[str, str]
    master: str
    java_options: str

    def submitting(self, *arguments: str | Path) -> list[str]:
        """The command line that submits the packaged jobs with these arguments, to run in `environment`."""
        from routing.trace import package

        script, archive = package.build(self.directory / "package")
        return [
            *(str(self.home / "bin" / "spark-submit"), "--master", self.master, "--py-files", str(archive)),
            *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=700m"),
            *("--conf", "spark.executor.cores=1", "--driver-java-options", self.java_options),
            *("--conf", f"spark.executor.extraJavaOptions={self.java_options}"),
            *(word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")),
            *(str(script), *map(str, arguments)),
        ]


@contextmanager
def spark_cluster(directory: Path, workers: int) -> Iterator[Cluster]:
    """A master with so many workers of one core each. Raises `java.NoJava`."""
    import pyspark

    cache, _ = cache_directory()
    chosen = java.choose(dict(os.environ), cache)
    java_home = java.wrapped(chosen, cache)
    whole = Path(pyspark.__file__).parent
    home = java.lean_home(whole, cache) or whole
    java_options = f"{QUICK_JAVA} {_kept_classes(chosen, cache, home / 'jars')}".rstrip()
    log4j = directory / "log4j2.properties"
    log4j.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.e.ref = e\nappender.e.type = Console\n"
        "appender.e.name = e\nappender.e.target = SYSTEM_ERR\nappender.e.layout.type = PatternLayout\n"
        "appender.e.layout.pattern = %m%n\n"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))
    } | {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(directory / "work"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": f"{java_options} -Dlog4j2.configurationFile={log4j}",
    }
    with ExitStack() as processes:

        def started(until: str, *arguments: str) -> str:
            return processes.enter_context(_spark_class(home, environment, until, *arguments))

        said = started(
            "Starting Spark master at",
            *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
            *("--port", "0", "--webui-port", "0"),
        )
        master = said.split()[-1]
        for _ in range(workers):
            started(
                "Successfully registered with master",
                *("org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g"),
                *("--host", "127.0.0.1", "--webui-port", "0", master),
            )
        yield Cluster(directory, home, environment, master, java_options)


def _kept_classes(java_home: Path, cache: Path, library: Path) -> str:
    """Options to take the classes that a local session left; where none did, they are loaded one by one."""
    options = java.kept_classes(java_home, cache, library)
    return options if "SharedArchiveFile=" in options or "AOTCache=" in options else ""


@contextmanager
def _spark_class(home: Path, environment: dict[str, str], until: str, *arguments: str) -> Iterator[str]:
    """One process of the cluster; gives the line of its log that says `until`."""
    with subprocess.Popen(
        [str(home / "bin" / "spark-class"), *arguments], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr
        # what nobody reads would hold it up in the end
        reading = threading.Thread(target=lambda: deque(said, 0))
        try:
            line = next(line for line in said if until in line)
            reading.start()
            yield line
        finally:
            process.terminate()
            if reading.is_alive():
                reading.join()
