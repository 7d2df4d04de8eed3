"""What tests need of a machine beyond Python: where it is missing they are skipped, or fail if told to."""

import os
from typing import Final

import pytest

needs_root: Final = pytest.mark.skipif(os.geteuid() != 0, reason="only root acts and writes files for others")

REQUIRED: Final = frozenset(os.environ.get("SMQPD_TEST_REQUIRE", "").split(","))
"""Names, comma-separated: what has to be there, as in `.ci/run`."""


def may_skip(name: str, is_there: bool) -> bool:
    """Whether a test that needs this is skipped."""
    return not is_there and name not in REQUIRED
