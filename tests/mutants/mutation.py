"""A mutation: one promise broken by a small change of the product, and who is to notice.

The text that is replaced must be in its file exactly once, so that a list of mutations cannot rot in silence:
`tests/mutants/test_catalogue.py` applies each of them in every run of the tests.
"""

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Final

import msgspec

from tests.mutants import catalogue
from tests.sim.scenario import ScenarioProfile

ROOT: Final = Path(__file__).parent.parent.parent


class Mutation(msgspec.Struct, frozen=True, kw_only=True):
    """One mutation.

    Attributes:
        name: what it breaks, in words; names it on the command line, too.
        file: of the product, from the root of the source.
        old: a text that is in the file exactly once; short, so that it survives what does not concern it.
        new: what takes its place.
        tests: what pytest is given; one of them fails. What fails soonest comes first.
        seed: where the simulation is to notice: a seed that did, tried first, then 0 to 199. None where the
            tests alone are to notice.
        profile: of that seed.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    seed: int | None = None
    profile: ScenarioProfile = "all"


class StaleError(Exception):
    """A mutation does not fit the source any more; says which and why."""


def mutated(mutation: Mutation, root: Path = ROOT) -> str:
    """The text of its file with the mutation. Raises StaleError where it does not apply or has no effect."""
    try:
        source = (root / mutation.file).read_text()
    except FileNotFoundError:
        raise StaleError(f"{mutation.name!r}: there is no {mutation.file}") from None
    if (found := source.count(mutation.old)) != 1:
        raise StaleError(f"{mutation.name!r}: {mutation.file} has {mutation.old!r} {found} times, not once")
    changed = source.replace(mutation.old, mutation.new)
    try:
        same = _does(compile(changed, mutation.file, "exec")) == _executed(source)
    except SyntaxError as error:
        raise StaleError(f"{mutation.name!r}: what it makes is not Python: {error}") from None
    if same:
        raise StaleError(f"{mutation.name!r} changes nothing that is executed")
    return changed


@cache
def _executed(source: str) -> tuple[object, ...]:
    """Of a text as it is, which most mutations share with others."""
    return _does(compile(source, "", "exec"))


def _does(code: CodeType) -> tuple[object, ...]:
    """All that tells what code does, without its places in a file."""
    constants = (
        _does(each) if isinstance(each, CodeType) else (type(each), repr(each)) for each in code.co_consts
    )
    signature = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_name, signature, names, code.co_code, code.co_exceptiontable, *constants


def every() -> list[Mutation]:
    """All mutations, by the section of the contract that they break."""
    out: list[Mutation] = []
    for module in sorted(pkgutil.iter_modules(catalogue.__path__), key=lambda module: module.name):
        out += importlib.import_module(f"{catalogue.__name__}.{module.name}").MUTATIONS
    return out
