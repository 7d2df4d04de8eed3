"""A broker with its store and hop log, in a directory that survives it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from daemon.accounts.accounts import Accounts
from daemon.broker.broker import Broker
from daemon.hops.writer import HopLog
from daemon.settings import Settings, SiteSettings
from daemon.store.store import Store
from daemon.system.clock import SystemClock
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


@contextmanager
def broker_parts(directory: Path, server: str) -> Iterator[tuple[Broker, Store]]:
    """What is there is read again, as after a restart. The account `ada` may do everything."""
    directory.mkdir(exist_ok=True)
    accounts = directory / "accounts.toml"
    accounts.write_text(_ACCOUNT)
    accounts.chmod(0o600)
    settings = Settings(site=SiteSettings(server_name=server, accounts_file=accounts))
    with closing(Store(directory / "smqpd.db")) as store:
        clock = SystemClock(store.site.clock)
        hops = HopLog.open(
            directory / "hops",
            server=server,
            boot=store.site.boot,
            committed_record=store.site.last_record,
            settings=settings.hops,
        )
        with closing(hops):
            yield Broker(settings, Accounts(accounts, server), store, hops, clock), store
