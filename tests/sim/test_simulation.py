"""A few seeds of the simulation; `python -m tests.sim` runs as many as are wanted."""

import subprocess
import sys

from tests.sim.drawing import FAULTS_MIN, draw
from tests.sim.simulation import simulate
from tests.support.examples import examples
from tests.support.patience import PATIENCE_S
from tests.support.process import ROOT

SEEDS = examples(12)
SITES_MAX = 6
REPLAYED = 6  # it has every kind of fault, and few sites


def test_a_federation_keeps_its_promises_whatever_goes_wrong() -> None:
    """In a process of its own, whose writes are recorded: a loss of power takes what was not synced."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--seeds", str(SEEDS), "--sites-max", str(SITES_MAX)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_process_that_is_killed_while_it_stores_something_is_gone() -> None:
    """In seed 50009 a broker that had something to store went on after its process for ever."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--seed", "50009"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_is_the_same_run_again_byte_for_byte() -> None:
    first, second = (simulate(REPLAYED, sites_max=SITES_MAX) for _ in range(2))
    assert first.trace == second.trace
    assert first.digest == second.digest
    assert simulate(REPLAYED - 1, sites_max=SITES_MAX).digest != first.digest


def test_every_seed_has_its_faults() -> None:
    assert min(len(draw(seed).faults) for seed in range(100)) >= FAULTS_MIN
