"""Looks at a site's files with the eyes of the user that its daemon runs as."""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from daemon.settings import Settings


def daemon_user(settings: Settings) -> int:
    """The user id that owns the site's state; of its directory where there is none yet, and the own one
    where that cannot be seen.
    """
    state = settings.site.state_directory
    for directory in (state, *state.parents):
        try:
            return directory.stat().st_uid
        except FileNotFoundError:
            continue
        except OSError:
            break
    return os.geteuid()


@contextmanager
def as_user(uid: int) -> Iterator[None]:
    """In the block, root has the rights of this user, and of no other. Raises OSError where it may not."""
    gid, groups = _groups(uid)
    own_groups = os.getgroups()
    os.setgroups(groups)
    try:
        os.setegid(gid)
        os.seteuid(uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(own_groups)


def user_name(uid: int) -> str:
    """For people."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def unreadable(settings: Settings) -> list[Path]:
    """The files and directories of a site that are there, and that this user may not read."""
    found = [*_paths(settings), *_inside(settings.links.keys_directory)]
    return sorted({path for path in found if not _may_read(path)})


def _groups(uid: int) -> tuple[int, list[int]]:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return uid, []
    return entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)


def _paths(value: object) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _paths(getattr(value, name))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _paths(inner)


def _inside(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _may_read(path: Path) -> bool:
    """Also of what is not there, where that can be seen."""
    try:
        mode = os.R_OK | (os.X_OK if path.is_dir() else 0)
        return not path.exists() or os.access(path, mode, effective_ids=True)
    except OSError:
        return False
