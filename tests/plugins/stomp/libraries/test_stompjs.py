"""@stomp/stompjs from npm: in Node over TCP and WebSocket, and in a headless browser over WebSocket."""

import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.required import may_skip

HERE = Path(__file__).parent
SEEN = ["connected 1.2", "text smörgås a:b", "binary true", "news", "receipt"]


def find_modules() -> Any:
    """Where npm has installed @stomp/stompjs; None where it has not."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return None
    found = subprocess.run([npm, "root", "-g"], capture_output=True, text=True, check=True).stdout.strip()
    return Path(found) if (Path(found) / "@stomp" / "stompjs").is_dir() else None


MODULES = find_modules()
pytestmark = pytest.mark.skipif(
    may_skip("stompjs", MODULES is not None), reason="no @stomp/stompjs (npm install -g @stomp/stompjs ws)"
)


@pytest.mark.parametrize("kind", ["tcp", "ws"])
def test_node_talks(daemon: Any, kind: Any) -> None:
    if kind == "ws" and may_skip("stompjs", (MODULES / "ws").is_dir()):
        pytest.skip("the npm package ws is not installed (npm install -g ws)")
    port = daemon.port if kind == "tcp" else daemon.websocket_port
    done = subprocess.run(
        ["node", HERE / "stompjs.js", kind, str(port), uuid.uuid4().hex],
        env={**os.environ, "NODE_PATH": str(MODULES)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.splitlines() == SEEN, done.stderr


def test_a_browser_talks(daemon: Any, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if may_skip("chromium", browser is not None):
        pytest.skip("no chromium is installed (apt-get install chromium)")
    name = uuid.uuid4().hex
    for script in (MODULES / "@stomp/stompjs/bundles/stomp.umd.js", HERE / "stompjs.js"):
        shutil.copy(script, tmp_path)
    page = tmp_path / "page.html"
    url = f"ws://127.0.0.1:{daemon.websocket_port}/ws"
    page.write_text(
        '<!DOCTYPE html><meta charset="utf-8">'
        '<script src="stomp.umd.js"></script><script src="stompjs.js"></script>'
        f'<script>talk(StompJs, {{brokerURL: "{url}"}}, "{name}", () => 0)</script>'
    )
    assert browser is not None
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--remote-debugging-port=0", page.as_uri()]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            seen = daemon.hear(f"/queue/result-{name}").decode().splitlines()
        finally:
            process.kill()
    assert seen == SEEN
