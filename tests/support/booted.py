"""A machine that systemd runs: process 1 of namespaces of its own, over this machine's file system.

What it writes goes to memory, and is gone with it. It has no network but loopback: its ports are its own.
Of what is installed here only what `basic.target` wants is started.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.patience import PATIENCE_S

SYSTEMD: Final = Path("/lib/systemd/systemd")

_BOOT: Final = r"""
set -e
base=$1
root=$base/root
mount --make-rprivate /
mount -t tmpfs -o mode=755 machine "$base"
mkdir "$root" "$base/upper" "$base/work"
mount -t overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" overlay "$root"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
if grep -q ':name=systemd:' /proc/self/cgroup; then
    mount -t tmpfs -o mode=755 cgroups "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/systemd"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
else
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
fi
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
# Nothing of this machine's own journal, and none of its policies on what packages may start.
rm -rf "$root/var/log/journal" "$root/usr/sbin/policy-rc.d"
mkdir "$root/var/log/journal"
# After each package dpkg would have an index made of the man pages of all this machine.
rm -f "$root/var/lib/man-db/auto-update"
hostname machine
ip link set lo up
cd "$root"
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
export container=test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec /lib/systemd/systemd --system --unit=basic.target --log-target=journal --show-status=false
"""

_IN_NAMESPACES: Final = ("unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--fork")
_DYING_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")


class BootedMachine:
    """One that has booted."""

    def __init__(self, process_1: int) -> None:
        self._enter = [
            "nsenter",
            "--target",
            str(process_1),
            "--all",
            "env",
            "-i",
            "LANG=C.UTF-8",
            "HOME=/root",
        ]
        self._enter.append("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")

    def tries(self, script: str, *, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run a script of `sh` there, as root; it may fail."""
        done = subprocess.run(
            [*self._enter, "sh", "-ec", script], input=stdin, capture_output=True, check=False
        )
        return subprocess.CompletedProcess(
            script,
            done.returncode,
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )

    def does(self, script: str, *, stdin: bytes = b"") -> str:
        """Run a script of `sh` there, as root. Returns what it prints; it must succeed."""
        done = self.tries(script, stdin=stdin)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def copies(self, file: Path, target: str) -> None:
        """Write a file of this machine to the other."""
        self.does(f"mkdir -p $(dirname {target}) && cat > {target}", stdin=file.read_bytes())

    def comes_to(self, script: str) -> str:
        """Wait until a script succeeds. Returns what it prints."""
        until = time.monotonic() + PATIENCE_S
        while (done := self.tries(script)).returncode != 0:
            assert time.monotonic() < until, f"{script}\n{done.stdout}{done.stderr}\n{self.journal()}"
            time.sleep(0.1)
        return done.stdout.strip()

    def journal(self) -> str:
        return self.tries("journalctl --no-pager --quiet --lines 100").stdout


def can_boot() -> bool:
    """Whether this machine lets us: as root, with systemd, and where namespaces and overlays may be made."""
    if not SYSTEMD.exists():
        return False
    tried = (
        "mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w /mnt/m &&"
        " mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w o /mnt/m"
    )
    return (
        subprocess.run([*_IN_NAMESPACES, "sh", "-c", tried], capture_output=True, check=False).returncode == 0
    )


@contextmanager
def booted(folder: Path) -> Iterator[BootedMachine]:
    """A machine that runs until the end of the block; it is mounted below `folder`, an empty one."""
    script = folder / "boot"
    script.write_text(_BOOT)
    base = folder / "machine"
    base.mkdir()
    with (folder / "console").open("wb") as console:
        process = subprocess.Popen(
            [*_DYING_WITH_US, *_IN_NAMESPACES, "--kill-child", "sh", str(script), str(base)],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
        )
    try:
        machine = BootedMachine(_child(process.pid))
        machine.comes_to('test "$(cat /proc/1/comm)" = systemd && systemctl is-active --quiet basic.target')
        yield machine
    finally:
        process.kill()  # and process 1 with it, and all others with that
        process.wait()


def _child(process: int) -> int:
    until = time.monotonic() + PATIENCE_S
    while not (children := Path(f"/proc/{process}/task/{process}/children").read_text().split()):
        assert time.monotonic() < until, "unshare did not start"
        time.sleep(0.05)
    return int(children[0])
