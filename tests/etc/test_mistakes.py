"""The mistakes of the operator's guide: each is made, and what the guide shows is what is seen."""

import re
import sys
from pathlib import Path

import pytest
import trio

from daemon.terminal.failure import FAILED
from tests.support.process import ROOT, SMQPD_RUN, Daemon, daemon, environment
from tests.support.running import RunningSite, message

GUIDE = (ROOT / "etc/README.md").read_text().partition("## Mistakes at night")[2].partition("\n## ")[0]


@pytest.fixture
def site(tmp_path: Path) -> RunningSite:
    return RunningSite(tmp_path / "site")


def guide(mistake: str) -> list[str]:
    """What the guide says that is seen, in its own words, of a mistake."""
    [row] = [line for line in GUIDE.splitlines() if line.startswith(f"| {mistake}")]
    return re.findall(r"`([^`]+)`", row.split(" | ")[1])


def shows(seen: str, said: str) -> bool:
    """Whether it does, with anything where the guide has dots or a number."""
    parts = [re.sub(r"\d+", r"\\d+", re.escape(part)) for part in said.split("...")]
    return re.search(".*".join(parts), " ".join(seen.split())) is not None


async def refused_reload(site: RunningSite) -> str:
    code, _, why = await site.command("reload")
    assert code == FAILED
    return why


async def refused_start(site: RunningSite) -> str:
    done = await trio.run_process(
        [sys.executable, *SMQPD_RUN, str(site.config)],
        capture_stderr=True,
        check=False,
        env=environment(site.config.parent),
    )
    assert done.returncode == FAILED
    return done.stderr.decode()


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


async def goes_on(site: RunningSite, running: Daemon) -> None:
    assert running.process.poll() is None
    async with site.eve() as eve:
        await eve.publish("work", message(b"x"))


async def test_a_setting_is_misspelt(site: RunningSite) -> None:
    async with daemon(site.config) as running:
        edit(site.config, "[limits]\n", "[limits]\nconections_max = 10\n")
        assert shows(await refused_reload(site), guide("a setting misspelt")[0])
        await goes_on(site, running)


async def test_the_accounts_are_open_to_others(site: RunningSite) -> None:
    async with daemon(site.config) as running:
        (site.config.parent / "accounts.toml").chmod(0o644)
        assert shows(await refused_reload(site), guide("`accounts.toml` edited")[0])
        await goes_on(site, running)


async def test_the_accounts_are_deleted(site: RunningSite) -> None:
    said = guide("`accounts.toml` deleted")[0]
    async with daemon(site.config) as running:
        (site.config.parent / "accounts.toml").unlink()
        assert shows(await refused_reload(site), said)
        assert shows((await site.command("status"))[1], said)
        await goes_on(site, running)
    assert shows(await refused_start(site), said.removeprefix("accounts: "))


async def test_a_site_is_started_twice(site: RunningSite) -> None:
    async with daemon(site.config) as running:
        assert shows(await refused_start(site), guide("the site started a second time")[0])
        await goes_on(site, running)


async def test_a_backup_is_restored_over_the_site_that_runs(site: RunningSite, tmp_path: Path) -> None:
    async with daemon(site.config) as running:
        await site.printed("backup", str(tmp_path / "backup"))
        for words in ((), ("--replace",)):
            done = await trio.run_process(
                [
                    sys.executable,
                    "-c",
                    "from daemon.cli.main import main; main()",
                    "restore",
                    str(tmp_path / "backup"),
                    str(site.config.parent),
                    *words,
                ],
                capture_stderr=True,
                check=False,
                env=environment(site.config.parent),
            )
            assert done.returncode == FAILED
            if words:
                assert shows(done.stderr.decode(), guide("a backup restored over")[0])
        await goes_on(site, running)


async def test_the_wrong_topic_is_purged(site: RunningSite) -> None:
    async with daemon(site.config) as running, site.eve() as eve:
        await eve.publish("orders.new", message(b"x", delivery="ONE"))
        await site.printed("topic", "purge", "orders.new", "--yes")
        said = guide("the wrong topic purged")[0].replace("root", "...")
        assert shows(running.log, said)
        _, _, remark = await site.command("topic", "purge", "orders.old", "--yes")
        assert shows(remark, guide("the wrong topic purged")[1])


async def test_the_disk_with_the_state_is_not_mounted(site: RunningSite) -> None:
    async with daemon(site.config):
        pass
    state = site.config.parent / "state"
    state.rename(state.with_name("unmounted"))
    state.mkdir(mode=0o700)
    assert shows(await refused_start(site), guide("the disk with the state not mounted")[0])


async def test_the_name_of_the_server_is_changed(site: RunningSite) -> None:
    async with daemon(site.config):
        pass
    edit(site.config, '"alpha.example"', '"beta.example"')
    assert shows(await refused_start(site), guide("`server_name` changed")[0])
