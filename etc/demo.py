"""The demonstration behind etc/demo: a story in commands that anyone could type, and a check after each.

It ends with 1 when a promise was broken, and leaves nothing behind but the tables and the page in .demo/.
"""

import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from demo_stage import BrokenPromise, Cable, Stage, promise, quote, say, show, text, until
from demo_trace import prove

KEPT: Final = Path(__file__).parents[1] / ".demo"
STREAM: Final = 1_500
"""Messages in the stream that sites are killed under."""

MAP: Final = """\
     alpha.example ------ beta.example
             \\               /
              gamma.example
                    |
              delta.example
"""
DISTANCE: Final = {"alpha": 0, "beta": 1, "gamma": 1, "delta": 2}
"""Links from alpha."""

ENDS: Final = ("alpha", "gamma")
"""Every link has one of them at an end."""

REPORTS: Final = """\
weather.coast  depth=-1 priority=9 delivery=ALL receipt=ALL   Storm warning: 11 Beaufort from midnight
weather.coast  depth=1  priority=1 delivery=ALL receipt=NONE  Water 9 degrees
weather.coast  depth=2  priority=1 delivery=ALL receipt=NONE  Waves 2 metres
weather.coast  depth=1  priority=5 delivery=ALL receipt=ONE   Fog before noon
weather.coast  depth=0  priority=3 delivery=ALL receipt=NONE  The crane at pier 4 is free
repairs        depth=0  priority=2 delivery=ONE receipt=NONE  Lamp 4 is out
repairs        depth=0  priority=7 delivery=ONE receipt=ALL   The lighthouse door does not close
repairs        depth=0  priority=2 delivery=ONE receipt=NONE  Paint the boathouse
repairs        depth=0  priority=2 delivery=ONE receipt=NONE  Oil the winch
pumps          depth=2  priority=4 delivery=ONE receipt=NONE  The pump of the dock has stopped
"""


def lines(topic: str) -> list[tuple[dict[str, str], str]]:
    """The lines of the file on a topic: what they are sent with, and their text."""
    split = [line.split(maxsplit=5) for line in REPORTS.splitlines()]
    return [(dict(option.split("=") for option in line[1:5]), line[5]) for line in split if line[0] == topic]


def reaches(depth: int, name: str) -> bool:
    """Whether a message of that Depth, published at alpha, comes to a site."""
    return depth == -1 or depth >= DISTANCE[name]


def make_sites(stage: Stage) -> dict[str, Cable]:
    """Four sites with certificates, peers and people; the cables between some of them."""
    say("1. A federation: an authority, four sites with certificates of it, and their peers\n")
    say(MAP)
    stage.smqpd("cert", "ca")
    stage.together(
        *(
            ("init", name, "--server-name", site.server, "--port", str(site.port))
            for name, site in stage.sites.items()
        )
    )
    for name, site in stage.sites.items():
        config = site.directory / "smqpd.toml"
        listen = f'[links]\nlisten = ["127.0.0.1:{site.link_port}"]\nback_off_max_s = 1.0\n'
        config.write_text(config.read_text().replace("[links]\n", listen, 1))
        if name != "delta":
            stage.smqpd("cert", "issue", site.server, "--out", f"{name}/keys")
    say("  Delta makes its key itself, so that it never travels, and has it signed:")
    stage.smqpd("cert", "request", "delta.example", "--keys", "delta/keys")
    stage.smqpd("cert", "sign", "delta/keys/site.csr", "--out", "delta/keys")

    cables = {name: Cable(stage.site(name).link_port) for name in ("gamma", "delta")}
    dialled = [
        ("alpha", "beta", stage.site("beta").link_port),
        ("alpha", "gamma", cables["gamma"].port),
        ("beta", "gamma", stage.site("gamma").link_port),
        ("gamma", "delta", cables["delta"].port),
    ]
    for one, other, port in dialled:
        stage.together(
            ("peer", "add", f"{other}.example", f"127.0.0.1:{port}", "--site", one),
            ("peer", "add", f"{one}.example", "--site", other),
        )

    say("  At alpha there are people with accounts of their own; elsewhere the administrators read.")
    rights = {"ada": ("--publish", "#"), "bob": ("--subscribe", "repairs"), "eve": ("--subscribe", "repairs")}
    for who, given in rights.items():
        password = stage.directory / who
        password.touch(mode=0o600)
        password.write_text(f"{os.urandom(12).hex()}\n")
        stage.smqpd("account", "add", who, *given, "--password-file", who, "--config", "alpha/smqpd.toml")
    for site in stage.sites.values():
        site.start()
    stage.linked(*ENDS)
    quote(stage.smqpd("peers", "--site", "gamma"))
    quote(stage.smqpd("ping", "delta.example", "--site", "alpha", "--count", "3", "--interval", "0.1"))
    promise(
        stage.asked("ping", "delta.example", "--site", "alpha", "--count", "1")["probes"][0]["hops"]
        == ["alpha.example", "gamma.example", "delta.example"],
        "a probe goes from alpha to delta and back, through gamma",
    )
    return cables


def subscribe(stage: Stage) -> None:
    """Subscriptions that last while their owners are away."""
    say("\n2. They subscribe, and leave; what comes meanwhile waits for them")
    away = ("--channel", "desk", "--timeout", "0.1")
    others = {"alpha": [], "beta": [], "gamma": [], "delta": ["pumps", "stream"]}
    begun = [
        stage.begin("sub", "weather.coast", *more, "--site", name, *away) for name, more in others.items()
    ]
    begun += [stage.begin("sub", "repairs", *away, who=who) for who in ("bob", "eve")]
    for process in begun:
        stage.finish(process)
    stage.wanted("weather.coast", 4)
    stage.wanted("pumps", 1, delivery="ONE")
    stage.wanted("stream", 1)
    say("  Where would a message go? A probe finds out, and delivers nothing:")
    quote(stage.smqpd("trace", "weather.coast", "--site", "alpha"))


def publish(stage: Stage) -> dict[str, str]:
    """Publish each line of the file as it says; the Smuid of each text."""
    say(
        "\n3. Ada publishes the lines of a file, each with its own depth, priority, delivery mode and receipt"
    )
    file = stage.directory / "reports.txt"
    file.write_text(REPORTS)
    smuids = {}
    for line in file.read_text().splitlines():
        topic, *options, report = line.split(maxsplit=5)
        chosen = dict(option.split("=") for option in options)
        receipt = ("--receipt", chosen["receipt"]) if chosen["receipt"] != "NONE" else ()
        headers = (
            "--depth",
            chosen["depth"],
            "--priority",
            chosen["priority"],
            "--delivery",
            chosen["delivery"],
        )
        smuids[report] = stage.smqpd("pub", topic, report, *headers, *receipt, who="ada").strip()
    promise(len(set(smuids.values())) == len(smuids), "every line was answered, with an id of its own")
    return smuids


def kill_and_read(stage: Stage, smuids: dict[str, str]) -> None:
    """Kill alpha while all of it waits, and read everywhere."""
    say("\n4. Alpha is killed (SIGKILL) while all of it waits, and started again; then everybody reads")
    stage.site("alpha").kill()
    stage.site("alpha").start()
    stage.settled(*ENDS)
    due = {
        name: [smuids[report] for sent, report in lines("weather.coast") if reaches(int(sent["depth"]), name)]
        for name in stage.sites
    }
    got = stage.read("weather.coast", {name: len(smuids) for name, smuids in due.items()})
    for name, messages in got.items():
        far = DISTANCE[name]
        say(f"  {name}, {far} link{'' if far == 1 else 's'} away:")
        show(messages)
        promise(
            Counter(message["smuid"] for message in messages) == Counter(due[name]),
            f"{name} has every message of a Depth that reaches it, once, and no other",
        )
        priorities = [message["priority"] for message in messages]
        promise(priorities == sorted(priorities, reverse=True), "urgent ones came first")


def share(stage: Stage, smuids: dict[str, str]) -> None:
    """Mode ONE: at one site, and across sites."""
    say("\n5. Of the repairs, of mode ONE, Bob takes two; the rest is left for Eve")
    jobs = {smuids[report] for _, report in lines("repairs")}
    bounds = ("--channel", "desk", "--timeout", "20", "--json", "--count")
    taken: Counter[str] = Counter()
    for who, count in (("bob", 2), ("eve", len(jobs) - 2)):
        out = stage.smqpd("sub", "repairs", *bounds, str(count), who=who)
        got = [json.loads(line) for line in out.splitlines()]
        show(got)
        taken.update(message["smuid"] for message in got)
    promise(taken == Counter(jobs), "each repair went to one of them, and to one only")
    say("  The pumps are delta's. The message, of mode ONE as well, was handed from site to site:")
    (pump,) = (smuids[lines("pumps")[0][1]],)
    got = stage.read("pumps", {"delta": 1})["delta"]
    show(got)
    promise([message["smuid"] for message in got] == [pump], "it came to the one who takes it, once")


def receipts(stage: Stage) -> None:
    """Receipts over all sites: some have it, all have it."""
    say("\n6. Ada wants to know how many have it. First delta's desk is empty, then everybody is there")
    for present, timeout, expected in ((3, "4", "3/4"), (4, "60", "4/4")):
        names = list(stage.sites)[:present]
        bounds = ("--channel", "desk", "--count", "1", "--timeout", "30")
        readers = [stage.begin("sub", "weather.coast", "--site", name, *bounds) for name in names]
        out = stage.smqpd(
            "pub", "weather.coast", "All clear", "--depth", "2", "--receipt", "ALL",
            "--timeout", timeout, "--wait-receipt", who="ada",
        )  # fmt: skip
        quote(out)
        for reader in readers:
            stage.finish(reader)
        promise(
            out.split()[-1] == expected,
            f"the receipt says {expected}: four were due to have it, at four sites, {present} have it",
        )


def cut_and_mend(stage: Stage, cables: dict[str, Cable]) -> str:
    """Cut links and mend them; the Smuid of a message that had to wait."""
    say("\n7. The cable between alpha and gamma is cut")
    cables["gamma"].cut()
    until(lambda: bool(stage.asked("peers", "--site", "alpha", "--only-down")), "alpha does not notice it")
    quote(stage.smqpd("peers", "--site", "alpha", "--only-down", code=1))
    quote(stage.smqpd("ping", "delta.example", "--site", "alpha", "--count", "1"))
    promise(
        len(stage.asked("ping", "delta.example", "--site", "alpha", "--count", "1")["probes"][0]["hops"])
        == 4,
        "delta is reached over beta now, three links away",
    )
    say("  Now the one between gamma and delta as well; then Ada publishes to all of them")
    cables["delta"].cut()
    until(lambda: bool(stage.asked("peers", "--site", "gamma", "--only-down")), "gamma does not notice it")
    quote(stage.smqpd("ping", "delta.example", "--site", "alpha", "--count", "1", code=1))
    smuid = stage.smqpd(
        "pub", "weather.coast", "High water", "--depth", "-1", "--priority", "8", who="ada"
    ).strip()
    got = stage.read("weather.coast", {"alpha": 1, "beta": 1, "gamma": 1, "delta": 0})
    have = [name for name, messages in got.items() if [message["smuid"] for message in messages] == [smuid]]
    promise(have == ["alpha", "beta", "gamma"] and not got["delta"], "all have it but delta")
    quote(stage.smqpd("why", smuid, "--ask-peers", "--site", "alpha", code=1))
    say("  Both cables are mended")
    for cable in cables.values():
        cable.mend()
    stage.linked(*ENDS)
    got = stage.read("weather.coast", {"alpha": 0, "beta": 0, "gamma": 0, "delta": 1})
    promise(
        [message["smuid"] for message in got["delta"]] == [smuid] and not any(got[name] for name in have),
        "delta has it now, and nobody got it twice",
    )
    return smuid


def kill_under_load(stage: Stage) -> str:
    """Kill each site on the way of a stream; the Smuid of one message of it."""
    say(f"\n8. Ada publishes {STREAM} lines for delta at once, and alpha is killed in the middle")
    measured = [f"measurement {number}" for number in range(STREAM)]
    file = stage.directory / "stream.txt"
    file.write_text("".join(f"{line}\n" for line in measured))
    arguments = ("pub", "stream", "--lines", "--file", file.name, "--depth", "2", "--cmuid", "measured")
    told_file = stage.directory / "told.txt"
    publisher = stage.begin(*arguments, who="ada", out=told_file)
    until(lambda: told_file.stat().st_size > 0 or publisher.poll() is not None, "nothing is published")
    stage.site("alpha").kill()
    publisher.wait()
    told = told_file.read_text().split()
    say(f"  She was told OK for {len(told)}, then the connection broke. Not knowing what became of the rest,")
    say("  she publishes all of them once more, with the same ids (--cmuid), to the site that runs again;")
    say("  gamma, through which they go, is killed meanwhile.")
    stage.site("alpha").start()
    publisher = stage.begin(*arguments, who="ada")
    stage.site("gamma").kill()
    stage.site("gamma").start()
    again = stage.finish(publisher).split()
    promise(again[: len(told)] == told, "what was answered before the kill is answered with the same id")
    promise(len(set(again)) == STREAM, f"{STREAM} messages were accepted")

    say("  Delta reads them, and is killed in the middle.")
    reading = ("sub", "stream", "--site", "delta", "--channel", "desk", "--json", "--timeout", "4")
    first_file = stage.directory / "first.jsonl"
    reader = stage.begin(*reading, out=first_file)
    until(lambda: first_file.stat().st_size > 100_000 or reader.poll() is not None, "nothing is read")
    stage.site("delta").kill()
    reader.wait()
    stage.site("delta").start()
    stage.linked(*ENDS)
    first = [json.loads(line) for line in first_file.read_text().splitlines() if line.endswith("}")]
    rest = [json.loads(line) for line in stage.smqpd(*reading).splitlines()]
    say(f"  It had {len(first)} before the kill, and got {len(rest)} after it.")
    had = {message["smuid"] for message in first}
    promise({text(message) for message in (*first, *rest)} == set(measured), "every line has arrived")
    repeated = [message for message in rest if message["smuid"] in had]
    promise(
        all(message.get("received") for message in repeated),
        f"what came again ({len(repeated)} that it had and had not yet committed) is marked as such",
    )
    promise(len({message["smuid"] for message in rest}) == len(rest), "and came once, not twice")
    return again[0]


def tell_why(stage: Stage, smuid: str) -> None:
    """The way of one message, told by the sites that had it."""
    say("\n9. The way of one message of the stream, told by all sites' hop logs")
    out = stage.smqpd("why", smuid, "--ask-peers", "--site", "beta")
    quote(out)
    promise("committed by admin:desk@delta.example" in out, "they tell where it went, who has it, and when")
    promise("nothing of it is unknown" in out, "and every site has answered")


def stop(stage: Stage) -> None:
    """A clean end."""
    say("\n10. The sites are told to stop (SIGTERM)")
    promise(
        [site.stop() for site in stage.sites.values()] == [0] * len(stage.sites),
        "they drained and stopped by themselves",
    )


def main() -> int:
    """The whole story."""
    begun = time.monotonic()
    shutil.rmtree(KEPT, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="smqpd-demo-") as directory:
        stage = Stage(Path(directory), list(DISTANCE))
        try:
            cables = make_sites(stage)
            subscribe(stage)
            smuids = publish(stage)
            kill_and_read(stage, smuids)
            share(stage, smuids)
            receipts(stage)
            waited = cut_and_mend(stage, cables)
            tell_why(stage, kill_under_load(stage))
            stop(stage)
            page = prove(stage, KEPT, waited)
        except BrokenPromise as broken:
            say(f"\nBROKEN: {broken}")
            for name, site in stage.sites.items():
                if site.log.exists():
                    say(f"The last words of {name}:")
                    quote("\n".join(site.log.read_text().splitlines()[-8:]))
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            stage.close()
    say(f"\nAll promises were kept, in {time.monotonic() - begun:.0f} s. The page: {shlex.quote(str(page))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
