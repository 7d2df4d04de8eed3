"""The two files that spark-submit takes: the jobs as a zip, and the script that starts them.

No executor runs Python, and the jobs import nothing but PySpark and the standard library, so the cluster
needs no environment beyond Spark's own.
"""

import zipfile
from importlib.resources import files
from pathlib import Path

ARCHIVE = "smqpd-trace.zip"
SCRIPT = "smqpd-trace.py"


def build(directory: Path) -> tuple[Path, Path]:
    """Write script and archive into `directory`, which is made, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    archive, script = directory / ARCHIVE, directory / SCRIPT
    trace = files("routing.trace")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("__init__.py", "hop_words.py"):
            packed.writestr(f"routing/{name}", files("routing").joinpath(name).read_bytes())
        for part in trace.iterdir():
            if part.name.endswith((".py", ".html", ".css", ".js")):
                packed.writestr(f"routing/trace/{part.name}", part.read_bytes())
    script.write_bytes(trace.joinpath("job.py").read_bytes())
    return script, archive
