"""What differs between what a site runs with and what its files say: for `config diff`, and for the log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from cryptography import x509

from daemon.accounts.accounts_file import Account
from daemon.certificates.authority import serial_of
from daemon.certificates.trust import Signed
from daemon.link.peers_file import PeerEntry
from daemon.settings import Settings
from daemon.site.finding import Finding
from daemon.terminal.figures import exactly

Takes = Literal["reload", "restart"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, account, peer, certificate or revocation list.

    Attributes:
        what: such as `limits.connections_max`, `account eve` or `the certificate in [tls]`.
        before, after: in words; "" for not there. Of passwords neither says anything.
        takes: what it takes for the site to take it on.
    """

    what: str
    before: str
    after: str
    takes: Takes = "reload"

    def __str__(self) -> str:
        if not self.before:
            return f"{self.what} is added: {self.after}"
        if not self.after:
            return f"{self.what} is removed: it was {self.before}"
        return f"{self.what}: {self.after}, before {self.before}"


class InUse(msgspec.Struct, frozen=True):
    """What a site runs with, or would.

    Attributes:
        signed: certificates and revocation lists, each after what it is.
    """

    settings: Settings
    accounts: Mapping[str, Account]
    peers: Mapping[str, PeerEntry]
    signed: Sequence[tuple[str, Signed]]


def between(before: InUse, after: InUse, fixed: tuple[str, ...]) -> list[Difference]:
    """All differences; a change of the tables `fixed` takes a restart."""
    return [
        *of_settings(before.settings, after.settings, fixed),
        *of_accounts(before.accounts, after.accounts),
        *of_peers(before.peers, after.peers),
        *of_signed(before.signed, after.signed),
    ]


def of_settings(before: Settings, after: Settings, fixed: tuple[str, ...]) -> Iterator[Difference]:
    """The differences of two configurations; a change of the tables `fixed` takes a restart."""
    old, new = (
        _flat(msgspec.to_builtins(before, enc_hook=str)),
        _flat(msgspec.to_builtins(after, enc_hook=str)),
    )
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            takes: Takes = "restart" if key.partition(".")[0] in fixed else "reload"
            yield Difference(
                what=key, before=_value(key, old.get(key)), after=_value(key, new.get(key)), takes=takes
            )


def of_accounts(before: Mapping[str, Account], after: Mapping[str, Account]) -> Iterator[Difference]:
    """The differences in who may log in, and with which rights."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None:
            if old.password != new.password:
                yield Difference(what=f"the password of {name}", before="another", after="changed")
            for token in sorted(old.tokens.keys() & new.tokens.keys()):
                if old.tokens[token] != new.tokens[token]:
                    yield Difference(what=f"the token {token} of {name}", before="another", after="changed")
        shown = _account(old), _account(new)
        if shown[0] != shown[1]:
            yield Difference(what=f"account {name}", before=shown[0], after=shown[1])


def of_peers(before: Mapping[str, PeerEntry], after: Mapping[str, PeerEntry]) -> Iterator[Difference]:
    """The differences in who may link with the site, and what may cross."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            yield Difference(what=f"peer {name}", before=_peer(old), after=_peer(new))


def of_signed(
    before: Iterable[tuple[str, Signed]], after: Iterable[tuple[str, Signed]]
) -> Iterator[Difference]:
    """The differences in what the site shows of itself, and in whom it trusts."""
    old, new = _by_what(before), _by_what(after)
    for what in sorted(old.keys() | new.keys()):
        was, comes = old.get(what, []), new.get(what, [])
        if was != comes:
            yield Difference(
                what=what, before=" and ".join(map(_signed, was)), after=" and ".join(map(_signed, comes))
            )


def _by_what(every: Iterable[tuple[str, Signed]]) -> dict[str, list[Signed]]:
    """Authorities may have the same name."""
    found: dict[str, list[Signed]] = {}
    for what, one in every:
        found.setdefault(what, []).append(one)
    return found


def _signed(one: Signed) -> str:
    if isinstance(one, x509.Certificate):
        return f"serial {serial_of(one)}, until {one.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    return f"{len(one)} revoked, of {one.last_update_utc:%Y-%m-%d %H:%M} UTC"


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= _flat(inner, f"{name}.{key}" if name else str(key))
    return found


def _value(key: str, value: Any) -> str:
    """What a file says, but no secret, which is no number and no switch."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (int, float)) and any(
        word in key.rpartition(".")[2] for word in ("password", "secret", "token")
    ):
        return "a secret"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(key, each) for each in value) + "]"
    if isinstance(value, dict):
        given = ((name, each) for name, each in value.items() if each is not None)
        return "{" + ", ".join(f"{name} = {_value(name, each)}" for name, each in given) + "}"
    return str(value) or '""'


def _account(account: Account | None) -> str:
    if account is None:
        return ""
    rights = msgspec.to_builtins(account.rights)
    held = [
        f"{name} {' '.join(value) if isinstance(value, tuple | list) else value}"
        for name, value in rights.items()
        if value
    ]
    quotas = [f"{name} {exactly(value)}" for name, value in account.quotas.given.items()]
    tokens = [f"token {name}" for name in account.tokens]
    return ", ".join(["disabled" if account.disabled else "enabled", *held, *quotas, *tokens])


def _peer(peer: PeerEntry | None) -> str:
    if peer is None:
        return ""
    shown = msgspec.to_builtins(peer, enc_hook=str)
    return ", ".join(
        f"{name} {_value(name, value)}" for name, value in shown.items() if name != "name" and value
    )


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """What a reload would change, and what it would not take on."""

    differences: list[Difference]
    refused: list[Finding]
