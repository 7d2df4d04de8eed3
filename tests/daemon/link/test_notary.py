"""Who may say what of a site: signatures by the keys of links, of whatever kind, and what is none."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from daemon.certificates.authority import Authority
from daemon.certificates.files import write_private, write_public
from daemon.link.keys import LinkKeys
from daemon.link.notary import LinkNotary
from routing.peering.news import SignedNews
from tests.support.keys import CERTIFICATE_DAYS, write_keys, write_trust

NOW = datetime.now(UTC)
STATEMENT = b'{"site":"alpha","boot":1,"number":1,"links":[]}'


class Sites:
    """An authority, and the notaries of its sites."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self.authority = Authority.create(directory / "ca", "test", 3650, NOW - timedelta(days=100))

    def notary(
        self, name: str, *, since: datetime = NOW, key: Any = None, later: timedelta | None = None
    ) -> LinkNotary:
        """With new keys; `later`: by its clock so much later."""
        keys = self._directory / name
        write_keys(self.authority, name, keys, since)
        if key is not None:
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            certificate = self.authority.issue(name, key.public_key(), CERTIFICATE_DAYS, since, replace=True)
            write_private(keys / "site.key", pem)
            write_public(keys / "site.pem", certificate.public_bytes(Encoding.PEM))
        return self.again(name, later)

    def again(self, name: str, later: timedelta | None = None) -> LinkNotary:
        """With the keys that it has, and the authority's present list."""
        write_trust(self.authority, self._directory / name)
        now_us = int((NOW + (later or timedelta())).timestamp() * 1e6)
        return LinkNotary(LinkKeys.load(self._directory / name, name), lambda: now_us)


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    return Sites(tmp_path / "sites")


def signed(notary: LinkNotary) -> SignedNews:
    news = notary.sign(STATEMENT)
    assert news is not None
    return news


KEYS: dict[str, Callable[[], Any]] = {
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "ECDSA": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RSA": lambda: rsa.generate_private_key(65_537, 2_048),
}


@pytest.mark.parametrize("kind", KEYS)
def test_what_a_site_signs_is_its_word_at_any_other(kind: str, sites: Sites) -> None:
    alpha, beta = sites.notary("alpha", key=KEYS[kind]()), sites.notary("beta")
    news = signed(alpha)
    assert beta.refusal("alpha", news) is None
    changed = SignedNews(news.statement + b" ", news.certificate, news.signature)
    assert beta.refusal("alpha", changed) == "its signature is wrong"
    for wrong in (b"", b"\x00" * len(news.signature), news.signature[:-1], news.signature + b"\x00"):
        forged = SignedNews(news.statement, news.certificate, wrong)
        assert beta.refusal("alpha", forged) == "its signature is wrong"


def test_a_site_whose_key_is_of_another_kind_says_nothing(sites: Sites) -> None:
    assert sites.notary("alpha", key=ed448.Ed448PrivateKey.generate()).sign(STATEMENT) is None


def test_no_site_signs_for_another(sites: Sites) -> None:
    alpha, beta, mallory = (sites.notary(name) for name in ("alpha", "beta", "mallory"))
    assert beta.refusal("alpha", signed(mallory)) == "it is signed by another site"
    stolen = SignedNews(STATEMENT, signed(alpha).certificate, signed(mallory).signature)
    assert beta.refusal("alpha", stolen) == "its signature is wrong"


def test_what_the_key_signs_for_another_purpose_is_no_news(sites: Sites, tmp_path: Path) -> None:
    alpha, beta = (
        sites.notary("alpha", key=(key := ed25519.Ed25519PrivateKey.generate())),
        sites.notary("beta"),
    )
    elsewhere = SignedNews(STATEMENT, signed(alpha).certificate, key.sign(STATEMENT))
    assert beta.refusal("alpha", elsewhere) == "its signature is wrong"


def test_the_word_of_another_federation_is_none(sites: Sites, tmp_path: Path) -> None:
    others = Sites(tmp_path / "others")
    refusal = sites.notary("beta").refusal("alpha", signed(others.notary("alpha")))
    assert refusal == "its certificate is from an unknown authority"


def test_a_certificate_that_is_revoked_or_has_ended_or_has_not_begun_speaks_for_nobody(sites: Sites) -> None:
    news = signed(sites.notary("alpha"))
    sites.notary("beta")
    beta = sites.again("beta", later=timedelta(days=CERTIFICATE_DAYS + 1))
    assert "its certificate expired on" in (beta.refusal("alpha", news) or "")
    beta = sites.again("beta", later=timedelta(days=-2))
    assert "its certificate is not valid before" in (beta.refusal("alpha", news) or "")
    sites.authority.revoke("alpha", NOW)
    assert sites.again("beta").refusal("alpha", news) == "its certificate is revoked"


@pytest.mark.parametrize("certificate", [b"", b"\x30\x80", b"\x00" * 8_192, b"0\x82\x01\x00" + b"\x02" * 256])
def test_what_is_no_certificate_is_refused(certificate: bytes, sites: Sites) -> None:
    news = SignedNews(STATEMENT, certificate, b"")
    assert sites.notary("beta").refusal("alpha", news) == "its certificate cannot be read"


def test_a_certificate_with_bits_changed_is_refused_whichever_they_are(sites: Sites) -> None:
    news, beta = signed(sites.notary("alpha")), sites.notary("beta")
    for at in range(len(news.certificate)):
        changed = bytearray(news.certificate)
        changed[at] ^= 0x41
        assert beta.refusal("alpha", SignedNews(STATEMENT, bytes(changed), news.signature)) is not None
