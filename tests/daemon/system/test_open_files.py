"""A site takes the files that its connections need, and says where it may not have them."""

import resource
from pathlib import Path

import pytest

from tests.support.process import daemon
from tests.support.running import RunningSite


def may_open(pid: int) -> int:
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max open files"):
            return int(line.split()[3])
    raise AssertionError


@pytest.fixture
def site(tmp_path: Path) -> RunningSite:
    return RunningSite(tmp_path / "site")


async def test_a_site_takes_what_it_may_have(site: RunningSite) -> None:
    within = ("sh", "-c", 'ulimit -Sn 400; exec "$@"', "sh")
    async with daemon(site.config, within=within) as running:
        assert may_open(running.process.pid) == min(10_256, _hard_limit())


async def test_a_site_that_may_not_have_enough_says_how_many_connections_there_can_be(
    site: RunningSite,
) -> None:
    async with daemon(site.config, within=("sh", "-c", 'ulimit -n 400; exec "$@"', "sh")) as running:
        assert may_open(running.process.pid) == 400
    said = "connections_max is 10000, but the limit of open files leaves room for 144: raise LimitNOFILE="
    assert said in running.log


def _hard_limit() -> int:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 10_256 if most == resource.RLIM_INFINITY else most
