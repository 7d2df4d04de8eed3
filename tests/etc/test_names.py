"""Files and modules that are named are there; types, and what tests share, have a name each.

And what functions are said to do is what they do, not when.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.installed import ROOT

DOTTED: Final = re.compile(r"`((?:daemon|routing|plugins|tests)(?:\.\w+)+)`")
"""A module of ours, or what it defines: `routing.names.check_topic`."""

FILE: Final = re.compile(r"`((?:\w+/)*\w+\.py)`")
"""A file, from the document's own directory, from the root, or by its name alone."""


@cache
def ours() -> frozenset[str]:
    """All files of the project, by their paths from the root."""
    found = [ROOT / "README.md", ROOT / "pyproject.toml"]
    for folder in ("daemon", "routing", "plugins", "tests", "etc", ".github"):
        found += (ROOT / folder).rglob("*.*")
    return frozenset(str(path.relative_to(ROOT)) for path in found)


def named() -> list[str]:
    return sorted(name for name in ours() if name.endswith((".md", ".py", ".toml")))


def module_of(dotted: str) -> tuple[str, list[str]]:
    """The longest part that is a module or package, as a file or directory; what is left."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length])
        if f"{path}.py" in ours():
            return f"{path}.py", parts[length:]
        if any(name.startswith(f"{path}/") for name in ours()):
            return path, parts[length:]
    return "", parts


def leads_somewhere(dotted: str) -> bool:
    module, rest = module_of(dotted)
    if not rest:
        return True
    if not module.endswith(".py"):
        module += "/__init__.py"
    if module not in ours():
        return False
    text = (ROOT / module).read_text()
    return all(re.search(rf"\b{name}\b", text) for name in rest)


def is_there(document: str, file: str) -> bool:
    beside = str(Path(document).parent / file)
    return any(name in (file, beside) or name.endswith(f"/{file}") for name in ours())


def test_modules_that_are_named_are_there() -> None:
    lost = {
        f"{document}: {dotted}"
        for document in named()
        for dotted in DOTTED.findall((ROOT / document).read_text())
        if not leads_somewhere(dotted)
    }
    assert lost == set()


def test_files_that_documents_name_are_there() -> None:
    lost = {
        f"{document}: {file}"
        for document in named()
        if document.endswith((".md", "/__init__.py"))
        for file in FILE.findall((ROOT / document).read_text())
        if not is_there(document, file)
    }
    assert lost == set()


LISTED: Final = re.compile(r"^ {0,4}(\w+)  +\S", re.MULTILINE)
"""A module in the list of its package: its name without `.py`, and what it is for."""

BESIDE: Final = re.compile(r"`(\w+)`")
"""A module that is named in the line of another one."""


def packages() -> list[str]:
    """The folders of the product's packages."""
    parts = ("daemon/", "routing/", "plugins/")
    return sorted(
        str(Path(name).parent) for name in ours() if name.startswith(parts) and name.endswith("/__init__.py")
    )


def modules_of(package: str) -> set[str]:
    """The modules and packages in a package."""
    inside = (Path(name).relative_to(package) for name in ours() if name.startswith(f"{package}/"))
    parts = {path.parts[0].removesuffix(".py") for path in inside if path.suffix == ".py"}
    return parts - {"__init__", "__main__"}


def lists_of(package: str) -> list[str]:
    """The paragraphs of a package's docstring that list modules of it."""
    text = ast.get_docstring(parsed(f"{package}/__init__.py")) or ""
    paragraphs = text.split("\n\n")
    return [each for each in paragraphs if modules_of(package).intersection(LISTED.findall(each))]


@pytest.mark.parametrize("package", packages())
def test_a_package_that_lists_its_modules_lists_all_of_them_and_no_others(package: str) -> None:
    listed = {name for each in lists_of(package) for name in LISTED.findall(each)}
    beside = {name for each in lists_of(package) for name in BESIDE.findall(each)}
    assert listed <= modules_of(package)
    assert not listed or modules_of(package) <= listed | beside


def test_each_part_of_the_daemon_lists_its_modules() -> None:
    parts = {package for package in packages() if re.fullmatch(r"daemon/\w+", package)}
    assert {package for package in parts if not lists_of(package)} == set()


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text())


@cache
def types_in(module: str) -> list[str]:
    """The public classes of a module, and its aliases of types."""
    found = []
    for node in parsed(module).body:
        if isinstance(node, ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.append(node.targets[0].id)
    return [name for name in found if not name.startswith("_") and not name.isupper() and name[0].isupper()]


CORE: Final = ("routing", "daemon")

PROTOCOL_WORDS: Final = {
    "smqp": {"Delivery", "Detach", "Ping", "Publish", "Receipt", "Remove", "Subscribe"},
    "stomp": {"Frame", "Subscription", "Transaction", "Version"},
    "web": {"Removed"},  # in the schema of the API
    "xmpp": {"Transfer"},  # of urn:xmpp:qos
}
"""What the protocol of a front end calls by a word that is another thing's elsewhere."""


def types_of(*parts: str) -> dict[str, list[str]]:
    """The modules that define each type, by its name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module in ours():
        if module.endswith(".py") and module.startswith(tuple(f"{part}/" for part in parts)):
            for name in types_in(module):
                found[name].append(module)
    return found


@pytest.mark.parametrize("parts", [CORE, *((f"plugins/{name}",) for name in PROTOCOL_WORDS)])
def test_no_two_types_that_can_meet_share_a_name(parts: tuple[str, ...]) -> None:
    assert {name: modules for name, modules in types_of(*parts).items() if len(modules) > 1} == {}


@pytest.mark.parametrize("front_end", PROTOCOL_WORDS)
def test_a_front_end_shares_with_the_core_only_words_of_its_protocol(front_end: str) -> None:
    """It may call a thing by its protocol's word, in its own folder."""
    shared = types_of(f"plugins/{front_end}").keys() & types_of(*CORE).keys()
    assert shared == PROTOCOL_WORDS[front_end]


def test_a_type_of_what_tests_share_has_a_name_of_its_own() -> None:
    """Who reads a test need not look where a name comes from to know whether it is of the product."""
    helpers = types_of("tests/support", "tests/sim")
    assert {name: modules for name, modules in helpers.items() if len(modules) > 1} == {}
    assert helpers.keys() & types_of(*CORE, "plugins").keys() == set()


def test_no_two_helpers_of_the_tests_share_a_name() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in (ROOT / "tests/support").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name].append(path.name)
    shared = {name: files for name, files in found.items() if len(files) > 1 and not name.startswith("_")}
    shared.pop("main", None)  # of a file that is also a program
    assert shared == {}


CIRCUMSTANCES: Final = ("It ", "It's ", "Its ", "Nothing ", "Nobody ", "No ", "They ")
"""With which begins what is so when a function is called, in the place of what it does or returns."""


def public_functions(tree: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from public_functions(node)


def test_functions_say_what_they_do_or_return() -> None:
    assert [
        f"{module}:{node.lineno} {node.name}"
        for module in sorted(ours())
        if module.endswith(".py") and module.startswith(("daemon/", "routing/", "plugins/"))
        for node in public_functions(parsed(module))
        if (ast.get_docstring(node, clean=False) or "").startswith(CIRCUMSTANCES)
    ] == []
