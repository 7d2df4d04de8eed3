"""Checks for monitoring: what they print, and the exit codes that Nagios and its kin go by."""

import json
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.certificates.authority import Authority
from daemon.control.client import short_path
from tests.support.keys import write_keys
from tests.support.process import daemon
from tests.support.running import SiteProcess, message

OK, WARNING, CRITICAL, UNKNOWN = range(4)

PERFORMANCE = r"'[^']+'=[0-9.]+(s|B|%|c)?(;[0-9.]*:?;[0-9.]*:?;0)?"


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


async def checked(site: SiteProcess, *words: str) -> tuple[int, str]:
    """The exit code, and what stands before the performance data."""
    code, out, _ = await site.command("check", *words)
    text, bar, data = out.rstrip("\n").partition(" | ")
    assert "\n" not in out.rstrip("\n")
    assert not bar or re.fullmatch(rf"{PERFORMANCE}( {PERFORMANCE})*", data), data
    assert text.startswith(f"SMQPD {['OK', 'WARNING', 'CRITICAL', 'UNKNOWN'][code]} - ")
    return code, text.partition(" - ")[2]


async def test_a_site_that_does_not_run_is_critical_and_wrong_usage_unknown(site: SiteProcess) -> None:
    for check in ("site", "links", "store", "clock"):
        code, text = await checked(site, check)
        assert (code, text.startswith("no daemon answers in ")) == (CRITICAL, True)
    assert (await checked(site, "topic", "a b"))[0] == UNKNOWN
    assert (await site.command("check", "topic"))[0] == UNKNOWN
    assert (await site.command("check", "site", "--colour"))[0] == UNKNOWN
    (site.config).write_text("nonsense")
    assert (await checked(site, "certificates"))[0] == UNKNOWN


async def test_a_site_that_hangs_is_critical_in_time(site: SiteProcess) -> None:
    state = site.config.parent / "state"
    with socket.socket(socket.AF_UNIX) as hanging:
        with short_path(state) as path:
            hanging.bind(path)
        hanging.listen()
        for check in (["site"], ["links"], ["topic", "work"], ["store"], ["clock"]):
            code, text = await checked(site, *check, "-t", "0.2")
            assert (code, text) == (CRITICAL, f"no daemon answers in {state}: it takes longer than 0.2 s")


async def test_a_site_that_runs_well_is_ok(site: SiteProcess) -> None:
    async with daemon(site.config):
        code, text = await checked(site, "site")
        assert (code, re.sub("runs for .*: ", "runs: ", text)) == (
            OK,
            "alpha.example runs: 0 sessions, 0 held",
        )
        assert await checked(site, "links") == (OK, "this site has no peers")
        assert (await checked(site, "store", "-w", "0", "-c", "0"))[0] == OK
        code, text = await checked(site, "store", "--critical", "100")
        assert (code, text.startswith("free is ")) == (CRITICAL, True)
        assert (await checked(site, "clock"))[0] in (OK, WARNING), "the machine may have no NTP"
        shown = json.loads((await site.command("check", "site", "--json"))[1])
        assert (shown["level"], shown["measured"][1]["label"]) == ("OK", "held")


async def test_what_is_held_without_a_guarantee_counts_too(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        for guarantee in (True, False, False):
            await eve.publish("work", message(b"x", delivery="ONE", guarantee=guarantee))
        assert (await checked(site, "site"))[1].endswith(": 1 session, 3 held")
        assert await checked(site, "topic", "work", "-w", "2") == (WARNING, "held is 3")
        measured = json.loads((await site.command("check", "site", "--json"))[1])["measured"]
        assert {each["label"]: each["value"] for each in measured}["held_guaranteed"] == 1


async def test_a_topic_is_judged_by_depth_age_and_who_consumes(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        assert await checked(site, "topic", "work") == (OK, "nothing is known of work")
        for _ in range(3):
            await eve.publish("work", message(b"x", delivery="ONE"))
        assert (await checked(site, "topic", "work", "-w", "4"))[0] == OK
        assert await checked(site, "topic", "work", "-w", "2", "-c", "5") == (WARNING, "held is 3")
        assert await checked(site, "topic", "work", "-w", "2", "-c", "3") == (CRITICAL, "held is 3")
        assert (await checked(site, "topic", "work", "--age-critical", "0"))[0] == CRITICAL
        assert await checked(site, "topic", "work", "--subscribed") == (CRITICAL, "nobody consumes from work")
        await eve.subscribe("work")
        assert (await checked(site, "topic", "work", "--subscribed"))[0] == OK
        await eve.give_back([await anext(eve)], outcome="rejected", reason="no good")
        assert await checked(site, "topic", "work") == (WARNING, "1 dead letters of work")
        await eve.unsubscribe("work")
        await site.asked("topic", "purge", "work", "--yes")
        assert (await site.command("topic", "show", "work"))[0] == 1, "it is forgotten"
        assert await checked(site, "topic", "work") == (WARNING, "1 dead letters of work")
        assert (await checked(site, "topic", "worc"))[1] == "nothing is known of worc"


async def test_certificates_are_judged_by_the_days_that_are_left(site: SiteProcess, tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca", "test", 3650, datetime.now(UTC) - timedelta(days=1))
    write_keys(authority, "alpha.example", site.config.parent / "keys", datetime.now(UTC), 20)
    code, text = await checked(site, "certificates")
    assert (code, "expires on" in text, "certificate is " in text) == (WARNING, True, False)
    assert (await checked(site, "certificates", "--critical", "25"))[0] == CRITICAL
    assert (await checked(site, "certificates", "-w", "10", "-c", "5"))[0] == OK


async def test_a_link_that_is_down_is_critical_after_a_while(site: SiteProcess, tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca", "test", 3650, datetime.now(UTC) - timedelta(days=1))
    write_keys(authority, "alpha.example", site.config.parent / "keys", datetime.now(UTC), 100)
    assert (await site.command("peer", "add", "beta.example", "127.0.0.1:9"))[0] == 0
    async with daemon(site.config):
        code, text = await checked(site, "links", "--down", "1000")
        assert (code, text.startswith("beta.example is down for ")) == (WARNING, True)
        assert (await checked(site, "links", "--down", "0"))[0] == CRITICAL
        assert await checked(site, "links", "--peer", "gamma.example") == (
            CRITICAL,
            "gamma.example is no peer",
        )
