"""The keys directory of a site, filled as an operator and the federation's authority would."""

import shutil
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from daemon.certificates.authority import Authority
from daemon.certificates.files import write_private, write_public

CERTIFICATE_DAYS: Final = 10


def write_keys(
    authority: Authority, name: str, keys: Path, since: datetime, days: int = CERTIFICATE_DAYS
) -> None:
    """All that a site's keys directory needs, with a new key; the directory is made where it is missing."""
    keys.mkdir(exist_ok=True)
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = authority.issue(name, key.public_key(), days, since, replace=True)
    write_private(keys / "site.key", pem)
    write_public(keys / "site.pem", certificate.public_bytes(serialization.Encoding.PEM))
    write_trust(authority, keys)


def write_trust(authority: Authority, keys: Path) -> None:
    """The authority's certificate and its present list of revocations."""
    for name in ("ca.pem", "crl.pem"):
        shutil.copy(authority.directory / name, keys / name)
