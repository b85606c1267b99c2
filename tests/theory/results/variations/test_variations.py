"""Variations of the task (V0 to V5): the statements hold, and planted faults are refused."""

from dataclasses import replace

import pytest
import sympy
from iclflow.theory import TracePolynomial
from iclflow.theory.equations import equation, equations
from iclflow.theory.notation import Lambda, N, lambda_, sigma
from iclflow.theory.results.task.population import Sigma_w
from iclflow.theory.results.variations.labels import TASK, P_w
from sympy import Trace

VARIATIONS = [e.number for e in equations() if e.number[:2] in ("V0", "V1", "V2", "V3", "V4", "V5")]


@pytest.mark.parametrize("number", VARIATIONS)
def test_entries_hold(number):
    assert equation(number).holds()


def test_there_are_entries_for_each_variation():
    assert {number[:2] for number in VARIATIONS} == {"V0", "V1", "V2", "V3", "V4", "V5"}


@pytest.mark.parametrize(
    ("number", "part", "fault"),
    [
        ("V1-beta", "second", lambda x: x + sigma**2 / N * Lambda),
        ("V1-beta", "a", lambda x: x.subs(sigma, sympy.sqrt(sigma))),
        ("V1-levels", "loss", lambda x: x - sigma**2),
        ("V2-fixed", "entries", lambda x: -x),
        ("V2-rotation", "determinant", lambda x: -x),
        ("V2-order", "rate", lambda x: x / lambda_),
        ("V3-scale", "break-even", lambda x: sympy.sqrt(x)),
        ("V3-length", "slope", lambda x: x * lambda_),
        ("V5-elliptical", "sphere", lambda x: 1 / x),
        ("V5-independent", "commutator", lambda x: x * -1),
    ],
)
def test_wrong_statements_are_refused(number, part, fault):
    entry = equation(number)
    wrong = {**entry.statement, part: fault(entry.statement[part])}
    assert not replace(entry, typed=lambda: wrong).holds()


def test_the_label_variance_of_a_task_is_its_trace():
    assert TASK.moments.c == TracePolynomial(Trace(Sigma_w * Lambda))
    assert P_w.is_positive
