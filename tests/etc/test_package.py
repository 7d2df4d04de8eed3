"""The package for Debian, and the README's way to run a site as a service, on a machine that systemd runs."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.booted import BootedMachine, booted, can_boot
from tests.support.installed import ROOT, VERSION
from tests.support.required import may_skip

pytestmark = [
    pytest.mark.kill,
    pytest.mark.timeout(900),  # the first makes wheels of all that is installed, and packs them
    pytest.mark.skipif(
        may_skip("systemd", can_boot()), reason="systemd cannot be started in namespaces here"
    ),
    pytest.mark.skipif(
        may_skip("debhelper", shutil.which("dh") is not None), reason="debhelper is not installed"
    ),
]

WHEELS: Final = "/srv/wheels"
CHECKOUT: Final = "/srv/checkout"
NEW_SITE: Final = (
    "runuser -u smqpd -- smqpd init /var/lib/smqpd/alpha --server-name alpha.example --port 7720"
)
SITE: Final = "/var/lib/smqpd/alpha"
DOCUMENTS: Final = ("README.md", "etc/README.md", "etc/smqpd.example.toml", "etc/monitoring/smqpd.rules.yml")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that is installed with the package: the other machine has no network."""
    folder = tmp_path_factory.mktemp("wheels")
    environment = folder / "environment"
    # our own pip runs in it: to install another takes half as long as what it is for
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", environment], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python")]
    wheel = [*pip, "wheel", "--quiet", "--disable-pip-version-check"]
    constrained = ["--constraint", str(ROOT / "etc/constraints.txt")]
    what = [f"{ROOT}[xmpp,web]", "hatchling", "click-man"]
    subprocess.run([*wheel, *constrained, "--wheel-dir", str(folder / "all"), *what], check=True)
    shutil.rmtree(environment)
    return folder / "all"


@pytest.fixture(scope="module")
def package(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    made = subprocess.run(
        [
            "env",
            *(f"{name}={value}" for name, value in offline.items()),
            ROOT / "etc/package",
            "--out",
            folder,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[BootedMachine]:
    with booted(tmp_path) as machine:
        yield machine


@pytest.fixture
def installed(machine: BootedMachine, package: Path) -> BootedMachine:
    machine.copies(package, "/root/smqpd.deb")
    machine.does("dpkg --install /root/smqpd.deb")
    return machine


def running(machine: BootedMachine) -> BootedMachine:
    """With a site that runs."""
    machine.does(f"{NEW_SITE} && systemctl enable --quiet --now smqpd@alpha")
    return machine


def main_process(machine: BootedMachine) -> str:
    return machine.does("systemctl show --property MainPID --value smqpd@alpha")


def publish(machine: BootedMachine, text: str) -> str:
    return machine.does(f"smqpd pub --site {SITE} jobs '{text}'")


def taken(machine: BootedMachine, count: int) -> list[str]:
    return machine.does(f"smqpd sub jobs --site {SITE} --channel desk --count {count}").splitlines()


def subscribed(machine: BootedMachine) -> None:
    """A channel that messages wait in."""
    machine.does(f"smqpd sub jobs --site {SITE} --channel desk --timeout 0.1")


def newer(package: Path, folder: Path) -> Path:
    """The same, as the next version."""
    content = folder / "content"
    subprocess.run(["dpkg-deb", "--raw-extract", package, content], check=True)
    control = content / "DEBIAN" / "control"
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 9.9.9", control.read_text()))
    subprocess.run(
        ["dpkg-deb", "--build", "-Znone", content, folder / "newer.deb"], check=True, capture_output=True
    )
    shutil.rmtree(content)
    return folder / "newer.deb"


def test_what_is_installed_is_whole_and_starts_nothing(installed: BootedMachine) -> None:
    assert installed.does("id -un smqpd") == "smqpd"
    assert installed.does("stat -c '%U %a' /var/lib/smqpd") == "smqpd 750"
    assert installed.does("smqpd --version") == f"smqpd {VERSION}"
    for manual in ("smqpd.1.gz", "smqpd-account-add.1.gz"):
        assert "smqpd" in installed.does(f"zcat /usr/share/man/man1/{manual}")
    log = installed.does("zcat /usr/share/doc/smqpd/changelog.gz")
    [changes] = re.findall(r"/usr/share/doc/\S+\.md", log)
    for document in (changes, *(f"/usr/share/doc/smqpd/{path}" for path in DOCUMENTS)):
        installed.does(f"test -s {document}")
    assert installed.does("systemctl list-units --plain --no-legend 'smqpd*'") == ""
    assert installed.does("dpkg --verify smqpd") == ""


def test_an_upgrade_restarts_the_sites_that_run_and_keeps_their_messages(
    installed: BootedMachine, package: Path, tmp_path: Path
) -> None:
    machine = running(installed)
    subscribed(machine)
    publish(machine, "before the upgrade")
    old = main_process(machine)
    machine.copies(newer(package, tmp_path), "/root/newer.deb")
    machine.does("dpkg --install /root/newer.deb")
    assert machine.does("systemctl is-active smqpd@alpha") == "active"
    assert main_process(machine) not in (old, "0")
    assert taken(machine, 1) == ["before the upgrade"]


def test_a_removal_stops_the_sites_and_a_purge_leaves_what_they_hold(installed: BootedMachine) -> None:
    machine = running(installed)
    subscribed(machine)
    publish(machine, "kept")
    machine.does("dpkg --remove smqpd")
    assert machine.tries("pgrep -u smqpd").stdout == ""
    assert "are left as they are" in machine.does("dpkg --purge smqpd")
    assert machine.tries("ls /etc/systemd/system/multi-user.target.wants/ | grep smqpd").stdout == ""
    assert not machine.does("ls /opt /usr/bin | grep smqpd || true")
    machine.does("dpkg --install /root/smqpd.deb && systemctl start smqpd@alpha")
    assert taken(machine, 1) == ["kept"]


def test_the_service_manager_brings_back_a_site_that_died_or_hangs(installed: BootedMachine) -> None:
    machine = running(installed)
    subscribed(machine)
    publish(machine, "a message")
    first = main_process(machine)
    machine.does(f"kill -KILL {first}")
    machine.comes_to(f"! test -e /proc/{first} && systemctl is-active smqpd@alpha")
    soon = "/run/systemd/system/smqpd@alpha.service.d/soon.conf"
    machine.does(
        f"mkdir -p $(dirname {soon}) && printf '[Service]\\nWatchdogSec=2\\nTimeoutAbortSec=1\\n' > {soon}"
    )
    machine.does("systemctl daemon-reload && systemctl restart smqpd@alpha")
    hanging = main_process(machine)
    machine.does(f"kill -STOP {hanging}")
    machine.comes_to(f"! test -e /proc/{hanging} && systemctl is-active smqpd@alpha")
    assert "watchdog" in machine.does("journalctl --no-pager --unit smqpd@alpha")
    assert taken(machine, 1) == ["a message"]


def test_a_reload_says_whether_the_site_took_its_files_on(installed: BootedMachine) -> None:
    machine = running(installed)
    machine.does("systemctl reload smqpd@alpha")
    before = main_process(machine)
    machine.does(f"echo nonsense >> {SITE}/accounts.toml")
    assert machine.tries("systemctl reload smqpd@alpha").returncode != 0
    assert machine.does("systemctl is-active smqpd@alpha") == "active"
    assert main_process(machine) == before
    machine.does(f"sed -i '/^nonsense/d' {SITE}/accounts.toml && systemctl reload smqpd@alpha")


def test_a_port_below_1024_is_opened_by_a_socket_unit(installed: BootedMachine) -> None:
    machine = installed
    machine.does(NEW_SITE.replace("7720", "720"))
    machine.does("systemctl enable --quiet --now smqpd@alpha.socket smqpd@alpha")
    subscribed(machine)
    publish(machine, "through port 720")
    assert taken(machine, 1) == ["through port 720"]


def test_a_stop_drains_and_the_journal_names_the_daemon(installed: BootedMachine) -> None:
    machine = running(installed)
    machine.does("systemctl stop smqpd@alpha")
    assert machine.does("systemctl show -P Result smqpd@alpha") == "success"
    assert "runs the site alpha.example" in machine.does("journalctl --no-pager --identifier smqpd")


def test_the_readme_makes_a_service_word_by_word(machine: BootedMachine, wheels: Path) -> None:
    for wheel in wheels.iterdir():
        machine.copies(wheel, f"{WHEELS}/{wheel.name}")
    service = re.search(r"(?s)```sh\n(python3 -m venv /opt/smqpd.*?)```", (ROOT / "README.md").read_text())
    assert service is not None
    content = ["daemon", "routing", "plugins", "etc", "pyproject.toml", "README.md", "LICENSE"]
    packed = subprocess.run(["tar", "--create", *content], cwd=ROOT, capture_output=True, check=True).stdout
    machine.does(f"mkdir {CHECKOUT} && tar --extract --directory {CHECKOUT}", stdin=packed)
    offline = f"export PIP_NO_INDEX=1 PIP_FIND_LINKS={WHEELS} PIP_DISABLE_PIP_VERSION_CHECK=1"
    machine.does(f"{offline}; cd {CHECKOUT}; {service[1]}")
    assert machine.comes_to("systemctl is-active smqpd@alpha") == "active"
