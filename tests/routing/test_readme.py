"""What routing/README.md says of the headers is about all of them."""

import re
from pathlib import Path

from routing.headers import HEADER_RULES

README = Path(__file__).parent.parent.parent / "routing" / "README.md"


def test_the_readings_of_the_draft_name_every_header_with_its_aliases() -> None:
    table = README.read_text().partition("### Headers")[2].partition("### Rules")[0]
    named = {name for cell in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for name in cell.split(", ")}
    assert {name for rule in HEADER_RULES for name in rule.names} <= named


def test_the_table_of_files_names_every_file_there_is() -> None:
    text = README.read_text()
    missing = [
        path.name
        for path in README.parent.glob("*.py")
        if path.name != "__init__.py" and f"`{path.name}`" not in text
    ]
    assert missing == []
