"""Which Cmuids are known, and for how long. Source: routing contract 1, Cmuid."""

import pytest

from routing import dedupe
from routing.dedupe import Publications


@pytest.fixture
def publications() -> Publications:
    return Publications()


def known(publications: Publications, publisher: str, count: int) -> list[int]:
    return [number for number in range(count) if publications.known(publisher, f"c{number}")]


def test_a_cmuid_is_known_with_the_smuid_it_was_given(publications: Publications) -> None:
    publications.add("eva", "c1", "s1", 0.0)
    assert publications.known("eva", "c1") == "s1"
    assert publications.known("fay", "c1") is None
    assert publications.known("eva", "c2") is None


def test_what_did_not_come_true_is_forgotten(publications: Publications) -> None:
    publications.add("eva", "c1", "s1", 0.0)
    publications.forget("eva", "c1")
    publications.forget("eva", "c1")
    publications.forget("fay", "c1")
    assert publications.known("eva", "c1") is None


def test_what_is_old_is_forgotten(publications: Publications) -> None:
    for number in range(10):
        publications.add("eva", f"c{number}", "s", float(number))
    publications.add("fay", "c0", "s", 0.0)
    publications.expire(7.0)
    assert known(publications, "eva", 10) == [7, 8, 9]
    assert known(publications, "fay", 10) == []


def test_of_one_publisher_only_so_many_are_known(
    publications: Publications, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "CMUIDS_PER_PUBLISHER", 3)
    for number in range(10):
        publications.add("eva", f"c{number}", "s", 0.0)
    publications.add("fay", "c0", "s", 0.0)
    assert known(publications, "eva", 10) == [7, 8, 9]
    assert known(publications, "fay", 10) == [0]


def test_of_all_only_so_many_are_known_and_nobody_is_crowded_out(
    publications: Publications, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "CMUIDS_MAX", 6)
    for number in range(100):
        for publisher in ("eva", "fay", "guy"):
            publications.add(publisher, f"c{number}", "s", 0.0)
    assert [known(publications, publisher, 100) for publisher in ("eva", "fay", "guy")] == [[98, 99]] * 3
    for number in range(2):
        publications.add("new", f"c{number}", "s", 0.0)
    assert known(publications, "new", 2) == [0, 1]


def test_a_cmuid_that_is_added_twice_counts_once(
    publications: Publications, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "CMUIDS_MAX", 2)
    for smuid in ("s1", "s2", "s3"):
        publications.add("eva", "c0", smuid, 0.0)
    publications.add("eva", "c1", "s", 0.0)
    assert known(publications, "eva", 2) == [0, 1]
    assert publications.known("eva", "c0") == "s3"


def test_after_a_start_the_newest_are_known_and_the_oldest_of_them_go_first(
    publications: Publications, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "CMUIDS_PER_PUBLISHER", 3)
    for number in reversed(range(10)):
        publications.add_older("eva", f"c{number}", "s", float(number))
    publications.add_older("eva", "c9", "another", 0.0)
    assert known(publications, "eva", 10) == [7, 8, 9]
    assert publications.known("eva", "c9") == "s"
    publications.expire(8.0)
    assert known(publications, "eva", 10) == [8, 9]
    for number in (10, 11):
        publications.add("eva", f"c{number}", "s", float(number))
    assert known(publications, "eva", 12) == [9, 10, 11]


def test_after_a_start_no_more_are_known_than_of_all(
    publications: Publications, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "CMUIDS_MAX", 3)
    for number in reversed(range(10)):
        for publisher in ("eva", "fay"):
            publications.add_older(publisher, f"c{number}", "s", float(number))
    assert known(publications, "eva", 10) == [8, 9]
    assert known(publications, "fay", 10) == [9]
    publications.add("guy", "c0", "s", 10.0)
    assert known(publications, "guy", 1) == [0]
