"""What a site trusts at one moment: authorities, their revocation lists, and the judgement on a peer.

TLS asks the same questions during the handshake. They are asked here again, since a link outlives its
handshake: after each reload, and as time passes, a link whose certificate is refused here is ended.
"""

import datetime
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from daemon.certificates.errors import CertificateError
from daemon.certificates.files import load_certificates, load_revocations


class Trust:
    """The authorities of a federation and what they have revoked.

    Every authority must have a list: a missing list is a mistake, and would let a revoked peer in.
    """

    def __init__(
        self, authorities: list[x509.Certificate], revocations: list[x509.CertificateRevocationList]
    ) -> None:
        self.authorities = authorities
        self.revocations = revocations

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

    def refusal(self, certificate: x509.Certificate, now: datetime.datetime) -> str | None:
        """Why this certificate is not trusted at `now` (UTC, aware); None if it is."""
        authority = next((one for one in self.authorities if _issued(certificate, one)), None)
        if authority is None:
            return "its certificate is from an unknown authority"
        if now > authority.not_valid_after_utc:
            return f"the authority's certificate expired on {_shown(authority.not_valid_after_utc)}"
        if now < certificate.not_valid_before_utc:
            return f"its certificate is not valid before {_shown(certificate.not_valid_before_utc)}"
        if now > certificate.not_valid_after_utc:
            return f"its certificate expired on {_shown(certificate.not_valid_after_utc)}"
        for revocations in self.revocations:
            if revocations.issuer == certificate.issuer and (
                revocations.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
            ):
                return "its certificate is revoked"
        return None


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _signed_list(revocations: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        return revocations.is_signature_valid(authority.public_key())  # type: ignore[arg-type] # any key type
    except TypeError:
        return False


def _shown(time: datetime.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
