"""Wrong statements are refused; derivations do not look at the statement and do not depend on hashing."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import statement_mutations as mutations
from iclflow.theory.equations import equation, equations
from iclflow.theory.notation import B, Lambda, M, N, x_q
from random_points import same_numbers
from sympy import Symbol, Trace, log, sqrt


@pytest.mark.slow
def test_every_wrong_statement_is_refused_and_every_right_one_accepted():
    rng = np.random.default_rng(11)
    found = [mutant for entry in mutations.derived_equations() for mutant in mutations.tried(entry, 2, rng)]
    assert [mutant for mutant in found if mutant.fault] == []
    assert len(found) > 300
    by_numbers = sum(mutant.ground == "numbers" for mutant in found)
    assert by_numbers > len(found) / 2


def test_there_are_five_ways_to_be_wrong():
    for entry in mutations.derived_equations():
        if entry.kind == "definition":  # the law of a token has fewer: a mean of 0 and a covariance
            continue
        ways = {change for change, *_ in mutations.mutants(entry, 5, np.random.default_rng(3))}
        assert len(ways) == 5, entry.number


def test_the_program_takes_the_numbers_of_equations(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["statement_mutations.py", "--equation", "31", "32", "--each", "2"])
    assert mutations.main() == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == ["(31)", "(32)", "4"]
    monkeypatch.setattr(sys, "argv", ["statement_mutations.py", "--equation", "999"])
    with pytest.raises(SystemExit):
        mutations.main()
    assert "invalid choice: '999'" in capsys.readouterr().err


def test_an_equation_that_takes_anything_is_found_out():
    careless = replace(equation("31"), derivation=None)  # holds() is True whatever is typed
    found = mutations.tried(careless, 12, np.random.default_rng(5))
    assert len(found) == 12
    assert all(mutant.fault for mutant in found)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Trace(Lambda * B * M), Trace(M * B.T * Lambda), True),
        (Lambda * B * x_q, Lambda * B.T * x_q, False),
        (log(N**2), 2 * log(N), True),
        (sqrt(N) ** 3, N * sqrt(N), True),
        (Lambda**2 / N, Lambda**2 / (N + 1), False),
        (Trace(x_q.T * Lambda * x_q), Trace(x_q * x_q.T * Lambda), True),
    ],
)
def test_equality_by_numbers(one, other, same):
    assert same_numbers(one, other, np.random.default_rng(0)) is same


DERIVE_ALL = """
import sys
from dataclasses import replace
from importlib import import_module
from sympy import Symbol
registry = import_module("iclflow.theory.derivations.registry")

add = registry._add
registry._add = lambda entry: add(replace(entry, typed=lambda: Symbol("garbage")))
derived = [entry for entry in import_module("iclflow.theory.equations").equations() if entry.derivation is not None]
printed = [f"{entry.number} {entry.derive()}" for entry in derived]
holding = [entry.number for entry in derived if entry.holds()]
if holding:
    sys.exit(f"{holding} hold with garbage for a statement")
print("\\n".join(printed))
"""


@pytest.mark.slow
def test_derivations_do_not_look_at_the_statements():
    """All derivations in a new process with other hashes, where every statement is garbage: the same lines."""
    environment = os.environ | {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", DERIVE_ALL], capture_output=True, text=True, env=environment, timeout=200)
    assert done.returncode == 0, done.stderr
    here = [f"{entry.number} {entry.derive()}" for entry in mutations.derived_equations()]
    assert done.stdout.rstrip("\n") == "\n".join(here)


def test_every_equation_holds():
    assert [entry.number for entry in equations() if not entry.holds()] == []
    assert not replace(equation("31"), typed=lambda: Symbol("garbage")).holds()
