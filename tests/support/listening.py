"""What a front end is served with where its listeners are under test."""

import ssl
from pathlib import Path

from daemon.certificates.self_signed import make_self_signed


def certificate_in(directory: Path) -> tuple[Path, Path]:
    """The PEM file of a new certificate for localhost, and of its key."""
    paths = directory / "tls.crt", directory / "tls.key"
    for path, pem in zip(paths, make_self_signed("localhost"), strict=True):
        path.write_bytes(pem)
    return paths


def serving(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """TLS for listeners with it."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*certificate)
    return tls
