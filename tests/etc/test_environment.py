"""The set-up that tests/run, etc/demo and .ci/run share, with Pythons that only note what they are asked."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PYTHON = """\
#!/bin/sh
# A Python of version {version}: `-c` asks whether it is usable, `-m venv` makes a copy, pip notes and obeys.
case "$1 $2" in
    "-c import"*) exit {usable} ;;
    "-V ") echo "Python {version}" ;;
    "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && echo "venv" >> "{log}" ;;
    "-m ruff") echo "ruff $3" >> "{log}" ;;
    "-m pip") for last in "$@"; do :; done; echo "pip $last" >> "{log}"; exit {pip} ;;
esac
"""


class Machine:
    """A machine with the Pythons that a test gives it, and a checkout."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "checkout"
        self.bin = directory / "bin"
        self.log = directory / "log"
        (self.root / "etc").mkdir(parents=True)
        self.bin.mkdir()
        self.log.touch()
        (self.root / "pyproject.toml").write_text("[project]\n")
        (self.root / "etc" / "constraints.txt").write_text("trio==1\n")
        for tool in ("sh", "cat", "cksum", "tr", "mkdir", "cp", "rm"):
            (self.bin / tool).symlink_to(
                next(Path(d, tool) for d in ("/usr/bin", "/bin") if Path(d, tool).exists())
            )

    def python(self, name: str, version: str, *, usable: bool = True, pip_fails: bool = False) -> None:
        path = self.bin / name
        path.write_text(
            PYTHON.format(version=version, usable=0 if usable else 1, log=self.log, pip=int(pip_fails))
        )
        path.chmod(0o755)

    def environment(self, extras: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                "sh",
                "-c",
                f'root="{self.root}"; . "{ROOT}/etc/environment.sh"; environment "{extras}"; echo "$python"',
            ],
            env={"PATH": str(self.bin), **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def check(self, *steps: str) -> subprocess.CompletedProcess[str]:
        """Run `.ci/run` with those steps, of this checkout."""
        for part in (".ci/run", "etc/environment.sh"):
            copy = self.root / part
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / part, copy)
        return subprocess.run(
            [self.root / ".ci/run", *steps],
            env={"PATH": f"{self.bin}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    def done(self) -> list[str]:
        """What the Pythons were asked for since the last look."""
        lines = self.log.read_text().replace(str(self.root), "CHECKOUT").splitlines()
        self.log.write_text("")
        return lines


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_environment_is_made_in_the_checkout(machine: Machine) -> None:
    machine.python("python3", "3.12.1")
    result = machine.environment("test")
    assert result.stdout.strip() == str(machine.root / ".venv/bin/python")
    assert machine.done() == ["venv", "pip CHECKOUT[test]"]


def test_what_is_there_is_not_installed_again(machine: Machine) -> None:
    machine.python("python3", "3.12.1")
    machine.environment("test,check")
    machine.done()
    for extras in ("test", "check,test", ""):
        assert machine.environment(extras).returncode == 0
    assert machine.done() == []


@pytest.mark.parametrize("file", ["pyproject.toml", "etc/constraints.txt"])
def test_a_change_of_the_dependencies_is_installed_with_all_that_was_there(
    machine: Machine, file: str
) -> None:
    machine.python("python3", "3.12.1")
    machine.environment("check")
    machine.done()
    (machine.root / file).write_text("changed\n")
    machine.environment("test")
    assert machine.done() == ["pip CHECKOUT[check,test]"]


def test_a_missing_extra_is_added(machine: Machine) -> None:
    machine.python("python3", "3.12.1")
    machine.environment("")
    assert machine.done() == ["venv", "pip CHECKOUT"]
    machine.environment("test")
    assert machine.done() == ["pip CHECKOUT[test]"]


def test_an_environment_whose_python_is_gone_is_made_anew(machine: Machine) -> None:
    machine.python("python3", "3.12.1")
    machine.environment("test")
    machine.done()
    (machine.root / ".venv/bin/python").unlink()
    machine.environment("test")
    assert machine.done()[0] == "venv"


def test_an_older_python3_is_passed_over_for_a_newer_one(machine: Machine) -> None:
    machine.python("python3", "3.9.2", usable=False)
    machine.python("python3.12", "3.12.1")
    assert "Python 3.12.1" in machine.environment("").stderr


def test_without_a_python_it_is_said_what_to_do(machine: Machine) -> None:
    machine.python("python3", "3.9.2", usable=False)
    result = machine.environment("test")
    assert result.returncode == 1
    assert "needs Python 3.11 or newer" in result.stderr
    assert "apt-get install python3 python3-venv" in result.stderr
    assert result.stdout == ""


def test_a_python_can_be_named(machine: Machine) -> None:
    machine.python("python3", "3.12.1")
    machine.python("mine", "3.14.0")
    assert "Python 3.14.0" in machine.environment("", PYTHON=str(machine.bin / "mine")).stderr


def test_an_install_that_fails_is_tried_three_times_and_not_remembered(machine: Machine) -> None:
    machine.python("python3", "3.12.1", pip_fails=True)
    result = machine.environment("test")
    assert result.returncode == 1
    assert "cannot install" in result.stderr
    assert machine.done() == ["venv", *["pip CHECKOUT[test]"] * 3]
    assert not (machine.root / ".venv/installed").exists()


def test_the_checks_work_in_a_fresh_checkout(machine: Machine) -> None:
    machine.python("python3", "3.12.1")
    result = machine.check("lint", "format")
    assert result.returncode == 0, result.stdout
    assert machine.done() == ["venv", "pip CHECKOUT[check]", "ruff check", "ruff format"]


def test_the_checks_work_where_only_the_tests_ran_before(machine: Machine) -> None:
    machine.python("python3", "3.12.1")
    machine.environment("test,web,xmpp")
    machine.done()
    assert machine.check("nothing").returncode == 0
    assert machine.done() == []
    assert machine.check("lint").returncode == 0
    assert machine.done() == ["pip CHECKOUT[test,web,xmpp,check]", "ruff check"]


@pytest.mark.parametrize("steps", [("types",), ("lint", "types"), ("demo", "types")])
def test_types_are_checked_with_all_that_is_checked(machine: Machine, steps: tuple[str, ...]) -> None:
    """Without an extra, what its packages return is anything."""
    machine.python("python3", "3.12.1")
    machine.check(*steps)
    assert "pip CHECKOUT[test,check,web,xmpp,trace,browser]" in machine.done()
