"""States of the disk after a loss of power, made from recordings, judged by daemons that start with them."""

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec

from tests.power import messages, operating
from tests.power.disk import write_tree
from tests.power.recorder import memory
from tests.power.recording import BEGIN, Recording
from tests.power.sites import chance_of

JUDGES: dict[str, Callable[..., list[str]]] = {
    "messages": messages.judge_state,
    "operating": operating.judge_state,
}


class State(msgspec.Struct, frozen=True):
    """One state.

    Attributes:
        number: of the recording; the same number is the same state.
        position: how many events had happened.
        mark: the last one that had been left.
    """

    number: int
    position: int
    mark: int


class Judged(msgspec.Struct, frozen=True):
    """What came of a state; `losses` says what was lost where."""

    workload: str
    seed: int
    number: int
    losses: str
    violations: list[str]
    seconds: float


def draw_states(recording: Recording, numbers: Iterable[int]) -> list[State]:
    """The states with these numbers, by position: half of them right after something was told."""
    marks = [
        (position, event.offset) for position, event in enumerate(recording.events, 1) if event.kind == "mark"
    ]
    first = marks[0][0]
    out = []
    for number in numbers:
        chance = chance_of("position", recording.seed, number)
        position = (
            chance.choice(marks)[0] if chance.random() < 0.5 else chance.randint(first, len(recording.events))
        )
        out.append(State(number, position, max((m for p, m in marks if p <= position), default=BEGIN)))
    return sorted(out, key=lambda state: state.position)


def judge_states(recording: Recording, numbers: Iterable[int], keep: Path | None = None) -> Iterator[Judged]:
    """Make and judge states, in the order of their positions. `keep`: where the disks of bad ones go."""
    logging.disable(logging.CRITICAL)
    disk, at = recording.disk, 0
    for state in draw_states(recording, numbers):
        disk.apply(event for event in recording.events[at : state.position] if event.kind != "mark")
        at = state.position
        began = time.monotonic()
        chance = chance_of("state", recording.seed, state.number)
        with tempfile.TemporaryDirectory(prefix="smqpd-state-", dir=memory()) as directory:
            cuts = {path: disk.cut(disk.root / path, chance) for path in _machines(recording)}
            write_tree(disk.now(disk.root), Path(directory) / "disk")
            for path, cut in cuts.items():
                cut.write(Path(directory) / "disk" / path)
            if keep is not None:
                shutil.copytree(Path(directory) / "disk", keep / f"{state.number}", dirs_exist_ok=True)
            violations = JUDGES[recording.workload](
                Path(directory) / "disk", recording, recording.note(state.mark), cuts
            )
            if keep is not None and not violations:
                shutil.rmtree(keep / f"{state.number}")
        losses = "; ".join(f"{path or 'all'}: {cut.loss}" for path, cut in cuts.items())
        seconds = round(time.monotonic() - began, 2)
        yield Judged(recording.workload, recording.seed, state.number, losses, violations, seconds)


def _machines(recording: Recording) -> list[str]:
    """What loses its power, each in its own way."""
    if recording.workload == "operating":
        return [""]
    return [f"{name}/state" for name in messages.scenario_of(recording.seed).sites]


def judge_all(recording: Recording, numbers: range, jobs: int, keep: Path | None = None) -> Iterator[Judged]:
    """States of a recording, by so many processes: each advances its own disk, and logs nothing."""
    chunks = [numbers[first::jobs] for first in range(jobs)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for found in pool.map(_listed, [recording] * jobs, chunks, [keep] * jobs):
            yield from found


def _listed(recording: Recording, numbers: range, keep: Path | None) -> list[Judged]:
    return list(judge_states(recording, numbers, keep))
