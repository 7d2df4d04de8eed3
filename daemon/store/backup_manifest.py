"""What a backup says of itself, in `backup.json`: written last, so that one without it is not whole.

Every file is listed with its size and SHA-256, so that what was cut, lost or changed on its way to another
disk is noticed before a site is made of it.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import msgspec

from daemon.system.private_files import write_new

MANIFEST: Final = "backup.json"
FORMAT: Final = 1
CHUNK_BYTES: Final = 1_048_576


class UnfitError(Exception):
    """A directory is no whole backup, or not one for this version."""


class ListedFile(msgspec.Struct, frozen=True):
    """One file of a backup; `path` is relative to it."""

    path: str
    size_bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A whole backup.

    Attributes:
        made_at: UTC; what was committed after that is not in it.
        version: of the smqpd that made it.
        keys: whether private keys and the administrator's login are in it.
    """

    format: int
    server_name: str
    made_at: str
    version: str
    keys: bool
    files: tuple[ListedFile, ...]


def list_files(directory: Path) -> tuple[ListedFile, ...]:
    """All that is in the directory, by name."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return tuple(_listed(path, path.relative_to(directory).as_posix()) for path in paths)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest of a backup. Raises FileExistsError."""
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    write_new(directory / MANIFEST, text + b"\n")


def read_manifest(directory: Path) -> Manifest:
    """The manifest, once every file that it lists has been found as it was. Raises UnfitError, OSError."""
    try:
        manifest = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise UnfitError(f"{directory} is no whole backup: it has no {MANIFEST}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnfitError(f"{directory / MANIFEST} cannot be read: {error}") from None
    if manifest.format != FORMAT:
        raise UnfitError(
            f"{directory} is of format {manifest.format}, made by smqpd {manifest.version}; this one reads"
            f" format {FORMAT}: restore it with the smqpd that made it"
        )
    _check(directory, manifest.files)
    return manifest


def _check(directory: Path, files: Iterable[ListedFile]) -> None:
    for file in files:
        inside = PurePosixPath(file.path)
        path = directory / inside
        if inside.is_absolute() or ".." in inside.parts:
            raise UnfitError(f"{directory / MANIFEST} lists {file.path}, which is not in the backup")
        if path.is_symlink() or not path.is_file():
            raise UnfitError(f"{path} is missing: the backup is not whole")
        if _listed(path, file.path) != file:
            raise UnfitError(f"{path} is not what was backed up: its checksum differs")


def _listed(path: Path, name: str) -> ListedFile:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(CHUNK_BYTES):
            digest.update(part)
        return ListedFile(name, file.tell(), digest.hexdigest())
