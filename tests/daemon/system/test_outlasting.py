"""Memory that outlasts the process where no service manager keeps any."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.system.outlasting import UNUSED_S, OutlastingMemory
from tests.support.stomp_site import ROOT

Named = Callable[[Path], tuple[OutlastingMemory, Path]]

WRITE_AND_BE_KILLED = """
import os, sys
from pathlib import Path
from daemon.system.outlasting import OutlastingMemory

OutlastingMemory.named(Path(sys.argv[1])).append(b"first")
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def named() -> Iterator[Named]:
    """Gives the memory of an owner, and its file; neither is left behind."""
    made: list[tuple[OutlastingMemory, Path]] = []

    def give(owner: Path) -> tuple[OutlastingMemory, Path]:
        memory = OutlastingMemory.named(owner)
        assert memory is not None
        made.append((memory, Path(os.readlink(f"/proc/self/fd/{memory.descriptor}"))))
        return made[-1]

    yield give
    for memory, path in made:
        path.unlink(missing_ok=True)
        os.close(memory.descriptor)


def test_the_next_process_finds_what_a_killed_one_wrote(tmp_path: Path, named: Named) -> None:
    subprocess.run([sys.executable, "-c", WRITE_AND_BE_KILLED, str(tmp_path)], cwd=ROOT, check=False)
    memory, path = named(tmp_path)
    assert memory.read() == [b"first"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_each_owner_has_its_own(tmp_path: Path, named: Named) -> None:
    one, other = named(tmp_path / "one")[0], named(tmp_path / "other")[0]
    one.append(b"of one")
    assert (one.read(), other.read()) == ([b"of one"], [])


def test_two_processes_never_share_it(tmp_path: Path, named: Named) -> None:
    named(tmp_path)
    assert OutlastingMemory.named(tmp_path) is None


def test_what_others_may_read_or_point_elsewhere_is_not_used(tmp_path: Path, named: Named) -> None:
    memory, path = named(tmp_path)
    os.dup2(2, memory.descriptor)  # as if its process had ended
    path.chmod(0o640)
    assert OutlastingMemory.named(tmp_path) is None
    path.unlink()
    (tmp_path / "elsewhere").touch(0o600)
    path.symlink_to(tmp_path / "elsewhere")
    assert OutlastingMemory.named(tmp_path) is None


def test_a_directory_on_a_disk_is_not_used(tmp_path: Path) -> None:
    assert OutlastingMemory.named(tmp_path, tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_what_nobody_used_for_long_goes_when_another_site_starts(tmp_path: Path, named: Named) -> None:
    old, in_use, recent = (named(tmp_path / name) for name in ("old", "in use", "recent"))
    for memory, path in (old, in_use):
        os.utime(path, (0, path.stat().st_mtime - UNUSED_S - 1))
        if memory is old[0]:
            os.dup2(2, memory.descriptor)
    named(tmp_path / "another")
    assert [path.exists() for _, path in (old, in_use, recent)] == [False, True, True]


def test_full_memory_takes_no_more() -> None:
    full = OutlastingMemory(os.open("/dev/full", os.O_RDWR))
    assert not full.append(b"first")
    os.close(full.descriptor)
