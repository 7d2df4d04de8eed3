"""`smqpd cert`: the federation's authority, and the certificates by which sites know each other.

Two ways to a site's certificate. Either the authority makes key and certificate (`issue`) and the
operator carries both to the site; or the site makes the key (`request`), the authority signs (`sign`), and
the private key never travels. A running site takes new files on reload.
"""

import contextlib
import datetime
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from daemon.certificates.authority import (
    AUTHORITY_DAYS,
    AUTHORITY_KEY_FILE,
    SITE_DAYS,
    Authority,
    make_request,
    serial_of,
)
from daemon.certificates.errors import CertificateError
from daemon.certificates.files import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    REQUEST_FILE,
    REVOCATION_FILE,
    load_certificate,
    load_key,
    load_request,
    new_key,
    write_public,
)
from daemon.certificates.identity import server_name_of
from daemon.certificates.trust import Trust
from daemon.system.private_files import make_directory
from daemon.terminal.failure import USAGE, Failure, because
from daemon.terminal.output import JsonOption, show_table
from routing.errors import Refusal

app = typer.Typer(no_args_is_help=True, help="Make, sign, renew and revoke the certificates of sites.")

AuthorityDirectory = Annotated[
    Path, typer.Option("--ca", envvar="SMQPD_CA", help="Directory of the federation's authority.")
]
Days = Annotated[int, typer.Option(min=1, max=36500, help="Days until it expires.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="The site has a new key; its old certificate stays valid.")
]


@app.command("ca")
def make_authority(
    directory: Annotated[Path, typer.Argument(help="Directory to make it in.")] = Path("ca"),
    name: Annotated[str, typer.Option(help="What the authority is called.")] = "smqpd federation",
    days: Days = AUTHORITY_DAYS,
    as_json: JsonOption = False,
) -> None:
    """Make the authority of a federation: once, on a machine that runs no site."""
    with _refusals():
        authority = Authority.create(directory, name, days, _now())
    _tell(
        as_json,
        _facts(authority.certificate),
        f"authority {name!r} in {directory}; keep {directory / AUTHORITY_KEY_FILE} to yourself, and copy"
        f" {AUTHORITY_FILE} and {REVOCATION_FILE} to the keys/ of every site",
    )


@app.command("issue")
def issue(
    server: Annotated[str, typer.Argument(help="Server name: host or host:port.")],
    ca: AuthorityDirectory = Path("ca"),
    out: Annotated[
        Path | None, typer.Option(help="Directory for the site's files; ./SERVER if absent.")
    ] = None,
    days: Days = SITE_DAYS,
    replace: Replace = False,
    as_json: JsonOption = False,
) -> None:
    """Make key and certificate of a site, with all that its keys/ directory needs."""
    directory = out or Path(server.replace(":", "_"))
    with _refusals():
        authority = Authority.open(ca)
        make_directory(directory)
        key = new_key(directory / KEY_FILE)
        try:
            certificate = authority.issue(server, key.public_key(), days, _now(), replace)
        except BaseException:
            (directory / KEY_FILE).unlink()
            raise
        _deliver(authority, certificate, directory)
    _tell(as_json, _facts(certificate), f"{server}: key and certificate in {directory}")


@app.command("request")
def request(
    server: Annotated[str, typer.Argument(help="Server name of this site: host or host:port.")],
    keys: Annotated[Path, typer.Option(help="Directory of the site's keys.")] = Path("keys"),
    as_json: JsonOption = False,
) -> None:
    """At the site: make its key, unless it has one, and a request for the authority to sign."""
    with _refusals():
        make_directory(keys)
        path = keys / KEY_FILE
        key = load_key(path) if path.exists() else new_key(path)
        pem = make_request(server, key).public_bytes(serialization.Encoding.PEM)
        write_public(keys / REQUEST_FILE, pem)
    target = keys / REQUEST_FILE
    _tell(
        as_json,
        {"server": server, "request": str(target)},
        f"{server}: have {target} signed with `smqpd cert sign`; the key stays here",
    )


@app.command("sign")
def sign(
    csr: Annotated[Path, typer.Argument(help="The site's request.")],
    server: Annotated[
        str | None, typer.Option(help="Refuse a request that asks for another name than this.")
    ] = None,
    ca: AuthorityDirectory = Path("ca"),
    out: Annotated[Path | None, typer.Option(help="Directory for the files; ./SERVER if absent.")] = None,
    days: Days = SITE_DAYS,
    replace: Replace = False,
    as_json: JsonOption = False,
) -> None:
    """Sign a site's request; the files that it gets go into its keys/ directory."""
    with _refusals():
        wanted = load_request(csr)
        name = server_name_of(wanted)
        if server is not None and name != server:
            raise CertificateError(f"{csr}: asks for the name {name}, not {server}")
        authority = Authority.open(ca)
        certificate = authority.sign(wanted, days, _now(), replace)
        directory = out or Path(name.replace(":", "_"))
        make_directory(directory)
        _deliver(authority, certificate, directory)
    _tell(
        as_json,
        _facts(certificate),
        f"{name}: certificate in {directory}; copy its files to the site's keys/",
    )


@app.command("renew")
def renew(
    server: Annotated[str, typer.Argument(help="Server name: host or host:port.")],
    ca: AuthorityDirectory = Path("ca"),
    out: Annotated[Path | None, typer.Option(help="Directory for the files; ./SERVER if absent.")] = None,
    days: Days = SITE_DAYS,
    as_json: JsonOption = False,
) -> None:
    """Sign the key of a site's certificate for another term."""
    directory = out or Path(server.replace(":", "_"))
    with _refusals():
        authority = Authority.open(ca)
        certificate = authority.renew(server, days, _now())
        make_directory(directory)
        _deliver(authority, certificate, directory)
    _tell(
        as_json,
        _facts(certificate),
        f"{server}: new certificate in {directory}; copy it, then reload the site",
    )


@app.command("revoke")
def revoke(
    server: Annotated[str, typer.Argument(help="Server name: host or host:port.")],
    serial: Annotated[str | None, typer.Option(help="Only the certificate with this serial number.")] = None,
    ca: AuthorityDirectory = Path("ca"),
    as_json: JsonOption = False,
) -> None:
    """Take a site's certificates back, and write the list that every site must get."""
    with _refusals():
        revoked = Authority.open(ca).revoke(server, _now(), serial)
    _tell(
        as_json,
        [_facts(one, "revoked") for one in revoked],
        f"{server}: {len(revoked)} revoked; copy {ca / REVOCATION_FILE} to keys/ of every site and reload",
    )


@app.command("show")
def show(
    path: Annotated[
        Path, typer.Argument(help="A certificate, a site's keys/ directory, or the authority's directory.")
    ] = Path("keys"),
    as_json: JsonOption = False,
) -> None:
    """Show certificates: whose, until when, and whether they are revoked."""
    with _refusals():
        if (path / AUTHORITY_KEY_FILE).exists():
            authority = Authority.open(path)
            revoked = authority.revoked_serials()
            facts = [_facts(authority.certificate)]
            for one in authority.issued():
                facts.append(_facts(one, "revoked" if one.serial_number in revoked else ""))
        elif path.is_dir():
            certificate = load_certificate(path / CERTIFICATE_FILE)
            trust = Trust.load(path / AUTHORITY_FILE, path / REVOCATION_FILE)
            facts = [_facts(certificate, trust.refusal(certificate, _now()) or "")]
        else:
            facts = [_facts(load_certificate(path))]
    if as_json:
        _print_json(facts)
        return
    rows = [
        (row["name"], row["state"], row["until"].partition("T")[0], str(row["days_left"]), row["serial"])
        for row in facts
    ]
    show_table(("name", "state", "until", "days left", "serial"), rows, folds=("name", "serial"))


def _facts(certificate: x509.Certificate, state: str = "") -> dict[str, Any]:
    """What there is to know of a certificate; `state` where more is known than its dates say."""
    now = _now()
    if not state:
        state = "expired" if certificate.not_valid_after_utc < now else "valid"
    try:
        name = server_name_of(certificate)
    except CertificateError:
        name = certificate.subject.rfc4514_string()
    return {
        "name": name,
        "state": state,
        "from": certificate.not_valid_before_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "until": certificate.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "days_left": (certificate.not_valid_after_utc - now).days,
        "serial": serial_of(certificate),
        "issuer": certificate.issuer.rfc4514_string(),
        "key_sha256": _key_sha256(certificate),
    }


def _key_sha256(certificate: x509.Certificate) -> str | None:
    """None for a key of a kind that cannot be read here."""
    try:
        key = certificate.public_key()
    except (UnsupportedAlgorithm, ValueError):
        return None
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(encoded).hexdigest()


def _deliver(authority: Authority, certificate: x509.Certificate, directory: Path) -> None:
    """Put beside the certificate what a site needs to judge the others."""
    write_public(directory / CERTIFICATE_FILE, certificate.public_bytes(serialization.Encoding.PEM))
    for name in (AUTHORITY_FILE, REVOCATION_FILE):
        source = authority.directory / name
        if source.resolve() != (directory / name).resolve():
            write_public(directory / name, source.read_bytes())


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What the operator can understand becomes a Failure."""
    try:
        yield
    except Refusal as refusal:  # of a name as it was given
        raise Failure(refusal.text, USAGE) from None
    except (CertificateError, OSError) as error:
        raise Failure(because(error)) from None


def _tell(as_json: bool, data: Any, text: str) -> None:
    if as_json:
        _print_json(data)
    else:
        typer.echo(text)


def _print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
