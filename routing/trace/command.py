"""The command `smqpd trace`: it makes tables from hop logs, and asks them.

Exit codes: 0 done, 1 it failed (no Java, no Spark, no such table), 2 usage.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from routing.trace import asking
from routing.trace.command_line import (
    Day,
    Json,
    Logs,
    Master,
    Out,
    check_far_logs,
    check_logs,
    check_there,
    check_writable,
    fail,
    spark,
    steps,
    writing,
)
from routing.trace.journal import jsonable
from routing.trace.show import console, plain, summary
from routing.trace.summaries import counted, records_read

app = typer.Typer(no_args_is_help=True, help="Rebuild every route from the hop logs of all sites.")


@app.command()
def run(
    logs: Logs,
    out: Out,
    day: Day = None,
    master: Master = None,
    server: Annotated[
        list[str] | None, typer.Option(help="Only records of this server count; may be given again.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read hop logs and write the tables of routes, links, custody, receipts, anomalies and the balance."""
    check_writable(out)
    check_logs(logs)
    with spark(*logs, out, master=master) as session:
        from routing.trace import batch, files

        check_far_logs(session, logs)
        born = day.date() if day else None
        with steps() as say:
            found = files.reading(
                session,
                lambda: batch.run(session, logs, out, day=born, servers=server or (), progress=say),
            )
    if as_json:
        print(json.dumps(jsonable(found), indent=1))
    else:
        summary(console(), found, out)
    if not records_read(found):
        fail(f"no record in the logs below {', '.join(logs)}")


app.command()(asking.route)
app.command()(asking.links)
app.command()(asking.anomalies)
app.command()(asking.balance)
app.command()(asking.slowest)
app.command()(asking.compare)


@app.command()
def report(
    out: Out,
    page: Annotated[Path, typer.Option("--page", help="The HTML file to write.")] = Path("trace.html"),
    day: Day = None,
) -> None:
    """Write one self-contained HTML page: map, links, anomalies, balance and the worst routes."""
    with spark(out) as session:
        from routing.trace import report as job

        written = job.page(session, out, day.date().isoformat() if day else None)
    with writing(page):
        page.write_text(written, encoding="utf-8")
    console().print(plain(f"wrote {page}"))


@app.command()
def compact(logs: Logs, out: Out, master: Master = None) -> None:
    """Rewrite closed logs as Parquet by the hour, sorted by Smuid, which every command here reads as well."""
    check_writable(out)
    check_logs(logs)
    with spark(*logs, out, master=master) as session:
        from pyspark.errors import AnalysisException

        from routing.trace import compaction, files

        check_far_logs(session, logs)
        try:
            count, damaged = files.reading(
                session, lambda: (compaction.compact(session, logs, out), files.damaged(session, logs))
            )
        except AnalysisException as error:
            if error.getCondition() != "UNABLE_TO_INFER_SCHEMA":
                raise
            fail(f"no record in the logs below {', '.join(logs)}")
    if damaged:
        console().print(plain(f"changed since they were closed, or not whole: {', '.join(damaged)}"))
    console().print(plain(f"{counted(count, 'record')} in {out}"))


@app.command()
def stream(
    logs: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="The directory in which closed logs appear.",
            callback=lambda directory: check_there([directory])[0],
        ),
    ],
    out: Out,
    master: Master = None,
    once: Annotated[bool, typer.Option("--once", help="Take what is there and end.")] = False,
    every_s: Annotated[int, typer.Option("--every", min=1, help="Seconds between looks.")] = 60,
) -> None:
    """Keep the tables stream/links and stream/routes near live while logs arrive."""
    check_writable(out)
    with spark(master=master) as session:
        from routing.trace import stream as job

        job.run(session, logs, out, once=once, every_s=every_s)


@app.command()
def package(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the two files go.")],
) -> None:
    """Write what spark-submit needs: the jobs as a zip, and the script that starts them."""
    from routing.trace import package as job

    with writing(directory):
        script, archive = job.build(directory)
    console().print(plain(f"spark-submit --master URL --py-files {archive} {script} run LOGS --out DIR"))


@app.command()
def generate(
    out: Annotated[Path, typer.Option("--out", metavar="DIR")],
    sites: Annotated[int, typer.Option(min=2, max=1000)] = 10,
    messages: Annotated[int, typer.Option(min=1)] = 1000,
    seed: int = 1,
    absent: Annotated[int, typer.Option(min=0, help="Sites without a log.")] = 0,
    missing: Annotated[float, typer.Option(min=0, max=1, help="Share of records missing.")] = 0.0,
    repeated: Annotated[float, typer.Option(min=0, max=1, help="Share of lines that stand twice.")] = 0.0,
    day_off: Annotated[int, typer.Option(min=0, help="Sites whose clock is up to a day off.")] = 0,
    jumps: Annotated[int, typer.Option(min=0, help="Sites whose clock jumps.")] = 0,
    faults: Annotated[int, typer.Option(min=0, help="Broken promises of each kind.")] = 0,
    compress: Annotated[bool, typer.Option("--compress", help="Write .jsonl.gz.")] = False,
    truth: Annotated[bool, typer.Option(help="Write what became of each message.")] = True,
) -> None:
    """Write the logs of a federation that never was, with the truth beside them."""
    from routing.trace.synthetic.plan import Plan
    from routing.trace.synthetic.write import generate as write
    from routing.trace.synthetic.write import messages_for

    if messages < (least := messages_for(faults)):
        fail(f"--faults {faults} needs --messages {least} at least", 2)
    plan = Plan(
        sites=sites,
        messages=messages,
        seed=seed,
        absent=absent,
        missing=missing,
        repeated=repeated,
        day_off=day_off,
        jumps=jumps,
        faults=faults,
    )
    with writing(out), steps(are_few=False) as say:
        count = write(
            plan, out, compress=compress, truth=truth, progress=lambda done: say(counted(done, "message"))
        )
    console().print(
        plain(f"{counted(count, 'record')} of {sites} sites in {out}, the truth in {out / 'truth'}")
    )
