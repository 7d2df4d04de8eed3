"""`smqpd federation`: what it shows of what a daemon has said."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from daemon.control.client import Question
from daemon.control.socket import Tell, serve_control
from daemon.operating.federation import KnownSite
from daemon.system.mishaps import Mishaps
from daemon.terminal.failure import USAGE
from routing.peering.news import LinkNews
from tests.support.operator import Operator


def site(
    name: str,
    hops: int | None,
    age_s: float | None,
    *links: LinkNews,
    source: str = "",
    wants: int | None = None,
    wants_missing: bool = False,
) -> KnownSite:
    said = age_s is not None
    return KnownSite(
        site=name,
        hops=hops,
        source=source,
        age_s=age_s,
        boot=3 * said,
        number=9 * said,
        links=links,
        wants=wants,
        wants_missing=wants_missing,
    )


SITES = [
    site("alpha.example", 0, 61.0, LinkNews("beta.example:720", up=True), wants=0),
    site(
        "beta.example:720",
        1,
        3_600.0,
        LinkNews("alpha.example", up=True),
        LinkNews("gamma.example", up=True),
        LinkNews("[2001:db8::1]", up=False),
        source="beta.example:720",
        wants=12,
        wants_missing=True,
    ),
    site("gamma.example", 2, None),
    site("[2001:db8::1]", None, 90_000.0, LinkNews("beta.example:720", up=True), source="beta.example:720"),
]


class Running:
    """The operator of a site whose daemon says that it knows these sites."""

    def __init__(self, directory: Path) -> None:
        self.operator = Operator(directory)
        self.sites = SITES


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "alpha.example"\n')
    (tmp_path / "state").mkdir()
    running = Running(tmp_path)

    async def answer(question: Question, tell: Tell) -> None:
        assert question.ask == "federation"
        await tell(running.sites)

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, tmp_path / "state", answer, Mishaps().note)
        yield running
        nursery.cancel_scope.cancel()


async def test_each_site_has_a_line_and_one_without_a_way_is_exit_code_1(running: Running) -> None:
    code, shown, _ = await running.operator.command("federation")
    assert code == 1
    header, alpha, beta, gamma, ipv6, missing, silent = [
        " ".join(line.split()) for line in shown.splitlines()
    ]
    assert header == "site hops heard from age wants links"
    assert alpha.startswith("alpha.example 0 - ")
    assert alpha.endswith(" 0 beta.example:720")
    assert beta.endswith(" 12+ alpha.example, gamma.example, [2001:db8::1] (down)")
    assert gamma == "gamma.example 2 - - - -"
    assert missing == "+ of these it is not known yet what else they want"
    assert ipv6.startswith("[2001:db8::1] no way beta.example:720 ")
    assert silent.startswith("gamma.example says nothing of itself that is taken here: ")


async def test_links_are_shown_as_both_ends_say_they_are(running: Running) -> None:
    """A site that is gone has said last that its link is up."""
    running.sites = [
        site("alpha.example", 0, 61.0, LinkNews("beta.example", up=False), LinkNews("d.example", up=True)),
        site("beta.example", None, 70.0, LinkNews("alpha.example", up=True)),
        site("d.example", 1, 70.0, LinkNews("alpha.example", up=True, flood=True)),
    ]
    _, shown, _ = await running.operator.command("federation")
    alpha, beta, d = [" ".join(line.split()) for line in shown.splitlines()[1:4]]
    assert alpha.endswith(" beta.example (down), d.example")
    assert beta.endswith(" alpha.example (down)")
    assert d.endswith(" alpha.example (floods)")
    running.sites[2] = site("d.example", 1, 70.0)
    _, shown, _ = await running.operator.command("federation")
    assert " ".join(shown.splitlines()[1].split()).endswith(" d.example (down)")


async def test_it_is_exit_code_0_where_all_can_be_reached(running: Running) -> None:
    running.sites = SITES[:3]
    assert (await running.operator.command("federation"))[0] == 0


async def test_programs_get_all_of_it(running: Running) -> None:
    code, shown, _ = await running.operator.command("federation", "--json")
    gamma, last = json.loads(shown)[-2:]
    assert code == 1
    assert last == {
        "site": "[2001:db8::1]",
        "hops": None,
        "source": "beta.example:720",
        "age_s": 90_000.0,
        "boot": 3,
        "number": 9,
        "links": [{"peer": "beta.example:720", "up": True}],
        "wants": None,
        "wants_missing": False,
    }
    assert (gamma["age_s"], gamma["links"]) == (None, [])


async def test_a_link_that_one_of_its_ends_has_not_is_dashed_in_the_graph(running: Running) -> None:
    _, shown, _ = await running.operator.command("federation", "--dot")
    lines = {line.strip() for line in shown.splitlines()}
    assert '"alpha.example" -- "beta.example:720";' in lines
    assert '"beta.example:720" -- "gamma.example";' in lines
    assert '"[2001:db8::1]" -- "beta.example:720" [style=dashed];' in lines


async def test_a_site_without_peers_says_how_to_get_one(running: Running) -> None:
    running.sites = [site("alpha.example", 0, None)]
    code, shown, _ = await running.operator.command("federation")
    assert (code, "smqpd peer add" in shown) == (0, True)


async def test_two_forms_at_once_are_wrong_usage(running: Running) -> None:
    assert (await running.operator.command("federation", "--dot", "--json"))[0] == USAGE
