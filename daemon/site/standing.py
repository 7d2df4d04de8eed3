"""How a running site stands to its files: what it serves, what it has not taken on, what to see to.

What the site tells the commands of its operator, and in short its service manager.
"""

from typing import Final

import msgspec

from daemon.site.finding import Finding
from daemon.terminal.figures import counted, guaranteed_shown

STATUS_FINDINGS_MAX: Final = 3
"""In the line for the service manager; `smqpd status` shows all."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """At one moment.

    Attributes:
        held: all messages; `held_guaranteed` are those with a guarantee, None where an earlier version
            does not say so.
        errors: of smqpd's own since the start; the log has them.
        damaged: rows of the store that could not be read since the start, or not all of them; likewise.
        findings: of the last time that the files were read, and what expires now.
    """

    server: str
    version: str
    connections: int
    held: int
    held_guaranteed: int | None = None
    errors: int = 0
    damaged: int = 0
    findings: list[Finding] = []

    @property
    def not_taken_on(self) -> list[Finding]:
        """What goes on as it was, since its files are refused."""
        return [finding for finding in self.findings if finding.level == "refused"]

    @property
    def counts(self) -> str:
        """In words."""
        errors = f", {counted(self.errors, 'error')} of smqpd itself (see the log)" if self.errors else ""
        damaged = (
            f", {counted(self.damaged, 'damaged row')} in the store (see the log)" if self.damaged else ""
        )
        guaranteed = self.held if self.held_guaranteed is None else self.held_guaranteed
        held = f"{counted(self.held, 'message')} held{guaranteed_shown(self.held, guaranteed)}"
        return f"{counted(self.connections, 'connection')}, {held}{errors}{damaged}"

    @property
    def line(self) -> str:
        """One line for people."""
        shown = [said(finding) for finding in self.findings[:STATUS_FINDINGS_MAX]]
        more = len(self.findings) - len(shown)
        shown += [f"and {more} more, see `smqpd status`"] if more else []
        return "; ".join([self.counts, *shown])


def said(finding: Finding) -> str:
    """A finding at a running site, in words."""
    if finding.level == "refused":
        return f"not taken on: {finding.part}: {finding.problem}"
    return finding.problem
