"""Variations of the task once more, from nothing but squared errors of prompts written out: two dimensions, one or two tokens.

The loss is a polynomial in the entries of B; fixed points and levels follow by setting its derivative to zero. Other laws of tokens are
enumerated: every context of two tokens that take a few values.
"""

from fractions import Fraction
from functools import cache
from itertools import product

import pytest
import sympy
from entries import Entries, isserlis
from iclflow.theory import explicit, substitute
from iclflow.theory.calculus.spectral import eigenvalue, indicator
from iclflow.theory.equations import equation
from iclflow.theory.notation import D, Lambda, Lambda_q, M, N, T, a, lambda_, learned as on_or_off, sigma
from iclflow.theory.results.landscape.any_quadratic_loss import c_any
from iclflow.theory.results.task.population import Sigma_w
from iclflow.theory.results.variations.labels import NOISY, P_w, omega, p
from iclflow.theory.results.variations.shift import E_learned, N_test, a_test, b, g, lambda_q, lambda_test, nu
from iclflow.theory.results.variations.token_laws import k_i, k_j, kappa, kurtosis, lambda_i, lambda_j
from sympy import Matrix, Rational, cancel, diag, eye, solve, symbols

ONE, TWO = symbols("l_1 l_2", positive=True)  # the variances of the tokens
X, Y = symbols("b_1 b_2")  # a diagonal map
NOISE = Rational(3, 2)  # sigma
TILTED, TASKS, QUERIES = Matrix([[2, 1], [1, 3]]), Matrix([[1, -1], [-1, 2]]), Matrix([[2, -1], [-1, 1]])
FULL = Matrix(2, 2, symbols("B_11 B_12 B_21 B_22"))


def squared_error(B, tokens, *, samples=2, task=None, query=None, noise=0):
    """E(y_q - beta' B x_q)^2, a polynomial in whatever is symbolic; tokens are scaled by N^(-1/2)."""
    task, query = eye(2) if task is None else task, tokens if query is None else query
    x = Entries.variables([[("y", n, i) for n in range(samples)] for i in range(2)])
    labels = Entries.variables([[("e", n, 0)] for n in range(samples)])
    w, x_q = (Entries.variables([[(name, 0, i)] for i in range(2)]) for name in "wx")
    target = w.T * x_q + Entries.variables([[("f", 0, 0)]])
    beta = x * (x.T * w + labels)
    variances = {"y": tokens / samples, "e": diag(noise**2 / samples, 0), "f": diag(noise**2, 0), "w": task, "x": query}

    def covariance(first, second):
        (kind, n, i), (kind2, n2, j) = first, second
        return variances[kind][i, j] if (kind, n) == (kind2, n2) else 0

    error = target + beta.T * Entries.constant(B.tolist()) * x_q * -1
    return sympy.expand((error * error).expectation(isserlis(covariance))[0][0])


@cache
def plain(samples, noise):
    """The loss of a diagonal map on tokens of variances l_1 and l_2."""
    return squared_error(diag(X, Y), diag(ONE, TWO), samples=samples, noise=noise)


def least(loss, *letters):
    """Where the derivative vanishes, the other letters of the map at zero."""
    alone = loss.subs(dict.fromkeys({X, Y} - set(letters), 0))
    return {X: 0, Y: 0, **(solve([alone.diff(one) for one in letters], letters) if letters else {})}


def minimum(loss):
    """The map of least loss, all entries free."""
    at = solve([loss.diff(entry) for entry in FULL], list(FULL))
    return FULL.subs(at)


def numbers(formula, samples, **more):
    """A matrix statement for the covariances above."""
    values = {Lambda: TILTED, Sigma_w: TASKS, Lambda_q: QUERIES, **more.pop("values", {})}
    return explicit(substitute(formula, {sigma: NOISE}), values=values, D=2, N=samples)


def same(formula, expected):
    return cancel(sympy.sympify(formula) - expected) == 0


def two(samples, **values):
    """Values for a statement along l_1, beside l_2."""
    return {lambda_: ONE, T: ONE + TWO, sigma: NOISE, N: samples, **values}


def fails_when_changed(number, check):
    """A check of one part of a statement, and of the same with each of a few faults, which it must notice."""
    entry = equation(number)
    for part, formula in entry.statement.items():
        check(entry.statement, part)
        for fault in (lambda x: 2 * x, lambda x: -x):
            with pytest.raises(AssertionError):
                check({**entry.statement, part: fault(formula)}, part)


SETS = [(), (X,), (Y,), (X, Y)]


@pytest.mark.parametrize("samples", [1, 2])
def test_levels_with_label_noise(samples):
    loss = plain(samples, NOISE)

    def check(statement, part):
        if part == "map":
            assert same(statement[part].subs({on_or_off: 1, **two(samples)}), least(loss, X)[X])
            return
        for letters in SETS:
            on = {indicator[1]: int(X in letters), indicator[2]: int(Y in letters)}
            written = statement[part].subs({D: 2, sigma: NOISE}).doit().subs({eigenvalue[1]: ONE, eigenvalue[2]: TWO, **on})
            expected = loss.subs(least(loss, *letters)) if part == "loss" else long_context(letters)
            assert same(written.subs({T: ONE + TWO, N: samples}), expected)

    fails_when_changed("V1-levels", check)


def long_context(letters):
    """The least loss without the part of the loss that goes as 1/N, found from one and from two tokens."""
    single, double = plain(1, NOISE), plain(2, NOISE)
    endless = sympy.expand(2 * double - single)
    return endless.subs(least(endless, *letters))


def test_noise_and_the_order_of_learning():
    samples, loss = 2, plain(2, NOISE)
    full = squared_error(FULL, TILTED, noise=NOISE)
    force = Matrix(2, 2, lambda i, j: -full.diff(FULL[i, j]).subs(dict.fromkeys(FULL, 0)) / 2)
    drop = loss.subs({X: 0, Y: 0}) - loss.subs(least(loss, X))
    total = sympy.Symbol("t", positive=True)
    slope = drop.subs(TWO, total - ONE).diff(ONE).subs(total, ONE + TWO)

    def check(statement, part):
        if part == "growth":
            assert explicit(statement[part], {Lambda: TILTED}, D=2) == force
        else:
            assert same(statement[part].subs(two(samples)), {"fixed": 1 / least(loss, X)[X], "slope": slope}[part])

    fails_when_changed("V1-order", check)


@pytest.mark.parametrize("samples", [1, 2])
def test_ridge_regression_with_noise(samples):
    best = minimum(squared_error(FULL, TILTED, samples=samples, noise=NOISE))
    expected = {"map": TILTED * best.inv(), "excess": samples * (best.inv() - TILTED)}

    def check(statement, part):
        assert numbers(statement[part], samples) == expected[part]

    fails_when_changed("V1-ridge", check)


def test_task_spectra_in_order():
    first, second = symbols("w_1 w_2", positive=True)
    loss = squared_error(diag(X, Y), diag(ONE, TWO), task=diag(first, second))
    at = least(loss, X)
    drop = cancel(loss.subs({X: 0, Y: 0}) - loss.subs(at))
    share, total = symbols("p_1 P_1", positive=True)
    in_shares = cancel(drop.subs({first: share / ONE, second: (total - share) / TWO}))
    values = {lambda_: ONE, omega: first, P_w: ONE * first + TWO * second, N: 2}
    expected = {
        "rate": -loss.diff(X).subs({X: 0, Y: 0}) / 2, "map": at[X], "drop": in_shares, "slope": in_shares.diff(share)
    }  # fmt: skip

    def check(statement, part):
        shares = {p: share, P_w: total, N: 2} if part in ("drop", "slope") else values
        assert same(statement[part].subs(shares), expected[part])

    fails_when_changed("V2-order", check)


def test_queries_of_their_own():
    asked, other = symbols("q_1 q_2", positive=True)
    loss = squared_error(diag(X, Y), diag(ONE, TWO), query=diag(asked, other), noise=NOISE)
    at, full = least(loss, X), squared_error(FULL, TILTED, task=TASKS, query=QUERIES, noise=NOISE)
    second = Matrix(2, 2, lambda i, j: full.diff(FULL[i, 0], FULL[j, 0])) / 2 / QUERIES[0, 0]  # M, of two entries of B
    values = {a: NOISY.eigenvalue, lambda_q: asked}
    expected = {
        "minimum": minimum(full),
        "map": at[X],
        "rate": -loss.diff(X).subs({X: 0, Y: 0}) / 2,
        "drop": loss.subs({X: 0, Y: 0}) - loss.subs(at),
    }

    def check(statement, part):
        if part == "minimum":
            assert numbers(statement[part], 2, values={M: second}) == expected[part]
        else:
            assert same(statement[part].subs(values).subs(two(2)), expected[part])

    fails_when_changed("V3-query", check)


def test_another_length_at_test():
    short, long = plain(1, 0), plain(2, 0)
    learned, best = least(short, X), least(long, X)
    share = long.subs(learned) - TWO  # what the direction that is off costs
    endless = sympy.expand(2 * long - short).subs(learned) - TWO
    expected = {
        "share": share,
        "slope": (short.subs(learned) - TWO - share) * 2,  # between 1/N' = 1/2 and 1, where the loss is linear
        "limit": endless,
        "excess": share - (long.subs(best) - TWO),
    }
    moment = NOISY.eigenvalue.subs(sigma, 0)
    values = {a: moment.subs(N, 1), a_test: moment.subs(N, 2), N_test: 2}

    def check(statement, part):
        assert same(statement[part].subs(values).subs({lambda_: ONE, T: ONE + TWO}), expected[part])

    fails_when_changed("V3-length", check)


def test_a_scaled_context():
    scale, law = Rational(5, 3), {"task": TASKS, "noise": NOISE}
    trained = squared_error(FULL, TILTED, query=QUERIES, **law)
    best = minimum(trained)
    at = dict(zip(FULL, best, strict=True))
    c = trained.subs(dict.fromkeys(FULL, 0))
    cross = (c - trained.subs({k: -v for k, v in at.items()}) + trained.subs(at) - c) / -4  # L(-B) - L(B) = 4 tr(A' B)
    noise = trained - squared_error(FULL, TILTED, query=QUERIES, task=TASKS)
    values = {c_any: c, E_learned: cross, nu: noise.subs(at) - NOISE**2, sigma: NOISE}

    def tested(context, query):
        return squared_error(FULL, context, query=query, **law)

    def check(statement, part):
        found = statement[part]
        if part in ("moments", "second"):
            loss = tested(scale * TILTED, QUERIES)
            entries = {
                "moments": Matrix(2, 2, lambda i, j: -loss.diff(FULL[i, j]).subs(dict.fromkeys(FULL, 0)) / 2),
                "second": Matrix(2, 2, lambda i, j: loss.diff(FULL[i, 0], FULL[j, 0])) / 2 / QUERIES[0, 0],
            }
            assert numbers(substitute(found, {g: scale}), 2) == entries[part]
            return
        if part == "break-even":
            even = found.subs(values)
            assert tested(even * TILTED, QUERIES).subs(at) == c
            assert tested(even * TILTED, even * QUERIES).subs(at) == (c - NOISE**2) * even + NOISE**2
            return
        query = QUERIES if part == "loss" else scale * QUERIES
        assert found.subs(values).subs(g, scale) == tested(scale * TILTED, query).subs(at)

    fails_when_changed("V3-scale", check)


def test_an_unseen_direction():
    asked, tiny = symbols("q_1 e", positive=True)
    tested = squared_error(diag(X, Y), diag(ONE, TWO), query=diag(asked, 1), noise=NOISE)
    alone = tested.subs(Y, 0) - 1 - NOISE**2  # without what the other direction costs
    zero, moment = alone.subs(X, 0), alone.diff(X, 2) / 2 / asked
    trained = least(plain(1, NOISE), X)[X]  # one token
    rare = sympy.limit(trained.subs({ONE: tiny, TWO: 1 - tiny}), tiny, 0)  # T = 1
    concentrated = squared_error(diag(X, Y), diag(1, 0), samples=1, noise=NOISE).subs({X: rare, Y: 0}) - NOISE**2
    total = sympy.Symbol("t", positive=True)
    expected = {
        "share": alone.subs(X, b),
        "break-even": max(solve(alone - zero, X), key=lambda root: root != 0),
        "slope": trained.subs(TWO, total - ONE).diff(ONE).subs(total, ONE + TWO),
        "worst": rare,
        "shown": alone.subs(X, rare),
        "all": concentrated,
    }
    test = {lambda_test: ONE, lambda_q: asked, a_test: moment, sigma: NOISE}

    def check(statement, part):
        values = two(1) if part == "slope" else {**test, T: 1, N: 1}
        assert same(statement[part].subs(values), expected[part])

    fails_when_changed("V3-unseen", check)


# Other laws of tokens: enumerated


def second_moment(values, variances):
    """E(Lambda_hat^2) over every context of two tokens Lambda^(1/2) z, z with these values and probabilities."""
    root = diag(*map(sympy.sqrt, variances))
    squares = [(weight, root * Matrix(z) * Matrix(z).T * root) for z, weight in values]
    total = sympy.zeros(2, 2)
    for (first, one), (second, other) in product(squares, repeat=2):
        total += first * second * ((one + other) / 2) ** 2
    return total.applyfunc(sympy.expand)


def circles(radii):
    """Six directions on circles of these squared radii: a law that is isotropic up to the fifth moments."""
    directions = [(sympy.cos(k * sympy.pi / 3), sympy.sin(k * sympy.pi / 3)) for k in range(6)]
    return [((sympy.sqrt(r) * x, sympy.sqrt(r) * y), Rational(1, 6) * weight) for r, weight in radii for x, y in directions]


@pytest.mark.parametrize("radii", [[(1, Rational(1, 2)), (3, Rational(1, 2))], [(0, Rational(3, 4)), (8, Rational(1, 4))]])
def test_elliptical_tokens_by_enumeration(radii):
    assert sum(r * weight for r, weight in radii) == 2  # covariance I in two dimensions
    value = sum(r**2 * weight for r, weight in radii) * Rational(2, 16)  # E(r^4) D/((D + 2) E(r^2)^2)
    moment = second_moment(circles(radii), (ONE, TWO))
    assert moment[0, 1] == 0
    gaussian = NOISY.eigenvalue.subs({sigma: 0, lambda_: ONE, T: ONE + TWO})
    statement = equation("V5-elliptical").statement
    total = {T: ONE + TWO, kappa: value, N: 2}
    for fault, right in ((lambda x: x, True), (lambda x: x.subs(kappa, kappa + 1), False), (lambda x: x.subs(N, N + 1), False)):
        along = fault(statement["a"]).subs({**total, lambda_: ONE})
        gap = fault(statement["gap"]).subs({**total, lambda_i: ONE, lambda_j: TWO})
        length = fault(statement["length"]).subs({**total, lambda_: ONE})
        assert same(along, moment[0, 0]) is right
        assert same(gap, ONE**3 / moment[0, 0] - TWO**3 / moment[1, 1]) is right
        assert same(gaussian.subs(N, length), moment[0, 0]) is right


@pytest.mark.parametrize("values", [(1, 1), (2, 2), (1, 4)])
def test_independent_components_by_enumeration(values):
    """Each component is 0 or plus or minus the root of its kurtosis."""
    laws = [[(0, 1 - Rational(1, k)), (sympy.sqrt(k), Rational(1, 2 * k)), (-sympy.sqrt(k), Rational(1, 2 * k))] for k in values]
    tokens = [((x, y), u * v) for (x, u), (y, v) in product(*laws)]
    moment = second_moment(tokens, (ONE, TWO))
    assert moment[0, 1] == 0
    statement, total = equation("V5-independent").statement, {T: ONE + TWO, N: 2}
    for fault, right in ((lambda x: x, True), (lambda x: x.subs(T, T + sigma), False), (lambda x: x.subs(N, N + 1), False)):
        gap = fault(statement["gap"]).subs({**total, lambda_i: ONE, lambda_j: TWO, k_i: values[0], k_j: values[1]})
        along = fault(statement["a"]).subs({**total, lambda_: ONE, kurtosis: values[0]})
        assert same(gap, ONE**3 / moment[0, 0] - TWO**3 / moment[1, 1]) is right
        assert same(along, moment[0, 0]) is right
        if values[0] == 1:
            assert same(fault(statement["Rademacher"]).subs({**total, lambda_: ONE}), moment[0, 0]) is right


def test_the_oracle_is_the_gaussian_loss():
    """One token, one direction: E(y_q - b x^2 w x_q)^2 = l (1 - 2 l b + 3 l^2 b^2)."""
    loss = squared_error(diag(X, 0), diag(Fraction(1), Fraction(0)), samples=1)
    assert same(loss, 1 - 2 * X + 3 * X**2)
