"""What a site uses all the time lies in huge pages, where the system has them, and is what it was."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import re
from daemon.system.huge_pages import use_huge_pages

def in_huge_pages():
    return int(re.search("AnonHugePages: *([0-9]+) kB", open("/proc/self/smaps_rollup").read())[1])

held = [bytes([number % 256]) * 1_000 for number in range(40_000)]
before = in_huge_pages()
use_huge_pages()
assert all(one == bytes([number % 256]) * 1_000 for number, one in enumerate(held))
print(in_huge_pages() - before)
"""


def collapses() -> bool:
    """Whether this kernel moves memory into huge pages when it is asked to."""
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    return release >= (6, 1) and Path("/sys/kernel/mm/transparent_hugepage").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_what_is_held_is_moved_into_huge_pages_as_it_is() -> None:
    script = [sys.executable, "-c", SCRIPT]
    output = subprocess.run(script, check=True, capture_output=True, text=True, env=os.environ).stdout
    assert int(output) > 10_000 or not collapses()
