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


AFTER_LOGINS = """
import os, threading
from daemon.accounts.passwords import hash_password, verify_password
from daemon.system.allocator import give_back, share_one_heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

share_one_heap()
phc = hash_password("secret")
give_back()
before = resident()
for _ in range(2):
    threads = [threading.Thread(target=verify_password, args=("secret", phc)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
give_back()
print(resident() - before)
"""


def test_what_passwords_took_in_many_threads_is_given_back() -> None:
    script = [sys.executable, "-c", AFTER_LOGINS]
    output = subprocess.run(script, check=True, capture_output=True, text=True, env=os.environ).stdout
    assert int(output) < 19_000_000, "what one of them takes is still there"
