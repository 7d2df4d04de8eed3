"""What was freed goes back to the system, also from between what is still in use."""

import os
import subprocess
import sys

SCRIPT = """
import os
from daemon.system.allocator import give_back

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

before = resident()
held = [bytearray(100_000) for _ in range(1_000)]
small = held[::20]
del held
freed = resident()
give_back()
print(before, freed, resident())
"""


def test_free_memory_between_what_stays_is_given_back() -> None:
    script = [sys.executable, "-c", SCRIPT]
    output = subprocess.run(script, check=True, capture_output=True, text=True, env=os.environ).stdout
    before, freed, after = map(int, output.split())
    assert freed - before > 80_000_000
    assert after - before < 20_000_000
