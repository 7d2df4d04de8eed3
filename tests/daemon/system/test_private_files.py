"""Files that are replaced whole, also in directories that somebody else may write to."""

import os
from pathlib import Path

import pytest

from daemon.system import private_files


def test_a_file_that_is_replaced_keeps_its_mode_as_far_as_that_is_private(tmp_path: Path) -> None:
    path = tmp_path / "accounts.toml"
    for mode, kept in ((0o640, 0o640), (0o666, 0o640), (0o600, 0o600)):
        path.write_text("before")
        path.chmod(mode)
        private_files.replace(path, b"after")
        assert (path.read_text(), path.stat().st_mode & 0o777) == ("after", kept)
    assert os.listdir(tmp_path) == ["accounts.toml"]


def test_who_may_write_to_the_directory_has_no_other_file_given_or_opened_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root changes the accounts of a site whose user puts a link in the place of the new file."""
    other, directory = tmp_path / "other", tmp_path / "of the site"
    other.write_text("of root")
    other.chmod(0o604)
    directory.mkdir()
    path = directory / "accounts.toml"
    path.write_text("before")
    sync = os.fsync

    def sync_and_act(descriptor: int) -> None:
        sync(descriptor)
        for new in directory.glob(".*.new"):
            new.unlink()
            new.symlink_to(other)

    monkeypatch.setattr(os, "fsync", sync_and_act)
    private_files.replace(path, b"after")
    assert other.stat().st_mode & 0o777 == 0o604
    assert other.read_text() == "of root"
