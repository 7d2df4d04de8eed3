"""What a log of which something is missing or damaged says of a message: no more than can be known."""

import json
import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from daemon.hops import closing
from daemon.hops.coverage import Gap
from daemon.hops.examine import Findings, examine
from daemon.hops.files import list_files
from daemon.hops.reader import HopLogReader
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings
from routing.hop_words import LINE_BYTES_MAX
from routing.hops import Closing

SERVER = "alpha.example"
BORN_MS = 1_795_000_000_000
SMUID = f"{SERVER}/{BORN_MS:012x}-1-1"
FOREIGN = f"beta.example/{BORN_MS + 5_000:012x}-1-1"
ADA, BOB = f"ada:desk@{SERVER}", f"bob:desk@{SERVER}"


class Site:
    """The hop log of a site whose clock goes a second with each record."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.us = BORN_MS * 1000 - 1_000_000
        self.start(1, 0)

    def start(self, boot: int, committed: int) -> None:
        self.log = HopLog.open(
            self.directory,
            server=SERVER,
            boot=boot,
            committed_record=committed,
            settings=HopSettings(),
            now_us=lambda: self.us,
        )

    def write(self, *events: str, smuid: str = SMUID, **fields: object) -> None:
        for event in events:
            self.us += 1_000_000
            about = {} if event == "heartbeat" else {"smuid": smuid, "topic": "news"}
            if event in ("delivered", "committed"):
                about |= {"subscription": BOB}
            self.log.append(event, **about, **fields)  # type: ignore[arg-type] # an Event
        self.log.settle(self.log.flush())

    def close(self) -> Path:
        """End the file that is open; its path."""
        self.log.close()
        return list_files(self.directory)[-1].path

    def cut(self, records: int) -> None:
        """The power goes, and with it the last records of the file that was open."""
        path = list_files(self.directory)[-1].path
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-records]))

    def why(self, smuid: str = SMUID) -> Findings:
        return examine(self.directory, smuid)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def flip(path: Path, find: bytes, put: bytes) -> None:
    assert len(find) == len(put)
    data = path.read_bytes()
    assert data.count(find) == 1
    path.write_bytes(data.replace(find, put))


def test_a_closed_file_ends_with_the_checksum_of_what_is_before_it(site: Site) -> None:
    site.write("published", "delivered", "committed")
    *lines, last = site.close().read_bytes().splitlines(keepends=True)
    assert json.loads(last) == {
        "event": "closed",
        "version": 1,
        "server": SERVER,
        "boot": 1,
        "first": 1,
        "last": 3,
        "records": 3,
        "crc32": zlib.crc32(b"".join(lines)),
    }
    reader = HopLogReader(site.directory)
    assert [record.record for record in reader.records()] == [1, 2, 3]
    assert reader.unread.bad == 0
    assert reader.check() == (1, 3)
    assert (reader.gaps, reader.damage) == ([], [])


def test_the_checksum_is_of_what_was_written_and_not_cut_back(site: Site) -> None:
    site.write("published")
    site.log.append("delivered", smuid=SMUID, topic="refused after all")
    site.log.flush()
    site.log.revert()
    site.write("delivered", "committed")
    found = closing.find(site.close())
    assert found is not None
    line, before = found
    assert line.crc32 == zlib.crc32(list_files(site.directory)[0].path.read_bytes()[:before])
    assert (line.records, line.last) == (3, 3)


@pytest.mark.parametrize("kept_bytes", [0, 1, 30, -1, None])
def test_a_power_cut_while_a_file_is_closed_leaves_nothing_of_the_line(
    site: Site, kept_bytes: int | None
) -> None:
    site.write("published", "delivered")
    path = list_files(site.directory)[0].path
    records = path.read_bytes()
    line = msgspec.json.encode(
        Closing(version=1, server=SERVER, boot=1, first=1, last=2, records=2, crc32=zlib.crc32(records))
    )
    path.write_bytes(records + (line + b"\n")[:kept_bytes])
    site.start(2, 2)
    assert [file.path.name for file in list_files(site.directory)] == [f"hops-{SERVER}-1-1-2.jsonl"]
    assert list_files(site.directory)[0].path.read_bytes() == records + line + b"\n"


def test_a_tail_that_a_power_cut_took_may_have_been_the_end_of_a_message(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.write("published", "delivered")
    site.write("committed", "heartbeat", final=True)
    site.cut(2)
    site.start(2, 4)
    assert "the hop log has lost its records 3 to 4" in caplog.text
    site.write("heartbeat")
    found = site.why()
    assert found.state == "unknown"
    assert not found.covered
    assert found.gaps == [
        Gap(first=3, last=4, after_us=1_795_000_001_000_000, before_us=1_795_000_004_000_000, boot=1)
    ]
    assert found.verdict == (
        "Published. What became of it is not known: 2 records of this log are missing (3 to 4, written after"
        " 2026-11-18 11:06:41.000000 and before 2026-11-18 11:06:44.000000). As far as the log goes:"
        f" delivered to {BOB} and not committed yet."
    )


def test_what_has_its_end_in_the_log_is_not_doubted(site: Site) -> None:
    site.write("published", "delivered")
    site.write("committed", final=True)
    site.write("heartbeat", "heartbeat")
    site.cut(2)
    site.start(2, 5)
    site.write("heartbeat")
    found = site.why()
    assert found.state == "committed"
    assert (found.gaps, found.covered) == ([], True)


def test_records_lost_before_a_message_was_there_say_nothing_of_it(site: Site) -> None:
    site.write("heartbeat", "heartbeat")
    site.cut(1)
    site.start(2, 2)
    later = f"{SERVER}/{BORN_MS + 60_000:012x}-2-1"
    site.write("published", smuid=later)
    assert site.why(later).state == "waiting"
    never = f"{SERVER}/{BORN_MS + 2_000:012x}-2-7"
    assert site.why(never).verdict.endswith("this site never had it.")
    assert site.why(SMUID).verdict.startswith(
        "No record of it, but that does not say that this site never had"
    )


def test_a_message_of_another_site_may_have_come_in_records_that_are_missing(site: Site) -> None:
    site.write("heartbeat", "heartbeat", "heartbeat")
    site.cut(1)
    site.start(2, 3)
    site.write("heartbeat")
    site.us += 60_000_000
    site.write("heartbeat")
    found = site.why(FOREIGN)
    assert (found.state, found.covered) == ("unknown", False)
    assert "1 record of this log is missing (3, written" in found.verdict


def behind_for_a_boot(site: Site, *events: str) -> None:
    """The second of three boots ends with a clock that is two days behind; FOREIGN is born in it."""
    now_us, days_us = BORN_MS * 1000 + 6_000_000, 86_400_000_000
    written: set[Path] = set()
    boots: list[tuple[int, tuple[str, ...]]] = [(4, ("heartbeat",)), (2, events), (0, ("heartbeat",))]
    for boot, (days, all_events) in enumerate(boots, 1):
        site.us = now_us - days * days_us
        if boot > 1:
            site.start(boot, site.log.last_record)
        site.write(*all_events, smuid=FOREIGN)
        site.close()
        for file in list_files(site.directory):
            if file.path not in written:
                os.utime(file.path, (site.us / 1e6, site.us / 1e6))
                written.add(file.path)


def test_what_came_while_the_clock_was_behind_is_found(site: Site) -> None:
    behind_for_a_boot(site, "received", "delivered")
    found = site.why(FOREIGN)
    assert (found.state, [record.event for record in found.records]) == (
        "waiting",
        ["received", "delivered"],
    )


def test_what_did_not_come_while_the_clock_was_behind_was_never_here(site: Site) -> None:
    behind_for_a_boot(site, "heartbeat")
    found = site.why(FOREIGN)
    assert found.verdict.endswith("this site never had it.")
    assert (found.covered, found.gaps) == (True, [])


DAY_S = 86_400


@pytest.mark.parametrize(
    ("smuid", "born_after_s", "is_known"),
    [
        ("beta.example/{:012x}-1-1", 3_600, False),
        ("beta.example/{:012x}-1-1", DAY_S + 3_600, True),
        (SERVER + "/{:012x}-1-1", 3_600, False),
        (SERVER + "/{:012x}-2-1", 3_600, True),
    ],
    ids=["an hour", "a day", "the same boot", "a later boot"],
)
def test_where_older_records_are_no_longer_kept_a_clock_that_was_behind_may_hide_that_it_was_here(
    site: Site, smuid: str, born_after_s: int, is_known: bool
) -> None:
    site.write("heartbeat", smuid=FOREIGN)
    older = site.close()
    kept_from_s = site.us // 1_000_000 + 1
    for boot in (1, 2):
        site.start(boot, boot)
        site.write("heartbeat")
        site.close()
        site.us += 2 * DAY_S * 1_000_000
    site.start(3, 3)
    site.write("heartbeat")
    older.unlink()
    found = site.why(smuid.format((kept_from_s + born_after_s) * 1000))
    assert found.verdict.endswith("this site never had it.") is is_known
    assert (found.state, found.covered) == ("unknown", is_known)


@pytest.mark.parametrize("harm", ["a record is gone", "a byte is another"])
def test_records_that_are_missing_from_when_the_clock_was_behind_may_have_told_of_it(
    site: Site, harm: str
) -> None:
    behind_for_a_boot(site, "received", "heartbeat", "heartbeat")
    path = list_files(site.directory)[1].path
    time = path.stat().st_mtime
    lines = path.read_bytes().splitlines(keepends=True)
    if harm == "a record is gone":
        path.write_bytes(b"".join(lines[1:]))
    else:
        path.write_bytes(b"".join(lines).replace(FOREIGN.encode(), FOREIGN.replace("beta", "betb").encode()))
    os.utime(path, (time, time))
    found = site.why(FOREIGN)
    assert (found.state, found.covered) == ("unknown", False)
    assert found.verdict.startswith("No record of it, but that does not say that this site never had it: ")


def test_a_file_that_is_gone_is_a_gap(site: Site) -> None:
    site.write("published")
    site.close()
    for boot in (2, 3):
        site.start(boot, boot - 1)
        site.write("heartbeat")
        site.close()
    list_files(site.directory)[1].path.unlink()
    assert [(gap.first, gap.last) for gap in site.why().gaps] == [(2, 2)]


@pytest.mark.parametrize(
    "harm",
    [
        lambda data, at: data[:at] + bytes(60) + data[at + 60 :],
        lambda data, at: data[:at] + data[at + 60 :],
        lambda data, at: data[:at] + os.urandom(60).replace(b"\n", b"x") + data[at + 60 :],
    ],
)
def test_a_block_in_the_middle_of_a_file_that_was_never_written_is_a_gap(
    site: Site, harm: Callable[[bytes, int], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    site.write("published", "delivered", "delivered", "delivered", "delivered")
    path = list_files(site.directory)[0].path
    data = path.read_bytes()
    at = data.index(b'"record":3')
    path.write_bytes(harm(data, at))
    with caplog.at_level(logging.WARNING):
        site.start(2, 5)
    site.write("heartbeat")
    found = site.why()
    assert found.state == "unknown"
    assert [(gap.first, gap.last) for gap in found.gaps] == [(3, 3)]
    assert "of 1 to 5 in open-1.jsonl 1 are missing, and 1 lines cannot be read" in caplog.text
    reader = HopLogReader(site.directory)
    reader.check()
    assert [one.what for one in reader.damage] == [
        f"the line at byte {data.rindex(b'{', 0, at)} is no record"
    ]


@pytest.mark.parametrize("missing", ["first", "last", "all"])
def test_a_closed_file_lacks_what_its_name_says(site: Site, missing: str) -> None:
    site.write("published", "delivered", "heartbeat")
    path = site.close()
    first, second, third, _ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes({"first": second + third, "last": first + second, "all": b""}[missing])
    gaps = [(gap.first, gap.last) for gap in site.why().gaps]
    assert gaps == {"first": [(1, 1)], "last": [(3, 3)], "all": [(1, 3)]}[missing]


def test_a_flipped_bit_in_a_closed_file_is_noticed_and_named(site: Site) -> None:
    site.write("published", "delivered")
    site.write("committed", smuid=FOREIGN, final=True)
    path = site.close()
    flip(path, FOREIGN.encode(), FOREIGN.replace("beta", "betb").encode())
    found = site.why()
    assert found.state == "unknown"
    assert f"{path.name} is damaged (its checksum is wrong" in found.verdict
    assert [one.file for one in found.damage] == [path.name]


def test_a_closed_file_of_the_version_before_has_no_checksum_and_is_whole(site: Site) -> None:
    site.write("published", "delivered")
    path = site.close()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    found = site.why()
    assert found.state == "waiting"
    assert (found.gaps, found.damage, found.unread.bad) == ([], [], 0)


def test_a_log_of_which_nothing_can_be_read_is_not_said_to_be_empty(site: Site) -> None:
    site.write("published", "heartbeat")
    path = site.close()
    path.write_bytes(bytes(path.stat().st_size))
    found = site.why()
    assert (found.state, found.covered) == ("unknown", False)
    assert "has none that can be read: 2 records of this log are missing (1 to 2)" in found.verdict


@pytest.mark.parametrize(
    ("rubbish", "what"),
    [
        (b"\0" * 3_000_000 + b"\n", "a line in it is too long to be a record"),
        (b'{"version":1', "it ends in the middle of a line"),
    ],
    ids=["long", "torn"],
)
def test_what_is_no_line_of_a_record_is_damage(site: Site, rubbish: bytes, what: str) -> None:
    site.write("published", "heartbeat")
    path = site.close()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]) + rubbish)
    reader = HopLogReader(site.directory)
    assert reader.check() == (1, 2)
    assert [(one.file, one.what) for one in reader.damage] == [(path.name, what)]


@pytest.mark.parametrize("field", ["boot", "record", "time_us"])
@pytest.mark.parametrize("number", ["1" + 400 * "0", "-7"])
def test_a_number_that_no_record_can_have_makes_a_line_no_record(site: Site, field: str, number: str) -> None:
    site.write("published", "heartbeat", "heartbeat")
    path = list_files(site.directory)[0].path
    first, second, third = path.read_bytes().splitlines(keepends=True)
    at = second.index(b'"%s":' % field.encode()) + len(field) + 3
    end = min(second.index(b",", at), second.index(b"}", at))
    path.write_bytes(first + second[:at] + number.encode() + second[end:] + third)
    site.start(2, 3)
    site.write("heartbeat")
    assert [(gap.first, gap.last) for gap in site.why().gaps] == [(2, 2)]


@pytest.mark.parametrize(
    ("find", "put"),
    [
        (b'"version":1', b'"version":2'),
        (b'"event":"committed"', b'"event":"pondered"'),
        (b'"topic":"news"', b'"topic":"' + b"n" * LINE_BYTES_MAX + b'"'),
    ],
    ids=["of a later version", "an event of a later version", "too long"],
)
def test_what_names_a_message_and_cannot_be_read_may_be_its_end(site: Site, find: bytes, put: bytes) -> None:
    site.write("published", "delivered")
    site.write("committed", final=True)
    site.write(*["heartbeat"] * 9)
    path = list_files(site.directory)[-1].path
    first, second, third, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, second, third.replace(find, put), *others]))
    found = site.why()
    assert (found.state, found.covered) == ("unknown", False)
    assert "What became of it is not known: 1 record that names it cannot be read" in found.verdict
    assert site.why(FOREIGN).verdict.endswith("this site never had it.")


def test_a_message_of_which_no_record_can_be_read_is_not_said_never_to_have_been_here(site: Site) -> None:
    site.write("heartbeat")
    site.write("received", "committed", smuid=FOREIGN, peer="beta.example")
    site.write(*["heartbeat"] * 9)
    path = list_files(site.directory)[-1].path
    lines = path.read_bytes().splitlines(keepends=True)
    of_later = [line.replace(b'"version":1', b'"version":2') if b"beta" in line else line for line in lines]
    path.write_bytes(b"".join(of_later))
    found = site.why(FOREIGN)
    assert (found.state, found.covered, found.gaps) == ("unknown", False, [])
    assert "does not say that this site never had it: 2 records that name it cannot be read" in found.verdict


def test_an_end_that_can_be_read_leaves_no_doubt_about_what_cannot(site: Site) -> None:
    site.write("published", "delivered")
    site.write("committed", final=True)
    path = list_files(site.directory)[-1].path
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second.replace(b'"version":1', b'"version":2') + third)
    assert site.why().state == "committed"


def test_a_log_of_a_later_version_alone_is_not_said_to_be_empty(site: Site) -> None:
    site.write("heartbeat")
    path = list_files(site.directory)[-1].path
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    found = site.why()
    assert found.verdict == f"No record of it: the hop log in {site.directory} has none that can be read."


def test_a_log_that_ends_in_the_middle_of_a_record_as_its_daemon_ended_may_lack_more(site: Site) -> None:
    site.write("published", "delivered")
    site.write(*["heartbeat"] * 9)
    with list_files(site.directory)[-1].path.open("ab") as file:
        file.write(b'{"version":1,"ser')
    running = [examine(site.directory, smuid) for smuid in (SMUID, FOREIGN)]
    assert [found.state for found in running] == ["waiting", "unknown"]
    assert running[1].covered
    for smuid in (SMUID, FOREIGN):
        found = examine(site.directory, smuid, has_ended=True)
        assert (found.state, found.covered) == ("unknown", False)
        assert "the log ends in the middle of a record" in found.verdict


def test_an_old_file_that_ends_in_the_middle_of_a_record_does_not_say_that_the_log_does(site: Site) -> None:
    site.write("heartbeat", "heartbeat")
    path = site.close()
    path.write_bytes(path.read_bytes() + b'{"version":1,"ser')
    site.start(2, 2)
    site.write("published", "delivered")
    site.close()
    found = examine(site.directory, SMUID, has_ended=True)
    assert (found.state, found.covered) == ("waiting", True)
