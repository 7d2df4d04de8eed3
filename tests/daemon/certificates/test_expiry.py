"""Certificates and lists that end: from when on it is said, how often, and where."""

import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from daemon.certificates.authority import Authority
from daemon.certificates.expiry import Expiry, ExpiryWatch
from daemon.configuration.discovery import Installed
from daemon.settings import LinkSettings, Settings, SiteSettings, TlsSettings
from daemon.site.directory import make_site
from daemon.site.examination import examine, expired
from daemon.site.finding import Finding
from tests.support.broker import virtual_site
from tests.support.installed import checkout_plugins
from tests.support.keys import write_keys
from tests.support.operator import Operator
from tests.support.process import daemon

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DAY = timedelta(days=1)
FILE = Path("keys/tls.crt")


def expiry(left: timedelta) -> Expiry:
    return Expiry(FILE, "the certificate", NOW + left)


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (30 * DAY, None),
        (30 * DAY - timedelta(seconds=1), "expires on 2026-12-22, in 29 days; renew it"),
        (1.5 * DAY, "expires on 2026-11-24, in 1 day; renew it"),
        (timedelta(minutes=1), "expires on 2026-11-22, within a day; renew it"),
        (timedelta(0), "expired on 2026-11-22 12:00 UTC; renew it"),
        (-100 * DAY, "expired on 2026-08-14 12:00 UTC; renew it"),
    ],
)
def test_it_is_said_from_30_days_before_the_end_on(left: timedelta, words: str | None) -> None:
    said = expiry(left).words(NOW)
    assert said == (words and f"keys/tls.crt: the certificate {words}")


def test_what_is_not_valid_yet_is_said_and_does_not_work() -> None:
    early = Expiry(FILE, "the certificate", NOW + 90 * DAY, NOW + timedelta(minutes=1))
    said = "the certificate is not valid before 2026-11-22 12:01 UTC; use another, or set the clock"
    assert expired([early], NOW) == [Finding("certificates", "broken", f"keys/tls.crt: {said}")]
    assert expired([early], NOW + timedelta(minutes=1)) == []


async def test_a_running_site_says_it_each_day_and_louder_once_it_is_over(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    watch = ExpiryWatch(lambda: round((NOW.timestamp() + trio.current_time()) * 1e6))
    async with virtual_site(tmp_path, chores=[watch.look]):
        watch.watch([expiry(31.5 * DAY), Expiry(Path("crl.pem"), "the list", NOW + 2.5 * DAY)])
        said = []
        for _ in range(4):
            said.append([(one.levelname, one.getMessage().split(":")[0]) for one in caplog.records])
            caplog.clear()
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(86_400 + 60)
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert said == [
        [("WARNING", "crl.pem")],
        [("WARNING", "crl.pem")],
        [("WARNING", "keys/tls.crt"), ("WARNING", "crl.pem")],
        [("WARNING", "keys/tls.crt"), ("ERROR", "crl.pem")],
    ]


def test_a_clock_that_is_set_back_silences_nothing(caplog: pytest.LogCaptureFixture) -> None:
    now = NOW
    watch = ExpiryWatch(lambda: round(now.timestamp() * 1e6))
    watch.watch([expiry(10 * DAY)])
    watch.look()
    assert len(caplog.records) == 1
    now = NOW - 5 * DAY
    watch.look()
    assert len(caplog.records) == 2


def test_what_is_read_again_is_said_again_and_what_is_renewed_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = ExpiryWatch(lambda: round(NOW.timestamp() * 1e6))
    for expected in (1, 2):
        watch.watch([expiry(10 * DAY)])
        assert len(caplog.records) == expected
    watch.watch([expiry(90 * DAY)])
    assert len(caplog.records) == 2


def test_of_both_kinds_all_ends_are_known(tmp_path: Path) -> None:
    """Those of [tls], of the site's link certificate, of the authority and of its list."""
    config = make_site(tmp_path / "site", "alpha", 7720, Installed({})).config
    keys = config.parent / "keys"
    write_keys(Authority.create(tmp_path / "ca", "test", 40, NOW), "alpha", keys, NOW, 20)
    settings = Settings(
        site=SiteSettings(server_name="alpha", accounts_file=config.parent / "accounts.toml"),
        tls=TlsSettings(certificate=keys / "tls.crt", key=keys / "tls.key"),
        links=LinkSettings(keys_directory=keys, peers_file=config.parent / "peers.toml"),
    )
    found = examine(config, settings, Installed({}), NOW, starts=False)
    ends = [(end.path.name, (end.at - NOW).days) for end in found.expiries]
    assert ends[1:] == [("site.pem", 20), ("ca.pem", 40), ("crl.pem", 40)]
    assert ends[0][0] == "tls.crt"
    assert [finding.level for finding in found.everything(NOW + 15 * DAY)] == ["warning"] * 3
    late = found.everything(NOW + 41 * DAY)
    assert [(finding.part, finding.level) for finding in late] == [("certificates", "broken")] * 3


async def test_it_is_in_the_status_and_in_the_check(tmp_path: Path) -> None:
    config = make_site(tmp_path / "site", "alpha", 0, checkout_plugins()).config
    operator, keys = Operator(config.parent), config.parent / "keys"
    since = datetime.now(UTC)
    authority = Authority.create(tmp_path / "ca", "test", 400, since)
    write_keys(authority, "alpha", keys, since, 10)
    said = f"{keys / 'site.pem'}: the certificate expires on "
    code, _, warned = await operator.command("config", "check")
    assert code == 0
    assert f"smqpd: warning: {said}" in warned
    async with daemon(config) as running:
        assert said in running.told[-1]
        assert said in running.log
        [finding] = (await operator.asked("status"))["findings"]
        assert finding["level"] == "warning"
        assert finding["problem"].startswith(said)

        write_keys(authority, "alpha", keys, since - 20 * DAY, 10)
        running.signal(signal.SIGHUP)
        await running.tells("RELOADING=1")
        assert f"{keys / 'site.pem'}: the certificate expired on " in await running.tells("READY=1")
        assert (await operator.command("status"))[0] == 1
    code, out, _ = await operator.command("config", "check", "--json")
    assert code == 1
    assert [finding["level"] for finding in json.loads(out)["findings"]] == ["broken"]
