"""A real broker, store and hop log in a temporary directory, for tests of front ends and clients."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import trio

from daemon.accounts.accounts import Accounts
from daemon.broker.broker import Broker
from daemon.broker.lifetime import opened_broker
from daemon.broker.session import BrokerSession
from daemon.connections.listen import Listeners
from daemon.frontend import Identity, Right, SubscriptionInfo, TopicInfo
from daemon.metrics import Metrics
from daemon.operating.operations import Actor
from daemon.operations.site import SiteOperations
from daemon.settings import Limits, QueueSettings, Settings, SiteSettings
from daemon.system.mishaps import Mishaps
from routing.errors import Refusal
from routing.quotas import Quotas
from routing.rights import Operating
from tests.support.new_store import put_store
from tests.support.passwords import cheap_hash

PASSWORD = "correct horse"
_HASHED = cheap_hash(PASSWORD)
SERVER = "smqp.example"


RIGHTS = ("publish", "subscribe", "remove", "administer")
ACCOUNTS = {
    "ada": {right: ["#"] for right in RIGHTS},
    "bob": {right: ["#"] for right in RIGHTS},
    "eve": {"publish": ["eve.#"]},
    "dan": {"subscribe": ["*.open"]},
}
OPERATORS = {"ada": "change", "dan": "look"}


@contextmanager
def counted_as_a_login() -> Iterator[None]:
    """As a site counts logins that are refused."""
    try:
        yield
    except Refusal as refusal:
        refusal.counted = True
        raise


class BrokerSite:
    """`daemon.frontend.Site` around a broker; connections are made by the test.

    Attributes:
        opened: set once somebody has logged in.
        ended: why sessions have ended, as the log says, in their order.
    """

    def __init__(self, broker: Broker, server_name: str = SERVER) -> None:
        self.broker = broker
        self.server_name = server_name
        self.server_ident = "smqpd/test"
        self.suid = f"{server_name}/1"
        self.default_timeout_s = 86_400.0
        self.draining = trio.Event()
        self.opened = trio.Event()
        self.ended: list[str] = []
        self.redirect = "other.example:720"
        self.operations = SiteOperations(broker, take_on=self.take_on)

    @property
    def limits(self) -> Limits:
        return self.broker.limits

    def disable_all(self) -> None:
        """Take every account away, as a reload would."""
        self.broker.settings.site.accounts_file.write_text("")
        self.take_on()

    def take_on(self, by: Actor | None = None) -> list[str]:
        """Have the accounts be what their file says, as a reload would."""
        self.broker.accounts.replace(self.broker.accounts.read())
        self.broker.reconfigure(self.broker.settings)
        return []

    def credential(self, account: str) -> str:
        return self.broker.accounts.credential(account)

    def operates(self, account: str) -> Operating:
        return self.broker.accounts.rights.operates(account)

    @property
    def metrics(self) -> Metrics:
        return self.broker.metrics

    async def authenticate(self, account: str, password: str, remote: str, *, protocol: str = "") -> Identity:
        with counted_as_a_login():
            return await self.broker.accounts.authenticate(account, password, remote)

    async def authenticate_token(
        self, token: str, remote: str, *, protocol: str = ""
    ) -> tuple[Identity, str]:
        with counted_as_a_login():
            return await self.broker.accounts.authenticate_token(token, remote)

    def holding(self, identity: Identity, bytes: int, *, remote: str) -> AbstractAsyncContextManager[None]:
        return self.broker.unfinished.holding(identity.account, remote, bytes)

    def open_session(self, identity: Identity, channel: str, *, protocol: str, remote: str) -> BrokerSession:
        self.opened.set()
        return self.broker.open_session(identity, channel, protocol=protocol, remote=remote)

    @property
    def topic_count(self) -> int:
        return self.broker.door.view.topic_count

    def mishap(self, what: str, error: Exception) -> None:
        self.broker.mishaps.note(what, error)

    async def keep_going(self, what: str, task: Callable[[], Awaitable[object]]) -> None:
        await self.broker.mishaps.keep_going(what, task)

    def annotated_topics(self, front_end: str) -> list[TopicInfo]:
        return self.broker.door.view.annotated(front_end)

    def allows(self, account: str, right: Right, topic: str) -> bool:
        return self.broker.accounts.rights.allows(account, right, topic)

    def durable_subscriptions(self, name_prefix: str) -> list[SubscriptionInfo]:
        return self.broker.door.view.durable_subscriptions(name_prefix)


class ListeningSite(BrokerSite):
    """A site whose front ends accept connections from sockets that it was passed."""

    def __init__(
        self, broker: Broker, passed: dict[str, list[socket.socket]], tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(broker)
        self.serve_streams = Listeners(
            limits=lambda: self.limits,
            tls_context=lambda: tls,
            http_context=lambda: tls,
            draining=self.draining,
            drain_s=5,
            passed=passed,
            mishap=Mishaps().note,
        ).serve


@asynccontextmanager
async def running_site(
    directory: Path,
    limits: Limits | None = None,
    queues: QueueSettings | None = None,
    quotas: Quotas | None = None,
) -> AsyncIterator[BrokerSite]:
    """A site with `ACCOUNTS`, all of which have the password `PASSWORD`."""
    directory.mkdir(exist_ok=True)
    accounts_file = directory / "accounts.toml"
    accounts_file.write_text("".join(_account(name, patterns) for name, patterns in ACCOUNTS.items()))
    accounts_file.chmod(0o600)
    settings = Settings(
        site=SiteSettings(server_name=SERVER, accounts_file=accounts_file, state_directory=directory),
        limits=limits or Limits(),
        queues=queues or QueueSettings(),
        quotas=quotas or Quotas(),
    )
    accounts = Accounts(accounts_file, SERVER)
    put_store(directory)
    # no gathering: where a test stops the clock, nothing would end the wait
    ended: list[str] = []
    async with opened_broker(
        settings, accounts, gather_max_s=0.0, session_ended=lambda _, why: ended.append(why)
    ) as opened:
        await opened.start()
        site = BrokerSite(opened.broker)
        site.ended = ended
        yield site


def _account(name: str, patterns: Mapping[str, list[str]]) -> str:
    lines = [f"[accounts.{name}]", f'password = "{_HASHED}"', f"[accounts.{name}.rights]"]
    lines += [f'operate = "{OPERATORS[name]}"'] if name in OPERATORS else []
    lines += [f"{right} = {covered!r}" for right, covered in patterns.items()]
    return "\n".join(lines) + "\n"
