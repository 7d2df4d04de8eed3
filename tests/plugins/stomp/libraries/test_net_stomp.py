"""Net::Stomp from Debian, in Perl, which speaks STOMP 1.0."""

import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.required import may_skip


def is_installed() -> Any:
    perl = shutil.which("perl")
    return (
        perl is not None and not subprocess.run([perl, "-MNet::Stomp", "-e1"], capture_output=True).returncode
    )


@pytest.mark.skipif(
    may_skip("net-stomp", is_installed()), reason="no Net::Stomp (apt-get install libnet-stomp-perl)"
)
def test_perl_talks(daemon: Any) -> None:
    script = Path(__file__).parent / "net_stomp.pl"
    done = subprocess.run(
        ["perl", script, str(daemon.port), uuid.uuid4().hex],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.decode().splitlines() == [
        "connected CONNECTED",
        "receipts",
        "work 1 perl",
        "work 2 perl",
        "work 3 perl",
        "connected CONNECTED",
        "work 3 redelivered true",
        "bytes intact",
    ], done.stderr.decode()
