"""What the documents show is done, and where they point to something is there."""

import re
from pathlib import Path

import pytest
import typer.main

from daemon.cli.command_tree import build_app
from tests.support.console import MismatchError, ShellSession, matches, steps
from tests.support.installed import ROOT, VERSION

PARTS = ("routing", "daemon", "plugins", "tests", "etc", ".github")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for part in PARTS for path in (ROOT / part).rglob("*.md"))])

_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.documents
@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if "```console" in path.read_text()], ids=name
)
def test_the_examples_do_what_they_show(document: Path, tmp_path: Path) -> None:
    session = ShellSession(tmp_path)
    try:
        for step in steps(document.read_text()):
            session.run(step)
    finally:
        session.close()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    links = _LINK.findall(document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path.name != "CHANGELOG.md"], ids=name)
def test_no_document_has_to_be_changed_for_a_release(document: Path) -> None:
    assert re.findall(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.]*\d)", document.read_text()) == []


def test_every_command_is_in_a_document() -> None:
    commands = typer.main.get_command(build_app()).commands  # type: ignore[attr-defined]
    text = "\n".join(path.read_text() for path in DOCUMENTS)
    assert [command for command in commands if f"smqpd {command}" not in text] == []


def test_a_block_is_a_list_of_commands_with_their_output() -> None:
    markdown = "Text.\n```console\n$ one\na\nb\n$ two \\\n>   three\n```\n```sh\n$ not this\n```\n"
    assert [(step.command, step.output) for step in steps(markdown)] == [
        ("one", ["a", "b"]),
        ("two \\\n  three", []),
    ]


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["a"], False),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a"], True),
        (["a", "...", "z"], ["a", "b", "c", "z"], True),
        (["a", "...", "z"], ["a", "b", "c"], False),
        (["took ... ms"], ["took 12 ms"], True),
        (["took ... ms"], ["took 12 s"], False),
        (["a.c"], ["abc"], False),
        (["x   "], ["x"], True),
    ],
)
def test_dots_stand_for_what_differs(expected: list[str], actual: list[str], same: bool) -> None:
    assert matches(expected, actual) is same


@pytest.mark.parametrize("command", ["false", "echo other"])
def test_an_example_that_does_something_else_is_noticed(command: str, tmp_path: Path) -> None:
    session = ShellSession(tmp_path)
    (step,) = steps(f"```console\n$ {command}\nshown\n```")
    with pytest.raises(MismatchError):
        session.run(step)


def test_what_never_prints_what_is_shown_is_not_waited_for_without_end(tmp_path: Path) -> None:
    session = ShellSession(tmp_path, patience_s=0.5)
    for command in ("sh -c 'echo other; exec sleep 1000' &", "sleep 1000 & sleep 1000"):
        (step,) = steps(f"```console\n$ {command}\nshown\n```")
        with pytest.raises(MismatchError):
            session.run(step)
    session.close()


def test_a_link_may_be_up_before_a_site_says_that_it_runs(tmp_path: Path) -> None:
    session = ShellSession(tmp_path)
    up = "INFO link with beta.example is up (dialled 192.0.2.7:721)"
    (step,) = steps(f"```console\n$ sh -c 'echo \"{up}\"; echo ready; exec sleep 1000' &\nready\n```")
    session.run(step)
    session.close()


def test_a_command_in_the_background_is_waited_for_and_ended(tmp_path: Path) -> None:
    session = ShellSession(tmp_path)
    for step in steps("```console\n$ sh -c 'echo ready; exec sleep 1000' &\nready\n$ echo next\nnext\n```"):
        session.run(step)
    session.close()
