"""A broker with its store and hop log, in a directory that survives it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from daemon.accounts.accounts import Accounts
from daemon.broker.lifetime import OpenedBroker, opened_broker
from daemon.settings import Limits, Settings, SiteSettings
from tests.support.passwords import cheap_hash

_HASHED = cheap_hash("correct horse")
_ACCOUNT = f"""\
[accounts.ada]
password = "{_HASHED}"
[accounts.ada.rights]
publish = ["#"]
subscribe = ["#"]
remove = ["#"]
administer = ["#"]
"""


@asynccontextmanager
async def broker_of_ada(
    directory: Path, server: str, limits: Limits | None = None
) -> AsyncIterator[OpenedBroker]:
    """What is there is read again, as after a restart. The account `ada` may do everything."""
    directory.mkdir(exist_ok=True)
    accounts = directory / "accounts.toml"
    accounts.write_text(_ACCOUNT)
    accounts.chmod(0o600)
    site = SiteSettings(server_name=server, accounts_file=accounts, state_directory=directory)
    settings = Settings(site=site, limits=limits or Limits())
    async with opened_broker(settings, Accounts(accounts, server)) as opened:
        yield opened
