"""What commands load: who asks a running site, or presses Tab, does not wait for the libraries of a site."""

import sys
from pathlib import Path

import pytest
import trio

from daemon.system.version import VERSION
from tests.support.process import ROOT, daemon, environment
from tests.support.running import SiteProcess, message

HEAVY = {"cryptography", "h2", "hypercorn", "slixmpp", "sqlite_utils", "ssl", "starlette", "tomlkit", "trio"}

PROGRAM = """
import sys
from daemon.cli.main import main
try:
    main()
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


async def ran(site: SiteProcess, *words: str, **more: str) -> tuple[str, set[str]]:
    """What a command prints, and the packages that it has loaded at its end."""
    done = await trio.run_process(
        [sys.executable, "-P", "-c", PROGRAM, *words],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env=environment(site.config.parent, SMQPD_SITE=str(site.config.parent), **more),
    )
    return done.stdout.decode(), set(done.stderr.decode().split())


async def test_the_version_is_told_without_the_libraries_of_a_site(site: SiteProcess) -> None:
    said, loaded = await ran(site, "--version")
    assert said == f"smqpd {VERSION}\n"
    assert loaded & {*HEAVY, "sqlite3", "plugins"} == set()


async def test_a_site_loads_what_it_needs_and_not_what_it_might() -> None:
    """As what links need, or WebSockets, or changes of its store, its accounts or its peers."""
    code = "import sys, daemon.site.run, plugins.stomp.plugin; print(*sys.modules)"
    done = await trio.run_process([sys.executable, "-c", code], capture_stdout=True, cwd=ROOT)
    loaded = set(done.stdout.decode().split())
    assert "trio" in loaded
    assert loaded & {"h2", "daemon.link.connection", "sqlite_utils", "tomlkit", "wsproto"} == set()


ASKING = ("topics", "topic show work", "status", "top --count 1", "sessions", "dead list", "peers")


async def test_a_running_site_is_asked_without_the_libraries_of_one(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        await eve.publish("work", message(b"x", delivery="ONE"))
        for words in ASKING:
            said, loaded = await ran(site, *words.split())
            assert (words, bool(said)) == (words, True)
            assert (words, loaded & {*HEAVY, "plugins"}) == (words, set())


NO_WORDS = (
    "weather.\\$(reboot)",
    "weather.`reboot`",
    "weather.;reboot",
    "weather.'reboot",
    "weather.(e:reboot:)",
)
"""Names of topics that a shell would take for more than a word."""


@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_a_shell_completes_names_of_topics_without_them(site: SiteProcess, shell: str) -> None:
    async def completed(line: str) -> tuple[str, set[str]]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        asked = words if shell == "bash" else {"_TYPER_COMPLETE_ARGS": line}
        return await ran(site, _SMQPD_COMPLETE=f"complete_{shell}", **asked)

    async with daemon(site.config), site.eve() as eve:
        for topic in ("weather.oslo", "weather.rome", "work", *NO_WORDS):
            await eve.publish(topic, message(b"x", delivery="ONE"))
        said, loaded = await completed("smqpd topic show weather.")
        assert "weather.oslo" in said
        assert "weather.rome" in said
        assert "work" not in said
        assert "reboot" not in said
        assert loaded & {*HEAVY, "plugins"} == set()
        assert "topics" in (await completed("smqpd to"))[0]
        assert "purge" in (await completed("smqpd topic "))[0]
    said, loaded = await completed("smqpd topic show weather.")
    assert "weather" not in said
    assert not any("Traceback" in word for word in loaded)
