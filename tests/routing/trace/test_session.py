"""What a session of the jobs runs with."""

import sys
from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_the_workers_run_the_python_that_the_command_runs(spark: Any) -> None:
    # another version, as PATH may have it, ends a job; another environment lacks these modules
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).first() == sys.executable


def test_a_session_keeps_its_classes_for_the_next_one(spark: Any) -> None:
    machine = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    [kept] = [word for word in machine.getInputArguments() if "/smqpd/classes-" in word]
    assert kept.startswith(("-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="))
