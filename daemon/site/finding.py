"""What is to be said of the files of a site; `daemon.site.examination` finds it."""

from typing import Literal

import msgspec

Part = Literal[
    "configuration",
    "accounts",
    "tls",
    "peers",
    "keys",
    "front ends",
    "state",
    "certificates",
    "everything",  # of a reload: which of its parts are taken on is not known
]

Severity = Literal["refused", "broken", "warning"]
"""`refused`: a site does not start with it, and a running one does not take it on. `broken`: it is taken on,
and does not work. `warning`: it works, and is hardly meant so, or not for long."""


class Finding(msgspec.Struct, frozen=True):
    """What is to be said of one part of a site's files."""

    part: Part
    level: Severity
    problem: str

    def __str__(self) -> str:
        return self.problem
