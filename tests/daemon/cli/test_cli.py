"""The command line, as an operator and a script meet it."""

import errno
import json
import os
import re
import shlex
import shutil
import signal
import stat
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from rich import markup

from daemon.accounts.accounts_file import read_accounts
from daemon.accounts.passwords import verify_password
from daemon.cli import ping
from daemon.cli.command_tree import build_app
from daemon.configuration.config import load
from daemon.configuration.discovery import installed_plugins
from daemon.site import directory as site_directory
from routing.rights import EVERYTHING, Rights
from tests.support.cli import Shell
from tests.support.made_site import made_site


@pytest.fixture(autouse=True)
def _of_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SMQPD_CONFIG", raising=False)


@pytest.fixture
def smqpd(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = made_site(tmp_path / "site", "a.example", 7720).config
    monkeypatch.setenv("SMQPD_CONFIG", str(config))
    return config.parent


@pytest.fixture
def begun(smqpd: Shell, tmp_path: Path) -> Path:
    """A site that `init` has made."""
    assert smqpd("init", tmp_path / "begun", "--server-name", "a.example", "--port", "7720") == 0
    return tmp_path / "begun"


def accounts(site: Path) -> dict[str, Rights]:
    return {name: account.rights for name, account in read_accounts(site / "accounts.toml").items()}


def test_the_version(smqpd: Shell) -> None:
    assert smqpd("--version") == 0
    assert smqpd.out.startswith("smqpd ")


def test_wrong_usage_is_exit_code_2(smqpd: Shell) -> None:
    assert smqpd("no-such-command") == 2
    assert smqpd.err == "smqpd: No such command 'no-such-command'; see `smqpd --help`\n"
    assert smqpd("account", "add") == 2
    assert smqpd.err == "smqpd: Missing argument 'NAME'; see `smqpd account add --help`\n"
    assert smqpd("init", "x", "--port", "70000") == 2
    assert smqpd.err.startswith("smqpd: Invalid value for '--port': ")
    for longer_than_any_wait in (("ping", "a.example", "--interval", "1e10"), ("top", "--every", "inf")):
        assert smqpd(*longer_than_any_wait) == 2
        assert "Input should be less than or equal to 86400" in smqpd.err
    assert smqpd("account") == 2
    assert "passwd" in smqpd.out + smqpd.err


@pytest.mark.parametrize("command", [("run",), ("config", "check"), ("account", "list")])
def test_who_is_not_in_a_site_is_told_how_to_get_one(
    smqpd: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert smqpd(*command) == 1
    assert "there is no smqpd.toml; " in smqpd.err
    assert "`smqpd init DIR`" in smqpd.err


# -- init -----------------------------------------------------------------------------------------


def test_init_makes_a_site_and_shows_the_password_once(begun: Path, smqpd: Shell) -> None:
    login = tomllib.loads((begun / "keys" / "admin.toml").read_text())
    assert login["server"] == "127.0.0.1:7720"
    assert login["account"] == "admin"
    assert f"password  {login['password']}\n" in smqpd.out
    admin = read_accounts(begun / "accounts.toml")["admin"]
    assert verify_password(login["password"], admin.password)
    assert admin.rights == EVERYTHING
    settings = load(begun / "smqpd.toml", installed_plugins())
    assert settings.site.server_name == "a.example"
    assert settings.tls.key == begun / "keys" / "tls.key"


def test_what_it_says_to_type_can_be_typed_whatever_the_directory_is_called(
    tmp_path: Path, smqpd: Shell
) -> None:
    site = tmp_path / "my site; it's"
    assert smqpd("init", site, "--server-name", "a.example") == 0
    command = smqpd.out.splitlines()[-1].partition(":  ")[2]
    assert shlex.split(command) == ["smqpd", "run", "--config", str(site / "smqpd.toml")]


def test_init_keeps_secrets_private(begun: Path) -> None:
    for name in ("accounts.toml", "keys/admin.toml", "keys/tls.key"):
        assert stat.S_IMODE((begun / name).stat().st_mode) == 0o600
    for name in (".", "keys", "state"):
        assert stat.S_IMODE((begun / name).stat().st_mode) == 0o700


def test_init_overwrites_nothing(site: Path, smqpd: Shell) -> None:
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    assert smqpd("init", site) == 1
    assert smqpd.err.startswith("smqpd: ")
    assert "exists already; choose another directory" in smqpd.err
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


def test_init_makes_a_site_where_the_keys_of_its_links_are_already(smqpd: Shell, tmp_path: Path) -> None:
    assert smqpd("cert", "ca", tmp_path / "ca") == 0
    assert smqpd("cert", "issue", "a.example", "--ca", tmp_path / "ca", "--out", tmp_path / "s" / "keys") == 0
    issued = (tmp_path / "s" / "keys" / "site.key").read_bytes()
    assert smqpd("init", tmp_path / "s", "--server-name", "a.example") == 0
    assert (tmp_path / "s" / "keys" / "site.key").read_bytes() == issued
    assert smqpd("config", "check", tmp_path / "s") == 0
    assert smqpd("init", tmp_path / "s") == 1
    assert "exists already" in smqpd.err


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_init_has_begun_is_removed_when_it_is_interrupted(
    smqpd: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, exit_code: int
) -> None:
    (tmp_path / "a").mkdir()
    with monkeypatch.context() as interrupting:
        interrupt = lambda host: os.kill(os.getpid(), number)  # noqa: E731 # half of it is done by then
        interrupting.setattr(site_directory, "make_self_signed", interrupt)
        assert smqpd("init", tmp_path / "a/b/c") == exit_code
    assert list((tmp_path / "a").iterdir()) == []
    assert smqpd("init", tmp_path / "a/b/c") == 0


def test_an_init_that_fails_leaves_what_was_there_and_nothing_else(smqpd: Shell, tmp_path: Path) -> None:
    (tmp_path / "s" / "keys").mkdir(parents=True)
    (tmp_path / "s" / "keys" / "site.key").write_text("secret")
    (tmp_path / "s" / "smqpd.id").mkdir()  # the last file that is written
    assert smqpd("init", tmp_path / "s") == 1
    assert "cannot make a site" in smqpd.err
    assert sorted(path.name for path in (tmp_path / "s").rglob("*")) == ["keys", "site.key", "smqpd.id"]


def test_an_interrupted_ping_says_what_it_has_found_and_that_it_was_interrupted(
    site: Path, smqpd: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    answered = ping.PingResult(number=1, round_trip_s=0.001, hops=("a.example",))
    monkeypatch.setattr(ping, "_probe", lambda *_: answered)
    monkeypatch.setattr("time.sleep", interrupt)
    assert smqpd("ping", "a.example") == 130
    assert "1 sent, 1 answered" in smqpd.out


def test_nothing_of_the_help_is_taken_for_markup() -> None:
    helps = list(_helps(typer.main.get_command(build_app()), "smqpd"))
    assert len(helps) > 200
    assert [(where, text) for where, text in helps if markup.render(text).plain != text] == []


def _helps(command: Any, where: str) -> Iterator[tuple[str, str]]:
    yield where, command.help or ""
    for parameter in command.params:
        yield f"{where} {parameter.name}", getattr(parameter, "help", None) or ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from _helps(inner, f"{where} {name}")


def test_help_names_values_as_people_do_and_flags_without(smqpd: Shell) -> None:
    for words in _commands(typer.main.get_command(build_app())):
        assert smqpd(*words, "--help") == 0
        types = re.findall(r"<[a-z%][^>]*>", smqpd.out)
        assert (words, types) == (words, [])
    assert smqpd("account", "rights", "-h") == 0
    assert "-h" in smqpd.out


def _commands(command: Any) -> Iterator[list[str]]:
    """The words of each, at any depth."""
    yield []
    for name, one in getattr(command, "commands", {}).items():
        yield from ([name, *words] for words in _commands(one))


def test_init_refuses_a_name_that_is_none(smqpd: Shell, tmp_path: Path) -> None:
    assert smqpd("init", tmp_path / "s", "--server-name", "a b") == 2
    assert "is not a server name" in smqpd.err
    assert smqpd("init", tmp_path / "s", "--server-name", 191 * "a") == 2
    assert "of at most 190 characters" in smqpd.err
    assert not (tmp_path / "s").exists()


def test_init_without_a_port_says_which_it_chose(smqpd: Shell, tmp_path: Path) -> None:
    assert smqpd("init", tmp_path / "s") == 0
    port = 720 if os.geteuid() == 0 else 7720
    assert f"listens on 127.0.0.1:{port} only" in smqpd.out
    assert ("needs root or a socket unit" in smqpd.out) == (port == 7720)


# -- account --------------------------------------------------------------------------------------


def test_an_account_is_added_with_rights_and_a_password_from_stdin(site: Path, smqpd: Shell) -> None:
    added = smqpd("account", "add", "ann", "--publish", "a.#", "--publish", "b", stdin="secret\n")
    assert added == 0
    assert accounts(site)["ann"] == Rights(publish=("a.#", "b"))
    assert verify_password("secret", read_accounts(site / "accounts.toml")["ann"].password)
    assert "secret" not in smqpd.out + smqpd.err


def test_a_password_from_stdin_is_utf_8_in_every_locale(site: Path, smqpd: Shell) -> None:
    assert smqpd("account", "add", "ann", stdin="\udcff\udcfeabc\n") == 1
    assert smqpd.err.startswith("smqpd: no password can be read from standard input: 'utf-8' codec")
    assert smqpd("account", "add", "ann", stdin="pässword\n") == 0
    assert verify_password("pässword", read_accounts(site / "accounts.toml")["ann"].password)


def test_a_password_comes_from_a_file_or_is_made(site: Path, smqpd: Shell, tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("from a file\n")
    assert smqpd("account", "add", "ann", "--password-file", tmp_path / "pw") == 0
    assert verify_password("from a file", read_accounts(site / "accounts.toml")["ann"].password)
    assert smqpd("account", "passwd", "ann", "--generate") == 0
    password = smqpd.out.removeprefix("Password: ").splitlines()[0]
    assert verify_password(password, read_accounts(site / "accounts.toml")["ann"].password)


def test_the_login_for_commands_on_this_machine_has_the_password_of_its_account(
    site: Path, smqpd: Shell
) -> None:
    login = site / "keys" / "admin.toml"
    before = tomllib.loads(login.read_text())
    assert smqpd("account", "passwd", "admin", stdin="another one\n") == 0
    assert "keys/admin.toml has the password" in smqpd.out
    assert tomllib.loads(login.read_text()) == before | {"password": "another one"}
    assert login.stat().st_mode & 0o777 == 0o600
    login.unlink()
    smqpd("account", "add", "ann", "--generate")
    assert smqpd("account", "passwd", "ann", stdin="secret\n") == 0
    assert not login.exists()
    assert "admin.toml" not in smqpd.out
    config = site / "smqpd.toml"
    config.write_text(config.read_text().replace("127.0.0.1:", "[::]:"))
    assert smqpd("account", "passwd", "admin", stdin="made anew\n") == 0
    there = before["server"].replace("127.0.0.1", "[::1]")
    assert tomllib.loads(login.read_text()) == before | {"server": there, "password": "made anew"}
    login.write_text(login.read_text().replace('"admin"', '"ann"'))
    assert smqpd("account", "passwd", "admin", stdin="of somebody else\n") == 0
    assert "of somebody else" not in login.read_text()


def test_an_administrator_who_is_removed_and_added_anew_can_log_in(site: Path, smqpd: Shell) -> None:
    login = site / "keys" / "admin.toml"
    for words in (["disable", "admin"], ["remove", "admin", "--yes"]):
        assert smqpd("account", *words) == 0
        assert "with --site cannot log in now: keys/admin.toml is for admin." in smqpd.out
    assert smqpd("account", "add", "ann", stdin="of another\n") == 0
    assert "admin.toml" not in smqpd.out
    assert smqpd("account", "remove", "ann", "--yes") == 0
    assert "admin.toml" not in smqpd.out
    assert smqpd("account", "add", "admin", "--operate", "change", stdin="anew\n") == 0
    assert "keys/admin.toml has the password" in smqpd.out
    assert tomllib.loads(login.read_text())["password"] == "anew"


@pytest.mark.parametrize(
    "words", [["add", "ann", "--generate"], ["passwd", "admin", "--generate"], ["token", "add", "admin", "t"]]
)
def test_what_was_not_written_is_not_shown(
    site: Path, smqpd: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "rename", refuse)
    for as_json in ([], ["--json"]):
        assert smqpd("account", *words, *as_json) == 1
        assert smqpd.out == ""
        assert "cannot be changed: Read-only file system" in smqpd.err


@pytest.mark.parametrize("words", [["add", "ann", "--generate"], ["passwd", "admin", "--generate"]])
def test_a_password_that_was_written_is_shown_although_the_site_does_not_take_it_on(
    site: Path, smqpd: Shell, words: list[str]
) -> None:
    shutil.rmtree(site / "state")  # whether the site runs is not known
    for as_json in ([], ["--json"]):
        if "add" in words:
            smqpd("account", "remove", "ann", "--yes")
        assert smqpd("account", *words, *as_json) == 3
        made = json.loads(smqpd.out)["password"] if as_json else smqpd.out.split()[1]
        assert verify_password(made, read_accounts(site / "accounts.toml")[words[1]].password)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    ("words", "again"),
    [
        (["add", "ann", "--generate"], "`smqpd account passwd ann --generate` makes another"),
        (["passwd", "admin", "--generate"], "`smqpd account passwd admin --generate` makes another"),
        (
            ["token", "add", "admin", "t"],
            "revoke it with `smqpd account token revoke admin t`, and add another",
        ),
    ],
    ids=["add", "passwd", "token"],
)
def test_what_was_made_and_cannot_be_shown_is_written_as_a_whole_and_told(
    site: Path,
    smqpd: Shell,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    again: str,
    form: list[str],
) -> None:
    before = read_accounts(site / "accounts.toml")
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert smqpd("account", *words, *form) == 1
    made = "token" if "token" in words else "password"
    assert "The site does not run; this holds from its next start." in smqpd.err
    why = "standard output cannot be written: No space left on device"
    assert f"But the {made} was not shown, as {why}; {again}" in smqpd.err
    written = read_accounts(site / "accounts.toml")
    assert written != before
    login = tomllib.loads((site / "keys" / "admin.toml").read_text())
    assert verify_password(login["password"], written["admin"].password)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    ("code", "said"),
    [(141, "holds from its next start. But the"), (3, "it on, is not known;.* and the")],
    ids=["site-is-known", "site-is-not-known"],
)
def test_a_password_that_nobody_reads_on_is_told_as_not_shown(
    site: Path, smqpd: Shell, monkeypatch: pytest.MonkeyPatch, form: list[str], code: int, said: str
) -> None:
    if code == 3:
        shutil.rmtree(site / "state")
    left, closed = os.pipe()
    os.close(left)
    with os.fdopen(closed, "w") as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe)
        assert smqpd("account", "add", "ann", "--generate", *form) == code
    why = "standard output cannot be written: Broken pipe"
    assert re.search(f"{said} password was not shown, as {why}", smqpd.err)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["add", "admin"], 1, "there is an account admin already"),
        (["add", "a:b"], 2, "an account name is"),
        (["add", "smqpd"], 2, "and not `smqpd`"),  # receipts come from it
        (["add", "ann", "--publish", "a b"], 2, "is not a topic pattern"),
        (["add", "ann", "--password-file", "/nowhere"], 1, "--password-file cannot be read: /nowhere: "),
        (["add", "ann", "--password-file", "/dev/null"], 2, "a password has 1 to 1024 bytes"),
        (["add", "ann", "--generate", "--password-file", "-"], 2, "not both"),
        (["disable", "admn"], 1, "there is no account admn; did you mean admin?"),
        (["passwd", "nobody"], 1, "there is no account nobody"),
        (["rights", "admim"], 1, "did you mean admin?"),
        (["list", "--config", "/nowhere"], 1, "there is no /nowhere; "),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    site: Path, smqpd: Shell, arguments: list[str], code: int, text: str
) -> None:
    before = (site / "accounts.toml").read_text()
    assert smqpd("account", *arguments, stdin="secret\n") == code
    assert smqpd.err.startswith("smqpd: ")
    assert text in smqpd.err
    assert smqpd.err.count("\n") == 1
    assert (site / "accounts.toml").read_text() == before


def test_a_site_is_named_by_its_directory_too(site: Path, smqpd: Shell) -> None:
    for arguments in (["account", "list", "--site", site], ["config", "show", "-c", site]):
        assert smqpd(*arguments) == 0
        assert "admin" in smqpd.out or "a.example" in smqpd.out


def test_where_the_site_does_not_run_a_change_says_from_when_it_holds_and_what_keeps_a_start(
    site: Path, smqpd: Shell
) -> None:
    (site / "peers.toml").write_text("no TOML")
    assert smqpd("account", "disable", "admin") == 0
    assert smqpd.out.startswith("Disabled admin. The site does not run; this holds from its next start. ")
    assert smqpd.err.startswith(f"smqpd: warning: the next start would be refused: {site / 'peers.toml'}: ")
    assert read_accounts(site / "accounts.toml")["admin"].disabled


def test_accounts_are_disabled_and_enabled(site: Path, smqpd: Shell) -> None:
    assert smqpd("account", "disable", "admin") == 0
    assert read_accounts(site / "accounts.toml")["admin"].disabled
    assert smqpd("account", "enable", "admin") == 0
    assert not read_accounts(site / "accounts.toml")["admin"].disabled


def test_an_account_may_look_at_the_site_or_change_it(site: Path, smqpd: Shell) -> None:
    assert smqpd("account", "add", "ann", "--operate", "look", "--generate") == 0
    assert accounts(site)["ann"] == Rights(operate="look")
    assert smqpd("account", "rights", "ann", "--operate", "change", "--publish", "a") == 0
    assert "operate    change" in smqpd.out
    assert smqpd("account", "rights", "ann", "--operate", "nothing") == 0
    assert accounts(site)["ann"] == Rights(publish=("a",))
    assert smqpd("account", "rights", "ann", "--operate", "everything") == 2


def test_rights_are_replaced_one_by_one_or_all(site: Path, smqpd: Shell) -> None:
    assert smqpd("account", "rights", "admin", "--publish", "a", "--publish", "b") == 0
    assert smqpd.out.splitlines() == [
        "publish    a b",
        "subscribe  #",
        "remove     #",
        "administer #",
        "operate    change",
    ]
    assert smqpd("account", "rights", "admin", "--clear", "--subscribe", "c", "--json") == 0
    assert json.loads(smqpd.out) == {
        "publish": [],
        "subscribe": ["c"],
        "remove": [],
        "administer": [],
        "operate": "",
    }
    assert accounts(site)["admin"] == Rights(subscribe=("c",))


def test_the_list_is_for_people_and_for_programs(site: Path, smqpd: Shell) -> None:
    assert smqpd("account", "list") == 0
    assert "admin" in smqpd.out
    assert smqpd("account", "list", "--json") == 0
    (row,) = json.loads(smqpd.out)
    assert row["name"] == "admin"
    assert row["disabled"] is False
    assert row["rights"]["publish"] == ["#"]
    assert "argon2id" not in smqpd.out


# -- config ---------------------------------------------------------------------------------------


def test_a_good_configuration_is_said_to_be_good(site: Path, smqpd: Shell) -> None:
    assert smqpd("config", "check", site / "smqpd.toml") == 0
    assert "is good: site a.example, accounts: 1, front ends: " in smqpd.out


@pytest.mark.parametrize(
    ("name", "text"),
    [("smqpd.toml", "[sit]"), ("accounts.toml", "[acounts]"), ("keys/tls.crt", ""), ("peers.toml", "[peer]")],
)
def test_a_bad_file_of_a_configuration_is_named(site: Path, smqpd: Shell, name: str, text: str) -> None:
    (site / name).write_text(text)
    assert smqpd("config", "check", site / "smqpd.toml") == 1
    assert smqpd.err.startswith(f"smqpd: {site / name}: ")


def test_what_is_in_effect_is_shown_and_reads_back(site: Path, smqpd: Shell) -> None:
    assert smqpd("config", "show") == 0
    shown = tomllib.loads(smqpd.out)
    assert smqpd("config", "show", "--json") == 0
    assert json.loads(smqpd.out)["queues"] == shown["queues"]
    assert shown["site"]["state_directory"] == str(site / "state")


def test_the_defaults_are_shown_without_a_site(smqpd: Shell) -> None:
    assert smqpd("config", "show", "--defaults") == 0
    assert "# max_deliveries = 16\n" in smqpd.out
    assert smqpd("config", "show", "--defaults", "--json") == 2
