"""The demonstration behind etc/demo: a story in commands that anyone could type, and a check after each.

Nothing here knows the inside of smqpd; it uses only `smqpd init|account|run|pub|sub|why`. It ends with 1
when a promise was broken, and leaves nothing behind.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import IO, Any, Final

SMQPD: Final = str(Path(sys.executable).with_name("smqpd"))
PATIENCE_S: Final = 60
STREAM: Final = 3_000
"""Messages in the stream that the site is killed under."""

REPORTS: Final = """\
weather.coast  priority=9 delivery=ALL receipt=ALL   Storm warning: 11 Beaufort from midnight
weather.coast  priority=1 delivery=ALL receipt=NONE  Water 9 degrees
weather.coast  priority=1 delivery=ALL receipt=NONE  Waves 2 metres
weather.coast  priority=5 delivery=ALL receipt=ONE   Fog before noon
repairs        priority=2 delivery=ONE receipt=NONE  Lamp 4 is out
repairs        priority=7 delivery=ONE receipt=ALL   The lighthouse door does not close
repairs        priority=2 delivery=ONE receipt=NONE  Paint the boathouse
repairs        priority=2 delivery=ONE receipt=NONE  Oil the winch
"""


class BrokenPromise(Exception):
    """What the demo is there to find."""


def say(text: str) -> None:
    """Narrate."""
    print(text, flush=True)


def promise(kept: bool, text: str) -> None:
    """Say that a promise was kept, or end."""
    if not kept:
        raise BrokenPromise(text)
    say(f"  kept: {text}")


class Demo:
    """A site in `directory`, and the people who use it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.site = directory / "site"
        self.port = free_port()
        self.daemon: subprocess.Popen[bytes] | None = None
        self.beside: list[subprocess.Popen[bytes]] = []
        self.log = (directory / "daemon.log").open("wb")

    def command(self, *arguments: str, who: str | None = None) -> list[str]:
        """A `smqpd` command, as `who` where it logs in."""
        login = ["--server", f"127.0.0.1:{self.port}", "--account", who] if who else []
        login += ["--password-file", who] if who else []
        return [SMQPD, *arguments, *login]

    def smqpd(self, *arguments: str, who: str | None = None) -> str:
        """Show a command and run it to its end; what it wrote to stdout."""
        say(f"  $ smqpd {shlex.join(arguments)}" + (f"   (as {who})" if who else ""))
        done = subprocess.run(
            self.command(*arguments, who=who),
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode:
            raise BrokenPromise(f"smqpd {arguments[0]} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def begin(self, *arguments: str, who: str, out: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start a command that runs beside others."""
        process = subprocess.Popen(
            self.command(*arguments, who=who), cwd=self.directory, stdout=out, stderr=subprocess.DEVNULL
        )
        self.beside.append(process)
        return process

    def start(self) -> None:
        """Start the daemon, and wait until it accepts connections."""
        self.daemon = subprocess.Popen(
            [SMQPD, "run", "--config", str(self.site / "smqpd.toml")], stdout=self.log, stderr=self.log
        )
        until = time.monotonic() + PATIENCE_S
        while not accepts(self.port):
            if self.daemon.poll() is not None or time.monotonic() > until:
                raise BrokenPromise(f"the site does not start: {(self.directory / 'daemon.log').read_text()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End the daemon as a power cut would."""
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()

    def close(self) -> None:
        """Leave nothing running."""
        for process in [*self.beside, *([self.daemon] if self.daemon else [])]:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.log.close()

    def read(self, *topics: str, who: str, count: int) -> list[dict[str, Any]]:
        """So many messages that wait for `who` at the desk, in the order in which they come."""
        bounds = ("--count", str(count), "--timeout", "20")
        out = self.smqpd("sub", *topics, "--channel", "desk", *bounds, "--json", who=who)
        return [json.loads(line) for line in out.splitlines()]


def free_port() -> int:
    """A port of loopback that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    """Whether somebody listens."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def text(message: dict[str, Any]) -> str:
    """The body of a message of one section of text."""
    body: str = message["sections"][0]["text"]
    return body


def show(messages: list[dict[str, Any]]) -> None:
    """What arrived, a line each."""
    for message in messages:
        say(f"    {message.get('priority', '-'):>2}  {message['topic']:<14} {text(message)}")


def make_site(demo: Demo) -> None:
    """A site, and three people with the rights that they need."""
    say("1. A site, in a directory of its own")
    demo.smqpd("init", "site", "--server-name", "demo.example", "--port", str(demo.port))
    rights = {
        "ada": ("--publish", "#", "--subscribe", "receipts"),
        "bob": ("--subscribe", "weather.*", "--subscribe", "repairs", "--subscribe", "stream"),
        "eve": ("--subscribe", "weather.*", "--subscribe", "repairs"),
    }
    for who, given in rights.items():
        password = demo.directory / who
        password.touch(mode=0o600)
        password.write_text(f"{os.urandom(12).hex()}\n")
        demo.smqpd("account", "add", who, *given, "--password-file", who, "--config", "site/smqpd.toml")
    demo.start()
    say(f"  The site runs, and listens on 127.0.0.1:{demo.port}.")


def subscribe(demo: Demo) -> None:
    """Subscriptions that last while their owners are away."""
    say("\n2. Bob and Eve subscribe, and leave; what comes meanwhile waits for them")
    for who in ("bob", "eve"):
        demo.smqpd("sub", "weather.coast", "repairs", "--channel", "desk", "--timeout", "0.1", who=who)
    demo.smqpd("sub", "stream", "--channel", "desk", "--timeout", "0.1", who="bob")


def publish(demo: Demo) -> dict[str, str]:
    """Publish each line of the file as it says; the Smuid of each text."""
    say("\n3. Ada publishes the lines of a file, each with its own priority, delivery mode and receipt")
    file = demo.directory / "reports.txt"
    file.write_text(REPORTS)
    smuids = {}
    for line in file.read_text().splitlines():
        topic, *options, report = line.split(maxsplit=4)
        chosen = dict(option.split("=") for option in options)
        receipt = ("--receipt", chosen["receipt"]) if chosen["receipt"] != "NONE" else ()
        headers = ("--priority", chosen["priority"], "--delivery", chosen["delivery"], *receipt)
        out = demo.smqpd("pub", topic, report, *headers, who="ada")
        smuids[report] = out.strip()
    promise(len(set(smuids.values())) == len(smuids), "every line was answered, with an id of its own")
    return smuids


def kill_and_read(demo: Demo, smuids: dict[str, str]) -> None:
    """Kill the site while all of it waits, and read."""
    say("\n4. The site is killed (SIGKILL) while all of it waits, and started again")
    demo.kill()
    demo.start()
    weather = [line for line in REPORTS.splitlines() if line.startswith("weather")]
    for who in ("bob", "eve"):
        got = demo.read("weather.coast", who=who, count=len(weather))
        show(got)
        promise(
            {message["smuid"] for message in got} == {smuids[line.split(maxsplit=4)[4]] for line in weather},
            f"{who} has every message of mode ALL that was answered before the kill",
        )
        priorities = [message["priority"] for message in got]
        promise(priorities == sorted(priorities, reverse=True), "urgent ones came first")


def share(demo: Demo, smuids: dict[str, str]) -> None:
    """Mode ONE: the jobs are shared out."""
    say("\n5. Of the repairs, of mode ONE, Bob takes two; the rest is left for Eve")
    jobs = {smuids[line.split(maxsplit=4)[4]] for line in REPORTS.splitlines() if line.startswith("repairs")}
    got = demo.read("repairs", who="bob", count=2)
    show(got)
    rest = demo.read("repairs", who="eve", count=len(jobs) - 2)
    show(rest)
    taken = Counter(message["smuid"] for message in (*got, *rest))
    promise(taken == Counter(jobs), "each repair went to one of them, and to one only")


def receipt(demo: Demo) -> None:
    """A receipt, with both at their desks."""
    say("\n6. Ada wants to know when Bob and Eve both have it; they are at their desks now")
    readers = [
        demo.begin(
            "sub",
            "weather.coast",
            "--channel",
            "desk",
            "--count",
            "1",
            "--timeout",
            "20",
            who=who,
            out=subprocess.DEVNULL,
        )
        for who in ("bob", "eve")
    ]
    out = demo.smqpd("pub", "weather.coast", "All clear", "--wait-receipt", who="ada")
    say(f"    {out.strip()}")
    for reader in readers:
        reader.wait(PATIENCE_S)
    promise(out.split()[-1] == "2/2", "the receipt says 2/2: two were due to have it, two have it")


def kill_under_load(demo: Demo) -> str:
    """Kill the site under a stream, on both sides; the Smuid of one message of it."""
    say(f"\n7. Ada publishes {STREAM} lines at once, and the site is killed in the middle")
    lines = [f"measurement {number}" for number in range(STREAM)]
    file = demo.directory / "stream.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    arguments = ("pub", "stream", "--lines", "--file", file.name, "--cmuid", "measured")
    publisher = demo.begin(*arguments, who="ada", out=subprocess.PIPE)
    wait_for_store(demo.site / "state" / "smqpd.db-wal")
    demo.kill()
    out, _ = publisher.communicate(timeout=PATIENCE_S)
    told = out.decode().split()
    say(f"  She was told OK for {len(told)}, then the connection broke. Not knowing what became of the rest,")
    say("  she publishes all of them once more, with the same ids (--cmuid), to the site that runs again.")
    demo.start()
    again = demo.smqpd(*arguments, who="ada").split()
    promise(again[: len(told)] == told, "what was answered before the kill is answered with the same id")
    promise(len(set(again)) == STREAM, f"{STREAM} messages were accepted")

    say("  Bob reads them, and the site is killed again in the middle.")
    reading = ("sub", "stream", "--channel", "desk", "--json", "--timeout", "3")
    first_file = demo.directory / "first.jsonl"
    with first_file.open("wb") as written:
        reader = demo.begin(*reading, who="bob", out=written)
        while reader.poll() is None and first_file.stat().st_size < 200_000:
            time.sleep(0.01)
        demo.kill()
        reader.wait(PATIENCE_S)
    demo.start()
    first = [json.loads(line) for line in first_file.read_text().splitlines()]
    rest = [json.loads(line) for line in demo.smqpd(*reading, who="bob").splitlines()]
    say(f"  He had {len(first)} before the kill, and got {len(rest)} after it.")
    had = {message["smuid"] for message in first}
    promise({text(message) for message in (*first, *rest)} == set(lines), "every line has arrived")
    repeated = [message for message in rest if message["smuid"] in had]
    promise(
        all(message.get("received") for message in repeated),
        f"what came again ({len(repeated)} that he had and had not yet committed) is marked as such",
    )
    promise(len({message["smuid"] for message in rest}) == len(rest), "and came once, not twice")
    return again[0]


def tell_why(demo: Demo, smuid: str) -> None:
    """What the hop log says of one message."""
    say("\n8. What became of one message, told by the site's hop log")
    out = demo.smqpd("why", smuid, "--site", "site")
    say("".join(f"    {line}\n" for line in out.splitlines()).rstrip())
    promise("committed by bob" in out, "the log tells who published it, who has it, and when")


def stop(demo: Demo) -> None:
    """A clean end."""
    say("\n9. The site is told to stop (SIGTERM)")
    assert demo.daemon is not None
    demo.daemon.terminate()
    promise(demo.daemon.wait(PATIENCE_S) == 0, "it drained and stopped by itself")


def wait_for_store(path: Path) -> None:
    """Until the store has grown by some messages."""
    until = time.monotonic() + PATIENCE_S
    before = path.stat().st_size
    while path.stat().st_size < before + 200_000 and time.monotonic() < until:
        time.sleep(0.005)


def main() -> int:
    """The whole story."""
    with tempfile.TemporaryDirectory(prefix="smqpd-demo-") as directory:
        demo = Demo(Path(directory))
        try:
            make_site(demo)
            subscribe(demo)
            smuids = publish(demo)
            kill_and_read(demo, smuids)
            share(demo, smuids)
            receipt(demo)
            tell_why(demo, kill_under_load(demo))
            stop(demo)
        except BrokenPromise as broken:
            say(f"\nBROKEN: {broken}")
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            demo.close()
    say("\nAll promises were kept.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
