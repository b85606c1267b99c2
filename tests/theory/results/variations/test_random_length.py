"""Contexts of random length (V4) against squared errors of prompts written out: two dimensions, one to three tokens, any gains."""

from dataclasses import replace
from functools import cache

import pytest
import sympy
from entries import Entries, isserlis
from iclflow.theory import explicit, substitute
from iclflow.theory.calculus.spectral import eigenvalue, indicator
from iclflow.theory.equations import equation
from iclflow.theory.notation import B, D, Lambda, Lambda_q, N, T, lambda_, sigma
from iclflow.theory.results.task.population import GENERAL, PopulationMoments, Sigma_w, averaged, g_1, g_2, g_3
from iclflow.theory.results.variations.random_length import LENGTHS, nu, uniform_gains
from iclflow.theory.typesetting.latex import formula_latex
from iclflow.theory.typesetting.text import written
from sympy import Matrix, Rational, cancel, diag, eye, solve, symbols

ONE, TWO = symbols("l_1 l_2", positive=True)  # the variances of the tokens
X, Y = symbols("b_1 b_2")  # a diagonal map
NOISE = Rational(3, 2)  # sigma
TILTED, TASKS, QUERIES = Matrix([[2, 1], [1, 3]]), Matrix([[1, -1], [-1, 2]]), Matrix([[2, -1], [-1, 1]])
MAP = Matrix([[1, -2], [3, 1]])
LONGEST = 3
DIVISORS = {"present": lambda n: n, "longest": lambda n: LONGEST, "official": lambda n: n + 1}
UNIFORM = {n: Rational(1, LONGEST) for n in range(1, LONGEST + 1)}
# A law and gains of no pattern, and what they average to.
CHANCES = {1: Rational(1, 6), 2: Rational(1, 3), 3: Rational(1, 2)}
GAINS = {1: Rational(1, 2), 2: Rational(2), 3: Rational(3, 5)}
ANY = {
    g_1: sum(p * GAINS[n] for n, p in CHANCES.items()),
    g_2: sum(p * GAINS[n] ** 2 for n, p in CHANCES.items()),
    g_3: sum(p * GAINS[n] ** 2 / n for n, p in CHANCES.items()),
}


def prompt(length, divisor, tokens, task, query, noise):
    """What attention sees, (1/divisor) sum y x over the context and the query with its label 0; the query and its true label."""
    x = Entries.variables([[("x", n, i) for n in range(length)] for i in range(2)])
    labels = Entries.variables([[("e", n, 0)] for n in range(length)])
    w, x_q = (Entries.variables([[(name, 0, i)] for i in range(2)]) for name in "wq")
    target = w.T * x_q + Entries.variables([[("f", 0, 0)]])
    context = x * (x.T * w + labels) + x_q * Entries.constant([[0]])
    variances = {"x": tokens, "e": diag(noise**2, 0), "f": diag(noise**2, 0), "w": task, "q": query}

    def covariance(first, second):
        (kind, n, i), (kind2, n2, j) = first, second
        return variances[kind][i, j] if (kind, n) == (kind2, n2) else 0

    return context * (1 / sympy.sympify(divisor)), x_q, target, isserlis(covariance)


def mean_error(B, chances, divisor, tokens, task=None, query=None, noise=0):
    """The squared error, averaged over sequences of each length and over lengths."""
    task, query = eye(2) if task is None else task, tokens if query is None else query
    total = 0
    for length, chance in chances.items():
        beta, x_q, target, moment = prompt(length, divisor(length), tokens, task, query, noise)
        error = target + beta.T * Entries.constant(B.tolist()) * x_q * -1
        total += chance * (error * error).expectation(moment)[0][0]
    return sympy.expand(total)


def with_gains(n):
    return n / GAINS[n]


def numbers(formula, **more):
    """A statement for the covariances above and the averages of the gains above."""
    values = {Lambda: TILTED, Sigma_w: TASKS, Lambda_q: QUERIES, B: MAP}
    return explicit(substitute(formula, {sigma: NOISE, **ANY, **more}), values=values, D=2, N=LONGEST)


def same(formula, expected):
    return cancel(sympy.sympify(formula) - expected) == 0


def refused(entry, part, fault):
    wrong = {**entry.statement, part: fault(entry.statement[part])}
    return not replace(entry, typed=lambda: wrong).holds()


@pytest.mark.parametrize("part", ["A", "M"])
def test_moments_entry_by_entry(part):
    total = sympy.zeros(2, 2)
    for length, chance in CHANCES.items():
        beta, x_q, target, moment = prompt(length, with_gains(length), TILTED, TASKS, QUERIES, NOISE)
        second = beta * target * x_q.T if part == "A" else beta * beta.T
        total += chance * Matrix(second.expectation(moment))
    assert numbers(equation("V4-moments").statement[part]) == total
    assert numbers(getattr(LENGTHS.moments, part)) == total


def test_the_loss_in_units_of_the_effective_map_entry_by_entry():
    """(V4-effective): the loss of g_1/g_2 B."""
    expected = mean_error(MAP * ANY[g_1] / ANY[g_2], CHANCES, with_gains, TILTED, TASKS, QUERIES, NOISE)
    assert numbers(equation("V4-effective").statement["loss"]) == expected


def test_a_random_length_is_a_fixed_one_with_smaller_drops():
    """(1 - rho) c + rho L of (V0) at N_e: the condition of (V4-effective)."""
    share, length = ANY[g_1] ** 2 / ANY[g_2], ANY[g_2] / ANY[g_3]
    fixed = substitute(GENERAL.moments.loss(), {N: length})
    expected = (1 - share) * numbers(GENERAL.moments.c) + share * numbers(fixed)
    assert numbers(equation("V4-effective").statement["loss"]) == expected


@cache
def diagonal_loss(name):
    """The loss of a diagonal map on tokens of variances l_1 and l_2."""
    chances, divisor = (CHANCES, with_gains) if name == "loss" else (UNIFORM, DIVISORS[name])
    return mean_error(diag(X, Y), chances, divisor, diag(ONE, TWO))


@pytest.mark.parametrize("part", ["loss", "present", "longest", "official"])
@pytest.mark.parametrize("learned", [(), (X,), (Y,), (X, Y)])
def test_levels_are_where_the_derivative_of_the_squared_error_vanishes(part, learned):
    loss = diagonal_loss(part)
    alone = loss.subs(dict.fromkeys({X, Y} - set(learned), 0))
    least = alone.subs(solve([alone.diff(one) for one in learned], learned)) if learned else alone
    on = {indicator[1]: int(X in learned), indicator[2]: int(Y in learned)}
    written = equation("V4-levels").statement[part].subs({T: ONE + TWO, N: LONGEST, D: 2, **ANY})
    written = written.doit().subs({eigenvalue[1]: ONE, eigenvalue[2]: TWO, **on})
    assert same(written, least)
    if learned:
        assert not same(written + on[indicator[1]] * ONE / 100 + on[indicator[2]] * TWO / 100, least)


@pytest.mark.parametrize("part", ["loss", "present", "longest", "official"])
def test_normalisations_have_different_levels(part):
    """What holds for one is false for every other."""
    lasts = {name: diagonal_loss(name).subs({X: 1, Y: 1, ONE: 2, TWO: 1}) for name in ("loss", *DIVISORS)}
    assert all(lasts[part] != lasts[other] for other in lasts if other != part)


def test_the_rate_is_the_slope_of_the_squared_error():
    """Minus half the derivative by b at b = 0, for v k'q of a head along e_1: tau dv/dt = g_1 lambda^2 v^2."""
    slope = -diagonal_loss("loss").diff(X).subs({X: 0, Y: 0}) / 2
    assert same(equation("V4-levels").statement["rate"].subs({lambda_: ONE, **ANY}), slope)


@pytest.mark.parametrize("longest", [1, 2, 7])
@pytest.mark.parametrize("name", DIVISORS)
def test_uniform_gains_by_adding_up(longest, name):
    lengths = [Rational(n) for n in range(1, longest + 1)]
    gains = {"present": lambda n: n / n, "longest": lambda n: n / longest, "official": lambda n: n / (n + 1)}
    law = [(gains[name](n), n) for n in lengths]
    expected = [sum(f(g, n) for g, n in law) / longest for f in (lambda g, n: g, lambda g, n: g**2, lambda g, n: g**2 / n)]
    statement, moments = equation("V4-uniform").statement, uniform_gains()[name]
    for i, value in enumerate(expected, 1):
        assert sympy.sympify(moments[i - 1]).subs(N, longest).doit() == value
        if f"{name}, g_{i}" in statement:
            assert statement[f"{name}, g_{i}"].subs(N, longest).doit() == value
    effective = equation("V4-effective").statement
    assert effective[f"{name}, length"].subs(N, longest).doit() == expected[1] / expected[2]
    if name != "present":
        assert effective[f"{name}, share"].subs(N, longest).doit() == expected[0] ** 2 / expected[1]


@pytest.mark.parametrize("number", ["V4-moments", "V4-uniform", "V4-effective", "V4-levels"])
def test_every_part_can_be_wrong(number):
    entry = equation(number)
    assert entry.holds()
    assert all(refused(entry, part, lambda x: x * 2) for part in entry.statement)


@pytest.mark.parametrize(
    ("number", "part", "fault"),
    [
        ("V4-moments", "M", lambda x: substitute(x, {g_3: g_2})),
        ("V4-moments", "present, M", lambda x: substitute(x, {nu: 1 / N})),
        ("V4-uniform", "present, g_3", lambda x: x.subs(N, N + 1)),
        ("V4-uniform", "official, g_1", lambda x: x.subs(N, N - 1)),
        ("V4-uniform", "official, g_2", lambda _: equation("V4-uniform").statement["longest, g_2"]),
        ("V4-effective", "loss", lambda x: substitute(x, {g_1: g_2})),
        ("V4-effective", "longest, limit", lambda _: sympy.S.One),
        ("V4-levels", "official", lambda _: equation("V4-levels").statement["present"]),
        ("V4-levels", "longest", lambda _: equation("V4-levels").statement["official"]),
        ("V4-levels", "loss", lambda x: x.subs(g_1, g_2)),
    ],
)
def test_wrong_statements_are_refused(number, part, fault):
    assert refused(equation(number), part, fault)


def test_moments_that_are_not_linear_in_the_inverse_length_are_refused():
    A, M, Q, c = GENERAL.moments
    with pytest.raises(ArithmeticError, match="orders 0 and -1 in N"):
        averaged(PopulationMoments(A, M / N, Q, c))
    with pytest.raises(ArithmeticError, match="orders 0 and -1 in N"):
        averaged(PopulationMoments(A * N, M, Q, c))


def test_orders_of_harmonic_numbers_are_printed():
    H, H_2 = sympy.harmonic(N + 1), sympy.harmonic(N + 1, 2)
    assert formula_latex(H) == "H_{N + 1}"
    assert formula_latex(H_2) == "H_{N + 1}^{(2)}"
    assert formula_latex(H_2**2) == r"\left(H_{N + 1}^{(2)}\right)^{2}"
    assert written((H_2**2 - sympy.harmonic(N) ** 2) / H) == "((H_(N + 1)^((2)))^2 - H_N^2)/H_(N + 1)"
