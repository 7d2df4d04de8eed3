"""The daemon as a process, killed in the middle of work, between real XMPP clients."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from daemon.accounts_file import Account, edit
from daemon.discovery import Installed
from daemon.passwords import hash_password
from daemon.site_directory import make_site
from plugins.xmpp.namespaces import PUBSUB, QOS
from routing.rights import EVERYTHING
from tests.support.process import ROOT, daemon
from tests.support.required import may_skip
from tests.support.xmpp_pubsub import subscribe
from tests.support.xmpp_servers import COMPONENT_NAME, SECRET, USERS, RealServer, connected, installed

NODE = "counted"
KILLS = 3
ITEMS = 25
"""Between two kills."""


@pytest.fixture(params=["prosody", "ejabberd"])
async def server(request, tmp_path):
    if may_skip(request.param, installed(request.param)):
        pytest.skip(f"{request.param} is not installed")
    real = RealServer(request.param, tmp_path / "server")
    try:
        await real.start()
        await real.register()
        yield real
    finally:
        real.kill()


def make(directory: Path, server: RealServer) -> Path:
    """A site with an account for each user of the XMPP server."""
    config = make_site(directory, "smqp.example", 0, Installed({})).config
    with edit(directory / "accounts.toml") as editor:
        for user in USERS:
            editor.add(user, Account(password=hash_password("unused"), rights=EVERYTHING))
    secret = directory / "keys" / "xmpp-secret"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text(SECRET)
    secret.chmod(0o600)
    with config.open("a") as file:
        file.write(
            "\n[plugins.smqp]\nenabled = false\n"
            f'\n[plugins.xmpp]\ncomponent = "{COMPONENT_NAME}"\nserver = "127.0.0.1:{server.component}"\n'
            'answer_s = 1.0\n[[plugins.xmpp.accounts]]\ndomain = "localhost"\naccount = "{local}"\n'
        )
    return config


def python_path(directory: Path) -> str:
    """On which this front end is installed, and no other."""
    info = directory / "only-xmpp" / "smqpd_xmpp-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: smqpd-xmpp\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[smqpd.plugins]\nxmpp = plugins.xmpp.plugin:plugin\n")
    return f"{ROOT}:{info.parent}"


class Worker:
    """Works on what is delivered to it, once, and then retracts it."""

    def __init__(self, client) -> None:
        self.client = client
        self.worked: list[str] = []
        self.retracting: set[str] = set()
        self._waiting: dict[str, str] = {}

    async def run(self) -> None:
        async for stanza in self.client.stanzas:
            if stanza.tag.endswith("}iq") and stanza.get("type") == "set":
                await self._request(stanza)
            elif stanza.tag.endswith("}message"):
                for retracted in stanza.iter(f"{{{PUBSUB}#event}}retract"):
                    self.retracting.discard(retracted.get("id", ""))

    async def _request(self, stanza) -> None:
        request, content = stanza[0], ""
        msg_id = request.get("msgId", "")
        if request.tag == f"{{{QOS}}}assured":
            item = next(request.iter(f"{{{PUBSUB}#event}}item"))
            self._waiting.setdefault(msg_id, item.get("id", ""))
            content = f"<received xmlns='{QOS}' msgId='{msg_id}'/>"
        elif msg_id in self._waiting:
            item_id = self._waiting.pop(msg_id)
            self.worked.append(item_id)
            self.retracting.add(item_id)
        answer = f"<iq type='result' id='{stanza.get('id')}' to='{stanza.get('from')}'>{content}</iq>"
        await self.client.send(answer)

    async def retract(self) -> None:
        """Until the service has confirmed it: a retraction may be lost with the daemon."""
        while True:
            for item in list(self.retracting):
                content = f"<retract node='{NODE}'><item id='{item}'/></retract>"
                text = f"<pubsub xmlns='{PUBSUB}'>{content}</pubsub>"
                await self.client.send(f"<iq type='set' id='r-{item}' to='{COMPONENT_NAME}'>{text}</iq>")
            await trio.sleep(0.5)


class Publisher:
    """Sends each item assured, repeating each step until it is answered."""

    def __init__(self, client) -> None:
        self.client = client
        self.published: list[str] = []

    async def publish(self, item: str) -> None:
        content = f"<publish node='{NODE}'><item id='{item}'><a xmlns='urn:a'/></item></publish>"
        message = f"<message xmlns='jabber:client'><pubsub xmlns='{PUBSUB}'>{content}</pubsub></message>"
        await self._until_answered(f"<assured xmlns='{QOS}' msgId='{item}'>{message}</assured>", f"a-{item}")
        await self._until_answered(f"<deliver xmlns='{QOS}' msgId='{item}'/>", f"d-{item}")
        self.published.append(item)

    async def _until_answered(self, request: str, id: str) -> None:
        while True:
            await self.client.send(f"<iq type='set' id='{id}' to='{COMPONENT_NAME}'>{request}</iq>")
            with trio.move_on_after(1):
                while (stanza := await self.client.stanzas.receive()).get("id") != id:
                    continue
                if stanza.get("type") == "result":
                    return
                # the component is not there at the moment
                await trio.sleep(0.1)


async def test_no_item_is_lost_and_none_worked_on_twice(server, tmp_path):
    config = make(tmp_path / "site", server)
    path = python_path(tmp_path)
    async with trio.open_nursery() as nursery:
        worker = Worker(await connected(server.c2s, nursery, "bob", "w", QOS))
        publisher = Publisher(await connected(server.c2s, nursery, "ada", "p"))
        for kill in range(KILLS + 1):
            async with daemon(config, PYTHONPATH=path) as running:
                if not kill:
                    with trio.fail_after(30):
                        while (
                            await worker.client.iq("set", subscribe(worker.client.jid, "5", NODE), id="s")
                        ).get("type") != "result":
                            await trio.sleep(0.1)
                    nursery.start_soon(worker.run)
                    nursery.start_soon(worker.retract)
                with trio.fail_after(60):
                    for number in range(ITEMS):
                        await publisher.publish(f"{kill}-{number}")
                    while kill == KILLS and (
                        len(worker.worked) < len(publisher.published) or worker.retracting
                    ):
                        await trio.sleep(0.1)
                running.signal(signal.SIGKILL)
                await running.exit_code()
        assert sorted(worker.worked) == sorted(publisher.published)
        nursery.cancel_scope.cancel()


def test_a_bad_table_is_said_in_one_line(tmp_path):
    config = make_site(tmp_path / "site", "smqp.example", 0, Installed({})).config
    with config.open("a") as file:
        file.write("\n[plugins.xmpp]\n")
    environment = {**os.environ, "PYTHONPATH": python_path(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "daemon", str(config)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "[plugins.xmpp]: component: is required" in done.stderr
    assert "Traceback" not in done.stderr
