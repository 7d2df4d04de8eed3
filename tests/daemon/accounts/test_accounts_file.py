"""The file of the accounts: edited, and refused where it is bad."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account, NoSuchAccountError, read_accounts
from daemon.accounts.tokens import Token
from daemon.configuration.config import FILE_BYTES_MAX
from daemon.settings import ConfigError
from routing.quotas import OwnQuotas
from routing.rights import Rights
from tests.support.logins import HASH, write


def test_editing_keeps_comments_and_privacy(file: Path) -> None:
    file.chmod(0o640)
    with edit(file) as editor:
        editor.add("b.b+c", Account(password=HASH))
        editor.set_rights("ann", Rights(subscribe=("*.new", "#")))
        editor.set_password("old", HASH)
    accounts = read_accounts(file)
    assert accounts["ann"].rights == Rights(subscribe=("*.new", "#"))
    assert "b.b+c" in accounts
    assert file.read_text().startswith("# who is who\n")
    assert "# since May" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["accounts.toml"]


def test_an_edit_leaves_the_topics_of_others_as_they_are_whatever_the_locale_is(file: Path) -> None:
    with edit(file) as editor:
        editor.set_rights("old", Rights(publish=("météo.#",)))
    edits = f"from daemon.accounts.accounts_editor import edit\nwith edit(Path({str(file)!r})) as editor:\n"
    subprocess.run(
        [sys.executable, "-c", f"from pathlib import Path\n{edits}    editor.set_disabled('ann', True)"],
        env=os.environ | {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        check=True,
    )
    accounts = read_accounts(file)
    assert (accounts["ann"].disabled, accounts["old"].rights.publish) == (True, ("météo.#",))


PASSWORD = f'password = "{HASH}"'
OLD = f"hash = '{'1' * 64}', created = 2030-01-31T12:00:00Z"
TOKEN = Token(hash="0" * 64, created=datetime(2030, 1, 31, tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    [
        f"[accounts]\nann = {{{PASSWORD}, rights = {{publish = ['a']}}}}",
        f"accounts = {{ann = {{{PASSWORD}}}, old = {{{PASSWORD}}}}}",
        f"[accounts]\nann.{PASSWORD}\nann.rights.publish = ['a']\nold.{PASSWORD}",
        f"accounts.ann.{PASSWORD}\naccounts.ann.rights.publish = ['a']\naccounts.old.{PASSWORD}",
        f"[accounts.ann]\n{PASSWORD}\ntokens.a = {{{OLD}}}",
        f"[accounts.ann]\n{PASSWORD}\ntokens = {{a = {{{OLD}}}}}",
    ],
    ids=["inline", "all inline", "dotted", "all dotted", "dotted token", "inline tokens"],
)
def test_an_account_may_be_written_in_any_way_that_toml_has(tmp_path: Path, text: str) -> None:
    file = tmp_path / "accounts.toml"
    write(file, f"# who is who\n{text}\n")
    before = read_accounts(file)
    rights, quotas = Rights(publish=("b",)), OwnQuotas(held_messages_max=5)
    with edit(file) as editor:
        editor.set_token("ann", "grafana", TOKEN)
    with edit(file) as editor:
        editor.set_quotas("ann", quotas)
        editor.set_rights("ann", rights)
        editor.add("new", Account(password=HASH, rights=rights))
    tokens = before["ann"].tokens | {"grafana": TOKEN}
    ann = msgspec.structs.replace(before["ann"], rights=rights, quotas=quotas, tokens=tokens)
    assert read_accounts(file) == before | {"ann": ann, "new": Account(password=HASH, rights=rights)}
    assert file.read_text().startswith("# who is who\n")


def test_who_is_written_in_an_ordinary_way_keeps_comments_beside_who_is_not(file: Path) -> None:
    write(file, f"[accounts]\nfay.{PASSWORD}\n{file.read_text()}")
    with edit(file) as editor:
        editor.set_rights("fay", Rights(publish=("b",)))
    assert "# since May" in file.read_text()


def add_then_miss(file: Path) -> None:
    with edit(file) as editor:
        editor.add("new", Account(password=HASH))
        editor.set_disabled("anne", True)


def test_an_edit_that_fails_changes_nothing(file: Path) -> None:
    before = file.read_text()
    with pytest.raises(NoSuchAccountError, match=r"did you mean ann\?"):
        add_then_miss(file)
    with pytest.raises(FileExistsError), edit(file) as editor:
        editor.add("ann", Account(password=HASH))
    with pytest.raises(ConfigError, match="an account name is"), edit(file) as editor:
        editor.add("a:b", Account(password=HASH))
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[account.ann]", "did you mean accounts"),
        ("accounts = 1", "expected tables"),
        ("[accounts]\nann = 1", "expected a table"),
        ('[accounts."dead.ann"]', "not `smqpd` or `dead.`"),
        ("[accounts.smqpd]", "not `smqpd` or `dead.`"),
        ("[accounts.ann]", "password: is required"),
        ('[accounts.ann]\npassword = "secret"', "expected an Argon2id hash"),
        (
            f"[accounts.ann]\npassword = '$argon2id$v=19$m=15,t=1,p=2${'A' * 22}${'A' * 43}'",
            "accounts.ann.password: expected an Argon2id hash with m of 16 at least, as p is 2",
        ),
        (
            f'[accounts.ann]\npassword = "{HASH}"\nrights = {{publish = ["a b"]}}',
            "rights: 'a b' is not a topic pattern",
        ),
        (f'[accounts.ann]\npassword = "{HASH}"\nrights = {{write = ["a"]}}', "rights.write: unknown key"),
    ],
)
def test_a_bad_accounts_file_is_refused_by_key(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path / "a.toml", text)
    with pytest.raises(ConfigError) as caught:
        read_accounts(tmp_path / "a.toml")
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_accounts_file_that_others_can_read_is_refused(file: Path) -> None:
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"mode 0644.*chmod 600"):
        read_accounts(file)


def test_a_file_does_not_grow_beyond_what_is_read_of_it(file: Path) -> None:
    write(file, f"{file.read_text()}# {'x' * (FILE_BYTES_MAX - len(file.read_text()) - 10)}\n")
    before = read_accounts(file)
    with pytest.raises(ConfigError, match="is larger than"), edit(file) as editor:
        editor.add("fay", Account(password=HASH))
    assert read_accounts(file) == before
