"""What an operator installs: the units, the user, the example configuration."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec
import pytest
from msgspec import inspect

from daemon.configuration.config import load
from daemon.settings import Settings
from daemon.site.directory import CONFIG_HEADER, new_config
from daemon.site.files import FIXED
from tests.support.installed import ROOT, checkout_plugins
from tests.support.required import may_skip

UNITS: Final = ROOT / "etc" / "systemd"
EXPOSURE_MAX: Final = 2.0

needs_systemd_analyze = pytest.mark.skipif(
    may_skip("systemd-analyze", shutil.which("systemd-analyze") is not None),
    reason="systemd-analyze is not installed",
)


def run(*command: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@needs_systemd_analyze
@pytest.mark.parametrize(
    "unit", ["smqpd@.service", "smqpd@.socket", "smqpd-links@.socket", "smqpd-web@.socket"]
)
def test_systemd_accepts_the_units_without_a_word(unit: str) -> None:
    assert run("systemd-analyze", "verify", str(UNITS / unit)) == ""


@needs_systemd_analyze
def test_the_service_is_hardened() -> None:
    report = run("systemd-analyze", "security", "--offline=true", "--no-pager", str(UNITS / "smqpd@.service"))
    exposure = re.search(r"Overall exposure level .*: ([0-9.]+)", report)
    assert exposure is not None
    assert float(exposure[1]) <= EXPOSURE_MAX


def test_the_example_is_the_configuration_of_a_new_site(tmp_path: Path) -> None:
    """To write it again: `smqpd config show --defaults > etc/smqpd.example.toml`."""
    example = ROOT / "etc" / "smqpd.example.toml"
    installed = checkout_plugins()
    assert example.read_text() == new_config("smqp.example", 720, installed)
    assert load(example, installed).site.server_name == "smqp.example"


def test_its_head_names_the_tables_that_only_a_start_reads() -> None:
    [told] = re.findall(
        r"What stands in (.*?) takes effect with the next start", " ".join(CONFIG_HEADER.split())
    )
    assert re.findall(r"\[(\w+)\]", told.replace("# ", "")) == list(FIXED)


def test_each_word_that_a_setting_may_be_is_described() -> None:
    tables = (inspect.type_info(field.type) for field in msgspec.structs.fields(Settings))
    fields = [field for table in tables if isinstance(table, inspect.StructType) for field in table.fields]
    worded = [(field.type, field.type.type) for field in fields if isinstance(field.type, inspect.Metadata)]
    choices = [(noted, kind) for noted, kind in worded if isinstance(kind, inspect.LiteralType)]
    assert choices
    for noted, kind in choices:
        described = (noted.extra_json_schema or {})["description"]
        assert "`" not in described or [word for word in kind.values if f"`{word}`" not in described] == []


@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.iterdir()))
def test_a_removal_stops_each_unit_of_the_package_and_a_purge_forgets_that_it_was_enabled(unit: str) -> None:
    instances = unit.replace("@.", "@*.")
    debian = ROOT / "etc" / "debian"
    assert f"'{instances}'" in (debian / "smqpd.prerm").read_text()
    assert f".wants/{instances}" in (debian / "smqpd.postrm").read_text()


def test_what_the_documents_of_the_package_name_is_in_it() -> None:
    packed: set[Path] = set()
    for line in (ROOT / "etc" / "debian" / "smqpd.install").read_text().splitlines():
        source, target = line.split()
        if target.startswith("usr/share/doc/"):
            where = Path("usr/share/doc/smqpd", source).parent
            assert where == Path(target), "a link leads as it does here"
            packed |= set(ROOT.glob(source))
    parts = [ROOT / part for part in ("daemon", "etc", "plugins", "routing")]
    assert {readme for part in parts for readme in part.rglob("README.md")} <= packed
    for document in (path for path in packed if path.suffix == ".md"):
        links = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
        for named in {(document.parent / link).resolve() for link in links}:
            if named.suffix != ".py" and any(named.is_relative_to(part) for part in parts):
                assert [path for path in packed if path.is_relative_to(named)], f"{document} names {named}"


def test_the_units_and_the_user_agree() -> None:
    service = (UNITS / "smqpd@.service").read_text()
    user = (ROOT / "etc" / "sysusers.d" / "smqpd.conf").read_text().split("\n")[1].split()[1]
    assert f"User={user}\n" in service
    assert f" {user} {user} " in (ROOT / "etc" / "tmpfiles.d" / "smqpd.conf").read_text()
