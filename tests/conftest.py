"""For all tests: how they are shared out among processes, and which of them `tests/run --quick` leaves out.

Hypothesis has no time limit on its examples, which a busy machine would break at random. The profile
`unshrunk` is for who only wants to know whether a test fails.
"""

import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile("smqpd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "unshrunk", settings.get_profile("smqpd"), phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile("smqpd")

EXPENSIVE_FIXTURES = {"spark": "spark", "started_server": "server", "daemon": "server"}
"""Fixtures that live as long as the run, with the mark of the tests that ask for them: those tests share one
process, so that what is expensive is started once."""

SLOW = ("spark", "kill", "server")
"""Marks of what `--quick` leaves out. What takes longest begins first: no process works alone at the end."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        # a fixture of one test may have the name of one that lives as long as the run
        for name in fixtures & EXPENSIVE_FIXTURES.keys():
            definitions = item._fixtureinfo.name2fixturedefs[name]  # type: ignore[attr-defined]
            if definitions[-1].scope == "session":
                item.add_marker(EXPENSIVE_FIXTURES[name])
                item.add_marker(pytest.mark.xdist_group(name))
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, name in enumerate(SLOW) if item.get_closest_marker(name)), len(SLOW))
