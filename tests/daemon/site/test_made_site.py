"""The sites that tests copy are what `smqpd init` makes."""

from pathlib import Path

from daemon.site.directory import make_site
from tests.support.installed import checkout_plugins
from tests.support.made_site import made_site


def listed(directory: Path) -> dict[str, int]:
    return {
        str(path.relative_to(directory)): path.stat().st_mode
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_site_that_is_copied_has_all_that_one_has_that_is_made(tmp_path: Path) -> None:
    make_site(tmp_path / "made", "alpha.example", 7720, checkout_plugins())
    made_site(tmp_path / "copied", "alpha.example", 7720)
    assert listed(tmp_path / "copied") == listed(tmp_path / "made")
