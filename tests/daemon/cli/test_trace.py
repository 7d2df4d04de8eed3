"""`smqpd trace`: a topic, or one of the commands that other packages add to the group."""

from pathlib import Path

import pytest
import trio
import typer
from typer.testing import CliRunner

from daemon.cli import command_tree
from daemon.control.client import Question
from daemon.control.reports import End, Heard, PassedOver, Report
from daemon.control.socket import Tell, serve_control
from daemon.system.mishaps import Mishaps
from daemon.terminal.failure import FAILED, UNREACHABLE, Failure
from tests.support.operator import Operator


@pytest.fixture
def with_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a package were installed that adds the commands `run` and `links` to the group."""
    jobs = typer.Typer(help="Jobs.")
    jobs.command("run")(lambda: typer.echo("a job runs"))
    jobs.command("links")(lambda: typer.echo("links"))
    monkeypatch.setattr(command_tree, "installed_commands", lambda: ({"trace": jobs}, {}))


@pytest.fixture
def without_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_tree, "installed_commands", lambda: ({}, {}))


def traced(directory: Path, *words: str) -> str:
    """What the command says; what a site that does not run says, where it is a topic."""
    site = directory / "site"
    site.mkdir(exist_ok=True)
    (site / "smqpd.toml").write_text('[site]\nserver_name = "alpha.example"\n')
    (site / "state").mkdir(exist_ok=True)
    result = CliRunner().invoke(command_tree.build_app(), ["trace", *words], env={"SMQPD_CONFIG": str(site)})
    return str(result.exception) if isinstance(result.exception, Failure) else result.output


@pytest.mark.usefixtures("with_jobs")
def test_a_command_of_the_jobs_is_run(tmp_path: Path) -> None:
    assert traced(tmp_path, "run") == "a job runs\n"


@pytest.mark.usefixtures("with_jobs")
@pytest.mark.parametrize("words", [["weather.oslo"], ["--depth", "1", "weather"], ["topic", "run"]])
def test_anything_else_is_a_topic_and_a_topic_may_be_called_like_a_command(
    tmp_path: Path, words: list[str]
) -> None:
    assert "no daemon answers" in traced(tmp_path, *words)


@pytest.mark.usefixtures("with_jobs")
def test_the_help_shows_both() -> None:
    help = CliRunner().invoke(command_tree.build_app(), ["trace", "--help"], env={"COLUMNS": "200"}).output
    assert "TOPIC | COMMAND" in help
    assert [name for name in ("topic", "run", "links") if name in help] == ["topic", "run", "links"]


@pytest.mark.usefixtures("without_jobs")
@pytest.mark.parametrize("words", [["weather.oslo"], ["run"], ["topic", "run"]])
def test_without_the_jobs_everything_is_a_topic(tmp_path: Path, words: list[str]) -> None:
    assert "no daemon answers" in traced(tmp_path, *words)


@pytest.mark.usefixtures("with_jobs")
def test_what_is_added_to_one_command_line_is_not_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    command_tree.build_app()
    monkeypatch.setattr(command_tree, "installed_commands", lambda: ({}, {}))
    group = typer.main.get_command(command_tree.build_app()).commands["trace"]  # type: ignore[attr-defined] # a group
    assert list(group.commands) == ["topic"]


@pytest.mark.parametrize(
    "words", [("trace", "weather"), ("why", "alpha.example/0123456789ab-1-1", "--ask-peers")]
)
async def test_an_answer_that_breaks_off_is_not_taken_for_the_whole(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "alpha.example"\n')
    (tmp_path / "state").mkdir()

    async def dies(question: Question, tell: Tell) -> None:
        await tell(
            Heard(Report(at="alpha.example", source="", outcome="reached", asked=("beta.example",)), 0.0)
        )

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, tmp_path / "state", dies, Mishaps().note)
        code, _, said = await Operator(tmp_path).command(*words)
        nursery.cancel_scope.cancel()
    assert (code, said) == (
        UNREACHABLE,
        "the daemon ended before its answer did; what came of it is not the whole",
    )


@pytest.mark.parametrize(
    "words", [("trace", "weather"), ("why", "alpha.example/0123456789ab-1-1", "--ask-peers")]
)
async def test_an_answer_of_another_version_is_said_to_be_one(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "alpha.example"\n')
    (tmp_path / "state").mkdir()

    async def answers(question: Question, tell: Tell) -> None:
        await tell({"type": "Rumour", "at": "alpha.example"})

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, tmp_path / "state", answers, Mishaps().note)
        code, _, said = await Operator(tmp_path).command(*words)
        nursery.cancel_scope.cancel()
    assert code == FAILED
    assert said.startswith("the site runs another version of smqpd, whose answer this one cannot read: ")


async def test_a_link_that_is_down_fails_the_command_in_whatever_words_its_site_says_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "alpha.example"\n')
    (tmp_path / "state").mkdir()
    passed_over = (
        PassedOver("beta.example", "die Verbindung ist getrennt", is_down=True),
        PassedOver("gamma.example", "the link is down, says its operator"),
        PassedOver("delta.example", "von dort kam es", is_source=True),
    )

    async def answers(question: Question, tell: Tell) -> None:
        report = Report(at="alpha.example", source="", outcome="reached", passed_over=passed_over)
        await tell(Heard(report, 0.0))
        await tell(End((), 0.0))

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_control, tmp_path / "state", answers, Mishaps().note)
        code, told, said = await Operator(tmp_path).command("trace", "weather")
        nursery.cancel_scope.cancel()
    assert (code, said) == (FAILED, "not reached, since the link is down: beta.example (from alpha.example)")
    assert "not to gamma.example: the link is down, says its operator" in told
    assert "delta.example" not in told
