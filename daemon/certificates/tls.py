"""TLS for clients: 1.2 or newer, with the certificate of [tls]. Links between sites have their own.

New connections take the context that is current; what is open stays as it is.
"""

import ssl
from pathlib import Path

from cryptography import x509

from daemon.certificates.errors import CertificateError
from daemon.certificates.expiry import Expiry, expiries_of
from daemon.certificates.files import load_certificates
from daemon.settings import ConfigError, TlsSettings
from daemon.system.private_files import refuse_loose


def client_context(tls: TlsSettings) -> ssl.SSLContext:
    """The server's side of TLS for clients.

    Raises ConfigError for files that cannot be read, do not belong together, or a key that others
    may read, which is refused since it may be known already.
    """
    assert tls.certificate is not None
    assert tls.key is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _readable(tls.certificate, "certificate")
    _readable(tls.key, "key")
    try:
        refuse_loose(tls.key)
    except PermissionError as error:
        raise ConfigError(tls.key, "", str(error)) from None
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConfigError(
            tls.certificate, "", f"this and {tls.key} are no certificate and its key in PEM: {reason}"
        ) from None
    return context


def _readable(path: Path, what: str) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigError(path, "", f"the TLS {what} cannot be read: {error.strerror}") from None


def no_password() -> str:
    """Raise ValueError, for `load_cert_chain`: else OpenSSL would ask on the terminal."""
    raise ValueError("the key must not be encrypted")


class ClientTls:
    """What new connections get, as it was read at one moment.

    Attributes:
        context: None where the site has no certificate.
        http_context: the same for HTTP, whose versions it offers (ALPN); other protocols have no such choice.
        expiries: when the certificates in the file end.
        signed: these themselves, each after what it is.
    """

    def __init__(self, tls: TlsSettings) -> None:
        """Reads the files. Raises ConfigError."""
        self.context: ssl.SSLContext | None = None
        self.http_context: ssl.SSLContext | None = None
        self.expiries: list[Expiry] = []
        self.signed: list[tuple[str, x509.Certificate]] = []
        if tls.certificate is not None:
            self.context = client_context(tls)
            self.http_context = client_context(tls)
            self.http_context.set_alpn_protocols(["h2", "http/1.1"])
            certificates = _certificates(tls.certificate)
            self.expiries = expiries_of(tls.certificate, certificates)
            self.signed = [
                (f"{end.what} in [tls]", one) for end, one in zip(self.expiries, certificates, strict=True)
            ]


def _certificates(path: Path) -> list[x509.Certificate]:
    """The certificates in the file; none where only OpenSSL can read them."""
    try:
        return load_certificates(path)
    except CertificateError:
        return []
