"""The process that is recorded: `python -m tests.power.work WORKLOAD SEED FILE`."""

import importlib
import sys
from pathlib import Path

from tests.power.recording import Recorded

if __name__ == "__main__":
    # a workload calls commands, which have arguments of their own
    workload, seed, file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    importlib.import_module(f"tests.power.{workload}").work(Recorded(workload, seed), seed, file)
