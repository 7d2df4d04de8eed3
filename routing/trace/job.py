"""What spark-submit runs: `run LOGS… --out DIR [--day DAY] [--server NAME]`, `stream DIR --out DIR [--once]`.

The same jobs as `smqpd trace run` and `smqpd trace stream`; it prints the summary as one line of JSON. Paths
are those of any Hadoop file system.
"""

import argparse
import json
import sys
from datetime import date

from routing.trace import batch, files, stream
from routing.trace.journal import jsonable
from routing.trace.session import open_session
from routing.trace.summaries import records_read


def main(arguments: list[str]) -> None:
    """Do what `arguments` say; errors of Spark end the program with its traceback, as submitters expect."""
    parser = argparse.ArgumentParser(prog="smqpd-trace.py")
    jobs = parser.add_subparsers(dest="job", required=True)
    run = jobs.add_parser("run")
    run.add_argument("logs", nargs="+")
    run.add_argument("--out", required=True)
    run.add_argument("--day", type=date.fromisoformat)
    run.add_argument("--server", action="append", default=[])
    near_live = jobs.add_parser("stream")
    near_live.add_argument("logs")
    near_live.add_argument("--out", required=True)
    near_live.add_argument("--once", action="store_true")
    near_live.add_argument("--every", type=int, default=60)
    chosen = parser.parse_args(arguments)
    session = open_session()
    try:
        if chosen.job == "stream":
            stream.run(session, chosen.logs, chosen.out, once=chosen.once, every_s=chosen.every)
        else:
            logs, out, day, servers = chosen.logs, chosen.out, chosen.day, chosen.server
            if not any(files.any_below(session, path) for path in logs):
                sys.exit(f"smqpd: no closed logs below {', '.join(logs)}")
            found = files.reading(session, lambda: batch.run(session, logs, out, day=day, servers=servers))
            print(json.dumps(jsonable(found)))
            if not records_read(found):
                sys.exit(f"smqpd: no record in the logs below {', '.join(logs)}")
    finally:
        session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
