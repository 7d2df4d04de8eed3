"""The files of a running site: what it has taken on of them, and what is to be said of them.

A reload reads all of them again and takes each part on by itself: what is refused stays as it was, is logged,
and is told to the service manager and to each command of the operator until it is mended.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from daemon.accounts.accounts import Accounts
from daemon.broker.broker import Broker
from daemon.certificates.expiry import ExpiryWatch
from daemon.certificates.tls import ClientTls
from daemon.configuration.config import load
from daemon.configuration.discovery import Installed
from daemon.settings import ConfigError, Settings, TlsSettings
from daemon.site.difference import Differences, InUse, between
from daemon.site.examination import Examination, examine, expired
from daemon.site.finding import Finding, Part
from daemon.site.links import SiteLinks
from daemon.site.standing import said
from daemon.system import log, open_files
from daemon.terminal.failure import because

_log = logging.getLogger(__name__)

FIXED: Final = ("site", "hops", "links", "plugins")
"""Tables that only a start reads."""

CHANGES_LOGGED_MAX: Final = 1_000
"""Of one reload."""

_NOT_ALL_TAKEN_ON: Final = "an error of smqpd met it; its log says more, and not all of it is taken on"


class SiteFiles:
    """The configuration, and the accounts, peers, keys and certificates that it names.

    Attributes:
        settings: those the site runs with.
        tls: what its front ends serve with.
        expiry: of all certificates in use.
    """

    def __init__(
        self,
        config: Path,
        installed: Installed,
        found: Examination,
        accounts: Accounts,
        broker: Broker,
        links: SiteLinks,
        needs_tls: Callable[[], bool],
    ) -> None:
        """`found`: in the files of `config`, none of which is refused. `needs_tls`: whether listeners do."""
        assert found.tls is not None
        self.settings = found.settings
        self.tls: ClientTls = found.tls
        self._config = config
        self._installed = installed
        self._accounts = accounts
        self._broker = broker
        self._links = links
        self._needs_tls = needs_tls
        self._findings: list[Finding] = []
        self.expiry = ExpiryWatch(broker.clock.wall_us)
        self._found(found.findings)

    @property
    def findings(self) -> list[Finding]:
        """Of the last time that they were read, and what has expired since."""
        return [*self._findings, *expired(self.expiry.expiries, self.expiry.now)]

    def differences(self) -> Differences:
        """What a reload would change, and what it would not take on; changes nothing."""
        try:
            wanted = load(self._config, self._installed)
        except ConfigError as error:
            refused = [Finding("configuration", "refused", str(error))]
            return Differences(differences=[], refused=refused)
        found = self._examined(self._for_a_reload(wanted), starts=False)
        tls, tls_settings = self._taken_tls(found)
        comes = InUse(
            settings=msgspec.structs.replace(wanted, tls=tls_settings),
            accounts=self._accounts.every if found.accounts is None else found.accounts,
            peers=self._links.peers if found.peers is None else found.peers,
            signed=[*tls.signed, *(self._links.signed if found.keys is None else found.keys.signed)],
        )
        return Differences(
            differences=between(self._in_use, comes, FIXED),
            refused=[*found.refused, *self._left(found, wanted)],
        )

    def reload(self, by: str) -> None:
        """Take on what is good of them; `by` asked for it, and the log says so with each change."""
        before = self._in_use
        try:
            self._found(self._taken_on())
            log.set_up(self.settings.log)
        except Exception as error:
            self._broker.mishaps.note("a reload", error)
            problem = "an error of smqpd ended the reload; its log says more, and not all may be taken on"
            self._findings = [Finding("everything", "refused", problem)]
        self._log_changes(before, by)

    @property
    def _in_use(self) -> InUse:
        return InUse(
            settings=self.settings,
            accounts=self._accounts.every,
            peers=self._links.peers,
            signed=[*self.tls.signed, *self._links.signed],
        )

    def _log_changes(self, before: InUse, by: str) -> None:
        """Say what has become of what was in use before."""
        changes = between(before, self._in_use, FIXED)
        for change in changes[:CHANGES_LOGGED_MAX]:
            fields = {"event": "change", "by": by}
            _log.info("changed: %s: by %s", change, by, extra={"fields": fields})
        if len(changes) > CHANGES_LOGGED_MAX:
            _log.info("changed: %d more: by %s", len(changes) - CHANGES_LOGGED_MAX, by)

    def _taken_on(self) -> list[Finding]:
        """Read everything, and take on what is good; returns what is to be said of it."""
        before, findings = self.settings, []
        try:
            wanted = load(self._config, self._installed)
        except ConfigError as error:
            findings.append(Finding("configuration", "refused", str(error)))
            wanted = before
        changed = [table for table in FIXED if getattr(wanted, table) != getattr(before, table)]
        settings = self._for_a_reload(wanted)
        found = self._examined(settings, starts=False)
        findings += found.findings
        findings += self._left(found, wanted)
        accounts = found.accounts
        if accounts is not None:
            findings += self._taking_on("accounts", lambda: self._accounts.replace(accounts))
        self.tls, tls = self._taken_tls(found)
        self.settings = settings = msgspec.structs.replace(settings, tls=tls)
        findings += self._taking_on("peers", lambda: self._links.take(found.peers, found.keys))
        # also what accounts may no longer do ends there
        findings += self._taking_on("everything", lambda: self._broker.reconfigure(settings))
        wants_files = settings.limits.connections_max != before.limits.connections_max
        if wants_files and (too_few := open_files.allow(settings.limits.connections_max)) is not None:
            findings.append(Finding("configuration", "warning", too_few))
        for table in changed:
            problem = f"[{table}] has changed; that takes effect with the next start"
            findings.append(Finding("configuration", "warning", problem))
        if changed:
            known = {finding.problem for finding in findings}
            for finding in self._examined(wanted, starts=True).refused:
                if finding.problem not in known:
                    problem = f"the next start would be refused: {finding.problem}"
                    findings.append(Finding(finding.part, "warning", problem))
        return findings

    def _for_a_reload(self, wanted: Settings) -> Settings:
        """What a reload takes on of a configuration: the rest is as it was at the start."""
        return msgspec.structs.replace(wanted, **{table: getattr(self.settings, table) for table in FIXED})

    def _taken_tls(self, found: Examination) -> tuple[ClientTls, TlsSettings]:
        """What a reload has the site serve with; what it serves with already where that is refused."""
        if found.tls is None or self._lacks_tls(found.tls):
            return self.tls, self.settings.tls
        return found.tls, found.settings.tls

    def _left(self, found: Examination, wanted: Settings) -> Iterator[Finding]:
        """What a reload does not take on, though nothing in the files themselves is refused."""
        if found.tls is not None and self._lacks_tls(found.tls):
            problem = "[tls] names no certificate; until the next start the one before serves who needs TLS"
            yield Finding("tls", "refused", problem)
        if self._links.manager is None and found.peers and found.keys is None:
            reasons = "; ".join(finding.problem for finding in found.refused if finding.part == "keys")
            yield Finding("peers", "refused", f"without keys there are no links: {reasons}")
        yield from _elsewhere(self.settings, wanted)

    def _lacks_tls(self, tls: ClientTls) -> bool:
        return tls.context is None and self._needs_tls()

    def _taking_on(self, part: Part, take_on: Callable[[], None]) -> Iterator[Finding]:
        """Take one part on; what keeps it from being taken on keeps no other."""
        try:
            take_on()
        except OSError as error:  # a site that begins to link writes to its disk
            yield Finding(part, "refused", f"it cannot be taken on: {because(error)}")
        except Exception as error:
            self._broker.mishaps.note(f"a reload ({part})", error)
            yield Finding(part, "refused", _NOT_ALL_TAKEN_ON)

    def _examined(self, settings: Settings, *, starts: bool) -> Examination:
        return examine(
            self._config,
            settings,
            self._installed,
            self.expiry.now,
            links=self._links.manager is not None,
            has_peers=bool(self._links.peers) and not starts,
            starts=starts,
        )

    def _found(self, findings: list[Finding]) -> None:
        """Log what was found, and show it from now on."""
        self._findings = findings
        for finding in findings:
            level = logging.WARNING if finding.level == "warning" else logging.ERROR
            _log.log(level, "%s", said(finding))
        self.expiry.watch([*self.tls.expiries, *self._links.expiries])


def _elsewhere(before: Settings, wanted: Settings) -> Iterator[Finding]:
    """What a running site goes on to read where it was when it started."""
    files: tuple[tuple[Part, Path, Path], ...] = (
        ("accounts", before.site.accounts_file, wanted.site.accounts_file),
        ("peers", before.links.peers_file, wanted.links.peers_file),
        ("keys", before.links.keys_directory, wanted.links.keys_directory),
    )
    for part, old, new in files:
        if old != new:
            problem = f"{new}: is not read before the next start; until then {old} is"
            yield Finding(part, "refused", problem)
