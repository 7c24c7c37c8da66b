"""Mistakes that are made on purpose are found; the table of them is up to date."""

from __future__ import annotations

import pytest

from bench.mutations import MUTATIONS, PACKAGE, Mutation, runs_until_found, source
from tests.fuzz.replay import KINDS
from tests.hosts_fuzz.kinds import KINDS as HOSTS

#: Those that are found within a few runs.
CHEAP = ("keys are forgotten", "branches stay in the context", "half a line counts as a bad one")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_can_be_made(mutation: Mutation) -> None:
    assert source(mutation).count(mutation.text) == 1
    assert mutation.instead not in ("", mutation.text)
    assert mutation.kind in (KINDS if mutation.fuzzer == "replay" else HOSTS)
    compile(source(mutation).replace(mutation.text, mutation.instead), mutation.file, "exec")


def test_there_are_enough_mutations() -> None:
    assert sum(mutation.fuzzer == "host" for mutation in MUTATIONS) >= 10
    assert sum(mutation.fuzzer == "replay" for mutation in MUTATIONS) >= 10
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("name", CHEAP)
def test_a_mutation_is_found(name: str) -> None:
    (mutation,) = (one for one in MUTATIONS if one.name == name)
    before = source(mutation)
    assert runs_until_found(mutation, 60) is not None
    assert source(mutation) == before, f"{PACKAGE} is not touched"
