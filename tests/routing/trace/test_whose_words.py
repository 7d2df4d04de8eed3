"""Of a message its origin has the word, and of a copy its own server, whatever another site writes.

Site e writes of the messages of a what is not so, in records that are sound, and of which the numbers fit.
"""

from typing import Any

import pytest

from tests.support.copies_in_logs import FAR_US
from tests.support.found_in_logs import Found, found
from tests.support.hop_logs import ANSWERED, WrittenLogs

READ_TWICE = "a/019aa5d72900-1-1"
DEEP = "a/019aa5d72900-1-2"
WITH_RECEIPT = "a/019aa5d72900-1-3"
HELD = "a/019aa5d72900-1-4"
LOOSE = "a/019aa5d72900-1-5"
UNTOLD = "a/019aa5d72900-1-6"
NEVER_SENT = "a/019aa5d72900-1-7"
FOR_ONE = "a/019aa5d72900-1-8"
TOO_DEEP = "a/019aa5d72900-1-9"


def _sent(logs: WrittenLogs, smuid: str, server: str, **fields: Any) -> None:
    logs.write("a", "forwarded", smuid, peer=server, attempt=1, **ANSWERED, **fields)


def _read_at(logs: WrittenLogs, server: str, smuid: str, **fields: Any) -> None:
    reader = {"subscription": f"reader:main@{server}", "attempt": 1}
    logs.write(server, "received", smuid, peer="a", attempt=1, hops=("a",), due=1, **fields)
    logs.write(server, "committed", smuid, final=True, **reader, **fields)


@pytest.fixture(scope="module")
def jobs(spark: Any) -> Found:
    logs = WrittenLogs()
    for server in "abe":
        logs.write(server, "heartbeat")
    logs.write("a", "published", READ_TWICE, depth=2, priority=3, size=10, due=0)
    for server, said in (("b", {}), ("e", {"mode": "ONE", "priority": 9})):
        _read_at(logs, server, READ_TWICE, **said)
        _sent(logs, READ_TWICE, server, priority=3, size=10)
    answer = {"attempt": 1, "outcome": "duplicate"}
    logs.write("e", "forwarded", READ_TWICE, peer="a", priority=99, size=1_000_000, **answer)
    logs.write("a", "published", DEEP, depth=2)
    logs.write("e", "published", DEEP, depth=0, receipt="ALL")
    logs.write("a", "published", WITH_RECEIPT, due=0, receipt="ALL")
    for server in "be":
        _read_at(logs, server, WITH_RECEIPT)
        _sent(logs, WITH_RECEIPT, server, final=server == "e")
    logs.write("a", "receipt", WITH_RECEIPT, receipt="2/2")
    logs.write("e", "receipt", WITH_RECEIPT, receipt="9/1")
    logs.write("a", "published", HELD, due=1)
    logs.write("e", "forwarded", HELD, peer="a", attempt=1, guarantee=False, mode="ONE", **ANSWERED)
    logs.write("a", "published", LOOSE, due=1, guarantee=False)
    logs.write("e", "forwarded", LOOSE, peer="a", attempt=1, **ANSWERED)
    logs.write("b", "received", UNTOLD, peer="a", attempt=1, hops=("a",), due=1, mode="ONE", priority=7)
    logs.write("e", "receipt", UNTOLD, receipt="9/1", mode="ONE", priority=8)
    logs.write("a", "published", NEVER_SENT, due=0, receipt="ALL", expires_us=FAR_US)
    for server in "be":
        _read_at(logs, server, NEVER_SENT)
    _sent(logs, NEVER_SENT, "b", final=True)
    logs.write("a", "receipt", NEVER_SENT, receipt="1/1")
    logs.write("a", "published", FOR_ONE, due=0, mode="ONE")
    for server in "be":
        _read_at(logs, server, FOR_ONE, mode="ONE")
    _sent(logs, FOR_ONE, "b", mode="ONE", final=True)
    logs.write("a", "published", TOO_DEEP, depth=1, due=1)
    logs.write("e", "duplicate", TOO_DEEP, peer="b", attempt=1, hops=("a", "absent", "deep", "b"))
    for server in "abe":
        logs.write(server, "heartbeat")
    return found(spark, logs.records)


def test_a_broadcast_stays_one_though_a_site_calls_it_a_message_for_one(jobs: Found) -> None:
    route = jobs.routes[READ_TWICE]
    assert (route["mode"], route["committed"]) == ("ALL", 2)
    assert READ_TWICE not in jobs.custody


def test_its_priority_and_size_stay_what_its_origin_says(jobs: Found) -> None:
    route = jobs.routes[READ_TWICE]
    assert (route["priority"], route["bytes"]) == (3, 10)


def test_how_deep_a_message_may_go_and_what_it_asked_for_its_origin_says(jobs: Found) -> None:
    route = jobs.routes[DEEP]
    assert (route["depth"], route["asked"]) == (2, None)


def test_a_receipt_is_what_its_origin_has_sent(jobs: Found) -> None:
    receipt = jobs.receipts[WITH_RECEIPT]
    assert (receipt["x"], receipt["y"], receipt["verdict"]) == (2, 2, "right")
    assert UNTOLD not in jobs.receipts


def test_a_copy_that_nobody_sent_makes_no_receipt_wrong(jobs: Found) -> None:
    assert jobs.receipts[NEVER_SENT]["verdict"] == "unknown"


def test_a_copy_that_nobody_sent_makes_no_second_custodian(jobs: Found) -> None:
    assert jobs.custody[FOR_ONE]["custodians"] <= 1


def test_that_a_copy_went_too_far_is_not_said_by_the_hops_of_others(jobs: Found) -> None:
    assert jobs.states["deep", TOO_DEEP] == "log missing"
    assert TOO_DEEP not in jobs.deep


def test_whether_a_copy_has_a_guarantee_its_own_server_says(jobs: Found) -> None:
    assert jobs.states["a", HELD] == "held"
    assert (jobs.routes[HELD]["guarantee"], jobs.routes[HELD]["mode"]) == (True, "ALL")
    assert jobs.states["a", LOOSE] == "gone"
    assert not jobs.routes[LOOSE]["guarantee"]


def test_where_the_origin_is_silent_others_tell_of_mode_and_priority(jobs: Found) -> None:
    route = jobs.routes[UNTOLD]
    assert (route["mode"], route["priority"], route["topic"], route["state"]) == ("ONE", 8, "t", "partial")
