"""What the overview shows of now, and of the last hour, of which some hundred numbers are kept in memory."""

from collections import deque
from typing import Any, Final

import msgspec
import trio

from daemon.frontend import COUNTERS, Overview, Site
from daemon.terminal.figures import bytes_shown, duration_shown
from plugins.web.render import number, rate

SAMPLE_S: Final = 10.0
SAMPLES_MAX: Final = 360
"""An hour of them."""

TOLD_EVERY_S: Final = 2.0
STREAMS_MAX: Final = 50
"""Browsers that are told at a time; others load the page anew."""

WIDTH: Final = 360
HEIGHT: Final = 60


class Chart(msgspec.Struct, frozen=True):
    """The last hour of one number, as the points of an SVG polyline, and the greatest value."""

    name: str
    points: str
    most: str


class Live:
    """Of one page."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._samples: deque[tuple[float, float, float, float]] = deque(maxlen=SAMPLES_MAX)
        self._overview: Overview | None = None
        self._looked_at = 0.0
        self.streams = 0

    async def keep(self) -> None:
        """Take a sample now and then. Runs until cancelled."""
        while True:
            overview = await self._site.operations.overview()
            self._samples.append(
                (overview.in_per_s, overview.out_per_s, float(overview.held), float(overview.memory_bytes))
            )
            await trio.sleep(SAMPLE_S)

    async def overview(self) -> Overview:
        """The overview of now, or of a moment ago: all who look at a time share it."""
        now = trio.current_time()
        if self._overview is None or now - self._looked_at >= TOLD_EVERY_S / 2:
            self._overview, self._looked_at = await self._site.operations.overview(), now
        return self._overview

    def charts(self) -> list[Chart]:
        """The charts of the last hour."""
        kinds = (("in", rate), ("out", rate), ("held", number), ("memory", bytes_shown))
        return [
            _chart(name, [sample[place] for sample in self._samples], shown)
            for place, (name, shown) in enumerate(kinds)
        ]

    async def told(self) -> dict[str, Any]:
        """What of the overview changes, as text, by the names that the page has for it."""
        overview = await self.overview()
        return {
            "texts": texts(overview),
            "charts": {chart.name: [chart.points, chart.most] for chart in self.charts()},
            "warnings": [[warned.level, warned.about, warned.text] for warned in overview.warnings],
        }


def texts(overview: Overview) -> dict[str, str]:
    """The numbers of the overview as people read them."""
    return {
        "in": rate(overview.in_per_s),
        "out": rate(overview.out_per_s),
        "held": number(overview.held),
        "held_guaranteed": number(overview.held_guaranteed),
        "held_bytes": bytes_shown(overview.held_bytes),
        "dead_letters": number(overview.dead_letters),
        "topics": number(overview.topics),
        "subscriptions": number(overview.subscriptions),
        "sessions": number(overview.sessions),
        "connections": number(overview.connections),
        "links": f"{overview.links_up} of {overview.links}",
        "memory": bytes_shown(overview.memory_bytes),
        "store": bytes_shown(overview.store_bytes),
        "disk_free": bytes_shown(overview.disk_free_bytes),
        "up": duration_shown(overview.up_s),
        **{name: number(getattr(overview.totals, name)) for name in COUNTERS},
    }


def _chart(name: str, values: list[float], shown: Any) -> Chart:
    most = max(values, default=0.0)
    step = WIDTH / (SAMPLES_MAX - 1)
    start = WIDTH - step * (len(values) - 1)
    scale = (HEIGHT - 4) / most if most else 0.0
    points = (
        f"{start + step * place:.1f},{HEIGHT - 2 - value * scale:.1f}" for place, value in enumerate(values)
    )
    return Chart(name, " ".join(points), shown(most))
