"""What may be left of files when the power goes, from what a process wrote and synced."""

import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.power.disk import Cut, Disk, File, Loss, Tree
from tests.power.recorder import Event, can_record, preloaded, read
from tests.support.process import ROOT
from tests.support.required import may_skip

pytestmark = pytest.mark.skipif(may_skip("gcc", can_record()), reason="gcc is not installed")

LOSSES: tuple[Loss, ...] = ("nothing kept", "all kept", "in order", "one lost", "one kept", "at random")


class Recorded:
    """A process that has changed files below a directory: `disk` is as it was before."""

    def __init__(self, directory: Path, code: str) -> None:
        self.root = directory / "root"
        record = directory / "record"
        self.disk = Disk(self.root)
        environment = {**preloaded(self.root, record), "PYTHONPATH": str(ROOT)}
        code = f"from pathlib import Path\nroot = Path({str(self.root)!r})\n" + textwrap.dedent(code)
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=self.root)
        self.events = list(read(record.read_bytes()))

    def now(self) -> Tree:
        """All of it has happened: what is there."""
        self.disk.apply(self.events)
        return self.disk.now(self.root)

    def cuts(self, events: list[Event]) -> Iterator[Cut]:
        """Many ways in which the power may go after these events, and no others."""
        self.disk.apply(events)
        for loss in LOSSES:
            for seed in range(4):
                yield self.disk.cut(self.root, random.Random(seed), loss)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


def test_what_is_recorded_is_what_is_there(tmp_path: Path, root: Path) -> None:
    (root / "kept").write_bytes(b"before")
    run = Recorded(
        tmp_path,
        """
        import os, shutil, sqlite3
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "b" / "text").write_text("one " * 1000)
        with (root / "a" / "b" / "text").open("r+b") as file:
            file.seek(100)
            file.write(b"two")
            file.truncate(600)
        with (root / "kept").open("ab") as file:
            file.write(b", after")
        os.link(root / "kept", root / "linked")
        shutil.copyfile(root / "kept", root / "copied")
        (root / "copied").rename(root / "a" / "moved")
        os.chdir(root / "a")
        Path("relative").write_bytes(b"x")
        os.unlink("relative")
        with sqlite3.connect(root / "db") as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE t (a)")
            db.executemany("INSERT INTO t VALUES (?)", [("x" * 3000,)] * 100)
        db.close()
        """,
    )
    run.disk.apply(run.events)
    there = {
        path.relative_to(root).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
    }
    assert run.disk.now(root) == there


def test_what_was_not_synced_may_be_gone_also_in_part_and_what_was_is_there(
    tmp_path: Path, root: Path
) -> None:
    run = Recorded(
        tmp_path,
        """
        import os
        with (root / "file").open("wb") as file:
            file.write(b"s" * 1024)
            file.flush()
            os.fsync(file.fileno())
            os.fsync(os.open(root, os.O_RDONLY))
            file.write(b"n" * 4096)
        """,
    )
    found = {cut.tree["file"] for cut in run.cuts(run.events)}
    assert all(content is not None and content.startswith(b"s" * 1024) for content in found)
    assert {b"s" * 1024, b"s" * 1024 + b"n" * 4096} < found
    assert any(content is not None and b"\0" in content for content in found)


def test_a_name_is_there_for_certain_only_once_its_directory_was_synced(tmp_path: Path, root: Path) -> None:
    run = Recorded(
        tmp_path,
        """
        import os
        file = os.open(root / "file", os.O_WRONLY | os.O_CREAT)
        os.fsync(file)
        """,
    )
    assert {"file" in cut.tree for cut in run.cuts(run.events)} == {True, False}


def test_sectors_are_lost_one_by_one() -> None:
    file = File(b"-" * 1536)
    file.pending.append((1, 256, b"x" * 1024))
    kept = file.after(lambda change, sector: sector == 1, grows=False)
    assert kept == b"-" * 512 + b"x" * 512 + b"-" * 512


REPLACE = """
from daemon.system.private_files import replace
replace(root / "file", b"new" * 1000)
"""


def test_a_file_that_is_replaced_is_the_old_one_or_the_new_one_and_the_new_one_in_the_end(
    tmp_path: Path, root: Path
) -> None:
    (root / "file").write_bytes(b"old")
    run = Recorded(tmp_path, REPLACE)
    found = set()
    for event in run.events:
        found |= {cut.tree["file"] for cut in run.cuts([event])}
    assert found == {b"old", b"new" * 1000}
    assert {cut.tree["file"] for cut in run.cuts([])} == {b"new" * 1000}


def test_a_new_file_is_whole_once_it_is_written(tmp_path: Path, root: Path) -> None:
    run = Recorded(
        tmp_path,
        """
        from daemon.system.private_files import sync_directory, write_new
        write_new(root / "file", b"new" * 1000)
        sync_directory(root)
        """,
    )
    assert {cut.tree["file"] for cut in run.cuts(run.events)} == {b"new" * 1000}


def test_directories_that_are_made_are_there_with_those_above_them(tmp_path: Path, root: Path) -> None:
    run = Recorded(
        tmp_path,
        """
        from daemon.system.private_files import make_directory
        make_directory(root / "a" / "b" / "c")
        """,
    )
    assert all(cut.tree.keys() == {"a", "a/b", "a/b/c"} for cut in run.cuts(run.events))


def test_a_closed_file_of_a_hop_log_is_there_and_whole(tmp_path: Path, root: Path) -> None:
    run = Recorded(
        tmp_path,
        """
        from daemon.hops.writer import HopLog
        from daemon.settings import HopSettings
        for boot, last in ((1, 0), (2, 100), (3, 200)):
            log = HopLog.open(
                root / "state" / "hops", server="a", boot=boot, committed_record=last, settings=HopSettings()
            )
            for number in range(100):
                log.append("heartbeat", held=number)
            log.flush()  # and the process is killed, but for the last: the next one closes the file
        log.settle(log.flush())
        log.close()
        """,
    )
    closed = {path: text for path, text in run.now().items() if path.endswith(".jsonl")}
    assert len(closed) == 3
    for cut in run.cuts([]):
        assert closed.items() <= cut.tree.items()
