"""Hashes of passwords, and passwords that are made up."""

import re

import pytest

from daemon.accounts.passwords import (
    PHC_PATTERN,
    generate_password,
    hash_password,
    unmatched_hash,
    verify_password,
)
from tests.support.logins import HASH


def test_passwords_are_hashed_with_salt_and_bounded() -> None:
    assert hash_password("right") != HASH
    assert verify_password("right", HASH)
    assert not verify_password("right ", HASH)
    assert not verify_password("\udc80", HASH)
    assert verify_password("x" * 1024, hash_password("x" * 1024))
    assert not verify_password("x" * 1025, hash_password("x" * 1024))
    for bad in ("", "x" * 1025):
        with pytest.raises(ValueError, match="1 to 1024 bytes"):
            hash_password(bad)


def test_an_account_that_does_not_exist_is_verified_at_the_cost_of_one_that_does() -> None:
    nobody, somebody = unmatched_hash(), hash_password("right")
    assert re.fullmatch(PHC_PATTERN, nobody)
    assert [len(part) for part in nobody.split("$")] == [len(part) for part in somebody.split("$")]
    assert nobody.split("$")[:4] == somebody.split("$")[:4]
    assert not verify_password("right", nobody)
    assert unmatched_hash() != nobody


def test_generated_passwords_differ() -> None:
    assert len({generate_password() for _ in range(100)}) == 100
