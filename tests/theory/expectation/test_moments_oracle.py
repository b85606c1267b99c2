"""The engine's expectations against explicit entries and Isserlis' theorem, over exact rationals, for generated expressions."""

from fractions import Fraction
from functools import reduce
from operator import add, mul

import pytest
import sympy
from entries import Entries, bartlett, isserlis
from expressions import evaluate, expressions
from hypothesis import HealthCheck, given, settings, strategies as st
from iclflow.theory import Fixed, Gaussian, Mixture, SampleCovariance, TracePolynomial, expect, explicit, substitute
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, beta, matrix, sigma, symmetric_matrix, vector, w, x_q
from sympy import Rational, Symbol, Trace

DERANDOMIZED = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck), max_examples=420)

# Letters. Random: S and T two sample covariances, w, x, beta = S w, zeta the label noise, g with a random mean, h a mixture.
N2 = Symbol("N2", integer=True, positive=True)
p = Symbol("p")
T = symmetric_matrix("T", D)
Sigma = symmetric_matrix("Sigma", D)
K = symmetric_matrix("K", D)
A = matrix("A", D)
zeta, g, h, u, m = (vector(name, D) for name in ("zeta", "g", "h", "u", "m"))
LETTERS = {
    "S": Lambda_hat, "T": T, "A": A, "K": K, "L": Lambda,
    "w": w, "x": x_q, "beta": beta, "zeta": zeta, "g": g, "h": h, "u": u,
}  # fmt: skip
LAWS = (
    SampleCovariance(T, Sigma, N2),
    Gaussian(zeta, covariance=sigma**2 / N * Lambda_hat),
    Gaussian(g, mean=m + Lambda_hat * u, covariance=Sigma + 2 * Lambda),
    Mixture(((p, Fixed(h, u)), (1 - p, Gaussian(h, mean=m, covariance=Lambda)))),
)
P = Rational(1, 3)
NOISE = 2  # sigma, an integer so that the oracle's arithmetic is

SPD = {
    "Lambda": [[2, 1, 0], [1, 3, -1], [0, -1, 2]],
    "Sigma": [[1, -1, 0], [-1, 2, 1], [0, 1, 3]],
    "K": [[1, 2, -1], [2, 0, 1], [-1, 1, -2]],
    "A": [[1, -2, 3], [0, 2, 1], [-1, 1, -1]],
    "u": [[1], [-2], [2]],
    "m": [[2], [1], [-1]],
}


def block(name, size):
    return [row[:size] for row in SPD[name][:size]]


def values(size):
    named = {"Lambda": Lambda, "Sigma": Sigma, "K": K, "A": A, "u": u, "m": m}
    return {symbol: sympy.Matrix(block(name, size)) for name, symbol in named.items()}


def oracle_letters(size, samples, fixed_task):
    """Every letter entry by entry. Tokens are scaled by 1/sqrt(N), so that S = sum of y y' with y ~ N(0, Lambda / N)."""
    tokens = Entries.variables([[("y", n, i) for n in range(samples)] for i in range(size)])
    others = Entries.variables([[("z", n, i) for n in range(2)] for i in range(size)])  # N2 = 2
    noise = Entries.variables([[("e", n, 0)] for n in range(samples)])  # eps_n / sqrt(N), so that zeta = sum of eps y / N
    column = {name: Entries.variables([[(name, 0, i)] for i in range(size)]) for name in ("w", "x", "g", "h")}
    constants = {name: Entries.constant(block(name, size)) for name in SPD}
    s = tokens * tokens.T
    return {
        "S": s,
        "T": others * others.T,
        "L": constants["Lambda"],
        "beta": s * column["w"],
        "zeta": tokens * noise,
        **constants,
        **column,
        "g": column["g"] + s * constants["u"],  # the variable g has mean m
        "h": constants["u"] if fixed_task else column["h"],
    }


def moments(size, samples):
    """Isserlis' theorem for the variables of ``oracle_letters``."""
    lam, sig, mean = block("Lambda", size), block("Sigma", size), block("m", size)

    def covariance(first, second):
        (kind, n, i), (kind2, n2, j) = first, second
        if (kind, n) != (kind2, n2):
            return 0
        return {
            "y": Fraction(lam[i][j], samples),
            "z": Fraction(sig[i][j], 2),
            "e": Fraction(NOISE**2, samples),
            "w": Fraction(int(i == j)),
            "x": Fraction(lam[i][j]),
            "g": Fraction(sig[i][j] + 2 * lam[i][j]),
            "h": Fraction(lam[i][j]),
        }[kind]

    return isserlis(covariance, lambda variable: mean[variable[2]][0] if variable[0] in "gh" else 0)


def engine_value(tree, size, samples):
    expression = evaluate(tree, LETTERS, trace=Trace, number=lambda x: Rational(x.numerator, x.denominator))
    result = substitute(expect(expression, law=LAWS), {N2: 2, p: P, sigma: NOISE})
    value = explicit(result, values=values(size), D=size, N=samples)
    rows = value.tolist() if isinstance(value, sympy.MatrixBase) else [[value]]
    return [[Fraction(int(x.p), int(x.q)) for x in row] for row in rows], result


@st.composite
def cases(draw):
    size, samples = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    matrices = {"S": 2, "T": 2, "A": 0, "A'": 0, "K": 0, "L": 0}
    vectors = {"w": 1, "x": 1, "zeta": 2, "beta": 3, "g": 3, "h": 1, "u": 0}
    degree = {1: 8, 2: 7, 3: 5}[size]
    return size, samples, *draw(expressions(matrices, vectors, degree))


def test_expectations_equal_isserlis_entry_by_entry():
    """At least 300 different expressions: traces and their products, transposes, constants, vectors, noise, two samples, mixtures."""
    seen: set[str] = set()
    random_letters: set[str] = set()
    nonzero = 0

    @DERANDOMIZED
    @given(cases())
    def check(case):
        nonlocal nonzero
        size, samples, _kind, tree = case
        if str(case) in seen:
            return
        actual, result = engine_value(tree, size, samples)
        moment = moments(size, samples)
        branches = [
            evaluate(tree, oracle_letters(size, samples, fixed), trace=Entries.trace).expectation(moment) for fixed in (True, False)
        ]
        weights = (Fraction(1, 3), Fraction(2, 3))
        expected = [
            [sum(weight * branch[i][j] for weight, branch in zip(weights, branches, strict=True)) for j in range(len(branches[0][0]))]
            for i in range(len(branches[0]))
        ]
        assert actual == expected if result.terms else not any(map(any, expected)), (case, str(result))
        seen.add(str(case))
        nonzero += any(map(any, expected))
        random_letters.update(name for name in LETTERS if f"'{name}'" in str(tree))

    check()
    assert len(seen) >= 300, len(seen)
    assert nonzero >= 200, nonzero  # 0 = 0 proves little
    assert random_letters == set(LETTERS)  # each letter took part


# Inverses: Isserlis does not reach them, Bartlett's decomposition does.

FACTOR = [[Fraction(2), 0, 0], [Fraction(-1), Fraction(1), 0], [Fraction(1), Fraction(1, 2), Fraction(3)]]
C = matrix("C", D)
NUMBERS = {"A": block("A", 3), "C": [[0, 1, 1], [2, -1, 0], [1, 3, 1]], "u": block("u", 3), "m": block("m", 3)}
S = Lambda_hat
INVERSES = [
    S.I,
    S.I * A * S,
    S * A * S.I,
    S * A * S.I * C * S,
    A * S.I * C,
    Trace(A * S.I) * S,
    Trace(S * A) * S.I * C,
    Trace(S) ** 2 * Trace(S.I),
    Trace(A * S.I) * S * C * S,
    Trace(u.T * S.I * m) * S,
    S.I * u * u.T * S * A,
    S**2 * A * S.I * C * S,
    Trace(S.I * A * S**3) + 2 * Trace(S**2) * Trace(S.I),
    Trace(S.I * A) * Trace(S * A.T * S * C),
]


@pytest.mark.parametrize("expression", INVERSES, ids=str)
@pytest.mark.parametrize(("size", "samples"), [(1, 3), (1, 6), (2, 4), (2, 7), (3, 5)])
def test_one_inverse_equals_bartlett(expression, size, samples):
    factor = [row[:size] for row in FACTOR[:size]]
    s, s_inverse, moment = bartlett(factor, samples)
    numbers = {name: [row[:size] for row in rows[:size]] for name, rows in NUMBERS.items()}
    oracle = {S: s, S.I: s_inverse} | {symbol: Entries.constant(numbers[symbol.name]) for symbol in (A, C, u, m)}

    def entries(node):
        if node in oracle:
            return oracle[node]
        if node.is_Rational:
            return Entries.constant([[Fraction(int(node.p), int(node.q))]])
        if isinstance(node, sympy.MatPow | sympy.Pow):
            return reduce(mul, [entries(node.args[0])] * int(node.args[1]))
        parts = [entries(argument) for argument in node.args]
        if isinstance(node, Trace):
            return parts[0].trace()
        if isinstance(node, sympy.Transpose):
            return parts[0].T
        return reduce(add if isinstance(node, sympy.Add | sympy.MatAdd) else mul, parts)

    expected = entries(expression).expectation(moment)
    result = expect(expression)
    lam = sympy.Matrix([[sympy.Rational(x.numerator, x.denominator) for x in map(Fraction, row)] for row in factor])
    given_values = {Lambda: lam * lam.T} | {symbol: sympy.Matrix(numbers[symbol.name]) for symbol in (A, C, u, m)}
    value = explicit(result, values=given_values, D=size, N=samples)
    rows = value.tolist() if isinstance(value, sympy.MatrixBase) else [[value]]
    assert [[Fraction(int(x.p), int(x.q)) for x in row] for row in rows] == expected
    assert result.conditions == {N > D + 1}


def test_the_oracles_agree_with_each_other():
    """Isserlis and Bartlett integrate the same sample covariance."""
    factor = [row[:2] for row in FACTOR[:2]]
    s, s_inverse, chi = bartlett(factor, 3)
    lam = [[4, -2], [-2, 2]]
    tokens = Entries.variables([[("y", n, i) for n in range(3)] for i in range(2)])
    same = tokens * tokens.T
    normal = isserlis(lambda a, b: Fraction(lam[a[2]][b[2]], 3) if a[1] == b[1] else 0)
    assert (s * s * s).expectation(chi) == (same * same * same).expectation(normal)
    assert (s * s_inverse).expectation(chi) == [[1, 0], [0, 1]]
    assert TracePolynomial(Lambda_hat * Lambda_hat.I) == TracePolynomial(sympy.Identity(D))
