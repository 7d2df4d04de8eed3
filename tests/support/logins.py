"""Logins that are refused, and a file of accounts."""

from pathlib import Path

import pytest
import trio
import trio.testing

from daemon.accounts.accounts import Accounts
from routing.errors import Refusal
from tests.support.passwords import cheap_hash

HASH = cheap_hash("right")
REMOTE = "192.0.2.1:4711"


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


async def refused(accounts: Accounts, account: str, password: str, remote: str = REMOTE) -> float:
    """The seconds that a refusal took."""
    began = trio.current_time()
    with pytest.raises(Refusal) as caught:
        await accounts.authenticate(account, password, remote)
    assert caught.value.code == Refusal.BAD_LOGIN
    assert caught.value.text == "account or password is wrong"
    return trio.current_time() - began
