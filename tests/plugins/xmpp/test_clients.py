"""Programs with the libraries that people use, against a real Prosody and a real ejabberd as installed."""

import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.patience import PATIENCE_S
from tests.support.process import ROOT
from tests.support.required import may_skip
from tests.support.xmpp_pubsub import NODE, child, pubsub, subscribe
from tests.support.xmpp_real import ready, site_at
from tests.support.xmpp_servers import COMPONENT_NAME, PASSWORD, RealServer, log_in

CLIENTS = ROOT / "tests" / "support" / "clients"


@cache
def node_modules() -> Path | None:
    """Where npm keeps what is installed for all; None where it is not there."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return None
    listed = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True, check=True)
    return Path(listed.stdout.strip())


def command_of(library: str, port: int) -> list[str]:
    if library == "xmpp.js":
        modules = node_modules()
        if may_skip(library, modules is not None and (modules / "@xmpp" / "client").is_dir()):
            pytest.skip("@xmpp/client is not installed")
        return ["node", str(CLIENTS / "with_xmpp_js.cjs"), str(port), COMPONENT_NAME, PASSWORD]
    if may_skip(library, importlib.util.find_spec(library) is not None):
        pytest.skip(f"{library} is not installed")
    return [sys.executable, "-m", f"tests.support.clients.with_{library}", str(port)]


@pytest.mark.parametrize("library", ["slixmpp", "aioxmpp", "xmpp.js"])
async def test_a_program_with_a_common_library_works(
    server: RealServer, tmp_path: Path, library: Any
) -> None:
    command = command_of(library, server.c2s)
    environment = {**os.environ, "NODE_PATH": str(node_modules() or ""), "PYTHONPATH": str(ROOT)}
    async with site_at(server, tmp_path / "site", create_on_subscribe=False) as (_, _, nursery):
        await ready(await log_in(server.c2s, nursery, "bob", "waiting"))
        with trio.fail_after(PATIENCE_S):
            ended = await trio.run_process(
                command, capture_stdout=True, capture_stderr=True, check=False, env=environment, cwd=ROOT
            )
        assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()


async def test_a_worker_whose_library_answers_no_questions_keeps_its_subscription(
    server: RealServer, tmp_path: Path
) -> None:
    """It is quiet for long, and gets its item all the same: an error of its own is no sign of absence."""
    async with site_at(server, tmp_path / "site") as (service, _, nursery):
        engine = await log_in(server.c2s, nursery, "ada", "engine")
        await ready(engine)
        worker = await log_in(server.c2s, nursery, "bob", "worker", answers=False)
        assert (await worker.iq("set", subscribe(worker.jid, "5"))).get("type") == "result"
        service.clients[worker.jid].seen_at -= 60
        await engine.iq("set", pubsub(f"<publish node='{NODE}'><item id='job'/></publish>"))
        while (stanza := await worker.receive()).tag.endswith("iq"):
            pass
        assert child(stanza, ".//{http://jabber.org/protocol/pubsub#event}item").get("id") == "job"
