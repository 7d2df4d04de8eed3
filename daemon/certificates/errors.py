"""The errors of this package."""


class CertificateError(Exception):
    """A key, certificate, request or list that cannot be used; the text says which file and why."""


class MissingFileError(CertificateError):
    """A file is not there; who knows what it is for says how it is made."""
