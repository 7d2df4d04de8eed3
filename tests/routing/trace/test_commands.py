"""`smqpd trace` on the command line."""

import contextlib
import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from rich.tree import Tree
from typer.testing import CliRunner

from routing.trace import asking, command_line
from routing.trace.births import birthday, birthdays
from routing.trace.command import app
from routing.trace.show import console, plain, table
from tests.support.process import PRETENCES, ROOT, inherited
from tests.support.traced import TracedLogs


def test_route_prints_the_tree(run: Any, whole: TracedLogs) -> None:
    smuid, message = max(whole.messages.items(), key=lambda item: len(item[1]["accepted"]))
    done = run("route", smuid, "--out", whole.out)
    assert done.exit_code == 0
    assert done.stdout.startswith(smuid)
    for _, receiver, _ in message["accepted"]:
        assert f"{receiver} after" in done.stdout
    proven = done.stdout.partition("\nproven")[2]
    assert "Published" in proven
    assert all(receiver in proven for _, receiver, _ in message["accepted"])


def test_route_as_otlp_is_one_trace(run: Any, whole: TracedLogs) -> None:
    smuid = next(iter(whole.messages))
    done = run("route", smuid, "--out", whole.out, "--format", "otlp")
    spans = [
        span
        for resource in json.loads(done.stdout)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert len({span["traceId"] for span in spans}) == 1


def test_a_message_that_no_log_tells_of_is_an_error_in_one_line(run: Any, whole: TracedLogs) -> None:
    done = run("route", "nowhere/019aa5d72900-1-1", "--out", whole.out)
    assert done.exit_code == 1
    assert done.stderr == "smqpd: no log that was read tells of nowhere/019aa5d72900-1-1\n"


def test_links_balance_anomalies_slowest_and_compare_print_json(run: Any, whole: TracedLogs) -> None:
    links = json.loads(run("links", "--out", whole.out, "--json").stdout)
    assert {(row["from"], row["to"]) for row in links} == whole.links.keys()
    balance = json.loads(run("balance", "--out", whole.out, "--day", "2025-11-22", "--json").stdout)
    assert {row["day"] for row in balance} == {"2025-11-22"}
    assert all(row["closes"] for row in balance)
    slowest = json.loads(run("slowest", "--out", whole.out, "--limit", 5, "--json").stdout)
    assert [row["last_delay_us"] for row in slowest] == sorted(
        (r["last_delay_us"] for r in slowest), reverse=True
    )
    compared = json.loads(run("compare", "2025-11-21", "2025-11-22", "--out", whole.out, "--json").stdout)
    assert {(row["from"], row["to"]) for row in compared} == whole.links.keys()
    assert run("anomalies", "--out", whole.out, "--kind", "lost", "--json").stdout.strip() == "[]"


def test_tables_are_printed_for_people(run: Any, whole: TracedLogs) -> None:
    done = run("links", "--out", whole.out)
    assert done.exit_code == 0
    assert "messages" in done.stdout
    assert "site1.example" in done.stdout
    assert done.stderr == ""


def test_rows_that_are_not_shown_are_counted(run: Any, faulty: TracedLogs) -> None:
    done = run("anomalies", "--out", faulty.out, "--limit", 2)
    total = sum(faulty.summary["anomalies"].values())
    assert (len(done.stdout.splitlines()), done.stderr) == (4, f"{total - 2} more: see --limit.\n")
    done = run("balance", "--out", faulty.out, "--limit", 2, "--json")
    assert len(json.loads(done.stdout)) == 2
    assert done.stderr.endswith(" more: see --limit.\n")


@pytest.mark.parametrize("as_json", [True, False])
def test_rows_that_are_not_shown_are_counted_beside_what_is_printed(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    rows = [{"from": "a.example"}]
    asking.print_rows(rows, as_json, "links", {"from": "from"}, more=2_000)
    printed = capsys.readouterr()
    assert "a.example" in printed.out
    assert printed.err == "2,000 more: see --limit.\n"
    asking.print_rows(rows, as_json, "links", {"from": "from"})
    assert capsys.readouterr() == (printed.out, "")


def test_in_a_pipe_a_row_is_a_line_and_so_is_what_is_said_of_a_copy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ", ".join(f"s{number:04}.example" for number in range(4_000))
    console().print(table("proven", ("server", "by its records"), [("a", names), ("b", "it is held")]))
    assert [line.split(maxsplit=1)[-1].rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "proven",
        "by its records",
        names,
        "it is held",
    ]
    console().print(plain(names * 3))
    assert capsys.readouterr().out == f"{names * 3}\n"
    route = Tree("m")
    route.add(plain(names * 3))
    console().print(route)
    assert capsys.readouterr().out == f"m\n└── {names * 3}\n"


def test_a_summary_says_where_it_has_no_room_for_more_names() -> None:
    from routing.trace import summaries

    assert summaries.listed(["a", "b"]) == "a, b"
    assert summaries.listed(["a"] * 50).endswith("a, a (only 50 are named here)")


def test_tables_that_are_not_there_are_an_error_in_one_line(run: Any, tmp_path: Path) -> None:
    done = run("links", "--out", tmp_path)
    assert done.exit_code == 1
    assert done.stderr == f"smqpd: {tmp_path} has no table links: run smqpd trace run first\n"


@pytest.mark.parametrize("command", ["run", "compact", "stream"])
def test_logs_that_are_not_there_are_misused_words_before_spark_is_asked(
    run: Any, tmp_path: Path, command: str
) -> None:
    with contextlib.chdir(tmp_path):
        done = run(command, "logs", "--out", "tables")
    assert done.exit_code == 2
    assert "there is no logs" in done.stderr


def test_a_pattern_of_which_there_is_no_file_is_an_error_in_one_line(run: Any, tmp_path: Path) -> None:
    done = run("run", tmp_path / "*.jsonl", "--out", tmp_path / "tables")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == f"smqpd: there is no file:{tmp_path}/*.jsonl"


def test_what_cannot_be_written_is_an_error_in_one_line(run: Any, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    for command in (("generate", "--out", taken), ("package", taken)):
        done = run(*command)
        assert done.exit_code == 1
        assert done.stderr.splitlines()[-1].startswith(f"smqpd: {taken} cannot be written: ")


@pytest.mark.parametrize("command", ["run", "compact", "stream"])
def test_tables_that_cannot_be_written_are_an_error_in_one_line_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    from routing.trace import session

    monkeypatch.setattr(session, "open_session", lambda *_, **__: pytest.fail("Spark was started"))
    taken = tmp_path / "taken"
    taken.write_text("")
    for out, why in (
        (taken, "it is no directory"),
        (taken / "tables", "Not a directory"),
        (Path("/proc/tables"), "No such file or directory"),
    ):
        done = CliRunner().invoke(app, [command, str(tmp_path), "--out", str(out)])
        assert (done.exit_code, done.stderr) == (1, f"smqpd: {out} cannot be written: {why}\n")


def test_to_look_whether_tables_can_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from routing.trace import java, session

    def no_java(*_: Any, **__: Any) -> None:
        raise java.NoJava("there is no Java")

    monkeypatch.setattr(session, "open_session", no_java)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "hops-a-1-1-9.jsonl").write_text("")
    for out in ("new", "new/tables", "file:///nowhere/tables", "hdfs://host/tables"):
        with contextlib.chdir(tmp_path):
            done = CliRunner().invoke(app, ["run", "logs", "--out", out])
        assert done.stderr == "smqpd: there is no Java\n"
        assert [path.name for path in tmp_path.iterdir()] == ["logs"]


@pytest.mark.parametrize("pretence", PRETENCES)
async def test_a_pipe_is_not_drawn_on_whatever_it_passes_for(tmp_path: Path, pretence: str) -> None:
    command = "from routing.trace.command import app; app()"
    done = await trio.run_process(
        [sys.executable, "-c", command, "generate", "--out", str(tmp_path), "--messages", "2000"],
        capture_stdout=True,
        capture_stderr=True,
        env={**inherited(), "PYTHONPATH": str(ROOT), pretence: "1"},
    )
    assert done.stderr == b""
    assert done.stdout.decode().endswith(f"the truth in {tmp_path / 'truth'}\n")
    assert b"\x1b" not in done.stdout


def test_generate_writes_packed_logs_and_the_truth(run: Any, tmp_path: Path) -> None:
    made = run("generate", "--out", tmp_path, "--sites", 4, "--messages", 30, "--compress")
    assert made.exit_code == 0
    assert len({path.parent for path in tmp_path.rglob("hops-*.jsonl.gz")}) == 4
    assert len((tmp_path / "truth" / "messages.jsonl").read_text().splitlines()) == 30


def test_report_writes_the_page(run: Any, whole: TracedLogs, tmp_path: Path) -> None:
    page = tmp_path / "trace.html"
    assert run("report", "--out", whole.out, "--page", page).exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    nowhere = tmp_path / "nowhere" / "trace.html"
    failed = run("report", "--out", whole.out, "--page", nowhere)
    assert (failed.exit_code, failed.stderr) == (
        1,
        f"smqpd: {nowhere} cannot be written: No such file or directory\n",
    )


def test_where_there_is_no_terminal_each_step_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    from routing.trace.command_line import steps

    with steps() as say:
        say("reading the logs")
        say("links")
    assert capsys.readouterr().err == "smqpd: reading the logs\nsmqpd: links\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ("anomalies", "--kind", "lots"),
            "--kind lots is none of lost, two custodians, begun or ended twice, over depth, wrong receipt,"
            " held copies differ, looped, stuck, log missing, clock jump, degraded link",
        ),
        (("route", "a/019aa5d72900-1-1", "--format", "xml"), "--format xml is none of text, json, otlp"),
        (("route", "a/b"), "a/b is no Smuid; it is written server/time-boot-counter"),
    ],
)
def test_a_word_that_is_not_known_is_misuse_that_names_those_that_are(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], said: str
) -> None:
    from routing.trace import session

    monkeypatch.setattr(session, "open_session", lambda *_, **__: pytest.fail("Spark was started"))
    done = CliRunner().invoke(app, [*command, "--out", "nowhere"])
    assert (done.exit_code, done.stderr) == (2, f"smqpd: {said}\n")


def test_without_pyspark_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("routing.trace.session")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    done = CliRunner().invoke(app, ["links", "--out", "x"])
    assert done.exit_code == 1
    assert done.stderr == (
        "smqpd: the trace jobs are not installed here; install them with: pip install 'smqpd[trace]'\n"
    )


def test_what_is_small_is_known_before_spark_is_started(tmp_path: Path) -> None:
    from routing.trace.session import PACKED_TIMES, SMALL_BYTES_MAX, is_small

    lines, packed = tmp_path / "hops-a-1-1-9.jsonl", tmp_path / "hops-a-1-10-19.jsonl.gz"
    lines.write_bytes(bytes(SMALL_BYTES_MAX))
    assert is_small(str(tmp_path), str(tmp_path / "nothing"))
    packed.write_bytes(b"1")
    assert not is_small(str(tmp_path))
    assert is_small(str(packed))
    packed.write_bytes(bytes(SMALL_BYTES_MAX // PACKED_TIMES + 1))
    assert not is_small(str(packed))
    assert not is_small("hdfs://host/hops")


def test_one_is_no_plural() -> None:
    from routing.trace.summaries import counted

    assert [counted(number, "record") for number in (0, 1, 2_000)] == [
        "0 records",
        "1 record",
        "2,000 records",
    ]
    assert counted(1, "hop is", "hops are") == "1 hop is"


@pytest.mark.parametrize(
    "command", ["run logs", "compact logs", "links", "report", "route a/019aa5d72900-1-1"]
)
@pytest.mark.parametrize("name", ["", "  "])
def test_tables_without_a_name_are_not_made_at_the_root_of_the_machine(
    tmp_path: Path, command: str, name: str
) -> None:
    with contextlib.chdir(tmp_path):
        Path("logs").mkdir()
        done = CliRunner().invoke(app, [*command.split(), "--out", name])
    assert done.exit_code == 2
    assert "it names no directory" in done.stderr


def test_two_directories_with_links_into_each_other_end_the_search_for_logs(tmp_path: Path) -> None:
    for one, other in (("alpha", "beta"), ("beta", "alpha")):
        (tmp_path / one).mkdir()
        for name in ("again", "once-more"):
            (tmp_path / one / name).symlink_to(f"../{other}")
    done = CliRunner().invoke(app, ["run", str(tmp_path / "alpha"), "--out", str(tmp_path / "tables")])
    assert done.exit_code == 1
    assert f"cannot be read: it leads back to {tmp_path / 'alpha'}\n" in done.stderr


def test_a_link_that_leads_back_to_where_it_is_ends_the_search_for_logs(tmp_path: Path) -> None:
    (tmp_path / "sites" / "alpha").mkdir(parents=True)
    for name in ("again", "once-more"):
        (tmp_path / "sites" / "alpha" / name).symlink_to("..")
    done = CliRunner().invoke(app, ["run", str(tmp_path), "--out", str(tmp_path / "tables")])
    assert done.exit_code == 1
    again = tmp_path / "sites" / "alpha"
    assert any(
        done.stderr == f"smqpd: {again / name} cannot be read: it leads back to {tmp_path / 'sites'}\n"
        for name in ("again", "once-more")
    )


def test_a_link_to_another_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "hops-alpha.example-1-1-1.jsonl").write_text("")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "alpha").symlink_to(tmp_path / "elsewhere")
    command_line.check_logs([str(tmp_path / "logs")])


def test_more_faults_than_there_are_links_make_all_of_them_bad(tmp_path: Path) -> None:
    words = ["generate", "--out", str(tmp_path), "--sites", "3", "--faults", "9", "--messages"]
    few = CliRunner().invoke(app, [*words, "37"])
    assert (few.exit_code, few.stderr) == (2, "smqpd: --faults 9 needs --messages 38 at least\n")
    done = CliRunner().invoke(app, [*words, "38"])
    assert done.exit_code == 0
    made = [json.loads(line) for line in (tmp_path / "truth" / "messages.jsonl").read_text().splitlines()]
    assert sum(bool(message["faults"]) for message in made) <= 36


def test_what_logs_call_a_message_is_the_name_of_one_that_is_asked_for() -> None:
    strange = "NOBODY's_server:-1/019aa5d72900-1-1"
    assert birthdays([strange, "alpha.example/019aa5d72900-1-2", "alpha"]) == ["2025-11-21"]
    assert birthday(strange) == "2025-11-21"
    for no_smuid in ("", "alpha", "alpha/", "alpha.example/019aa5d7290-1-1", "a b/019aa5d72900-1-1"):
        assert birthday(no_smuid) is None
    assert birthday("alpha.example/ffffffffffff-1-1") is None


def test_sites_that_are_too_many_for_a_map_stand_on_a_circle() -> None:
    from routing.trace.report import layout

    names = [f"s{number}" for number in range(8_000)]
    places = layout(names, list(pairwise(names)))
    assert {round(math.hypot(x - 0.5, y - 0.5), 3) for x, y in places.values()} == {0.5}
    few = layout(names[:20], list(pairwise(names[:20])))
    assert len({round(math.hypot(x - 0.5, y - 0.5), 3) for x, y in few.values()}) > 1


def test_sites_that_are_too_many_for_the_page_are_those_that_no_log_is_of() -> None:
    from routing.trace.report import SITES_MAX, sites

    log = {"log": "absent", "records": 0, "missing": 0}
    invented = [log | {"server": f"a{number}"} for number in range(SITES_MAX)]
    linked = log | {"server": "linked.example"}
    read = log | {"server": "read.example", "log": "whole", "records": 9}
    clocks = [{"server": "read.example", "offset_us": us, "drift_ppm": 0.5} for us in (1.0, 2.0)]
    found = {
        site["server"]: site for site in sites([*invented, linked, read], clocks, {"linked.example": (0, 1)})
    }
    assert len(found) == SITES_MAX
    assert found.keys() - {one["server"] for one in invented} == {"linked.example", "read.example"}
    assert (found["read.example"]["log"], found["read.example"]["offset_us"]) == ("whole", 2.0)
    assert [found[name]["linked"] for name in ("linked.example", "read.example")] == [True, False]
    assert list(found) == sorted(found)


def test_a_message_of_which_thousands_have_copies_takes_little_of_the_page() -> None:
    from routing.trace import worst
    from routing.trace.proof import hop_records

    names = [f"site{number}.example" for number in range(1_000)]
    smuid = f"{names[0]}/019aa5d72900-1-1"
    copies = [{"server": name, "state": "lost" if name == names[1] else "unknown"} for name in names]
    row = {
        "smuid": smuid,
        "topic": "t",
        "origin": names[0],
        "reached": 1_000,
        "last_delay_us": 5,
        "state": "partial",
        "mode": "ALL",
        "hops": [],
        "copies": copies,
        "missing": names,
    }
    record = {"version": 1, "server": names[0], "boot": 1, "time_us": 9, "smuid": smuid, "topic": "t"}
    told: list[dict[str, Any]] = [{"event": "published"}]
    told += [{"event": "forwarded", "peer": name, "outcome": "accepted"} for name in names]
    told[-1]["final"] = True
    records = [record | {"record": number} | one for number, one in enumerate(told, 1)]
    shown = worst.shown(row, hop_records(records), {names[0]: {"log": "whole", "last_us": 9}})
    assert shown["open"] == [
        "proven: the copy at site1.example was lost",
        f"not known: what became of the copies at {', '.join([names[0], *names[2:21]])} and 979 more",
    ]
    finished = shown["proof"][1]["sentence"]
    assert finished.startswith("Published. Handed on")
    assert finished.endswith(" characters more")
    assert len(json.dumps(shown)) < 50_000
