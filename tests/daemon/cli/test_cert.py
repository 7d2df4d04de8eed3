"""`smqpd cert`, as an operator uses it."""

import datetime
import json
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner, Result

from daemon.certificates.files import load_certificate, load_key
from daemon.certificates.identity import server_name_of
from daemon.cli.cert import app
from daemon.terminal.failure import USAGE, Failure

ED25519 = b"\x06\x03\x2b\x65\x70"
UNKNOWN_KIND = b"\x06\x03\x2b\x65\x7f"


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cert(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def done(*arguments: str) -> Result:
    result = cert(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


def refused(*arguments: str) -> str:
    result = cert(*arguments)
    assert isinstance(result.exception, Failure)
    return str(result.exception)


def _write_certificate(path: Path, of_name: bytes = b"strange", of_key: bytes = ED25519) -> None:
    """One that nobody's authority has signed, with these bytes for its common name and its kind of key."""
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "strange")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 5, now, now + datetime.timedelta(days=3))
    signed = made.sign(key, None)
    kind = b"\x30\x05" + ED25519 + b"\x03\x21"
    data = signed.public_bytes(Encoding.DER).replace(kind, kind.replace(ED25519, of_key))
    path.write_text(ssl.DER_cert_to_PEM_cert(data.replace(b"strange", of_name)))


def test_issuing_gives_all_files_that_a_site_needs(tmp_path: Path) -> None:
    done("ca")
    done("issue", "alpha:720", "--out", "alpha/keys")
    assert sorted(path.name for path in Path("alpha/keys").iterdir()) == [
        "ca.pem",
        "crl.pem",
        "site.key",
        "site.pem",
    ]
    assert stat.S_IMODE(Path("alpha/keys/site.key").stat().st_mode) == 0o600
    [shown] = json.loads(done("show", "alpha/keys", "--json").stdout)
    assert (shown["name"], shown["state"]) == ("alpha:720", "valid")


def test_the_private_key_stays_at_the_site_that_made_it() -> None:
    done("ca")
    done("request", "beta", "--keys", "beta/keys")
    done("sign", "beta/keys/site.csr", "--server", "beta", "--out", "signed")
    assert sorted(path.name for path in Path("signed").iterdir()) == ["ca.pem", "crl.pem", "site.pem"]
    key = load_key(Path("beta/keys/site.key"))
    assert load_certificate(Path("signed/site.pem")).public_key() == key.public_key()


def test_a_second_request_keeps_the_key() -> None:
    done("request", "beta")
    before = Path("keys/site.key").read_bytes()
    done("request", "beta")
    assert Path("keys/site.key").read_bytes() == before


def test_a_request_for_another_name_than_expected_is_not_signed() -> None:
    done("ca")
    done("request", "gamma")
    assert "asks for the name gamma, not beta" in refused("sign", "keys/site.csr", "--server", "beta")


def test_a_name_is_not_given_twice() -> None:
    done("ca")
    done("issue", "alpha")
    assert "alpha already has a certificate with another key" in refused("issue", "alpha", "--out", "second")
    assert not Path("second/site.key").exists()
    done("issue", "alpha", "--out", "second", "--replace")


def test_renewal_needs_no_key() -> None:
    done("ca")
    done("issue", "alpha", "--days", "10")
    renewed = json.loads(done("renew", "alpha", "--days", "20", "--out", "renewed", "--json").stdout)
    assert renewed["days_left"] == 19
    assert not Path("renewed/site.key").exists()
    assert server_name_of(load_certificate(Path("renewed/site.pem"))) == "alpha"


def test_a_revoked_certificate_is_shown_as_revoked() -> None:
    done("ca")
    done("issue", "alpha")
    done("issue", "beta")
    done("revoke", "alpha")
    shown = json.loads(done("show", "ca", "--json").stdout)
    states = {one["name"]: one["state"] for one in shown}
    assert (states["alpha"], states["beta"]) == ("revoked", "valid")
    Path("alpha/crl.pem").write_bytes(Path("ca/crl.pem").read_bytes())
    [at_site] = json.loads(done("show", "alpha", "--json").stdout)
    assert at_site["state"] == "its certificate is revoked"


def test_the_table_for_people_names_server_and_state() -> None:
    done("ca")
    done("issue", "alpha")
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["show", "alpha"])
    assert "alpha" in result.stdout
    assert "valid" in result.stdout


def test_a_certificate_with_a_key_of_an_unknown_kind_is_shown() -> None:
    _write_certificate(Path("strange.pem"), of_key=UNKNOWN_KIND)
    [shown] = json.loads(done("show", "strange.pem", "--json").stdout)
    assert (shown["name"], shown["state"], shown["key_sha256"]) == ("CN=strange", "valid", None)


def test_a_certificate_whose_name_cannot_be_read_is_refused() -> None:
    _write_certificate(Path("strange.pem"), of_name=b"\xff\xfe\xfd\xfc\xfb\xfa\xf9")
    assert refused("show", "strange.pem") == "strange.pem: not a certificate in PEM"


def test_the_authority_key_is_refused_when_others_can_read_it() -> None:
    done("ca")
    Path("ca/ca.key").chmod(0o644)
    assert "is open to others" in refused("issue", "alpha")


def test_without_an_authority_nothing_is_issued() -> None:
    for words in (("issue", "alpha"), ("revoke", "alpha"), ("renew", "alpha")):
        told = refused(*words)
        assert "ca/ca.key: No such file or directory; --ca names the directory of an authority" in told
        assert "`smqpd cert ca DIR` makes one" in told


def test_a_bad_server_name_is_explained() -> None:
    done("ca")
    failure = cert("issue", "Alpha!").exception
    assert isinstance(failure, Failure)
    assert failure.exit_code == USAGE
    assert "is not a server name" in str(failure)
