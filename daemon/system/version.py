"""The version of the installed distribution; a checkout that is not installed has none."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final


def _version() -> str:
    try:
        return version("smqpd")
    except PackageNotFoundError:
        return "0+checkout"


VERSION: Final = _version()
