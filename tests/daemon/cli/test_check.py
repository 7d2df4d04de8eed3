"""Checks for monitoring: what they print, and the exit codes that Nagios and its kin go by."""

import json
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from daemon.certificates.authority import Authority
from daemon.control import operators
from daemon.control.client import short_path
from daemon.control.operators import AnyOperatorQuestion
from daemon.control.socket import Tell, serve_control
from daemon.operations.site import SiteOperations
from daemon.system.mishaps import Mishaps
from routing.errors import Refusal
from tests.support.broker import virtual_site
from tests.support.keys import write_keys, write_trust
from tests.support.process import daemon
from tests.support.running import SiteProcess, message

OK, WARNING, CRITICAL, UNKNOWN = range(4)

PERFORMANCE = r"'[^'=|]+'=[0-9.]+(s|B|%|c)?(;[0-9.]*:?;[0-9.]*:?;0)?"


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
    for wrong in ((), ("nothing",), ("--site", "s", "site"), ("site", "--colour")):
        assert (await site.command("check", *wrong))[0] == UNKNOWN
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
        assert await checked(site, "topic", "work") == (WARNING, "1 dead letter of work")
        await eve.unsubscribe("work")
        await site.asked("topic", "purge", "work", "--yes")
        assert (await site.command("topic", "show", "work"))[0] == 1, "it is forgotten"
        assert await checked(site, "topic", "work") == (WARNING, "1 dead letter of work")
        assert (await checked(site, "topic", "worc"))[1] == "nothing is known of worc"


async def test_who_consumes_by_a_pattern_and_keeps_up_consumes(site: SiteProcess) -> None:
    """Of the topic itself nothing is known then."""
    async with daemon(site.config), site.eve() as eve:
        await eve.subscribe("work.#")
        assert (await checked(site, "topic", "work.hard", "--subscribed"))[0] == OK
        measured = (await site.asked("check", "topic", "work.hard"))["measured"]
        assert {each["label"]: each["value"] for each in measured}["sessions"] == 1
        assert (await checked(site, "topic", "play", "--subscribed"))[0] == CRITICAL


async def test_a_site_of_the_version_before_does_not_know_who_consumes_by_a_pattern(
    site: SiteProcess, nursery: trio.Nursery
) -> None:
    async def answer(question: AnyOperatorQuestion, tell: Tell) -> None:
        if isinstance(question, operators.AskSubscribed):
            raise Refusal(Refusal.BAD_COMMAND, "that is no question to this version")
        await tell(None)

    await nursery.start(serve_control, site.config.parent / "state", answer, Mishaps().note)
    assert await checked(site, "topic", "work") == (OK, "nothing is known of work")
    code, text = await checked(site, "topic", "work", "--subscribed")
    assert (code, "no question to this version" in text) == (UNKNOWN, True)


async def test_certificates_are_judged_by_the_days_that_are_left(site: SiteProcess, tmp_path: Path) -> None:
    began = datetime.now(UTC) - timedelta(days=1)
    authority = Authority.create(tmp_path / "ca", "it's = ours | yours\n", 3650, began)
    write_keys(authority, "alpha.example", site.config.parent / "keys", datetime.now(UTC), 20)
    code, text = await checked(site, "certificates")
    assert (code, "expires on" in text, "certificate is " in text) == (WARNING, True, False)
    assert (await checked(site, "certificates", "--critical", "25"))[0] == CRITICAL
    assert await checked(site, "certificates", "-w", "10", "-c", "5") == (
        OK,
        "3 certificates and 1 revocation list; the first ends in 20 days",
    )
    shown = (await site.command("check", "certificates"))[1]
    assert """ 'ca.pem the certificate of the authority CN:it"s : ours / yours\\n'=""" in shown
    measured = (await site.asked("check", "certificates", "-w", "10"))["measured"]
    assert "ca.pem the certificate of the authority CN=it's = ours | yours\n" in {
        value["label"] for value in measured
    }


async def test_a_certificate_of_this_site_that_is_revoked_is_critical(
    site: SiteProcess, tmp_path: Path
) -> None:
    authority = Authority.create(tmp_path / "ca", "test", 3650, datetime.now(UTC) - timedelta(days=1))
    keys = site.config.parent / "keys"
    write_keys(authority, "alpha.example", keys, datetime.now(UTC), 100)
    authority.revoke("alpha.example", datetime.now(UTC))
    write_trust(authority, keys)
    code, text = await checked(site, "certificates", "-w", "1", "-c", "1")
    assert (code, text) == (
        CRITICAL,
        f"{keys / 'site.pem'}: peers refuse this site: its certificate is revoked",
    )


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


async def test_what_waits_for_a_link_that_is_down_is_seen_with_its_topic(
    site: SiteProcess, tmp_path: Path
) -> None:
    authority = Authority.create(tmp_path / "ca", "test", 3650, datetime.now(UTC) - timedelta(days=1))
    write_keys(authority, "alpha.example", site.config.parent / "keys", datetime.now(UTC), 100)
    await site.printed("peer", "add", "beta.example", "127.0.0.1:9", "--flood")
    async with daemon(site.config), site.eve() as eve:
        for body in (b"rain", b"snow"):
            await eve.publish("weather", message(body, depth=1))
        text = (await checked(site, "topic", "weather"))[1]
        assert re.fullmatch(r"weather holds 2 messages, the oldest [1-9].* old", text), text
        assert (await checked(site, "topic", "weather", "--age-critical", "0.000001"))[0] == CRITICAL
        assert (await site.asked("topics"))["topics"][0]["oldest_s"] > 0
        browsed = await site.asked("topic", "browse", "weather")
        assert [each["sections"][0]["size"] for each in browsed] == [4, 4]
        [second] = await site.asked("topic", "browse", "weather", "--after", str(browsed[0]["id"]))
        assert second["id"] == browsed[1]["id"]
        assert "for peers 2 " in await site.printed("topic", "show", "weather")
        assert (await site.asked("topic", "show", "weather"))["for_peers"] == 2
        removed = await site.printed("peer", "remove", "beta.example")
        assert removed.startswith("Removed beta.example, for which 2 messages waited. ")


async def test_nothing_is_said_of_an_age_where_nothing_waits_for_anybody(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        await eve.subscribe("work")
        assert await checked(site, "topic", "work") == (OK, "work holds 0 messages")
        assert await site.printed("topic", "browse", "work") == "It holds nothing.\n"


async def test_what_waits_for_the_end_of_a_delay_alone_has_no_age_and_is_not_shown(
    tmp_path: Path, site: SiteProcess
) -> None:
    async with virtual_site(tmp_path) as running:
        ada, broker = running.login("ada"), running.broker
        request = ada.request()
        ada.session.publish("later", message(b"x", delivery="ONE"), request, delay_s=3_600.0)
        await ada.answer(request)

        async def answer(question: AnyOperatorQuestion, tell: Tell) -> None:
            await tell(await operators.answer(SiteOperations(broker), question))

        async with trio.open_nursery() as nursery:
            await nursery.start(serve_control, site.config.parent / "state", answer, broker.mishaps.note)
            assert await checked(site, "topic", "later") == (OK, "later holds 1 message")
            browsed = await site.printed("topic", "browse", "later")
            assert browsed == "It holds 1 message, which nobody is to have before a delay ends.\n"
            nursery.cancel_scope.cancel()
