"""A few seeds of the simulation; `python -m tests.sim` runs as many as are wanted."""

import pytest

from tests.sim.scenario import FAULTS_MIN, draw
from tests.sim.simulation import simulate

SEEDS = range(12)
REPLAYED = 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_federation_keeps_its_promises_whatever_goes_wrong(seed: int) -> None:
    assert simulate(seed, sites_max=6).violations == []


def test_a_seed_is_the_same_run_again_byte_for_byte() -> None:
    first, second = simulate(REPLAYED, sites_max=6), simulate(REPLAYED, sites_max=6)
    assert first.trace == second.trace
    assert first.digest == second.digest
    assert simulate(REPLAYED + 1, sites_max=6).digest != first.digest


def test_every_seed_has_its_faults() -> None:
    assert min(len(draw(seed).faults) for seed in range(100)) >= FAULTS_MIN
