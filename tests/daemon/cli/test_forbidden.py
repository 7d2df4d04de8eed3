"""Commands of a user that may not see the site: they say who may, and how."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.cli.as_daemon import as_user, user_name
from daemon.cli.command_tree import tree
from daemon.configuration.discovery import Installed
from daemon.site.directory import make_site
from daemon.terminal.failure import FAILED, UNREACHABLE
from tests.support.cli import Shell
from tests.support.required import needs_root

OWNER, STRANGER = 1, 65_534


COMMANDS = (
    "status",
    "reload",
    "topics",
    "why alpha.example/1",
    "config check",
    "account list",
    "hops check",
    "ping beta.example",
    "pub work one",
)


@pytest.fixture
def smqpd(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Shell:
    return Shell(monkeypatch, capsys)


@pytest.fixture
def site() -> Iterator[Path]:
    """One of `OWNER`, in a directory that others may enter, unlike that of a test."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        site = Path(directory) / "site"
        make_site(site, "alpha.example", 7720, Installed({}, {}))
        for path in (site, *site.rglob("*")):
            os.chown(path, OWNER, OWNER)
        yield site


@needs_root
@pytest.mark.parametrize("command", COMMANDS)
def test_who_may_not_see_a_site_is_told_who_may(site: Path, smqpd: Shell, command: str) -> None:
    site.chmod(0o700)
    words = (*command.split(), "--site", site)
    smqpd(*words)  # root may read the libraries
    with as_user(STRANGER):
        assert smqpd(*words) == FAILED
    assert (
        f"only its user and root may ask this site: `runuser -u {user_name(OWNER)} -- smqpd ...`" in smqpd.err
    )
    assert smqpd.err.startswith(f"smqpd: {site}")
    assert smqpd.err.count("\n") == 1


@needs_root
@pytest.mark.parametrize("command", ["status", "topics", "ping beta.example"])
def test_so_is_who_may_read_the_configuration_and_not_the_state(
    site: Path, smqpd: Shell, command: str
) -> None:
    site.chmod(0o755)
    (site / "smqpd.toml").chmod(0o644)
    words = (*command.split(), "--site", site)
    assert smqpd(*words) == UNREACHABLE
    with as_user(STRANGER):
        assert smqpd(*words) == FAILED
    assert smqpd.err.startswith(
        f"smqpd: {site / 'state'} is not this user's to use; only its user and root may"
    )


@needs_root
def test_a_check_of_a_site_that_cannot_be_seen_does_not_say_that_it_is_down(site: Path, smqpd: Shell) -> None:
    site.chmod(0o700)
    smqpd("check", "site", "--site", site)
    with as_user(STRANGER):
        assert smqpd("check", "site", "--site", site) == 3
    assert smqpd.out.startswith("SMQPD UNKNOWN - ")
    assert "only its user and root may ask this site" in smqpd.out


@needs_root
def test_nor_is_a_certificate_bad_whose_key_this_user_may_not_see(site: Path, smqpd: Shell) -> None:
    site.chmod(0o755)
    (site / "smqpd.toml").chmod(0o644)
    smqpd("check", "certificates", "--site", site)
    with as_user(STRANGER):
        assert smqpd("check", "certificates", "--site", site) == 3
    assert smqpd.out.startswith(f"SMQPD UNKNOWN - {site / 'keys'}")
    assert "only its user and root may ask this site" in smqpd.out
    with as_user(OWNER):
        (site / "keys").chmod(0)
        assert smqpd("check", "certificates", "--site", site) == 2


@needs_root
def test_what_is_roots_is_for_root_alone(site: Path, smqpd: Shell) -> None:
    os.chown(site, 0, 0)
    site.chmod(0o700)
    smqpd("status", "--site", site)
    with as_user(STRANGER):
        assert smqpd("status", "--site", site) == FAILED
    assert smqpd.err.endswith(" is root's, and this user may not use it; only root may ask this site\n")


def test_environment_variables_are_named_as_people_write_them() -> None:
    status = tree("status").commands["status"]
    hints = [option.get_error_hint() for option in status.params]
    assert "'--config' / '-c' / '--site' / '-s' (env var: 'SMQPD_SITE' / 'SMQPD_CONFIG')" in hints
