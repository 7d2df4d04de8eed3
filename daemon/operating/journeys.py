"""The way of one message over all sites."""

import msgspec


class JourneyStop(msgspec.Struct, kw_only=True):
    """One site that had the message.

    Attributes:
        source: the site that it came from; "" where it was published.
        came_us: when, by the site's own clock; None where its log was not read.
        after_us: microseconds after it was published, clocks corrected; None where the stamps for that
            are missing.
        link_us: on the link to this site, half a round trip; None likewise.
        state, verdict: what became of it there, see `routing.fate`; `unknown` where nobody knows.
        again: sites from which it came once more, and what this site did with that.
        beyond: the sites that it went on to; below a hundred such also those further on, as `source` tells.
    """

    server: str
    source: str = ""
    came_us: int | None = None
    after_us: int | None = None
    link_us: int | None = None
    state: str = "unknown"
    verdict: str = ""
    again: list[str] = []
    beyond: list["JourneyStop"] = []


class KnowledgeGap(msgspec.Struct, frozen=True):
    """A site of which not all is known, and why."""

    server: str
    why: str


class Journey(msgspec.Struct, kw_only=True):
    """The way of one message over all sites.

    Attributes:
        began: the site where it was published, or the first that is known to have had it; None for none.
        apart: sites that had it, with no log that tells how they came by it.
        never: sites whose logs reach back far enough to say that they never had it.
    """

    smuid: str
    topic: str
    began: JourneyStop | None
    apart: list[JourneyStop]
    never: list[str]
    gaps: list[KnowledgeGap]
