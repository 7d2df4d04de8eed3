"""The list of mutations fits the source; `python -m tests.mutants` shows that each is noticed."""

import re
from pathlib import Path

import pytest

from tests.mutants.mutation import ROOT, Mutation, StaleError, every, mutated


@pytest.mark.parametrize("mutation", every(), ids=lambda mutation: mutation.name)
def test_a_mutation_applies_to_one_place_and_names_who_notices(mutation: Mutation) -> None:
    mutated(mutation)
    assert mutation.tests or mutation.seed is not None
    for test in mutation.tests:
        file, _, name = test.partition("::")
        tests = (ROOT / file).read_text()
        assert re.search(rf"\b{name.partition('[')[0]}\b", tests)


def test_there_are_many_and_no_two_have_one_name() -> None:
    names = [mutation.name for mutation in every()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("y = 1", "y = 2", "0 times"),
        ("1", "2", "2 times"),
        ("x = 1", "x = ", "not Python"),
        ("x = 1", "x =  1", "changes nothing"),
    ],
)
def test_one_that_does_not_fit_says_so(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    (tmp_path / "product.py").write_text("x = 1\nz = 1\n")
    with pytest.raises(StaleError, match=complaint):
        mutated(Mutation(name="a promise", file="product.py", old=old, new=new), tmp_path)
