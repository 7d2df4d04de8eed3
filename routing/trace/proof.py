"""What the records of one message prove, a sentence for each server: what is read to somebody who must know.

The states are those that the jobs have found; the words are those of `smqpd why`, from the same records.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from routing import fate
from routing.hop_words import BEGINS, TAKEN
from routing.hops import HopRecord
from routing.trace.show import moment
from routing.trace.summaries import counted

GRAVITY: Final = ("lost", "unknown", "log missing", "gone", "held", "finished")
"""States of copies, those first that somebody must explain."""


@dataclass(frozen=True)
class Delivery:
    """What the records of a server tell of one subscription; as `fate.Reader`."""

    subscription: str
    pattern: str
    delivered_us: int
    committed_us: int | None
    attempts: int
    returned: str


@dataclass(frozen=True)
class Proof:
    """What is proven of the copy at one server, and to whom it was delivered there."""

    server: str
    state: str
    sentence: str
    deliveries: tuple[Delivery, ...] = ()


@dataclass(frozen=True)
class MessageRecords:
    """What the table of records has of one message, by server.

    Attributes:
        by_server: in their order; each once.
        unread: how many rows are none, as those of earlier versions, which believed more, may be.
    """

    by_server: dict[str, list[HopRecord]]
    unread: Counter[str] = field(default_factory=Counter)


def hop_records(rows: Iterable[Mapping[str, Any]]) -> MessageRecords:
    """Rows of the table of records, all of one message, as records."""
    known = {field.name for field in msgspec.structs.fields(HopRecord)}
    found: dict[str, dict[tuple[int, int], HopRecord]] = defaultdict(dict)
    unread: Counter[str] = Counter()
    for row in rows:
        fields = {name: value for name, value in row.items() if name in known and value is not None}
        try:
            record = msgspec.convert(fields, HopRecord)
        except msgspec.ValidationError:
            unread[row["server"]] += 1
        else:
            found[record.server].setdefault((record.boot, record.record), record)
    by_server = {
        server: sorted(records.values(), key=lambda record: record.record)
        for server, records in sorted(found.items())
    }
    return MessageRecords(by_server, unread)


def proofs(
    route: Mapping[str, Any], records: MessageRecords, logs: Mapping[str, Mapping[str, Any]]
) -> list[Proof]:
    """What is proven of each copy of a route, as the table has it, the worst first.

    `records`: of the message; `logs`: rows of the table coverage, by server. Servers that have no copy, and
    records that cannot be read, are among them: there may be one.
    """
    answers: dict[str, list[HopRecord]] = defaultdict(list)
    for own in records.by_server.values():
        for record in own:
            if record.event == "forwarded":
                answers[record.peer].append(record)
    found = [
        Proof(
            copy["server"],
            copy["state"],
            _sentence(copy, records, answers[copy["server"]], logs.get(copy["server"], {})),
            _deliveries(records.by_server.get(copy["server"], [])),
        )
        for copy in route["copies"]
    ]
    told = {proof.server for proof in found}
    for server in records.unread.keys() - told:
        found.append(
            Proof(server, "unknown", f"Whether it was here is not known: {_unread(records, server)}.")
        )
    return sorted(found, key=lambda proof: (GRAVITY.index(proof.state), proof.server))


def _deliveries(records: list[HopRecord]) -> tuple[Delivery, ...]:
    return tuple(
        Delivery(
            each.subscription,
            each.pattern,
            each.delivered_us,
            each.committed_us,
            each.attempts,
            each.returned,
        )
        for each in fate.readers_of(records)
    )


def judged(records: list[HopRecord], log: Mapping[str, Any], unread: str = "") -> fate.Fate:
    """The fate that one server's records tell of, doubted where some may be missing: see `ends.states`.

    What is held is so at the end of its log: others' records may tell of later. `unread`: which of them
    cannot be read, in words.
    """
    begins = [record.record for record in records if record.event in BEGINS]
    complete_from = log.get("complete_from") or 0
    whole = bool(begins) and max(begins) >= complete_from
    ends_us = log.get("last_us") or records[-1].time_us
    return fate.judge(records, None, unread or ("" if whole else _lacks(log)), log_ends=moment(ends_us))


def _sentence(
    copy: Mapping[str, Any], records: MessageRecords, answers: list[HopRecord], log: Mapping[str, Any]
) -> str:
    """`answers`: what the server of the copy has answered to others, as their records say."""
    server = copy["server"]
    claims = [_answer(record, "acknowledged it") for record in answers if record.outcome in TAKEN]
    claims += [
        _answer(record, "called it a duplicate") for record in answers if record.outcome == "duplicate"
    ]
    own = records.by_server.get(server, [])
    if copy["state"] == "lost":
        claim = claims[0] if claims else f"{server} has acknowledged it"
        return (
            f"{claim}. Of the log of {server} no record is missing between those of what it answered before"
            " and after, and none of them is of this message: it was lost there."
        )
    unread = _unread(records, server)
    if own:
        found = judged(own, log, unread)
        passed_over = f" Passed over: {unread}." if unread and found.ended is not None else ""
        return found.verdict + passed_over
    had_it = f"{claims[0]}" if claims else "records of others tell that it was there"
    if unread and not claims:
        had_it = "its own records tell that it was there"
    return f"{had_it}; what became of it is not known: {unread or _lacks(log)}."


def _unread(records: MessageRecords, server: str) -> str:
    count = records.unread[server]
    if not count:
        return ""
    return f"{counted(count, 'record of it here holds', 'records of it here hold')} what no record can"


def _answer(record: HopRecord, what: str) -> str:
    return (
        f"{record.peer} has {what} to {record.server}, {moment(record.time_us)} by the clock of"
        f" {record.server} (its record {record.record})"
    )


def _lacks(log: Mapping[str, Any]) -> str:
    match log.get("log", "absent"):
        case "absent":
            return "its log was not read"
        case "gaps" if log.get("numbered_twice"):
            return "its record numbers came twice"
        case "gaps":
            return counted(log["missing"], "record of its log is missing", "records of its log are missing")
        case _:
            return "its log may go on in files that were not read"
