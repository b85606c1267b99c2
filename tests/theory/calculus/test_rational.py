"""Zero as a rational function: what FLINT's polynomials decide, what they leave open, and the same by SymPy."""

from random import Random

import pytest
from iclflow.theory.calculus.rational import zero_as_rational
from sympy import Add, Float, Rational, Symbol, cbrt, cos, exp, fraction, log, oo, pi, sin, sqrt, symbols, together

x, y, n = symbols("x y n", positive=True)
inner = sqrt(1 + cbrt(x))

DECIDED = (
    (1 / (x * y) - (1 / x - 1 / y) / (y - x), True),
    ((x + y) ** 3 / x - x**2 - 3 * x * y - 3 * y**2 - y**3 / x, True),
    (inner**3 - (1 + cbrt(x)) * inner, True),  # a root within a root
    (inner**7 - (1 + 3 * cbrt(x) + 3 * cbrt(x) ** 2 + x) * inner, True),
    (sqrt(1 + 1 / x) ** 3 - (1 + 1 / x) * sqrt(1 + 1 / x), True),  # the root of a fraction
    ((x ** (n / 2) + x ** (n / 3)) ** 2 - x**n - 2 * x ** (5 * n / 6) - x ** (2 * n / 3), True),
    ((sqrt(2) + 1) * (sqrt(2) - 1) - 1, True),
    ((exp(x) - exp(-x)) * (exp(x) + exp(-x)) - exp(2 * x) + exp(-2 * x), True),
    (log(x) ** 2 - (log(x) - 1) * (log(x) + 1) - 1, True),
    (1 / (x * y) - (1 / x - 1 / y) / (x - y), False),
    (x - Rational(10**30 + 1, 10**30) * x, False),
    (sqrt(x) - sqrt(y), None),
    (sin(x) ** 2 + cos(x) ** 2 - 1, None),  # 0, but not as a rational function of sin and cos
    (x - pi, None),
    (x - Float("0.5"), None),
    (x + oo, None),
    (1 / Add(x, -x, evaluate=False), None),
    (x ** (10**30) - x, False),
    ((x + y) ** (10**30) - x, None),  # too high a power of a sum
    (Symbol("A", commutative=False) * x, None),
)


@pytest.mark.parametrize(("expression", "said"), DECIDED, ids=str)
def test_what_is_decided(expression, said):
    assert zero_as_rational(expression) is said


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_sympy_on_rational_functions(seed):
    """A sum of random fractions and what ``together`` makes of it, as it is and with 1 added."""
    rng = Random(seed)
    terms = [rng.randint(1, 4) + sum(rng.randint(-3, 3) * one for one in (x, y)) for _ in range(4)]
    total = terms[0] / terms[2] + terms[1] / terms[3]
    for added in (0, 1):
        difference = total - together(total) + added
        assert zero_as_rational(difference) is (fraction(together(difference))[0].expand() == 0) is (added == 0)
