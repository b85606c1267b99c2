"""Fourth moments of token laws (V5), by enumeration and by quadrature."""

import numpy as np
import pytest
import sympy
from iclflow.theory.equations import equation
from iclflow.theory.notation import D, N, T, lambda_
from iclflow.theory.results.variations.token_laws import k_i, k_j
from sympy import Rational, Symbol


def test_signs_by_enumeration():
    """(V5-independent) with kurtosis 1 in two dimensions: the mean over four tokens."""
    R, S = sympy.Matrix([[1, 2], [-1, 3]]), sympy.Matrix([[2, 1], [1, 5]])
    tokens = [R * sympy.Matrix(z) for z in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
    mean = sum((x * x.T * S * x * x.T for x in tokens), sympy.zeros(2, 2)) / 4
    values = {Symbol(f"{name}_{i}{j}"): M[i - 1, j - 1] for name, M in (("R", R), ("S", S)) for i in (1, 2) for j in (1, 2)}
    formula = equation("V5-independent").statement["fourth"]
    assert formula.subs({**values, k_i: 1, k_j: 1}) == mean


def test_student_and_sphere_by_quadrature():
    """kappa = E(r^4) D / ((D + 2) E(r^2)^2), with r the length of a whitened token."""
    from scipy.integrate import quad
    from scipy.stats import t

    parts = equation("V5-elliptical").statement
    nu = Symbol("nu", positive=True)
    fourth_moment = quad(lambda x: x**4 * t.pdf(x, 7), -np.inf, np.inf)[0]
    second_moment = quad(lambda x: x**2 * t.pdf(x, 7), -np.inf, np.inf)[0]
    assert float(parts["student"].subs(nu, 7)) == pytest.approx(fourth_moment / second_moment**2 / 3, rel=1e-8)
    assert parts["sphere"].subs(D, 1) == Rational(1, 3)  # a sign: E(z^4) = 1, a third of the Gaussian's


def test_independent_components_need_orthogonal_columns():
    """(a) of (V5-independent) is the moment along an eigenvector where R'R is diagonal, not for every root R of Lambda."""
    entries, values = equation("V5-independent").statement["fourth"], {k_i: 1, k_j: 1, "S_11": 1, "S_12": 0, "S_22": 1}
    turn, roots = sympy.Matrix([[1, -1], [1, 1]]) / sympy.sqrt(2), sympy.diag(1, sympy.sqrt(3))
    for R, right in ((turn * roots, True), (turn * roots * turn.T, False)):
        fourth = entries.subs({**values, **{f"R_{i}{j}": R[i - 1, j - 1] for i in (1, 2) for j in (1, 2)}})
        moment = (fourth + R * R.T * R * R.T) / 2  # N = 2; eigenvalues 1 and 3
        along = equation("V5-independent").statement["Rademacher"].subs({N: 2, T: 4, lambda_: 3})
        assert (sympy.simplify((turn.T * moment * turn)[1, 1] - along) == 0) is right
