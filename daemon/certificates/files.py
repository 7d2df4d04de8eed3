"""Keys and certificates as PEM files: written whole or not at all, keys for their owner's eyes only.

A private key that the group or others may read is refused, not warned about: whoever has read it can
speak as the site until its certificate is revoked.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from daemon.certificates.errors import CertificateError, MissingFileError
from daemon.system import private_files

KEY_FILE: Final = "site.key"
REQUEST_FILE: Final = "site.csr"
CERTIFICATE_FILE: Final = "site.pem"
AUTHORITY_FILE: Final = "ca.pem"
REVOCATION_FILE: Final = "crl.pem"

PEM_BYTES_MAX: Final = 4_194_304
"""A revocation list of 50,000 entries is about 3 MB of PEM; nothing else comes near."""

_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)
"""What cryptography raises, as the file has it; TypeError for a key that is encrypted."""

_LIST_END: Final = b"-----END X509 CRL-----"


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, in place of what was there."""
    _replace(path, data, 0o600)


def write_public(path: Path, data: bytes) -> None:
    """Write a file that anyone may read, in place of what was there."""
    _replace(path, data, 0o644)


def read_pem(path: Path) -> bytes:
    """The file's bytes. Raises CertificateError that says what is wrong with the file; MissingFileError."""
    with _readable(path), path.open("rb") as file:
        data = file.read(PEM_BYTES_MAX + 1)
    if len(data) > PEM_BYTES_MAX:
        raise CertificateError(f"{path}: larger than {PEM_BYTES_MAX} bytes")
    return data


def check_private(path: Path) -> None:
    """Refuse a key file that others can read. Raises CertificateError, MissingFileError."""
    try:
        private_files.refuse_loose(path)
    except PermissionError as error:
        raise CertificateError(f"{path}: {error.strerror or error}") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def new_key(path: Path) -> Ed25519PrivateKey:
    """Make a key and keep it at `path`. Refuses to replace a file that is there."""
    if path.exists():
        raise CertificateError(f"{path}: already there; a key is never overwritten")
    key = Ed25519PrivateKey.generate()
    write_private(
        path,
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
    return key


def load_key(path: Path) -> Ed25519PrivateKey:
    """The key at `path`. Raises CertificateError, also where its permissions are too loose."""
    check_private(path)
    try:
        key = serialization.load_pem_private_key(read_pem(path), password=None)
    except _UNREADABLE:
        raise CertificateError(f"{path}: not an unencrypted private key in PEM") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise CertificateError(f"{path}: not an Ed25519 key")
    return key


def load_certificates(path: Path) -> list[x509.Certificate]:
    """All certificates in the file, at least one. Raises CertificateError.

    Their names can be read; of the extensions and the key nothing is known yet.
    """
    try:
        found = x509.load_pem_x509_certificates(read_pem(path))
        for one in found:  # the names are parsed only when they are asked for
            _ = one.subject, one.issuer
    except _UNREADABLE:
        raise CertificateError(f"{path}: not a certificate in PEM") from None
    return found


def load_certificate(path: Path) -> x509.Certificate:
    """The first certificate in the file. Raises CertificateError."""
    return load_certificates(path)[0]


def load_request(path: Path) -> x509.CertificateSigningRequest:
    """The certificate request in the file. Raises CertificateError."""
    try:
        return x509.load_pem_x509_csr(read_pem(path))
    except _UNREADABLE:
        raise CertificateError(f"{path}: not a certificate request in PEM") from None


def load_revocations(path: Path) -> list[x509.CertificateRevocationList]:
    """All revocation lists in the file, at least one. Raises CertificateError."""
    parts = read_pem(path).split(_LIST_END)[:-1]
    try:
        lists = [x509.load_pem_x509_crl(part + _LIST_END) for part in parts]
    except _UNREADABLE:
        lists = []
    if not lists:
        raise CertificateError(f"{path}: not a revocation list in PEM")
    return lists


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> CertificateError:
    kind = MissingFileError if isinstance(error, FileNotFoundError) else CertificateError
    return kind(f"{path}: {error.strerror}")


def _replace(path: Path, data: bytes, mode: int) -> None:
    try:
        private_files.replace(path, data, mode)
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from None
