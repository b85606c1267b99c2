"""One way from an equation to a number: ``compiled`` against the statement it compiles, its faults and its refusals."""

import subprocess
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb
from iclflow.numerics import QuadraticLoss, RegressionTask, compile_expression, compiled
from iclflow.theory import equation, notation
from iclflow.theory.calculus.spectral import directions, eigenvalue
from iclflow.theory.notation import B, Lambda, Lambda_q, N, T, a, lambda_, sigma, t, tau, v, v_0
from iclflow.theory.results.landscape.fixed_points import m
from iclflow.theory.results.separate.durations import u
from iclflow.theory.results.task.population import Sigma_w, g_1, g_2, g_3
from sympy import Symbol

COVARIANCE = np.array([[0.5, 0.1], [0.1, 0.3]])
OTHER = np.array([[0.2, -0.1], [0.0, 0.4]])
ENTRIES = [
    ("67", None, (a, v, u, lambda_, tau), (0.3, 0.2, 0.4, 0.5, 2.0)),
    (16, "factor", (N, Lambda), (5, COVARIANCE)),
    ("31", "second", (Lambda, N), (COVARIANCE, 5)),
    ("32", "product", (N, lambda_, Lambda), (5, np.array([0.5, 0.3]), COVARIANCE)),
    ("V1-beta", "second", (Lambda, N, sigma), (COVARIANCE, 5, 0.1)),
    ("V4-uniform", "longest, g_2", (N,), (5,)),
    ("V4-effective", "loss", (Lambda, Lambda_q, Sigma_w, sigma, B, g_1, g_2, g_3),
     (COVARIANCE, COVARIANCE, np.eye(2), 0.1, OTHER, 1.0, 1.0, 0.2)),
]  # fmt: skip


@pytest.mark.parametrize(("number", "part", "letters", "values"), ENTRIES, ids=lambda one: str(one)[:12])
def test_it_is_the_statement(number, part, letters, values):
    statement = equation(number).statement
    expected = compile_expression(statement if part is None else statement[part], letters)(*values)
    np.testing.assert_allclose(compiled(number, letters, part=part)(*values), expected, rtol=1e-15)
    backwards = compiled(number, letters[::-1], part=part)(*values[::-1])
    np.testing.assert_allclose(backwards, expected, rtol=1e-15)


def test_several_parts_give_a_tuple():
    letters = (notation.s, notation.s_0, notation.gamma, notation.alpha, tau)
    rate, time = compiled("45", letters, part=["rate", "integral"])(0.2, 0.1, 0.7, 0.5, 1.0)
    assert rate == pytest.approx(2 * 0.2 * (0.7 - 0.5 * 0.2))
    assert time == pytest.approx(np.log(0.2 * 0.65 / (0.1 * 0.6)) / 1.4)


def test_it_is_compiled_once():
    assert compiled("31", (Lambda, N), part="second") is compiled("31", [Lambda, N], part="second", change={})
    assert compiled("31", (Lambda, N), part="second", change={N: N + 1}) is compiled("31", (Lambda, N), part="second", change={N: N + 1})


def test_a_planted_change():
    longer = compiled("31", (Lambda, N), part="second", change={N: N + 1})
    np.testing.assert_allclose(longer(COVARIANCE, 5), compiled("31", (Lambda, N), part="second")(COVARIANCE, 6))
    assert not np.allclose(longer(COVARIANCE, 5), compiled("31", (Lambda, N), part="second")(COVARIANCE, 5))
    doubled = compiled("31", (Lambda, N), part="second", change={Lambda: 2 * Lambda})
    np.testing.assert_allclose(doubled(COVARIANCE, 5), compiled("31", (Lambda, N), part="second")(2 * COVARIANCE, 5))
    drop = compiled("24", (lambda_, T, N), part="drop", change={eigenvalue[m]: lambda_})
    assert drop(0.5, 1.0, 7) == pytest.approx(0.5 / (1 + (1 + 1.0 / 0.5) / 7))


def test_sums_over_directions_are_written_out():
    task = RegressionTask(eigenvalues=[0.5, 0.3, 0.1], context_length=7)
    loss = compiled("59", (*directions(3), T, N), part="loss", size=3)
    levels = task.eigenvalues / task.second_moment_eigenvalues
    for learned in ((0, 0, 0), (1, 0, 1), (1, 1, 1)):
        expected = QuadraticLoss.population(task).value(np.diag(levels * learned))
        assert loss(*task.eigenvalues, *learned, task.eigenvalues.sum(), 7) == pytest.approx(expected, rel=1e-13)


def test_letters_that_the_statement_lacks():
    duration = compiled("68", (t, v_0, lambda_, tau, Lambda))
    assert duration(np.nan, 0.01, 0.5, 1.0, COVARIANCE) == 400


def test_backends():
    for backend, number in (("mpmath", mpmath.mpf), ("arb", arb)):
        value = compiled("68", (v_0, lambda_, tau), backend=backend)(Fraction(1, 3), 1, 1)
        assert isinstance(value, number)
        assert abs(value - 3) < 1e-14


LETTERS = (v_0, lambda_, tau)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: compiled("12345", LETTERS), KeyError, r"no equation \(12345\)"),
        (lambda: compiled("14", LETTERS), KeyError, "has the parts 14a, 14b"),
        (lambda: compiled("45", LETTERS), KeyError, r"equation \(45\) has the parts rate, integral, solution; ask for one"),
        (lambda: compiled("45", LETTERS, part="rates"), KeyError, "has the parts rate, integral, solution, got 'rates'"),
        (lambda: compiled("45", LETTERS, part=("rate", "x")), KeyError, "has the parts rate, integral, solution, got 'x'"),
        (lambda: compiled("68", LETTERS, part="t"), KeyError, r"equation \(68\) has no parts, got 't'"),
        (lambda: compiled("68", (lambda_,)), ValueError, r"equation \(68\): letters must contain \['tau', 'v_0'\], got"),
        (lambda: compiled("68", (lambda_, tau, Symbol("v_0"))), ValueError, "'v_0'.*has other assumptions"),
        (lambda: compiled("31", (N,), part="second"), ValueError, r"letters must contain \['Lambda'\]"),
        (lambda: compiled("16", (N, lambda_), part="factor"), ValueError, r"letters must contain \['D', 'Lambda'\]"),
        (lambda: compiled("59", (T, N), part="loss"), ValueError, r"letters must contain \['D', 'chi\[d\]', 'lambda\[d\]'\]"),
        (lambda: compiled("59", (T, N), part="loss", size=0), ValueError, "size must be an integer of at least 1, got 0"),
        (lambda: compiled("68", LETTERS, backend="jax"), ValueError, "backend must be one of numpy, torch, mpmath, arb"),
        (lambda: compiled("68", v_0), TypeError, "letters must be a sequence of symbols, got v_0"),
        (lambda: compiled("68", (*LETTERS, 2 * t)), TypeError, r"letters must be symbols and matrix symbols, got 2\*t"),
        (lambda: compiled("68", (*LETTERS, v_0)), ValueError, "letters must differ from each other"),
        (lambda: compiled("68", LETTERS, change=[v_0]), TypeError, "change must be a mapping"),
        (lambda: compiled(True, LETTERS), TypeError, "number must be a string or an integer"),
    ],
)  # fmt: skip
def test_refusals(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_importing_numerics_loads_no_registry():
    script = (
        "import iclflow.numerics\n"
        "from iclflow.numerics.compilation.equations import _compiled\n"
        "from iclflow.theory.derivations.book import entries\n"
        "before = len(entries), _compiled.cache_info().currsize\n"
        "from iclflow.theory.equations import equations\n"
        "print(before[0] < len(equations()), before[1])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "0"]
