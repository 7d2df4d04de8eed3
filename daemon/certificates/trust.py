"""What a site trusts at one moment: authorities, their revocation lists, and the judgement on a peer.

TLS asks the same questions during the handshake. They are asked here again, since a link outlives its
handshake: after each reload, and as time passes, a link whose certificate is refused here is ended. They are
asked every few seconds of every link, and between two reloads only the dates can change an answer: who signed
a certificate is proved once.
"""

import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from daemon.certificates.errors import CertificateError
from daemon.certificates.files import load_certificates, load_revocations

Signed = x509.Certificate | x509.CertificateRevocationList

REMEMBERED_MAX: Final = 1_024
"""Certificates whose authority is known without proving their signature again."""


class Trust:
    """The authorities of a federation and what they have revoked.

    Every authority must have a list: a missing list is a mistake, and would let a revoked peer in.
    """

    def __init__(
        self, authorities: list[x509.Certificate], revocations: list[x509.CertificateRevocationList]
    ) -> None:
        self._authorities = authorities
        self._revocations = revocations
        self._revoked = {(one.issuer, revoked.serial_number) for one in revocations for revoked in one}
        self._authority_of = lru_cache(REMEMBERED_MAX)(self._find_authority)

    @classmethod
    def load(cls, authority_file: Path, revocation_file: Path) -> Self:
        """Read both files. Raises CertificateError: unreadable, or an authority without its list."""
        authorities = load_certificates(authority_file)
        revocations = load_revocations(revocation_file)
        for authority in authorities:
            if not any(_signed_list(one, authority) for one in revocations):
                name = authority.subject.rfc4514_string()
                raise CertificateError(
                    f"{revocation_file}: has no list signed by the authority {name} of {authority_file}"
                )
        return cls(authorities, revocations)

    @property
    def authorities(self) -> list[tuple[str, x509.Certificate]]:
        """The certificate of each, after what it is."""
        return [
            (f"the certificate of the authority {one.subject.rfc4514_string()}", one)
            for one in self._authorities
        ]

    @property
    def revocations(self) -> list[tuple[str, x509.CertificateRevocationList]]:
        """The list of each authority, after what it is. Once it has ended OpenSSL lets nobody in."""
        return [
            (f"the list of the authority {one.issuer.rfc4514_string()}", one) for one in self._revocations
        ]

    def refusal(
        self, certificate: x509.Certificate, now: datetime.datetime, called: str = "its certificate"
    ) -> str | None:
        """Why this certificate is not trusted at `now` (UTC, aware); None if it is.

        `called`: what the reason calls it, where that is read by others than who speaks of its owner.
        """
        authority = self._authority_of(certificate)
        if authority is None:
            return f"{called} is from an unknown authority"
        if now > authority.not_valid_after_utc:
            return f"the authority's certificate expired on {_shown(authority.not_valid_after_utc)}"
        if now < certificate.not_valid_before_utc:
            return f"{called} is not valid before {_shown(certificate.not_valid_before_utc)}"
        if now > certificate.not_valid_after_utc:
            return f"{called} expired on {_shown(certificate.not_valid_after_utc)}"
        if (certificate.issuer, certificate.serial_number) in self._revoked:
            return f"{called} is revoked"
        return None

    def _find_authority(self, certificate: x509.Certificate) -> x509.Certificate | None:
        return next((one for one in self._authorities if _issued(certificate, one)), None)


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        return False
    return True


def _signed_list(revocations: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        return revocations.is_signature_valid(authority.public_key())  # type: ignore[arg-type] # any key type
    except (TypeError, UnsupportedAlgorithm):
        return False


def _shown(time: datetime.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
