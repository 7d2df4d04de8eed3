"""The keys of a site, read from their directory: what it shows to peers, and whom it trusts."""

import ssl
from datetime import datetime
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from daemon.certificates.errors import CertificateError, MissingFileError
from daemon.certificates.expiry import Expiry
from daemon.certificates.files import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    REVOCATION_FILE,
    check_private,
    load_certificate,
    read_pem,
)
from daemon.certificates.identity import server_name_of
from daemon.certificates.tls import no_password
from daemon.certificates.trust import Signed, Trust

ALPN: Final = "h2"


class LinkKeys:
    """All files of a keys directory as they were at one moment.

    Attributes:
        own: the site's certificate.
        key: its private key, of any kind.
        expiries: when the site's certificate, its authorities and their lists end.
        signed: these themselves, each after what it is.
    """

    def __init__(self, directory: Path, own: x509.Certificate, trust: Trust) -> None:
        """Raises CertificateError where the key is not the certificate's. See `load`."""
        self.trust = trust
        self.client_context = _context(directory, server_side=False)
        self.server_context = _context(directory, server_side=True)
        self.own = own
        self.key = _private_key(directory / KEY_FILE)
        self._path = directory / CERTIFICATE_FILE
        self.expiries = [
            Expiry(self._path, "the certificate", own.not_valid_after_utc, own.not_valid_before_utc),
            *(
                Expiry(directory / AUTHORITY_FILE, what, one.not_valid_after_utc)
                for what, one in trust.authorities
            ),
            *(
                Expiry(directory / REVOCATION_FILE, what, one.next_update_utc)
                for what, one in trust.revocations
                if one.next_update_utc is not None
            ),
        ]
        self.signed: list[tuple[str, Signed]] = [
            ("the certificate for links", own),
            *trust.authorities,
            *trust.revocations,
        ]

    @classmethod
    def load(cls, directory: Path, server: str) -> Self:
        """The keys of the site `server`.

        Raises CertificateError for what is missing, open to others, for another site, or does not belong
        together. What has expired, or is trusted by nobody, is loaded all the same, see `flaw`.
        """
        path = directory / CERTIFICATE_FILE
        try:
            check_private(directory / KEY_FILE)
            own = load_certificate(path)
            name = server_name_of(own)
            if name != server:
                raise CertificateError(f"{path}: is for {name}, but this site is {server}")
            return cls(directory, own, Trust.load(directory / AUTHORITY_FILE, directory / REVOCATION_FILE))
        except MissingFileError as error:
            how = f"`smqpd cert issue {server}`, or by `smqpd cert request {server}`"
            raise CertificateError(f"{error}; a site with links has it from {how}") from None

    def flaw(self, now: datetime) -> str | None:
        """Why peers refuse this site at `now` (UTC, aware), where that is more than an end in `expiries`."""
        if any(expiry.is_invalid(now) for expiry in self.expiries):
            return None
        refusal = self.trust.refusal(self.own, now)
        return refusal and f"{self._path}: peers refuse this site: {refusal}"


def _private_key(path: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(read_pem(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: the key is encrypted
        raise CertificateError(f"{path}: not an unencrypted private key in PEM") from None


def _context(directory: Path, *, server_side: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the name is in a URI, and the manager's to judge
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    context.set_alpn_protocols([ALPN])
    if server_side:
        context.num_tickets = 0
    try:
        context.load_verify_locations(directory / AUTHORITY_FILE)
        context.load_verify_locations(directory / REVOCATION_FILE)
        context.load_cert_chain(directory / CERTIFICATE_FILE, directory / KEY_FILE, password=no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise CertificateError(
            f"{directory}: {CERTIFICATE_FILE} and {KEY_FILE} do not work together: {reason}"
        ) from None
    return context
