"""The federation that the README makes, from an empty folder, links."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console import ShellSession, ShownCommand, steps
from tests.support.ports import free_port

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[ShellSession]:
    session = ShellSession(tmp_path)
    yield session
    session.close()


@pytest.mark.documents
def test_the_sites_of_the_readme_link_as_they_stand(session: ShellSession) -> None:
    """Its addresses are those of other machines, and are replaced by some of this one."""
    section = README.read_text().partition("\n## More sites\n")[2].partition("\n## ")[0]
    links = f"127.0.0.1:{free_port()}"
    ports = {"7721": str(free_port()), "7722": str(free_port())}
    shown = section.replace("192.0.2.7:721", links).replace("*:721", links)
    for documented, free in ports.items():
        shown = re.sub(rf"\b{documented}\b", free, shown)
    for step in steps(shown):
        session.run(step)
    for site in ("beta", "alpha"):
        session.run(ShownCommand(f"smqpd config check --site {site}", ["..."]))
        session.run(ShownCommand(f"smqpd run --config {site} &", [f"... runs the site {site}.example: ..."]))
    # It ends with 1 for as long as the link is not up.
    session.run(
        ShownCommand(
            "until smqpd peers --site alpha > peers; do :; done; cat peers", ["...", "beta.example  up ..."]
        )
    )
    session.run(
        ShownCommand(
            "smqpd ping beta.example --site alpha --count 1", ["...", "beta.example: 1 sent, 1 answered..."]
        )
    )
