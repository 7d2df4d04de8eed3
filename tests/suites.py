"""The test suites of STOMP client libraries, run against the daemon.

    python -m tests.suites --checkouts DIR [NAME...]

DIR holds checkouts of the libraries, in folders of these names: stomp.py, stompjs, stomp (the ruby gem),
stomp-php, stompest, stompman. Nothing is fetched or built; those in Python run with this interpreter, which
needs what they are tested with (pytest-mock; anyio, uvloop, polyfactory, faker). Each has a daemon of its
own, since what one leaves in a queue would come to the next, on the ports that the suites have written in
(61613, 61030, 15674), with the account guest. Prints a table of what passed, what was set for a suite, and
each exclusion with its reason; exit code 1 where a test fails that is not excluded. What is missing here (a
checkout, ruby, phpunit, jasmine) is said.
"""

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from tests.support.stomp_site import ROOT, make_stomp_site, stomp_environment

PORT: Final = 61613
PORT_OF_STOMP_PHP: Final = 61030
WEBSOCKET: Final = 15674
SUITE_S: Final = 1_200.0

_PYTEST: Final = (r"(\d+) passed", r"^(?:FAILED|ERROR) \S*::(\S+)")
_RUBY: Final = (r"^(\d+) tests,", r"^(?:Failure|Error): (\w+)")
_JASMINE: Final = (r"^(\d+) specs", r"^\d+\) (.*)")
_PHPUNIT: Final = (r"(?:Tests: |OK \()(\d+)", r"^\d+\) .*\\(\w+::\w+)")

_OWN_TIMERS: Final = "measures the library's own timers, which a busy machine misses"
_NO_ID: Final = "subscribes without an id in STOMP 1.1 or later, which demands one"


class Suite(msgspec.Struct, frozen=True):
    """One suite, and how it is run.

    Attributes:
        counted, failed: patterns of how many ran, and of the name of one that failed.
        excluded: why, by pattern of the name.
        queues: topics that are set to go to one, as an operator does for those of a broker where a
            destination without a prefix is a queue.
        note: what else is other than as the suite comes, and why; printed.
    """

    name: str
    checkout: str
    command: tuple[str, ...]
    patterns: tuple[str, str]
    folder: str = ""
    variables: dict[str, str] = {}
    excluded: dict[str, str] = {}
    queues: tuple[str, ...] = ()
    note: str = ""


_STOMP_PY: Final = {
    "STD_HOST": "127.0.0.1",
    "STD_PORT": str(PORT),
    "STD_USER": "guest",
    "STD_PASSWORD": "guest",
    "RABBITMQ_HOST": "127.0.0.1",
    "RABBITMQ_PORT": str(PORT),
    "RABBITMQ_WS_HOST": "127.0.0.1",
    "RABBITMQ_WS_PORT": str(WEBSOCKET),
    "PYTHONPATH": ".",
}
_STOMPEST: Final = """\
import sys, pytest, stompest.tests as given
given.HOST, given.VIRTUALHOST, given.BROKER = "127.0.0.1", "/", "rabbitmq"
given.LOGIN = given.PASSCODE = "guest"
sys.exit(pytest.main(["-q", "stompest/tests/sync_client_integration_test.py", "-k", "not SSL"]))
"""
_STOMPMAN: Final = f"""\
import sys, hypothesis, pytest, stompman
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")
given = stompman.ConnectionParameters
def at_the_daemon(host, port, login, passcode, **more):
    return given(host, {PORT}, "guest", "guest", **more)
stompman.ConnectionParameters = at_the_daemon
file = "packages/stompman/test_stompman/test_integration.py"
sys.exit(pytest.main(["-q", "-o", "addopts=", "-p", "no:cacheprovider", file]))
"""
_PHP: Final = """<?php spl_autoload_register(function ($class) {
    foreach (['Stomp\\\\Tests\\\\' => 'tests/', 'Stomp\\\\' => 'src/'] as $prefix => $folder)
        if (str_starts_with($class, $prefix)) {
            $file = $folder . str_replace('\\\\', '/', substr($class, strlen($prefix))) . '.php';
            if (is_file($file)) require $file;
            return;
        }
});
"""


def _ruby(file: str, version: str, excluded: dict[str, str]) -> Suite:
    variables = {"STOMP_DOTQUEUE": "1", "STOMP_HOST": "127.0.0.1"}
    if version != "1.0":
        variables["STOMP_TEST11p"] = version
    command = ("ruby", "-I", "../lib", f"test_{file}.rb")
    return Suite(f"ruby {file} {version}", "stomp", command, _RUBY, "test", variables, excluded)


def _stompjs(transport: str, variables: dict[str, str]) -> Suite:
    excluded = {"Stomp Reconnect": _OWN_TIMERS}
    return Suite(f"stompjs {transport}", "stompjs", ("jasmine",), _JASMINE, "", variables, excluded)


def suites(autoload: Path) -> list[Suite]:
    """All of them; `autoload` finds the classes of stomp-php."""
    repeated = {"test_conn_1p_0124": "wants each value of a repeated header; the first counts (STOMP 1.2)"}
    left_out = "not ssl and not ipv6 and not activemq and not artemis and not stompserver"
    return [
        Suite(
            "stomp.py",
            "stomp.py",
            (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "-k", left_out),
            _PYTEST,
            "",
            _STOMP_PY,
            {"test_timeout": "needs a network that swallows packets to 192.0.2.0"},
        ),
        _stompjs("WebSocket", {}),
        _stompjs("TCP", {"CONN_MODE": "tcp"}),
        *(_ruby(file, version, {}) for file in ("client", "connection") for version in ("1.0", "1.2")),
        _ruby("connection1p", "1.2", repeated),
        Suite(
            "stomp-php",
            "stomp-php",
            ("phpunit", "--no-configuration", "--bootstrap", str(autoload), "tests/Functional/RabbitMq"),
            _PHPUNIT,
            "",
            {},
            {
                "testNackRequeue": "the library sends requeue only to a server that calls itself RabbitMQ",
                "testAckAndNack": "hands one back twice at once; what has failed twice waits 0.1 s here",
                "ClientTest::": _NO_ID,
            },
        ),
        Suite(
            "stompest",
            "stompest",
            (sys.executable, "-c", _STOMPEST),
            _PYTEST,
            "src/core",
            {"PYTHONPATH": "."},
            {"test_4_integration": "wants a RECEIPT without any other header; ours has the smuid"},
        ),
        Suite(
            "stompman",
            "stompman",
            (sys.executable, "-c", _STOMPMAN),
            _PYTEST,
            "",
            {"PYTHONPATH": "packages/stompman"},
            queues=("DLQ",),
            note="Hypothesis has no deadline: test_parsing asks no server, and misses it on a busy machine",
        ),
    ]


def run(suite: Suite, checkouts: Path) -> bool:
    """Run one, and print what became of it; False where a test failed that is not excluded."""
    folder, program = checkouts / suite.checkout / suite.folder, suite.command[0]
    missing = None if shutil.which(program) else f"{program} is not installed"
    if not folder.is_dir():
        missing = f"there is no {folder}"
    if missing:
        print(f"{suite.name:22} not run: {missing}")
        return True
    done = subprocess.run(
        suite.command,
        cwd=folder,
        env={**os.environ, **suite.variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SUITE_S,
        check=False,
    )
    counted = re.search(suite.patterns[0], done.stdout, re.MULTILINE)
    failed = sorted(set(re.findall(suite.patterns[1], done.stdout, re.MULTILINE)))
    reasons = {name: _reason(suite, name) for name in failed}
    wrong = [name for name, reason in reasons.items() if reason is None]
    print(
        f"{suite.name:22} {counted[1] if counted else 0:>4} tests, {len(failed)} failed, {len(wrong)} wrong"
    )
    for note in (
        suite.note,
        *(f"{name} is set to ONE: the suite takes it for a queue" for name in suite.queues),
    ):
        if note:
            print(f"    {note}")
    for name, reason in reasons.items():
        print(f"    {name[:70]}: {reason or 'WRONG'}")
    if counted is None:
        print(done.stdout[-2000:])
    return counted is not None and not wrong


def _reason(suite: Suite, name: str) -> str | None:
    for pattern, reason in suite.excluded.items():
        if re.search(pattern, name):
            return reason
    return None


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkouts", type=Path, required=True)
    parser.add_argument("names", nargs="*", help="only suites whose names begin so")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smqpd-suites-") as text:
        directory = Path(text)
        autoload = directory / "autoload.php"
        autoload.write_text(_PHP)
        chosen = [one for one in suites(autoload) if one.name.startswith(tuple(given.names) or "")]
        results = []
        for number, suite in enumerate(chosen):
            with _daemon(directory / str(number), suite.queues):
                results.append(run(suite, given.checkouts.resolve()))
    sys.exit(not all(results))


@contextmanager
def _daemon(directory: Path, queues: tuple[str, ...]) -> Iterator[None]:
    """A new site, on the ports of the suites."""
    for port in (PORT, PORT_OF_STOMP_PHP, WEBSOCKET):
        if _listens(port):
            raise SystemExit(f"something else listens on port {port}, which the suites would ask")
    directory.mkdir()
    config = make_stomp_site(directory / "site", PORT, WEBSOCKET)
    listen = f'listen = ["127.0.0.1:{PORT}", "127.0.0.1:{PORT_OF_STOMP_PHP}"]'
    config.write_text(config.read_text().replace(f'listen = ["127.0.0.1:{PORT}"]', listen))
    variables = stomp_environment(config.parent)
    with (directory / "log").open("wb") as log:
        command = [sys.executable, "-m", "daemon", str(config)]
        daemon = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log)
    try:
        _wait_for(daemon, directory / "log")
        for name in queues:
            setting = ["topic", "set", name, "--delivery", "ONE", "--site", str(config)]
            command = [sys.executable, "-c", "from daemon.cli.main import main; main()", *setting]
            subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.DEVNULL, check=True)
        yield
    finally:
        daemon.terminate()
        daemon.wait()


def _wait_for(daemon: subprocess.Popen[bytes], log: Path) -> None:
    while True:
        if daemon.poll() is not None:
            raise SystemExit(log.read_text())
        if _listens(PORT):
            return
        time.sleep(0.1)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
