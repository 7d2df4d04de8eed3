"""Signatures by the key of a certificate, whichever of the usual kinds it is: Ed25519, ECDSA, RSA.

`smqpd cert` makes Ed25519 keys; an authority of the operator's own may have others.
"""

from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

_ECDSA: Final = ec.ECDSA(hashes.SHA256())
_PSS: Final = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)


def sign(key: Any, data: bytes) -> bytes | None:
    """The signature; None for a private key of another kind."""
    match key:
        case ed25519.Ed25519PrivateKey():
            return key.sign(data)
        case ec.EllipticCurvePrivateKey():
            return key.sign(data, _ECDSA)
        case rsa.RSAPrivateKey():
            return key.sign(data, _PSS, hashes.SHA256())
    return None


def is_signed(key: Any, signature: bytes, data: bytes) -> bool:
    """Whether this signature is one of a public key; never of a key of another kind."""
    try:
        match key:
            case ed25519.Ed25519PublicKey():
                key.verify(signature, data)
            case ec.EllipticCurvePublicKey():
                key.verify(signature, data, _ECDSA)
            case rsa.RSAPublicKey():
                key.verify(signature, data, _PSS, hashes.SHA256())
            case _:
                return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True
