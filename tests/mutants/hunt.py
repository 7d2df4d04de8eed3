"""Whether a mutation is noticed: applied in a copy of the source, tried until the first failure."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from tests.mutants.mutation import ROOT, Mutation, mutated
from tests.sim.scenario import ScenarioProfile

SEEDS: Final = 200
"""Of the simulation: one that does not notice in so many does not notice."""

PATIENCE_S: Final = 1_800.0
COPIED: Final = ("daemon", "routing", "plugins", "tests", "etc", "pyproject.toml", "README.md")
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_BROKEN: Final = re.compile(r"^violations in \d+ seeds: (\d+)", re.MULTILINE)


class Hunt(msgspec.Struct, frozen=True):
    """What came of one mutation.

    Attributes:
        by: the test that failed, or the seed that broke a promise; "" where nobody noticed.
        trouble: what kept a catcher from judging, with the end of its output; "" for nothing.
    """

    name: str
    by: str
    seconds: float
    trouble: str = ""


def hunt(mutation: Mutation, *, simulated: bool = False) -> Hunt:
    """Try what is to notice. Raises StaleError where the mutation does not apply.

    `simulated`: its seed, whatever tests there are.
    """
    text = mutated(mutation)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(
        prefix="smqpd-mutant-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
    ) as directory:
        tree = Path(directory)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, tree / name)
            else:
                shutil.copy2(ROOT / name, tree / name)
        file = tree / mutation.file
        file.write_text(text)
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()
        by, trouble = _tried(mutation, tree, () if simulated else mutation.tests)
    return Hunt(mutation.name, by, round(time.monotonic() - began, 1), trouble)


def _tried(mutation: Mutation, tree: Path, tests: tuple[str, ...]) -> tuple[str, str]:
    for test in tests:
        by, trouble = _pytest(tree, test)
        if by or trouble:
            return by, trouble
    if mutation.seed is not None:
        return _simulation(tree, mutation.seed, mutation.profile)
    return "", ""


def _pytest(tree: Path, test: str) -> tuple[str, str]:
    arguments = ["pytest", test, "-x", "-q", "--tb=line", "-p", "no:cacheprovider", "--timeout=60"]
    arguments += ["--hypothesis-profile=unshrunk", "--hypothesis-seed=0"]
    code, output = _run(tree, arguments)
    failed = _FAILED.search(output)
    if code == 1:
        return failed[1] if failed else f"{test} (no end)", ""
    return "", "" if code == 0 else f"pytest ended with {code}: {output[-1000:]}"


def _simulation(tree: Path, seed: int, profile: ScenarioProfile) -> tuple[str, str]:
    arguments = ["tests.sim", "--seeds", str(SEEDS), "--first-of-all", str(seed), "--stop"]
    code, output = _run(tree, [*arguments, "--profile", profile])
    broken = _BROKEN.search(output)
    if broken:
        return f"seed {broken[1]}", ""
    return "", "" if code == 0 else f"the simulation ended with {code}: {output[-1000:]}"


def _run(tree: Path, arguments: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end within {PATIENCE_S:g} s"
    return done.returncode, done.stdout
