"""A site takes the files that its connections need, and says where it may not have them."""

import resource
from pathlib import Path

import pytest

from daemon.system import open_files
from tests.support.process import daemon
from tests.support.running import SiteProcess

TOO_FEW = ", but the limit of open files leaves room for 144: raise LimitNOFILE="


def may_open(pid: int) -> int:
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max open files"):
            return int(line.split()[3])
    raise AssertionError


def set_connections_max(site: SiteProcess, count: int) -> None:
    settings = site.config.read_text()
    site.config.write_text(settings.replace("\n[limits]\n", f"\n[limits]\nconnections_max = {count}\n"))


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


async def test_a_site_takes_what_it_may_have(site: SiteProcess) -> None:
    within = ("sh", "-c", 'ulimit -Sn 400; exec "$@"', "sh")
    async with daemon(site.config, within=within) as running:
        assert may_open(running.process.pid) == min(10_256, _hard_limit())


async def test_a_site_that_may_not_have_enough_says_how_many_connections_there_can_be(
    site: SiteProcess,
) -> None:
    async with daemon(site.config, within=("sh", "-c", 'ulimit -n 400; exec "$@"', "sh")) as running:
        assert may_open(running.process.pid) == 400
        assert f"connections_max is 10000{TOO_FEW}" in running.log
        set_connections_max(site, 200)
        await site.printed("reload")
        assert f"connections_max is 200{TOO_FEW}" in running.log


async def test_a_reload_takes_the_files_that_it_wants(site: SiteProcess) -> None:
    async with daemon(site.config, within=("sh", "-c", 'ulimit -Sn 400; exec "$@"', "sh")) as running:
        set_connections_max(site, 11000)
        await site.printed("reload")
        assert may_open(running.process.pid) == min(11_256, _hard_limit(11_256))


def test_where_no_limit_may_be_raised_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: int, __: tuple[int, int]) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "getrlimit", lambda _: (400, 100_000))
    monkeypatch.setattr(resource, "setrlimit", forbidden)
    said = open_files.allow(1_000)
    assert said is not None
    assert TOO_FEW in said


def _hard_limit(wanted: int = 10_256) -> int:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if most == resource.RLIM_INFINITY else most
