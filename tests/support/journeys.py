"""The way of a message, in short."""

from typing import Any

from daemon.operating.journeys import JourneyStop


def shape(stop: JourneyStop | None) -> Any:
    """A tree by names alone."""
    assert stop is not None
    return stop.server, [shape(one) for one in stop.beyond]
