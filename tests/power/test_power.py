"""A few states of the disk after a loss of power; `python -m tests.power` makes as many as are wanted."""

from pathlib import Path

import pytest

from tests.power.recorder import can_record
from tests.power.recording import record
from tests.power.states import judge_all
from tests.support.required import may_skip

pytestmark = [
    pytest.mark.kill,
    pytest.mark.skipif(may_skip("gcc", can_record()), reason="gcc is not installed"),
]


@pytest.mark.parametrize(("workload", "states"), [("messages", 30), ("operating", 20)])
def test_daemons_keep_their_promises_when_the_power_goes(tmp_path: Path, workload: str, states: int) -> None:
    found = list(judge_all(record(workload, 1, tmp_path), range(states), jobs=1))
    assert len(found) == states
    assert [one for one in found if one.violations] == []
