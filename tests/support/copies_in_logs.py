"""What happens to single copies, as logs tell: each under a name, all of them in one set of logs."""

from collections.abc import Callable
from typing import Any

from routing.hops import HopRecord
from tests.support.hop_logs import ANSWERED, READER, WrittenLogs

FAR_US = 1_763_719_200_000_000 + 86_400_000_000
"""The end of a timeout that no log here reaches."""


def smuid(name: str, origin: str = "a") -> str:
    return f"{origin}/019aa5d72900-1-{list(SCENARIOS).index(name) + 1:x}"


def handed_back(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.hand_over(name, "a", "b", "a", final=True)
    logs.hand_over(name, "b", "a", "a", "b", final=True)


def handed_back_and_read(logs: WrittenLogs, name: str) -> None:
    handed_back(logs, name)
    logs.write("a", "committed", name, mode="ONE", subscription=f"{READER}@a", final=True)


def handed_back_and_on(logs: WrittenLogs, name: str) -> None:
    handed_back(logs, name)
    logs.hand_over(name, "a", "c", "a", "b", "a", final=True)
    logs.write("c", "committed", name, mode="ONE", subscription=f"{READER}@c", final=True)


def _to_b_and_back_before_that_is_answered(logs: WrittenLogs, name: str, *hops: str) -> None:
    """From the last of these."""
    site = hops[-1]
    logs.write("b", "received", name, peer=site, mode="ONE", attempt=1, due=1, hops=hops)
    logs.write(site, "received", name, peer="b", mode="ONE", attempt=1, due=1, hops=(*hops, "b"))
    for sender, receiver in ((site, "b"), ("b", site)):
        logs.write(sender, "forwarded", name, peer=receiver, mode="ONE", attempt=1, final=True, **ANSWERED)


def home_before_its_leaving_is_answered(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    _to_b_and_back_before_that_is_answered(logs, name, "a")


def home_early_and_read(logs: WrittenLogs, name: str) -> None:
    home_before_its_leaving_is_answered(logs, name)
    logs.write("a", "committed", name, mode="ONE", subscription=f"{READER}@a", final=True)


def home_again_before_its_second_leaving_is_answered(logs: WrittenLogs, name: str) -> None:
    """It has begun three times then, and left twice."""
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.hand_over(name, "a", "b", "a", final=True, crossing=1)
    logs.hand_over(name, "b", "a", "a", "b", final=True, crossing=1)
    logs.write("c", "received", name, peer="a", mode="ONE", attempt=1, due=1, hops=("a", "b", "a"))
    logs.write("a", "received", name, peer="c", mode="ONE", attempt=1, due=1, hops=("a", "b", "a", "c"))
    for sender, receiver in (("a", "c"), ("c", "a")):
        answered = {"final": True, "crossing": 1, **ANSWERED}
        logs.write(sender, "forwarded", name, peer=receiver, mode="ONE", attempt=1, **answered)


def home_again_early_and_on(logs: WrittenLogs, name: str) -> None:
    """Over the link by which it left before."""
    home_again_before_its_second_leaving_is_answered(logs, name)
    logs.hand_over(name, "a", "c", "a", "b", "a", "c", "a", final=True, crossing=2)


def read_at_home_before_its_leaving_is_answered(logs: WrittenLogs, name: str) -> None:
    """It came home by another link than that on which the answer is out."""
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.write("b", "received", name, peer="a", mode="ONE", attempt=1, due=1, hops=("a",))
    logs.hand_over(name, "b", "c", "a", "b", final=True, crossing=1)
    logs.hand_over(name, "c", "a", "a", "b", "c", final=True, crossing=1)
    logs.write("a", "committed", name, mode="ONE", subscription=f"{READER}@a", final=True)
    logs.write("a", "forwarded", name, peer="b", mode="ONE", attempt=1, crossing=1, final=True, **ANSWERED)


def on_from_home_before_its_leaving_is_answered(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.write("b", "received", name, peer="a", mode="ONE", attempt=1, due=1, hops=("a",))
    logs.hand_over(name, "b", "a", "a", "b", final=True, crossing=1)
    logs.hand_over(name, "a", "c", "a", "b", "a", final=True, crossing=1)
    logs.write("a", "forwarded", name, peer="b", mode="ONE", attempt=1, crossing=1, final=True, **ANSWERED)
    logs.write("c", "committed", name, mode="ONE", subscription=f"{READER}@c", final=True)


def gone_on_from_home_before_its_leaving_is_answered(logs: WrittenLogs, name: str) -> None:
    """And that answer is in no record yet: of three records which tell of it here the last is the second
    leaving.
    """
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.write("b", "received", name, peer="a", mode="ONE", attempt=1, due=1, hops=("a",))
    logs.hand_over(name, "b", "a", "a", "b", final=True, crossing=1)
    logs.hand_over(name, "a", "c", "a", "b", "a", final=True, crossing=1)
    logs.write("c", "committed", name, mode="ONE", subscription=f"{READER}@c", final=True)


def widened_in_a_gap(logs: WrittenLogs, name: str) -> None:
    logs.write("torn", "received", name, peer="a", attempt=1, depth=1, due=1, hops=("a", "b"))
    logs.write("torn", "committed", name, subscription=f"{READER}@torn", final=True)
    logs.lose("torn")
    logs.write("torn", "expired", name, final=True)


def home_in_a_gap(logs: WrittenLogs, name: str) -> None:
    logs.write("torn", "published", name, mode="ONE", depth=-1, due=1)
    logs.lose("torn")
    logs.write("torn", "received", name, peer="b", mode="ONE", attempt=1, due=1, hops=("torn", "b"))
    logs.write("torn", "committed", name, mode="ONE", subscription=f"{READER}@torn", final=True)


def first_visit_in_a_gap(logs: WrittenLogs, name: str) -> None:
    """It comes home before its leaving is answered; that it was there before its Hops alone tell."""
    logs.lose("torn")
    _to_b_and_back_before_that_is_answered(logs, name, "c", "torn")


def first_visit_in_a_gap_and_read(logs: WrittenLogs, name: str) -> None:
    first_visit_in_a_gap(logs, name)
    logs.write("torn", "committed", name, mode="ONE", subscription=f"{READER}@torn", final=True)


def ended_twice(logs: WrittenLogs, name: str) -> None:
    logs.read_by_all(name, 1)
    logs.write("a", "expired", name, final=True)


def without_guarantee(logs: WrittenLogs, name: str) -> None:
    loose = {"mode": "ONE", "guarantee": False}
    logs.write("a", "published", name, depth=-1, due=1, **loose)
    logs.write("a", "forwarded", name, peer="b", attempt=1, final=True, **loose)
    logs.write("b", "received", name, peer="a", attempt=1, due=1, hops=("a",), **loose)
    logs.write("b", "delivered", name, subscription=f"{READER}@b", final=True, **loose)


def without_guarantee_of_before(logs: WrittenLogs, name: str) -> None:
    loose = {"mode": "ONE", "guarantee": False}
    logs.write("a", "published", name, depth=-1, due=1, **loose)
    logs.write("a", "forwarded", name, peer="b", final=True, **loose)
    logs.write("b", "received", name, peer="a", attempt=1, due=1, hops=("a",), **loose)
    logs.write("b", "delivered", name, subscription=f"{READER}@b", final=True, **loose)


def lost_without_guarantee(logs: WrittenLogs, name: str) -> None:
    loose = {"mode": "ONE", "guarantee": False}
    logs.write("a", "published", name, depth=-1, due=1, **loose)
    logs.write("a", "forwarded", name, peer="b", attempt=1, final=True, **loose)


def lost_without_guarantee_and_a_later_one_came(logs: WrittenLogs, name: str) -> None:
    lost_without_guarantee(logs, name)
    without_guarantee(logs, "a/019aa5d72900-1-fe")


def last_without_guarantee(logs: WrittenLogs, name: str) -> None:
    """Nothing came over this link after it."""
    loose = {"mode": "ONE", "guarantee": False}
    logs.write("a", "published", name, depth=-1, due=1, **loose)
    logs.write("a", "forwarded", name, peer="c", attempt=1, final=True, **loose)


def unanswered(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.write("b", "received", name, peer="a", mode="ONE", attempt=1, due=1, hops=("a",))
    logs.write("b", "committed", name, mode="ONE", subscription=f"{READER}@b", final=True)


def removed_on_the_way(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.write("b", "received", name, peer="a", mode="ONE", attempt=1, due=1, hops=("a",))
    logs.write("a", "removed", name, mode="ONE", final=True)
    logs.write("b", "removed", name, mode="ONE", final=True)


def held_by_two(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.hand_over(name, "a", "b", "a")
    logs.hand_over(name, "a", "c", "a", final=True)


def to_and_fro_with_one_number(logs: WrittenLogs, name: str) -> None:
    """`a` was killed with its copy unanswered, and counts anew."""
    handed_back(logs, name)
    logs.hand_over(name, "a", "b", "a", "b", "a", final=True)
    logs.write("a", "received", name, peer="b", mode="ONE", attempt=2, due=1, hops=("a", "b", "a", "b"))
    logs.write("b", "forwarded", name, peer="a", mode="ONE", attempt=2, final=True, **ANSWERED)
    logs.write("a", "committed", name, mode="ONE", subscription=f"{READER}@a", final=True)


def to_and_fro(logs: WrittenLogs, name: str) -> None:
    """It comes home, and goes over the same link once more, as records number crossings."""
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.hand_over(name, "a", "b", "a", final=True, crossing=1)
    logs.hand_over(name, "b", "a", "a", "b", final=True, crossing=1)
    logs.hand_over(name, "a", "b", "a", "b", "a", final=True, crossing=2)
    logs.write("b", "committed", name, mode="ONE", subscription=f"{READER}@b", final=True)


def split_at_home(logs: WrittenLogs, name: str) -> None:
    """It comes home, and is handed to two."""
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    logs.hand_over(name, "a", "b", "a", final=True, crossing=1)
    logs.hand_over(name, "b", "a", "a", "b", final=True, crossing=1)
    logs.hand_over(name, "a", "b", "a", "b", "a", crossing=2)
    logs.hand_over(name, "a", "c", "a", "b", "a", final=True, crossing=1)


def handed_back_and_on_after_the_end_of_the_log(logs: WrittenLogs, name: str) -> None:
    logs.write("early", "published", name, mode="ONE", depth=-1, due=1)
    logs.hand_over(name, "early", "brief", "early", final=True)
    hops = ("early", "brief", "early")
    logs.write("c", "received", name, peer="early", mode="ONE", attempt=1, due=1, hops=hops)
    logs.write("c", "committed", name, mode="ONE", subscription=f"{READER}@c", final=True)


def receipt_one_counts_few(logs: WrittenLogs, name: str) -> None:
    logs.read_by_all(name, 3, receipt="ONE")
    logs.write("a", "receipt", name, receipt="1/1")


def receipt_all_counts_few(logs: WrittenLogs, name: str) -> None:
    logs.read_by_all(name, 3, receipt="ALL", expires_us=FAR_US)
    logs.write("a", "receipt", name, receipt="1/1")


def receipt_all_counts_few_at_its_end(logs: WrittenLogs, name: str) -> None:
    """Who answers too late is not counted."""
    logs.read_by_all(name, 3, receipt="ALL", expires_us=logs.now_us + 7_000_000)
    logs.write("a", "receipt", name, receipt="1/1")


def receipt_all_counts_few_without_a_stated_end(logs: WrittenLogs, name: str) -> None:
    """It comes at the end of the timeout that its site was told."""
    logs.read_by_all(name, 3, receipt="ALL")
    logs.write("a", "receipt", name, receipt="1/1")


def receipt_all_counts_few_by_a_clock_that_was_set_back(logs: WrittenLogs, name: str) -> None:
    reader = {"subscription": f"{READER}@back", "attempt": 1}
    logs.write("back", "published", name, due=2, receipt="ALL", expires_us=logs.now_us + 600_000_000)
    logs.write("back", "delivered", name, **reader)
    for event, fields in (("committed", reader | {"final": True}), ("receipt", {"receipt": "1/1"})):
        logs.write("back", event, name, **fields)
        logs.records[-1].time_us -= 3_600_000_000


def receipt_all_counts_few_within_two_minutes(logs: WrittenLogs, name: str) -> None:
    """A clock that was set back between two heartbeats would show the same."""
    logs.read_by_all(name, 3, receipt="ALL", expires_us=logs.now_us + 110_000_000)
    logs.write("a", "receipt", name, receipt="1/1")


def receipt_of_unknown_kind(logs: WrittenLogs, name: str) -> None:
    logs.read_by_all(name, 3)
    logs.write("a", "receipt", name, receipt="1/1")


def receipt_after_a_removal(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, due=1, receipt="ALL")
    logs.write("a", "removed", name, final=True)
    logs.write("a", "receipt", name, receipt="0/0")


def receipt_without_guarantee(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, due=1, receipt="ALL", guarantee=False)
    logs.write("a", "delivered", name, subscription=f"{READER}@a", guarantee=False, final=True)
    logs.write("a", "receipt", name, receipt="1/1", guarantee=False)


def receipt_without_guarantee_acknowledged(logs: WrittenLogs, name: str) -> None:
    reader = {"subscription": f"{READER}@a", "guarantee": False}
    logs.write("a", "published", name, due=1, receipt="ALL", guarantee=False)
    logs.write("a", "delivered", name, attempt=1, **reader)
    logs.write("a", "returned", name, attempt=1, **reader)
    logs.write("a", "delivered", name, attempt=2, **reader)
    logs.write("a", "committed", name, attempt=2, final=True, **reader)
    logs.write("a", "receipt", name, receipt="1/1", guarantee=False)


def receipt_without_guarantee_before_it_is_acknowledged(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, due=1, receipt="ALL", guarantee=False)
    logs.write("a", "delivered", name, subscription=f"{READER}@a", attempt=1, guarantee=False)
    logs.write("a", "receipt", name, receipt="1/1", guarantee=False)


def receipt_of_a_copy_elsewhere(logs: WrittenLogs, name: str) -> None:
    """Only its answer tells that the other site has had it: its log is not there."""
    _counted_elsewhere(logs, name, attempt=2, outcome="duplicate")


def receipt_of_a_deeper_copy_elsewhere(logs: WrittenLogs, name: str) -> None:
    """The same of one that was there with less depth."""
    _counted_elsewhere(logs, name, attempt=1, outcome="depth")


def _counted_elsewhere(logs: WrittenLogs, name: str, **answer: Any) -> None:
    logs.write("a", "published", name, receipt="ALL", due=1)
    logs.write("a", "forwarded", name, peer="elsewhere", **answer)
    reader = {"subscription": f"{READER}0@a", "attempt": 1}
    logs.write("a", "delivered", name, **reader)
    logs.write("a", "receipt", name, receipt="2/2")
    logs.write("a", "committed", name, final=True, **reader)


def handed_to_one_that_had_it(logs: WrittenLogs, name: str) -> None:
    logs.write("a", "published", name, mode="ONE", depth=-1, due=1)
    answer = {"peer": "elsewhere", "attempt": 2, "outcome": "duplicate"}
    logs.write("a", "forwarded", name, mode="ONE", final=True, **answer)


def receipt_of_what_was_never_read(logs: WrittenLogs, name: str) -> None:
    """One of two has it, and the other subscription has ended."""
    reader = {"subscription": f"{READER}0@a", "attempt": 1}
    logs.write("a", "published", name, due=2, receipt="ALL")
    logs.write("a", "committed", name, **reader)
    logs.write("a", "returned", name, subscription=f"{READER}1@a", attempt=1, final=True)
    logs.write("a", "receipt", name, receipt="2/2")


def commit_in_a_gap(logs: WrittenLogs, name: str) -> None:
    logs.write("torn", "published", name, due=2, receipt="ALL")
    logs.lose("torn")
    logs.write("torn", "committed", name, subscription=f"{READER}1@torn", final=True)
    logs.write("torn", "receipt", name, receipt="2/2")


def origin_in_a_gap(logs: WrittenLogs, name: str) -> None:
    logs.lose("torn")
    logs.write("b", "received", name, peer="torn", attempt=1, due=1, hops=("torn",))
    logs.write("b", "committed", name, subscription=f"{READER}@b", final=True)


def begun_before_a_gap(logs: WrittenLogs, name: str) -> None:
    logs.write("torn", "published", name, due=1)
    logs.lose("torn")


def widened_after_its_end(logs: WrittenLogs, name: str, server: str = "wide") -> None:
    logs.write(server, "received", name, peer="a", attempt=1, depth=1, due=1, hops=("a", "b"))
    logs.write(server, "committed", name, subscription=f"{READER}@{server}", final=True)
    logs.write(server, "depth", name, peer="a", attempt=2, depth=2, hops=("a",))


def held_once_more_at_the_last_heartbeat(logs: WrittenLogs, server: str, stated: int) -> None:
    logs.write(server, "heartbeat")
    widened_after_its_end(logs, "a/019aa5d72900-1-ff", server)
    logs.write(server, "heartbeat", held=stated)


def ended_perhaps_in_a_gap(logs: WrittenLogs, server: str, stated: int) -> None:
    logs.write(server, "heartbeat")
    for _ in range(2):
        logs.lose(server)
    logs.write(server, "heartbeat", held=0)
    logs.write(server, "depth", "a/019aa5d72900-1-fe", peer="b", attempt=1, depth=2, hops=("a", "b"))
    logs.write(server, "expired", "a/019aa5d72900-1-fe", final=True)
    logs.write(server, "heartbeat", held=stated)


def held_once_more_at_the_first_heartbeat(logs: WrittenLogs, server: str, stated: int) -> None:
    logs.write(server, "heartbeat")
    widened_after_its_end(logs, "a/019aa5d72900-1-fc", server)
    logs.lose(server)
    logs.write(server, "heartbeat", held=1)
    answer = {"peer": "d", "attempt": 2, "outcome": "duplicate"}
    logs.write(server, "forwarded", "a/019aa5d72900-1-fc", final=True, **answer)
    logs.write(server, "heartbeat", held=stated)


def home_for_the_third_time(logs: WrittenLogs, server: str, stated: int) -> None:
    name = "a/019aa5d72900-1-fb"
    logs.write(server, "heartbeat")
    logs.write(server, "received", name, peer="a", mode="ONE", attempt=1, due=1, hops=("a",))
    for crossing in (1, 2):
        answer = {"peer": "b", "attempt": 1, "crossing": crossing, "outcome": "accepted"}
        hops = ("a", *(server, "b") * crossing)
        logs.write(server, "forwarded", name, mode="ONE", final=True, **answer)
        logs.write(server, "received", name, peer="b", mode="ONE", attempt=1, due=1, hops=hops)
    logs.write(server, "heartbeat", held=stated)


def wider_while_held_and_home_for_the_third_time(logs: WrittenLogs, server: str, stated: int) -> None:
    """The one is held once, however often it comes; by the other the first count is wrong."""
    name = "a/019aa5d72900-1-f9"
    home_for_the_third_time(logs, server, 1)
    logs.write(server, "received", name, peer="a", attempt=1, depth=1, due=1, hops=("a",))
    logs.write(server, "depth", name, peer="b", attempt=1, depth=2, hops=("b",))
    logs.write(server, "heartbeat", held=stated)


def ended_for_the_second_of_three_times(logs: WrittenLogs, server: str, stated: int) -> None:
    """It came again with more depth after its first end and after its second; heartbeats are around this."""
    name, answer = "a/019aa5d72900-1-fa", {"peer": "d", "attempt": 2, "outcome": "duplicate"}
    logs.write(server, "heartbeat")
    logs.lose(server)
    logs.write(server, "received", name, peer="a", attempt=1, depth=1, due=1, hops=("a",))
    logs.write(server, "committed", name, subscription=f"{READER}@{server}", final=True)
    logs.write(server, "depth", name, peer="b", attempt=1, depth=2, hops=("b",))
    logs.write(server, "heartbeat", held=1)
    logs.write(server, "forwarded", name, final=True, **answer)
    logs.write(server, "heartbeat", held=stated)
    logs.write(server, "depth", name, peer="c", attempt=1, depth=3, hops=("c",))
    logs.write(server, "forwarded", name, final=True, **answer)


SCENARIOS: dict[str, Callable[[WrittenLogs, str], None]] = {
    "handed back": handed_back,
    "handed back and read": handed_back_and_read,
    "handed back and on": handed_back_and_on,
    "home early": home_before_its_leaving_is_answered,
    "home early and read": home_early_and_read,
    "home again early": home_again_before_its_second_leaving_is_answered,
    "home again early and on": home_again_early_and_on,
    "read at home early": read_at_home_before_its_leaving_is_answered,
    "on from home early": on_from_home_before_its_leaving_is_answered,
    "gone on from home": gone_on_from_home_before_its_leaving_is_answered,
    "widened in a gap": widened_in_a_gap,
    "home in a gap": home_in_a_gap,
    "first visit in a gap": first_visit_in_a_gap,
    "first visit in a gap, and read": first_visit_in_a_gap_and_read,
    "ended twice": ended_twice,
    "without guarantee": without_guarantee,
    "without guarantee, of before": without_guarantee_of_before,
    "lost without guarantee": lost_without_guarantee,
    "lost on a link": lost_without_guarantee_and_a_later_one_came,
    "last without guarantee": last_without_guarantee,
    "unanswered": unanswered,
    "removed on the way": removed_on_the_way,
    "held by two": held_by_two,
    "to and fro with one number": to_and_fro_with_one_number,
    "to and fro": to_and_fro,
    "split at home": split_at_home,
    "on after the end of the log": handed_back_and_on_after_the_end_of_the_log,
    "receipt ONE counts few": receipt_one_counts_few,
    "receipt ALL counts few": receipt_all_counts_few,
    "receipt ALL counts few at its end": receipt_all_counts_few_at_its_end,
    "receipt ALL counts few, without a stated end": receipt_all_counts_few_without_a_stated_end,
    "receipt ALL counts few, clock set back": receipt_all_counts_few_by_a_clock_that_was_set_back,
    "receipt ALL counts few, within two minutes": receipt_all_counts_few_within_two_minutes,
    "receipt of unknown kind": receipt_of_unknown_kind,
    "receipt after a removal": receipt_after_a_removal,
    "receipt without guarantee": receipt_without_guarantee,
    "receipt without guarantee, acknowledged": receipt_without_guarantee_acknowledged,
    "receipt without guarantee, early": receipt_without_guarantee_before_it_is_acknowledged,
    "receipt of what was never read": receipt_of_what_was_never_read,
    "receipt of a copy elsewhere": receipt_of_a_copy_elsewhere,
    "receipt of a deeper copy elsewhere": receipt_of_a_deeper_copy_elsewhere,
    "handed to one that had it": handed_to_one_that_had_it,
    "commit in a gap": commit_in_a_gap,
    "origin in a gap": origin_in_a_gap,
    "begun before a gap": begun_before_a_gap,
}
ORIGINS = {
    "receipt ALL counts few, clock set back": "back",
    "begun before a gap": "torn",
    "commit in a gap": "torn",
    "origin in a gap": "torn",
    "home in a gap": "torn",
    "on after the end of the log": "early",
}


def written() -> list[HopRecord]:
    """All scenarios, one after the other."""
    logs = WrittenLogs()
    for server in ("a", "b", "c", "torn", "early", "brief"):
        logs.write(server, "heartbeat")
    for name, happens in SCENARIOS.items():
        happens(logs, smuid(name, ORIGINS.get(name, "a")))
    held = {"a": 4, "b": 2, "c": 3}
    for server in ("a", "b", "c", "torn", "back"):
        logs.write(server, "heartbeat", held=held.get(server, 0))
    return logs.records


HELD: dict[str, tuple[Callable[[WrittenLogs, str, int], None], int, str]] = {
    "more-0": (held_once_more_at_the_last_heartbeat, 0, "agrees"),
    "more-1": (held_once_more_at_the_last_heartbeat, 1, "agrees"),
    "more-2": (held_once_more_at_the_last_heartbeat, 2, "differs"),
    "gap-0": (ended_perhaps_in_a_gap, 0, "agrees"),
    "less-0": (held_once_more_at_the_first_heartbeat, 0, "agrees"),
    "less-1": (held_once_more_at_the_first_heartbeat, 1, "agrees"),
    "less-2": (held_once_more_at_the_first_heartbeat, 2, "differs"),
    "home-1": (home_for_the_third_time, 1, "agrees"),
    "home-2": (home_for_the_third_time, 2, "differs"),
    "wider-2": (wider_while_held_and_home_for_the_third_time, 2, "agrees"),
    "wider-3": (wider_while_held_and_home_for_the_third_time, 3, "differs"),
    "again-0": (ended_for_the_second_of_three_times, 0, "agrees"),
    "again-2": (ended_for_the_second_of_three_times, 2, "differs"),
}
"""By server: what happened to a copy that begins more than once, what the last heartbeat states, and whether
that may be."""
