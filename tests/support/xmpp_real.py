"""A site as the component of a real XMPP server: in the test's own process, or as a daemon of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import trio

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from daemon.frontend import Site
from plugins.xmpp.serving import serve
from plugins.xmpp.settings import JidRule, XmppSettings
from plugins.xmpp.wire.component import tcp_connector
from routing.rights import EVERYTHING
from tests.support.made_site import made_site
from tests.support.passwords import cheap_hash
from tests.support.patience import PATIENCE_S
from tests.support.process import ROOT
from tests.support.site import running_site
from tests.support.xmpp_servers import COMPONENT_NAME, SECRET, USERS, RealServer

RULES = (JidRule(domain="localhost", account="{local}"),)


@asynccontextmanager
async def site_at(
    server: RealServer, directory: Path, *, connect: Any = None, queues: Any = None, **changes: Any
) -> AsyncIterator[Any]:
    """A site in this process; gives (service, site, nursery for clients)."""
    changes = {"accounts": RULES, "answer_s": 1.0, "create_on_subscribe": True, **changes}
    settings = XmppSettings(component=COMPONENT_NAME, server=f"127.0.0.1:{server.component}", **changes)
    connect = connect or tcp_connector("127.0.0.1", server.component, None)
    async with running_site(directory, queues=queues) as site, trio.open_nursery() as nursery:
        service = await nursery.start(partial(serve, cast(Site, site), settings, connect, SECRET))
        yield service, site, nursery
        nursery.cancel_scope.cancel()


async def ready(client: Any) -> None:
    """The component may need a moment to be connected."""
    with trio.fail_after(PATIENCE_S):
        while (await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>", id="ready")).get("type") != "result":
            await trio.sleep(0.05)


def make_xmpp_site(directory: Path, server: RealServer, name: str = "smqp.example") -> Path:
    """The configuration of a site with an account for each user of the XMPP server."""
    config = made_site(directory, name, 0, is_bare=True).config
    with edit(directory / "accounts.toml") as editor:
        for user in USERS:
            editor.add(user, Account(password=cheap_hash("unused"), rights=EVERYTHING))
    secret = directory / "keys" / "xmpp-secret"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text(SECRET)
    secret.chmod(0o600)
    with config.open("a") as file:
        file.write(
            "\n[plugins.smqp]\nenabled = false\n"
            f'\n[plugins.xmpp]\ncomponent = "{COMPONENT_NAME}"\nserver = "127.0.0.1:{server.component}"\n'
            "answer_s = 1.0\ncreate_on_subscribe = true\n"
            '[[plugins.xmpp.accounts]]\ndomain = "localhost"\naccount = "{local}"\n'
        )
    return config


def python_path(directory: Path) -> str:
    """On which this front end is installed, and no other."""
    info = directory / "only-xmpp" / "smqpd_xmpp-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: smqpd-xmpp\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[smqpd.plugins]\nxmpp = plugins.xmpp.plugin:plugin\n")
    return f"{ROOT}:{info.parent}"
