"""A file with two accounts, and those who read it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from daemon.accounts.accounts import Accounts
from daemon.accounts.passwords import verify_password
from tests.support.logins import HASH, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "accounts.toml"
    write(
        path,
        f"""# who is who
[accounts.ann]
password = "{HASH}"  # since May
[accounts.ann.rights]
publish = ["orders.#"]

[accounts.old]
password = "{HASH}"
disabled = true
""",
    )
    return path


@pytest.fixture
def accounts(file: Path) -> Accounts:
    return Accounts(file, "a.example")


@pytest.fixture(autouse=True)
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verifications take no time: a thread's would take as much of the clock's as there is to jump over."""

    async def run_sync(verify: Callable[[str, str], bool], password: str, phc: str) -> bool:
        await trio.lowlevel.checkpoint()
        return verify(password, phc)

    monkeypatch.setattr("daemon.accounts.verifying.trio.to_thread.run_sync", run_sync)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that were verified the slow way."""
    passwords: list[str] = []

    def verify(password: str, phc: str) -> bool:
        passwords.append(password)
        return verify_password(password, phc)

    monkeypatch.setattr("daemon.accounts.verifying.verify_password", verify)
    return passwords
