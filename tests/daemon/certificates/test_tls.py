"""The certificate that clients see: what is refused, and what a bad reload changes."""

import ssl
import warnings
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from daemon.certificates.self_signed import make_self_signed
from daemon.certificates.tls import ClientTls, client_context
from daemon.settings import ConfigError, TlsSettings
from daemon.site.directory import make_site
from tests.support.installed import checkout_plugins


@pytest.fixture
def tls(tmp_path: Path) -> TlsSettings:
    certificate, key = make_self_signed("a.example")
    (tmp_path / "crt").write_bytes(certificate)
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "key").chmod(0o600)
    return TlsSettings(certificate=tmp_path / "crt", key=tmp_path / "key")


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str | None:
    """Two ends back to back; the version they agree on."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=name),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[1].version()


@pytest.mark.parametrize("name", ["a.example", "localhost", "127.0.0.1", "::1"])
def test_its_own_certificate_is_good_for_its_host_and_for_loopback(tls: TlsSettings, name: str) -> None:
    trusting = ssl.create_default_context(cafile=str(tls.certificate))
    assert handshake(client_context(tls), trusting, name) == "TLSv1.3"


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("a.example", "a.example"),
        ("a.example:720", "a.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:720", "192.0.2.1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:720", "2001:db8::1"),
    ],
)
def test_a_new_site_has_a_certificate_for_its_host(tmp_path: Path, server: str, host: str) -> None:
    make_site(tmp_path / "site", server, 720, checkout_plugins())
    certificate, key = (tmp_path / "site" / "keys" / name for name in ("tls.crt", "tls.key"))
    trusting = ssl.create_default_context(cafile=str(certificate))
    context = client_context(TlsSettings(certificate=certificate, key=key))
    assert handshake(context, trusting, host) == "TLSv1.3"


def test_what_is_older_than_tls_1_2_is_refused(tls: TlsSettings) -> None:
    old = ssl.create_default_context(cafile=str(tls.certificate))
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        handshake(client_context(tls), old, "a.example")


def test_a_key_that_others_can_read_is_refused(tls: TlsSettings) -> None:
    assert tls.key is not None
    tls.key.chmod(0o640)
    client_context(tls)
    for mode in (0o644, 0o660, 0o601):
        tls.key.chmod(mode)
        with pytest.raises(ConfigError, match=f"key: is open to others .mode {mode:04o}.; do: chmod 600"):
            client_context(tls)


def test_files_that_are_absent_mixed_up_or_encrypted_are_refused(tls: TlsSettings, tmp_path: Path) -> None:
    assert tls.key is not None
    with pytest.raises(ConfigError, match="TLS certificate cannot be read"):
        client_context(TlsSettings(certificate=tmp_path / "none", key=tls.key))
    with pytest.raises(ConfigError, match="TLS key cannot be read"):
        client_context(TlsSettings(certificate=tls.certificate, key=tmp_path / "none"))
    with pytest.raises(ConfigError, match="no certificate and its key in PEM"):
        client_context(TlsSettings(certificate=tls.key, key=tls.key))
    key = serialization.load_pem_private_key(tls.key.read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    tls.key.write_bytes(encrypted)
    with pytest.raises(ConfigError, match="no certificate and its key in PEM"):
        client_context(tls)
    tls.key.write_bytes(make_self_signed("a.example")[1])
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        client_context(tls)


def test_a_site_without_a_certificate_has_no_context() -> None:
    assert ClientTls(TlsSettings()).context is None
