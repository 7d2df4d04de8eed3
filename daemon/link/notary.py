"""Signs the news of this site, and judges that of others, with the keys of links."""

import datetime
import hashlib
from collections.abc import Callable
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from daemon.certificates.errors import CertificateError
from daemon.certificates.identity import server_name_of
from daemon.certificates.signatures import is_signed, sign
from daemon.link.keys import LinkKeys
from routing.peering.news import SignedNews

PURPOSE: Final = b"smqpd news of a site\0"
"""Signed before each statement: what the key signs elsewhere is no news, and news is nothing else."""

SECRET: Final = b"smqpd salts of leaves\0"
"""Before the key, in what the secret is the hash of."""


class LinkNotary:
    """See `routing.peering.news.Notary`; as long as these keys are used."""

    def __init__(self, keys: LinkKeys, wall_us: Callable[[], int]) -> None:
        self._keys = keys
        self._wall_us = wall_us
        self._certificate = keys.own.public_bytes(Encoding.DER)
        key = keys.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        self._secret = hashlib.sha256(SECRET + key).digest()

    @property
    def secret(self) -> bytes:
        """See `Notary`."""
        return self._secret

    def sign(self, statement: bytes) -> SignedNews | None:
        """See `Notary`."""
        signature = sign(self._keys.key, PURPOSE + statement)
        return None if signature is None else SignedNews(statement, self._certificate, signature)

    def refusal(self, site: str, news: SignedNews) -> str | None:
        """See `Notary`. Nothing is read of a certificate before it is known to be the authority's."""
        now = datetime.datetime.fromtimestamp(self._wall_us() / 1e6, datetime.UTC)
        try:
            certificate = x509.load_der_x509_certificate(news.certificate)
            if (refusal := self._keys.trust.refusal(certificate, now)) is not None:
                return refusal
            name, key = server_name_of(certificate), certificate.public_key()
        except (CertificateError, UnsupportedAlgorithm, x509.InvalidVersion, ValueError, TypeError):
            return "its certificate cannot be read"
        if name != site:
            return "it is signed by another site"
        return None if is_signed(key, news.signature, PURPOSE + news.statement) else "its signature is wrong"
