"""The federation's authority: a directory that signs the names of sites, and takes them back.

    ca.key      its private key, mode 0600; belongs on a machine that runs no site
    ca.pem      its certificate: copied once to every site
    crl.pem     what it has revoked: copied to every site after each revocation
    issued/     every certificate it has signed, `SERIAL.pem`; from these it renews and revokes

The revocation list is valid as long as the authority: a copy that nobody renewed must not cut a
federation in pieces. Clocks of sites may differ, so everything is valid from an hour before it was made.
"""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from daemon.certificates.errors import CertificateError, MissingFileError
from daemon.certificates.files import (
    AUTHORITY_FILE,
    REVOCATION_FILE,
    load_certificate,
    load_key,
    load_revocations,
    new_key,
    write_public,
)
from daemon.certificates.identity import alternative_names, server_name_of
from daemon.system.private_files import alone, make_directory
from routing.names import server_name

AUTHORITY_KEY_FILE: Final = "ca.key"
ISSUED_DIRECTORY: Final = "issued"

AUTHORITY_DAYS: Final = 3650
SITE_DAYS: Final = 397
"""A year and a month: renewed once a year, with a month to notice that it was forgotten."""
CLOCK_ALLOWANCE: Final = datetime.timedelta(hours=1)
COMMON_NAME_CHARACTERS_MAX: Final = 64
"""Source: RFC 5280, ub-common-name."""


class Authority:
    """An authority in its directory. All methods that sign take `now` (UTC, aware)."""

    def __init__(self, directory: Path, key: Ed25519PrivateKey, certificate: x509.Certificate) -> None:
        self.directory = directory
        self.certificate = certificate
        self._key = key

    @classmethod
    def create(cls, directory: Path, name: str, days: int, now: datetime.datetime) -> Self:
        """Make an authority called `name` in a directory that has none."""
        try:
            make_directory(directory / ISSUED_DIRECTORY, 0o755)
        except OSError as error:
            raise CertificateError(f"{directory}: {error.strerror}") from None
        key = new_key(directory / AUTHORITY_KEY_FILE)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(subject, subject, key.public_key(), now, now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, None)
        )
        write_public(directory / AUTHORITY_FILE, _pem(certificate))
        authority = cls(directory, key, certificate)
        authority._write_revocations([], 1, now)
        return authority

    @classmethod
    def open(cls, directory: Path) -> Self:
        """The authority in this directory. Raises CertificateError."""
        try:
            key = load_key(directory / AUTHORITY_KEY_FILE)
        except MissingFileError as error:
            how = "--ca names the directory of an authority, and `smqpd cert ca DIR` makes one"
            raise CertificateError(f"{error}; {how}") from None
        return cls(directory, key, load_certificate(directory / AUTHORITY_FILE))

    def issue(
        self, server: str, key: Ed25519PublicKey, days: int, now: datetime.datetime, replace: bool = False
    ) -> x509.Certificate:
        """Sign that `key` is the server's.

        Raises CertificateError where another key still has that name, unless `replace`: two sites with
        one name would take each other's messages.
        """
        server_name(server)
        with self._alone():
            return self._issue(server, key, days, now, replace)

    def _issue(
        self, server: str, key: Ed25519PublicKey, days: int, now: datetime.datetime, replace: bool
    ) -> x509.Certificate:
        other = next((one for one in self.live(server, now) if one.public_key() != key), None)
        if other is not None and not replace:
            raise CertificateError(
                f"{server} already has a certificate with another key (serial {serial_of(other)}); revoke it"
                " first, or say --replace if this is the same site with a new key"
            )
        end = min(now + datetime.timedelta(days=days), self.certificate.not_valid_after_utc)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, server[:COMMON_NAME_CHARACTERS_MAX])])
        certificate = (
            _builder(subject, self.certificate.subject, key, now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(alternative_names(server), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, None)
        )
        write_public(self.directory / ISSUED_DIRECTORY / f"{serial_of(certificate)}.pem", _pem(certificate))
        return certificate

    def sign(
        self,
        request: x509.CertificateSigningRequest,
        days: int,
        now: datetime.datetime,
        replace: bool = False,
    ) -> x509.Certificate:
        """Sign a site's request; only its name and key are taken from it.

        Raises CertificateError as `issue` does, and for a request that asks for no name, or whose key is of
        another kind or has not signed it.
        """
        try:
            key = request.public_key()
            is_signed = request.is_signature_valid
        except (UnsupportedAlgorithm, ValueError):  # of a kind that nobody reads
            raise CertificateError("the request's key is not an Ed25519 key") from None
        if not is_signed:
            raise CertificateError("the request is not signed with its own key")
        if not isinstance(key, Ed25519PublicKey):
            raise CertificateError("the request's key is not an Ed25519 key")
        return self.issue(server_name_of(request), key, days, now, replace)

    def renew(self, server: str, days: int, now: datetime.datetime) -> x509.Certificate:
        """Sign the key that was signed last for the server again; what was signed before stays valid."""
        with self._alone():
            revoked = self.revoked_serials()
            newest = next(
                (
                    one
                    for one in reversed(self.issued())
                    if _is_of(one, server) and one.serial_number not in revoked
                ),
                None,
            )
            if newest is None:
                raise CertificateError(
                    f"{server} has no certificate that could be renewed; issue or sign one"
                )
            key = newest.public_key()
            assert isinstance(key, Ed25519PublicKey)
            return self._issue(server, key, days, now, replace=True)

    def revoke(
        self, server: str, now: datetime.datetime, serial: str | None = None
    ) -> list[x509.Certificate]:
        """Take back the server's certificates (or the one with this serial), and write the new list.

        Returns what was revoked. Raises CertificateError where there was nothing to revoke.
        """
        with self._alone():
            return self._revoke(server, now, serial)

    def _revoke(self, server: str, now: datetime.datetime, serial: str | None) -> list[x509.Certificate]:
        found = [one for one in self.live(server, now) if serial in (None, serial_of(one))]
        if not found:
            raise CertificateError(f"{server} has no such certificate that is still valid")
        current = self._revocations()
        number = current.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        entries = [
            *current,
            *(
                x509.RevokedCertificateBuilder().serial_number(one.serial_number).revocation_date(now).build()
                for one in found
            ),
        ]
        self._write_revocations(entries, number + 1, now)
        return found

    def issued(self) -> list[x509.Certificate]:
        """Every certificate that was ever signed here, oldest first."""
        # A certificate says when only to the second; its file orders those of one second.
        paths = sorted(
            (self.directory / ISSUED_DIRECTORY).glob("*.pem"), key=lambda path: path.stat().st_mtime_ns
        )
        return sorted((load_certificate(path) for path in paths), key=lambda one: one.not_valid_before_utc)

    def live(self, server: str, now: datetime.datetime) -> Iterator[x509.Certificate]:
        """The server's certificates that are neither expired nor revoked."""
        revoked = self.revoked_serials()
        for one in self.issued():
            if _is_of(one, server) and one.not_valid_after_utc > now and one.serial_number not in revoked:
                yield one

    def revoked_serials(self) -> set[int]:
        """The serial numbers on the list."""
        return {one.serial_number for one in self._revocations()}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait for whoever else signs or revokes here: of two lists made at once one would be lost."""
        try:
            with alone(self.directory):
                yield
        except OSError as error:
            raise CertificateError(f"{self.directory}: {error.strerror or error}") from None

    def _revocations(self) -> x509.CertificateRevocationList:
        return load_revocations(self.directory / REVOCATION_FILE)[0]

    def _write_revocations(
        self, entries: list[x509.RevokedCertificate], number: int, now: datetime.datetime
    ) -> None:
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - CLOCK_ALLOWANCE)
            .next_update(self.certificate.not_valid_after_utc)
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        for entry in entries:
            builder = builder.add_revoked_certificate(entry)
        write_public(
            self.directory / REVOCATION_FILE,
            builder.sign(self._key, None).public_bytes(serialization.Encoding.PEM),
        )


def make_request(server: str, key: Ed25519PrivateKey) -> x509.CertificateSigningRequest:
    """A site's request for a certificate with this name and key."""
    server_name(server)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, server[:COMMON_NAME_CHARACTERS_MAX])])
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .add_extension(alternative_names(server), critical=False)
        .sign(key, None)
    )


def serial_of(certificate: x509.Certificate) -> str:
    """The serial number as it is shown, and as its file is called."""
    return f"{certificate.serial_number:040x}"


def _is_of(certificate: x509.Certificate, server: str) -> bool:
    return server_name_of(certificate) == server


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: Ed25519PublicKey,
    now: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_ALLOWANCE)
        .not_valid_after(end)
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
