"""The authority signs names, refuses a name that another key has, renews and revokes."""

import base64
import datetime
import fcntl
import os
import stat
from multiprocessing import get_context
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from daemon.certificates.authority import Authority, make_request, serial_of
from daemon.certificates.errors import CertificateError
from daemon.certificates.files import (
    load_certificate,
    load_key,
    load_request,
    load_revocations,
    new_key,
    write_private,
)
from daemon.certificates.identity import server_name_of
from daemon.certificates.trust import Trust
from routing.errors import Refusal

NOW = datetime.datetime(2026, 11, 21, 10, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "ca", "test federation", 3650, NOW)


def trust_of(authority: Authority) -> Trust:
    return Trust.load(authority.directory / "ca.pem", authority.directory / "crl.pem")


def issue(authority: Authority, server: str, days: int = 397) -> x509.Certificate:
    return authority.issue(server, Ed25519PrivateKey.generate().public_key(), days, NOW)


@pytest.mark.parametrize(
    "server", ["alpha.example", "alpha.example:720", "192.0.2.7:720", "[2001:db8::7]:720"]
)
def test_the_certificate_carries_the_server_name(authority: Authority, server: str) -> None:
    assert server_name_of(issue(authority, server)) == server


@pytest.mark.parametrize("server", ["Alpha", "alpha/beta", "alpha:0", "", "alpha example", "a" * 300])
def test_what_is_no_server_name_gets_no_certificate(authority: Authority, server: str) -> None:
    with pytest.raises(Refusal):
        issue(authority, server)


def test_a_fresh_certificate_is_trusted_until_its_last_second(authority: Authority) -> None:
    certificate = issue(authority, "alpha", days=10)
    trust = trust_of(authority)
    assert trust.refusal(certificate, NOW) is None
    assert trust.refusal(certificate, NOW + 10 * DAY) is None
    later = trust.refusal(certificate, NOW + 10 * DAY + datetime.timedelta(seconds=1))
    assert later == "its certificate expired on 2026-12-01 10:00 UTC"
    before = trust.refusal(certificate, NOW - DAY)
    assert before == "its certificate is not valid before 2026-11-21 09:00 UTC"


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca", "short", 30, NOW)
    certificate = issue(authority, "alpha", days=397)
    assert certificate.not_valid_after_utc == NOW + 30 * DAY
    refusal = trust_of(authority).refusal(certificate, NOW + 31 * DAY)
    assert refusal == "the authority's certificate expired on 2026-12-21 10:00 UTC"


def test_a_name_that_another_key_has_is_refused(authority: Authority) -> None:
    issue(authority, "alpha")
    with pytest.raises(CertificateError, match="alpha already has a certificate with another key"):
        issue(authority, "alpha")
    issue(authority, "alpha.other")


def test_a_site_may_change_its_key_when_the_operator_says_so(authority: Authority) -> None:
    issue(authority, "alpha")
    key = Ed25519PrivateKey.generate().public_key()
    assert authority.issue("alpha", key, 30, NOW, replace=True).public_key() == key


def test_an_expired_certificate_leaves_its_name_free(authority: Authority) -> None:
    issue(authority, "alpha", days=1)
    key = Ed25519PrivateKey.generate().public_key()
    authority.issue("alpha", key, 30, NOW + 2 * DAY)


def test_signing_takes_name_and_key_from_the_request(authority: Authority) -> None:
    key = Ed25519PrivateKey.generate()
    certificate = authority.sign(make_request("beta:720", key), 30, NOW)
    assert server_name_of(certificate) == "beta:720"
    assert certificate.public_key() == key.public_key()
    assert trust_of(authority).refusal(certificate, NOW) is None


def test_renewal_signs_the_same_key_for_longer(authority: Authority) -> None:
    first = issue(authority, "alpha", days=10)
    second = authority.renew("alpha", 20, NOW + 5 * DAY)
    assert second.public_key() == first.public_key()
    assert second.serial_number != first.serial_number
    assert second.not_valid_after_utc == NOW + 25 * DAY
    assert trust_of(authority).refusal(first, NOW + 6 * DAY) is None


@pytest.mark.parametrize("days", [30, 9_999], ids=["for-fewer-days", "to-the-end-of-the-authority"])
def test_renewal_signs_the_key_that_took_the_place_of_others(authority: Authority, days: int) -> None:
    for number in range(8):  # within a second, one after the other
        key = Ed25519PrivateKey.generate().public_key()
        serial = serial_of(authority.issue("alpha", key, days - number, NOW, replace=True))
        os.utime(authority.directory / "issued" / f"{serial}.pem", (number, number))
    assert authority.renew("alpha", 9_999, NOW).public_key() == key
    key = Ed25519PrivateKey.generate().public_key()
    authority.issue("alpha", key, 30, NOW + DAY, replace=True)
    assert authority.renew("alpha", 397, NOW + DAY).public_key() == key


def test_what_was_never_issued_or_is_revoked_cannot_be_renewed(authority: Authority) -> None:
    with pytest.raises(CertificateError, match="alpha has no certificate that could be renewed"):
        authority.renew("alpha", 20, NOW)
    issue(authority, "alpha")
    authority.revoke("alpha", NOW)
    with pytest.raises(CertificateError, match="alpha has no certificate that could be renewed"):
        authority.renew("alpha", 20, NOW)


def test_revocation_takes_back_all_certificates_of_a_name_and_no_other(authority: Authority) -> None:
    first = issue(authority, "alpha")
    second = authority.renew("alpha", 30, NOW)
    other = issue(authority, "beta")
    assert {one.serial_number for one in authority.revoke("alpha", NOW)} == {
        first.serial_number,
        second.serial_number,
    }
    trust = trust_of(authority)
    assert trust.refusal(first, NOW) == "its certificate is revoked"
    assert trust.refusal(second, NOW) == "its certificate is revoked"
    assert trust.refusal(other, NOW) is None


def test_revocations_add_up_under_rising_list_numbers(authority: Authority) -> None:
    alpha, beta = issue(authority, "alpha"), issue(authority, "beta")
    authority.revoke("alpha", NOW, serial_of(alpha))
    authority.revoke("beta", NOW)
    assert authority.revoked_serials() == {alpha.serial_number, beta.serial_number}
    [listed] = load_revocations(authority.directory / "crl.pem")
    assert listed.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 3
    with pytest.raises(CertificateError, match="beta has no such certificate that is still valid"):
        authority.revoke("beta", NOW)


def _revoke(directory: Path, server: str) -> None:
    Authority.open(directory).revoke(server, NOW)


def test_revocations_by_several_at_once_add_up(authority: Authority) -> None:
    servers = [f"site{number}" for number in range(6)]
    serials = {issue(authority, server).serial_number for server in servers}
    fork = get_context("fork")
    commands = [fork.Process(target=_revoke, args=(authority.directory, server)) for server in servers]
    for command in commands:
        command.start()
    for command in commands:
        command.join()
    assert [command.exitcode for command in commands] == [0] * len(servers)
    assert authority.revoked_serials() == serials


def test_who_is_revoked_while_another_renews_it_stays_revoked(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue(authority, "beta")
    lock = fcntl.flock

    def lock_later(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        authority.revoke("beta", NOW)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_later)
    with pytest.raises(CertificateError, match="beta has no certificate that could be renewed"):
        authority.renew("beta", 397, NOW)
    assert not list(authority.live("beta", NOW))


def test_a_certificate_of_another_authority_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority.create(tmp_path / "other", "test federation", 3650, NOW)
    refusal = trust_of(authority).refusal(issue(stranger, "alpha"), NOW)
    assert refusal == "its certificate is from an unknown authority"


def test_while_one_authority_replaces_another_both_are_trusted(authority: Authority, tmp_path: Path) -> None:
    successor = Authority.create(tmp_path / "next", "next federation", 3650, NOW)
    both = tmp_path / "both"
    both.mkdir()
    for name in ("ca.pem", "crl.pem"):
        (both / name).write_bytes(
            (authority.directory / name).read_bytes() + (successor.directory / name).read_bytes()
        )
    old, new = issue(authority, "alpha"), issue(successor, "alpha")
    successor.revoke("alpha", NOW)
    trust = Trust.load(both / "ca.pem", both / "crl.pem")
    assert trust.refusal(old, NOW) is None
    assert trust.refusal(new, NOW) is None
    (both / "crl.pem").write_bytes(
        (authority.directory / "crl.pem").read_bytes() + (successor.directory / "crl.pem").read_bytes()
    )
    trust = Trust.load(both / "ca.pem", both / "crl.pem")
    assert trust.refusal(new, NOW) == "its certificate is revoked"


def test_an_authority_without_its_list_is_refused(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority.create(tmp_path / "other", "other federation", 3650, NOW)
    with pytest.raises(CertificateError, match="has no list signed by the authority"):
        Trust.load(authority.directory / "ca.pem", stranger.directory / "crl.pem")


def test_an_authority_is_never_overwritten(authority: Authority) -> None:
    with pytest.raises(CertificateError, match="already there; a key is never overwritten"):
        Authority.create(authority.directory, "again", 10, NOW)


def test_a_new_key_is_for_its_owner_only(tmp_path: Path) -> None:
    new_key(tmp_path / "site.key")
    assert stat.S_IMODE((tmp_path / "site.key").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o777])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    new_key(tmp_path / "site.key")
    (tmp_path / "site.key").chmod(mode)
    with pytest.raises(CertificateError, match=rf"is open to others \(mode {mode:04o}\); do: chmod 600"):
        load_key(tmp_path / "site.key")


@pytest.mark.parametrize("damage", [b"", b"-----BEGIN PRIVATE KEY-----\n", b"\x00\xff" * 50])
def test_a_damaged_key_is_named(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "site.key"
    path.write_bytes(damage)
    path.chmod(0o600)
    with pytest.raises(CertificateError, match=r"site\.key: not an unencrypted private key in PEM"):
        load_key(path)


@pytest.mark.parametrize(
    "names",
    [
        [],
        [x509.DNSName("alpha")],
        [x509.UniformResourceIdentifier("https://alpha")],
        [x509.UniformResourceIdentifier("smqp://alpha"), x509.UniformResourceIdentifier("smqp://beta")],
        [x509.UniformResourceIdentifier("smqp://alpha/beta")],
    ],
)
def test_a_certificate_names_exactly_one_server(names: list[x509.GeneralName]) -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    with pytest.raises(CertificateError, match=r"server name"):
        server_name_of(builder.sign(Ed25519PrivateKey.generate(), None))


@pytest.mark.parametrize("name", ["a300", "a503a1010c"], ids=["an X.400 address", "half a name of EDI"])
def test_a_request_with_a_name_that_nobody_reads_names_no_server(name: str) -> None:
    uri = b"\x86\x0csmqp://alpha"
    names = bytes([0x30, len(uri) + len(name) // 2]) + uri + bytes.fromhex(name)
    extension = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, names)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = builder.add_extension(extension, critical=False).sign(Ed25519PrivateKey.generate(), None)
    with pytest.raises(CertificateError, match="no readable server name"):
        server_name_of(x509.load_der_x509_csr(request.public_bytes(serialization.Encoding.DER)))


ED25519 = bytes.fromhex("06032b6570")  # the object identifier, as it stands before a key and a signature
UNKNOWN = bytes.fromhex("06032b657a")


def pem(kind: str, der: bytes) -> bytes:
    return f"-----BEGIN {kind}-----\n{base64.b64encode(der).decode()}\n-----END {kind}-----\n".encode()


def test_a_request_whose_key_is_of_a_kind_that_nobody_reads_is_not_signed(
    authority: Authority, tmp_path: Path
) -> None:
    der = make_request("alpha", Ed25519PrivateKey.generate()).public_bytes(serialization.Encoding.DER)
    path = tmp_path / "site.csr"
    path.write_bytes(pem("CERTIFICATE REQUEST", der.replace(ED25519, UNKNOWN)))
    with pytest.raises(CertificateError, match="the request's key is not an Ed25519 key"):
        authority.sign(load_request(path), 397, NOW)


def test_files_of_versions_and_kinds_that_nobody_reads_are_refused_by_name(
    authority: Authority, tmp_path: Path
) -> None:
    key = Ed25519PrivateKey.generate()
    request = make_request("alpha", key).public_bytes(serialization.Encoding.DER)
    certificate = issue(authority, "alpha").public_bytes(serialization.Encoding.DER)
    private = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    first, third, other = (bytes([2, 1, number]) for number in (0, 2, 5))
    for kind, der, load in (
        ("CERTIFICATE REQUEST", request.replace(first, other, 1), load_request),
        ("CERTIFICATE", certificate.replace(third, other, 1), load_certificate),
        ("PRIVATE KEY", private.replace(ED25519, UNKNOWN), load_key),
    ):
        path = tmp_path / "file"
        write_private(path, pem(kind, der))
        with pytest.raises(CertificateError, match=f"{path}: not a"):
            load(path)


def test_an_authority_whose_key_is_of_a_kind_that_nobody_reads_is_not_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    der = authority.certificate.public_bytes(serialization.Encoding.DER)
    path = tmp_path / "ca.pem"
    path.write_bytes(pem("CERTIFICATE", der.replace(ED25519, UNKNOWN)))
    with pytest.raises(CertificateError, match="has no list signed by the authority"):
        Trust.load(path, authority.directory / "crl.pem")
