"""Hop logs that a test writes record by record, for the jobs of the trace."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from routing.hops import HopRecord

READER: Final = "reader:main"
_STAMPS: Final = {"sent_us": 1, "peer_received_us": 2, "peer_sent_us": 3}
ANSWERED: Final[dict[str, Any]] = {"outcome": "accepted", **_STAMPS}
"""What a `forwarded` record of a copy that a peer has taken says of its answer."""


@dataclass
class WrittenLogs:
    """The hop logs of a few servers, written record by record."""

    records: list[HopRecord] = field(default_factory=list)
    last: Counter[str] = field(default_factory=Counter)

    @property
    def now_us(self) -> int:
        """The time of the next record."""
        return 1_763_719_200_000_000 + 1_000_000 * len(self.records)

    def write(self, server: str, event: str, smuid: str = "", **fields: Any) -> None:
        self.last[server] += 1
        record = HopRecord(
            version=1,
            server=server,
            boot=1,
            record=self.last[server],
            time_us=self.now_us,
            event=event,  # type: ignore[arg-type] # the names of events
            smuid=smuid,
            topic="t" if smuid else "",
            **fields,
        )
        self.records.append(record)

    def lose(self, server: str) -> None:
        """The next record of this server is missing."""
        self.last[server] += 1

    def save(self, directory: Path, server: str) -> None:
        """As one closed file, without its closing line."""
        directory.mkdir(parents=True)
        of_it = [record for record in self.records if record.server == server]
        name = f"hops-{server}-{of_it[0].boot}-{of_it[0].record}-{of_it[-1].record}.jsonl"
        (directory / name).write_bytes(msgspec.json.Encoder().encode_lines(of_it))

    def hand_over(self, smuid: str, sender: str, receiver: str, *hops: str, **fields: Any) -> None:
        """A copy of mode ONE goes from one server to another, which answers."""
        self.write(receiver, "received", smuid, peer=sender, mode="ONE", attempt=1, due=1, hops=hops)
        self.write(sender, "forwarded", smuid, peer=receiver, mode="ONE", attempt=1, **ANSWERED, **fields)

    def read_by_all(self, smuid: str, readers: int, **published: Any) -> None:
        """Published at a, and committed there by so many subscriptions."""
        self.write("a", "published", smuid, due=readers, **published)
        for number in range(readers):
            reader = {"subscription": f"{READER}{number}@a", "attempt": 1}
            self.write("a", "delivered", smuid, **reader)
            self.write("a", "committed", smuid, final=number == readers - 1, **reader)


def records_frame(spark: Any, records: list[HopRecord]) -> Any:
    """All of them, as the jobs read them."""
    from routing.trace.schema import RECORD

    rows = [msgspec.to_builtins([getattr(record, name) for name in RECORD.names]) for record in records]
    return spark.createDataFrame(rows, RECORD).localCheckpoint()
