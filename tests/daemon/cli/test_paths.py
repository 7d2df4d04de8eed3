"""Paths that commands are given, and cannot use: one line that names the path and says why."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from daemon.certificates.authority import Authority
from daemon.configuration.discovery import Installed
from daemon.site.directory import make_site
from daemon.terminal.failure import FAILED, USAGE
from tests.support.cli import Shell
from tests.support.command_line import CommandLine

TAKE_A_PATH = (
    "status --site PATH",
    "topics --config PATH",
    "top --json --count 1 --site PATH",
    "config check PATH",
    "config show --site PATH",
    "account list --site PATH",
    "peer list --site PATH",
    "hops check --site PATH",
    "quarantine list --site PATH",
    "run --config PATH",
    "init PATH --server-name beta.example",
    "init PATH --accept-state",
    "backup PATH --site HERE/site",
    "backup HERE/copy --site PATH",
    "restore PATH HERE/restored",
    "cert ca PATH",
    "cert issue beta.example --ca PATH",
    "cert issue beta.example --ca HERE/ca --out PATH",
    "cert request beta.example --keys PATH",
    "cert sign PATH --ca HERE/ca",
    "cert renew beta.example --ca PATH",
    "cert revoke beta.example --ca PATH",
    "cert show PATH",
    "account add ada --password-file PATH --site HERE/site",
    "pub work one --site PATH",
    "pub work one --server 127.0.0.1:1 --account ada --password-file PATH",
    "pub work one --server 127.0.0.1:1 --account ada --password-file HERE/site/smqpd.toml --ca PATH",
    "sub work --site PATH",
)
NO_PATHS = {"too long": "x" * 300, "below a file": "HERE/site/smqpd.toml/x", "a loop": "HERE/loop"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a site, an authority and a link to itself."""
    here = tmp_path_factory.mktemp("here")
    make_site(here / "site", "alpha.example", 7720, Installed({}, {}))
    Authority.create(here / "ca", "federation", 365, datetime.now(UTC))
    (here / "loop").symlink_to("loop")
    return here


@pytest.fixture
def smqpd(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Shell:
    return Shell(monkeypatch, capsys)


@pytest.mark.parametrize("path", NO_PATHS.values(), ids=NO_PATHS)
@pytest.mark.parametrize("command", TAKE_A_PATH)
def test_a_path_that_cannot_be_used_is_told_in_one_line(
    command: str, path: str, here: Path, smqpd: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    named = path.replace("HERE", str(here))
    words = (word.replace("PATH", named).replace("HERE", str(here)) for word in command.split())
    assert smqpd(*words) in (FAILED, USAGE)
    assert smqpd.err.startswith("smqpd: ")
    assert smqpd.err.count("\n") == 1
    assert "[Errno" not in smqpd.err
    assert smqpd.out == ""
    assert named.removesuffix("/x") in smqpd.err


TAKE_A_TEXT = (
    "topics TEXT",
    "topic show TEXT",
    "topics --sort TEXT",
    "why TEXT",
    "routes TEXT",
    "ping TEXT",
    "dead replay TEXT --all",
    "quarantine drop TEXT",
    "sessions --account TEXT",
    "account add TEXT --generate",
    "account add ada --generate --publish one --publish TEXT",
    "account test TEXT publish work",
    "init HERE/new --server-name TEXT",
    "peer add TEXT 127.0.0.1:1",
    "peer add beta.example TEXT",
    "cert issue TEXT",
    "trace run TEXT --out HERE/trace",
    "pub TEXT one",
    "pub work one --name TEXT",
    "pub work one --server TEXT",
    "sub one TEXT",
    "sub one --channel TEXT",
    "bench --topic TEXT",
)


@pytest.mark.parametrize("command", TAKE_A_TEXT)
def test_a_text_that_is_not_utf_8_is_wrong_usage(
    command: str, here: Path, smqpd: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMQPD_SITE", str(here / "site"))
    words = (word.replace("TEXT", "b\udce9d").replace("HERE", str(here)) for word in command.split())
    assert smqpd(*words) == USAGE
    assert "'b\\udce9d' is not text in UTF-8" in smqpd.err
    assert smqpd.err.count("\n") == 1


async def test_a_path_of_any_bytes_is_printed_as_it_was_given(tmp_path: Path) -> None:
    smqpd = CommandLine(tmp_path, PYTHONIOENCODING="utf-8:strict", PYTHONUTF8="1")
    path = os.fsencode(tmp_path) + b"/b\xe9d"
    made = await smqpd("init", os.fsdecode(path), "--server-name", "alpha.example")
    assert (made.exit_code, made.error) == (0, "")
    assert path in made.out
    for words in (("config", "show"), ("config", "check"), ("backup", f"{tmp_path}/\udce9.tgz")):
        printed = await smqpd(*words, "--site", os.fsdecode(path), "--json")
        assert (printed.exit_code, printed.error) == (0, ""), words
        assert b"\\udce9" in printed.out


def test_a_password_file_that_is_no_text_is_told_in_one_line(smqpd: Shell, tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"\xff\xfe\n")
    words = ("pub", "work", "one", "--server", "127.0.0.1:1", "--account", "ada")
    assert smqpd(*words, "--password-file", tmp_path / "password") == USAGE
    assert smqpd.err == f"smqpd: {tmp_path / 'password'} cannot be read: it is not text in UTF-8\n"


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", "9" * 5_000])
def test_a_port_that_cannot_be_is_wrong_usage(port: str, smqpd: Shell, here: Path) -> None:
    for words in (
        ("init", "new", "--server-name", "beta.example", "--port", port),
        ("pub", "work", "one", "--server", f"127.0.0.1:{port}", "--account", "ada"),
        ("peer", "add", "beta.example", f"127.0.0.1:{port}", "--site", here / "site"),
    ):
        assert smqpd(*words) == USAGE, words
        assert smqpd.err.startswith("smqpd: ")
        assert smqpd.err.count("\n") == 1
