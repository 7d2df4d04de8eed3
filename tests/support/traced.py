"""A synthetic federation, its truth, and the tables that the batch made of its logs."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from routing.trace.synthetic.plan import Plan

NOW_US = 1_763_900_000_000_000


@dataclass
class TracedLogs:
    spark: Any
    plan: Plan
    logs: Path
    out: str
    summary: dict[str, Any]

    def table(self, name: str) -> Any:
        from routing.trace import tables

        return tables.read(self.spark, self.out, name)

    @cached_property
    def messages(self) -> dict[str, dict[str, Any]]:
        lines = (self.logs / "truth" / "messages.jsonl").read_text().splitlines()
        return {message["smuid"]: message for message in map(json.loads, lines)}

    @cached_property
    def sites(self) -> dict[str, dict[str, Any]]:
        return {site["server"]: site for site in self._sites["sites"]}

    @cached_property
    def bad_links(self) -> set[tuple[str, str]]:
        return {tuple(link) for link in self._sites["bad_links"]}

    @cached_property
    def _sites(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.logs / "truth" / "sites.json").read_text())
        return found

    @cached_property
    def links(self) -> dict[tuple[str, str], dict[str, int]]:
        rows = json.loads((self.logs / "truth" / "links.json").read_text())
        return {(row.pop("from"), row.pop("to")): row for row in rows}

    @cached_property
    def routes(self) -> dict[str, dict[str, Any]]:
        return {row.smuid: row.asDict(recursive=True) for row in self.table("routes").collect()}

    @cached_property
    def delays(self) -> dict[tuple[str, str, str], int]:
        """The true delay of each first copy, microseconds."""
        return {
            (smuid, a, b): delay
            for smuid, message in self.messages.items()
            for a, b, delay in message["accepted"]
        }
