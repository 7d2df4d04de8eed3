"""Tables and trees on a terminal. What came from logs is plain text: no markup, no control characters."""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from routing.trace.journal import RouteStop, left_open, rejected, tree
from routing.trace.summaries import counted, listed

UNFOLDED_COLUMNS = 10_000_000
"""Names in logs, and what is told of them, may be long; of more, a table folds and a tree cuts."""

UNKNOWN = "unknown"


def can_be_drawn_on(console: Console) -> bool:
    """Whether it is a terminal with a cursor: no pipe, whatever it passes for, and not TERM=dumb."""
    return console.file.isatty() and console.is_terminal and not console.is_dumb_terminal


def console(*, stderr: bool = False) -> Console:
    """Standard output or error. A pipe has no width, nothing is folded there; FORCE_COLOR has it styled."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr,
        highlight=False,
        width=None if is_terminal else UNFOLDED_COLUMNS,
        soft_wrap=not is_terminal,
        force_terminal=None if is_terminal or os.environ.get("FORCE_COLOR") else False,
    )


def plain(value: object) -> Text:
    """`value` as text that a terminal shows and does not obey."""
    if value is None:
        return Text("-", style="dim")
    text = str(value)
    return Text("".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text))


def milliseconds(us: int | float | None) -> str:
    return UNKNOWN if us is None else f"{us / 1000:,.1f} ms"


def moment(us: int | None) -> str:
    if us is None:
        return UNKNOWN
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat(timespec="milliseconds")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; numbers to the right."""
    shown = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    gathered = [list(row) for row in rows]
    for index, name in enumerate(columns):
        number = any(
            isinstance(row[index], (int, float)) or str(row[index]).endswith(" ms") for row in gathered
        )
        shown.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in gathered:
        shown.add_row(*(plain(value) for value in row))
    return shown


def route_tree(route: dict[str, Any]) -> Tree:
    """The tree of a route with the delay of each hop."""
    head = f"{route['smuid']}  topic {route['topic']}  {route['mode']}  born {moment(route['birth_us'])}"
    shown = Tree(plain(head))
    roots, loose = tree(route)
    for root in roots:
        branch = shown
        if root.server != route["origin"]:
            branch = shown.add(plain("how it came here is not known:"))
        _add(branch, root)
    for hop in loose:
        shown.add(plain(rejected(hop)))
    for sentence in left_open(route):
        shown.add(plain(sentence))
    if route["truncated"]:
        hops = counted(len(route["hops"]), "hop is", "hops are")
        shown.add(plain(f"only {hops} shown; the table of hops has all"))
    if route["receipt_x"] is not None:
        shown.add(plain(f"receipt {route['receipt_x']}/{route['receipt_y']}; committed {route['committed']}"))
    return shown


def _add(branch: Tree, root: RouteStop) -> None:
    waiting = [(branch, root)]
    while waiting:
        above, stop = waiting.pop()
        node = above.add(plain(_stop(stop)))
        for hop in stop.rejected:
            node.add(plain(rejected(hop)))
        waiting += [(node, following) for following in reversed(stop.onward)]


def _stop(stop: RouteStop) -> str:
    words = [stop.server]
    if stop.arrival is not None:
        words.append(f"after {milliseconds(stop.arrival['delay_us'])}")
        if stop.arrival["attempt"] > 1:
            words.append(f"at attempt {stop.arrival['attempt']}")
        if stop.doubt:
            words.append(f"({stop.doubt})")
    words.append(stop.state or "its log is missing")
    return " ".join(words)


def summary(shown: Console, found: dict[str, Any], out: str) -> None:
    """Show what `smqpd trace run` has found, at its end."""
    messages, logs, balance = found["messages"], found["logs"], found["balance"]
    shown.print(
        plain(
            f"{counted(messages['total'], 'message')}, {counted(messages['complete'], 'route')} complete, "
            f"{messages['partial']:,} in part (logs missing)"
            + (f", days {', '.join(found['days'])}" if found["days"] else "")
        )
    )
    shown.print(
        plain(
            f"{counted(logs['records'], 'record')} of {counted(logs['servers'], 'server')},"
            f" {logs['missing'] or 0:,} missing"
        )
    )
    if found["earlier"]:
        shown.print(plain(f"new of these: {found['added']:,}; the others are of earlier runs"))
    for word, what in (
        ("absent", "no log of"),
        ("gaps", "gaps in the log of"),
        ("no_heartbeat", "no heartbeat of"),
    ):
        if logs[word]:
            shown.print(plain(f"{what} {listed(logs[word])}"))
    aside = found["aside"]
    for reason, count in aside["reasons"].items():
        shown.print(plain(f"{counted(count, 'line')} set aside: {reason}"))
    if aside["damaged"]:
        shown.print(plain("changed since they were closed, or not whole: " + listed(aside["damaged"])))
    if aside["servers"]:
        shown.print(plain("of servers " + listed([f"{name} ({n})" for name, n in aside["servers"].items()])))
    if balance["closes"] is None:
        shown.print(plain("balance: no copies"))
    else:
        known = {name: count for name, count in balance.items() if name != "closes" and count}
        shown.print(
            plain(
                "balance: "
                + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in known.items())
                + ("; closes" if balance["closes"] else "; does not close")
            )
        )
    if found["holdings"]:
        stated = ", ".join(f"{word} {count}" for word, count in found["holdings"].items())
        shown.print(plain(f"held copies, as the servers state them: {stated}"))
    if found["anomalies"]:
        shown.print(
            plain(
                "anomalies: " + ", ".join(f"{word} {count:,}" for word, count in found["anomalies"].items())
            )
        )
    shown.print(plain(f"tables in {out}"))
