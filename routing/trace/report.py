"""One HTML page about the tables: a map of the sites, tables with filters, the routes of the worst messages.

The page needs nothing but itself: its style, script and data are in it, and a content security policy
forbids everything else. All that came from logs is data in one JSON block and reaches the page as text, never
as HTML. The page has a fixed number of everything at most, however many there are, and says so.
"""

import json
import math
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from routing.trace import batch, tables
from routing.trace.anomalies import KINDS, by_gravity
from routing.trace.journal import jsonable
from routing.trace.summaries import listed
from routing.trace.worst import cut, worst_routes

ANOMALIES_MAX: Final = 500
LINKS_MAX: Final = 5_000
SITES_MAX: Final = 5_000
BALANCE_MAX: Final = 2_000
MAP_ROUNDS: Final = 300
MAP_PUSHES_MAX: Final = 10_000_000
"""Some seconds. Logs may name any number of peers; many thousands stand on a circle."""


def page(session: SparkSession, out: str, day: str | None = None) -> str:
    """The page about the tables below `out`; of one day (`2026-11-21`) or of all."""
    of_links = _of_day(tables.read(session, out, "links"), day)
    links = [row.asDict() for row in per_link(of_links)]
    names = sorted({link["from"] for link in links} | {link["to"] for link in links})
    balance = _of_day(tables.read(session, out, "balance"), day)
    wrong = _anomalies(session, out, day)
    kinds = {row["kind"]: row["count"] for row in wrong.groupBy("kind").count().collect()}
    told = batch.summarize(session, out)
    covered = tables.read(session, out, "coverage").collect()
    clocks = tables.read(session, out, "clocks").orderBy("from_us").collect()
    places = layout(names, [(link["from"], link["to"]) for link in links])
    data = {
        "summary": told,
        "logs": {word: listed(told["logs"][word]) for word in ("absent", "gaps")},
        "day": day,
        "kinds": {kind: kinds[kind] for kind in KINDS if kind in kinds},
        "totals": {
            "anomalies": sum(kinds.values()),
            "links": of_links.select("from", "to").distinct().count()
            if len(links) >= LINKS_MAX
            else len(links),
            "balance": balance.count(),
            "sites": len(covered),
        },
        "sites": sites(covered, clocks, places),
        "links": links,
        "anomalies": [
            row | {"detail": cut(row["detail"] or "")}
            for row in _rows(wrong.orderBy(*by_gravity()), ANOMALIES_MAX)
        ],
        "balance": _rows(balance.orderBy("closes", "server", "topic", "day"), BALANCE_MAX),
        "routes": worst_routes(session, out, _of_day(tables.read(session, out, "routes"), day), wrong),
    }
    return render(data)


def render(data: dict[str, Any]) -> str:
    """The template with `data` in it; nothing in the data can end the block that it stands in."""
    text = json.dumps(jsonable(data), ensure_ascii=True, allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    here = files("routing.trace")
    template = here.joinpath("report.html").read_text(encoding="utf-8")
    for name in ("report.css", "report.js"):
        template = template.replace(f"/*{name}*/", here.joinpath(name).read_text(encoding="utf-8"))
    return template.replace("{}/*data*/", text)


def _of_day(frame: DataFrame, day: str | None) -> DataFrame:
    return frame if day is None else frame.where(f.col("day") == day)


def _anomalies(session: SparkSession, out: str, day: str | None) -> DataFrame:
    """Those of the day, and those of logs and clocks, which are of none."""
    found = tables.read(session, out, "anomalies")
    return found if day is None else found.where(f.col("day").isNull() | (f.col("day") == day))


def _rows(frame: DataFrame, most: int) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.limit(most).collect()]


def per_link(links: DataFrame) -> list[Any]:
    """One row for each link over the days; the percentiles are those of the worst day.

    lost, retries: of the days of which they are known, null where that is none; tried: attempts on those
    days; unknown_days: how many the others are, of `days`.
    """
    sums = ("messages", "bytes", "attempts", "lost", "retries", "duplicates", "loops", "timed")
    worst = ("delay_p50_us", "delay_p99_us", "raw_p50_us")
    is_known = f.col("lost").isNotNull()
    return (
        links.groupBy("from", "to")
        .agg(
            *(f.sum(name).alias(name) for name in sums),
            *(f.max(name).alias(name) for name in worst),
            f.coalesce(f.sum(f.when(is_known, f.col("attempts"))), f.lit(0)).alias("tried"),
            f.count_if(~is_known).alias("unknown_days"),
            f.count("*").alias("days"),
        )
        .orderBy(f.desc("messages"), "from", "to")
        .limit(LINKS_MAX)
        .collect()
    )


def sites(
    covered: Iterable[Any], clocks: Iterable[Any], places: Mapping[str, tuple[float, float]]
) -> list[dict[str, Any]]:
    """Those of the table coverage that the page has, by name: if there are too many, such as have a log, then
    those on the map, then others.

    `clocks`: the stretches of all clocks, of which the last one is shown.
    """
    clock_of = {row["server"]: row for row in clocks}
    wanted = sorted(covered, key=lambda log: (not log["records"], log["server"] not in places, log["server"]))
    found = []
    for log in sorted(wanted[:SITES_MAX], key=lambda log: log["server"]):
        name = log["server"]
        clock = clock_of.get(name)
        x, y = places.get(name, (0.5, 0.5))
        found.append(
            {
                "server": name,
                "x": round(x, 4),
                "y": round(y, 4),
                "linked": name in places,
                "log": log["log"],
                "records": log["records"],
                "missing": log["missing"],
                "offset_us": clock["offset_us"] if clock else None,
                "drift_ppm": clock["drift_ppm"] if clock else None,
            }
        )
    return found


def layout(names: list[str], links: list[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """Places in the unit square: what is linked draws together, everything else pushes apart.

    Fruchterman and Reingold's method from a circle, so that the same sites always get the same map; the more
    there are, the shorter, and in the end not at all.
    """
    count = len(names)
    places = {
        name: [math.cos(2 * math.pi * i / max(count, 1)), math.sin(2 * math.pi * i / max(count, 1))]
        for i, name in enumerate(names)
    }
    near = 2.0 / math.sqrt(max(count, 1))
    pairs = sorted({(min(pair), max(pair)) for pair in links})
    rounds = MAP_ROUNDS if count <= 100 else max(20, MAP_ROUNDS * 10_000 // count**2)
    rounds = min(rounds, MAP_PUSHES_MAX // max(count**2 // 2, 1))
    for step in range(rounds):
        heat = 0.2 * (1 - step / rounds)
        forces = {name: [0.0, 0.0] for name in names}
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                _push(places, forces, a, b, lambda d: near * near / d)
        for a, b in pairs:
            _push(places, forces, a, b, lambda d: -d * d / near)
        for name, (fx, fy) in forces.items():
            size = math.hypot(fx, fy) or 1.0
            places[name][0] += fx / size * min(size, heat)
            places[name][1] += fy / size * min(size, heat)
    xs, ys = [p[0] for p in places.values()] or [0], [p[1] for p in places.values()] or [0]
    wide, high = max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0
    return {name: ((x - min(xs)) / wide, (y - min(ys)) / high) for name, (x, y) in places.items()}


def _push(places: Any, forces: Any, a: str, b: str, force: Any) -> None:
    dx, dy = places[a][0] - places[b][0], places[a][1] - places[b][1]
    distance = math.hypot(dx, dy) or 1e-3
    strength = force(distance) / distance
    forces[a][0] += dx * strength
    forces[a][1] += dy * strength
    forces[b][0] -= dx * strength
    forces[b][1] -= dy * strength
