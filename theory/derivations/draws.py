r"""Points that meet the conditions which many statements share: eigenvectors of Lambda, learned directions, commuting maps.

A draw sets letters that belong together, so that what holds along an eigenvector can be put beside what holds for matrices:

>>> from iclflow.theory.derivations.points import Point, value_at
>>> from iclflow.theory.notation import D, Lambda, e, lambda_
>>> point = Point.random(1, (), sizes={D: 3})
>>> along_one_eigenvector(point)
>>> residual = value_at(Lambda * e - lambda_ * e, point)
>>> bool(max(abs(one) for one in residual) < 1e-12)
True
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import mpmath
from flint import arb_mat, ctx
from mpmath import mp
from sympy.tensor.indexed import IndexedBase

from ..calculus.spectral import eigenvalue, indicator, moment
from ..notation import Lambda, M, N, P, T, a, e, lambda_, learned
from .conditions import Condition
from .judging.trial import distance
from .matrix_forms import stacked
from .points import DIGITS, Point, as_arb, as_mpmath, ball_at

Draw = Callable[[Point], Any]
Moments = Callable[[Point], None]  # sets M and its eigenvalues a_d
SECOND_MOMENT, ALONG_E = Lambda**2 + (Lambda**2 + T * Lambda) / N, e.T * M * e


def eigenvalues(matrix: Any) -> list:
    """The eigenvalues of a symmetric matrix, the smallest first, in Arb."""
    return sorted(one.real for one in as_arb(matrix).eig(algorithm="approx"))


def singular_values(matrix: Any) -> list:
    """The singular values of a matrix A, the largest first, in Arb: the largest eigenvalues of (0, A; A', 0)."""
    matrix = as_arb(matrix)
    zero = [arb_mat(size, size) for size in (matrix.nrows(), matrix.ncols())]
    both = eigenvalues(stacked([[zero[0], matrix], [matrix.transpose(), zero[1]]]))
    return both[: -min(matrix.nrows(), matrix.ncols()) - 1 : -1]


def is_positive_definite(matrix: Any) -> bool:
    """Are all eigenvalues of a symmetric matrix above 1e-20, and so not zero but for rounding?"""
    matrix = as_arb(matrix)
    with ctx.workdps(5 * DIGITS):  # a coefficient is a sum of products of all eigenvalues, which may lie far apart
        shifted = arb_mat(matrix.nrows(), matrix.nrows(), 1e-20) - matrix  # its eigenvalues, all real, are negative if no coefficient is
        return all(one > 0 for one in shifted.charpoly().coeffs())


def definite(*letters: Any) -> Callable[[Point], bool]:
    """The test that these matrices are positive definite."""
    return lambda point: all(is_positive_definite(point.stored(one)) for one in letters)


def made_definite(*letters: Any) -> Draw:
    """The draw that gives these matrices their squares and a tenth of the identity."""

    def draw(point: Point) -> None:
        for letter in letters:
            value = ball_at(letter, point)
            point[letter] = (value * value.transpose() + arb_mat(value.nrows(), value.nrows(), 1) / 10).mid()

    return draw


def satisfying(text: str, equalities: Mapping, draw: Draw | None = None, outside: Draw | None = None) -> Condition:
    """The condition that formulas are equal, {one: other}, at points that ``draw`` makes; ``outside`` makes points where they are not."""

    def holds(point: Point) -> bool:
        return all(distance(one, other, point) < 1e-20 for one, other in equalities.items())

    return Condition(text, holds, draw, outside)


def eigenbasis(point: Point, matrix=Lambda) -> tuple[list, list]:
    """The eigenvalues of a symmetric matrix, largest first, and its eigenvectors, in Arb; of Lambda, lambda_d and T are set."""
    key = ("eigenbasis", matrix)  # forgotten, as what is known of formulas, when a letter gets another value
    if key not in point.known:
        entries = as_arb(point.stored(matrix)).mid().entries()
        values, vectors = _largest_first(tuple(one.man_exp() for one in entries), point.size(matrix.shape[0]))
        if matrix == Lambda:
            point.family(eigenvalue, values)
            point[T] = sum(values, mpmath.mpf(0))
        point.known[key] = values, vectors
    values, vectors = point.known[key]
    return list(values), list(vectors)


def square_root(point: Point, matrix=Lambda) -> Any:
    """The positive root of a positive definite matrix."""
    values, vectors = eigenbasis(point, matrix)
    return commuting(vectors, [mpmath.sqrt(one) for one in values])


@lru_cache(maxsize=1 << 12)
def _largest_first(entries: tuple, size: int) -> tuple[list, list]:
    with mp.workdps(DIGITS), ctx.workdps(DIGITS + 3):  # whoever asks first: what is kept is also for those who need all digits
        numbers = [mpmath.mpf((int(mantissa), int(exponent))) for mantissa, exponent in entries]
        values, vectors = mpmath.eigsy(mpmath.matrix([numbers[i * size : (i + 1) * size] for i in range(size)]))
        order = sorted(range(size), key=lambda d: -values[d])
        return [values[d] for d in order], [arb_mat(vectors[:, d]) for d in order]


def second_moment(point: Point) -> None:
    """M = E(Lambda_hat^2), equation (31), and its eigenvalues a_d beside lambda_d."""
    values, _ = eigenbasis(point)
    point[M] = ball_at(SECOND_MOMENT, point)
    point.family(moment, [one**2 + (one**2 + point[T] * one) / point[N] for one in values])


def along_one_eigenvector(point: Point, moments: Moments = second_moment) -> None:
    """e is a unit eigenvector of Lambda and of M, by default E(Lambda_hat^2), lambda and a are its eigenvalues, T = tr(Lambda)."""
    values, vectors = eigenbasis(point)
    moments(point)
    d = point.rng.randrange(len(values))
    point[lambda_], point[e] = values[d], vectors[d]
    point[a] = ball_at(ALONG_E, point)


def learned_directions(point: Point, moments: Moments = second_moment) -> list[int]:
    """P projects onto the eigenvectors of a random subset S, not empty; chi_d is 1 for d in S, else 0. Returns S, from 0."""
    values, vectors = eigenbasis(point)
    moments(point)
    chosen = sorted(point.rng.sample(range(len(values)), point.rng.randint(1, len(values))))
    point[P] = commuting(vectors, [mpmath.mpf(d in chosen) for d in range(len(values))])
    point.family(indicator, [mpmath.mpf(d in chosen) for d in range(len(values))])
    point[learned] = mpmath.mpf(point.rng.randrange(2))
    return chosen


def one_direction(point: Point, moments: Moments = second_moment) -> None:
    """As learned_directions; e is one of the eigenvectors, with lambda, a and chi its eigenvalues under Lambda, M and P."""
    chosen = learned_directions(point, moments)
    values, vectors = eigenbasis(point)
    d = point.rng.randrange(len(values))
    point[lambda_], point[e], point[learned] = values[d], vectors[d], mpmath.mpf(d in chosen)
    point[a] = ball_at(ALONG_E, point)


def commuting(vectors: list, values: list) -> arb_mat:
    """The matrix with these orthonormal eigenvectors and eigenvalues."""
    scaled = [one * as_arb(value) for one, value in zip(vectors, values, strict=True)]
    return (arb_mat([one.entries() for one in vectors]).transpose() * arb_mat([one.entries() for one in scaled])).mid()


def along_each(vectors: list, matrix: Any, point: Point) -> list:
    """The eigenvalues of a letter along its unit eigenvectors."""
    value = ball_at(matrix, point)
    return [as_mpmath((one.transpose() * value * one)[0, 0]) for one in vectors]


def eigenvalues_drawn(point: Point, values: Mapping) -> None:
    """Matrices that are diagonal in the eigenbasis of Lambda, their eigenvalues, and one of its directions."""
    one_direction(point)
    eigenvalues, vectors = eigenbasis(point)
    direction = max(range(len(eigenvalues)), key=lambda d: abs((vectors[d].transpose() * ball_at(e, point))[0, 0]))
    for matrix, letter in values.items():
        drawn = [point.drawn(letter, d) for d in range(len(eigenvalues))]
        point[matrix], point[letter] = commuting(vectors, drawn), drawn[direction]
        point.family(IndexedBase(letter.name, real=True), drawn)


def unit_vector(size: int, point: Point) -> Any:
    """A random unit vector."""
    entries = mpmath.matrix([mpmath.mpf(point.rng.gauss(0, 1)) for _ in range(size)])
    return entries / mpmath.norm(entries)


def at(letter: Any, value: Any) -> Draw:
    """The draw that gives a letter a value."""
    return lambda point: point.__setitem__(letter, mpmath.mpf(value))


def singular(point: Point) -> None:
    """Lambda has an eigenvalue 0, and no inverse."""
    point[Lambda] = mpmath.diag([mpmath.mpf(place) for place in range(point[Lambda].rows)])
    eigenbasis(point)


def across(point: Point) -> None:
    """e is along no eigenvector, or lambda is not its eigenvalue; what else belongs to one is drawn, unless it has been."""
    if e not in point:
        one_direction(point)
    if point.rng.random() < 1 / 2:
        point[e] = unit_vector(point[e].rows, point)
    else:
        point[lambda_] = 2 * point[lambda_]


def turned(point: Point) -> None:
    """P is any matrix, or projects onto a line along no eigenvector; what belongs to learned directions is drawn, unless it has been."""
    if P not in point:
        one_direction(point)
    line = unit_vector(point[P].rows, point)
    point[P] = line * line.T if point.rng.random() < 1 / 2 else point.drawn(P)


PROJECTS = {P * P: P, P * Lambda: Lambda * P}
EIGEN = {Lambda * e: lambda_ * e}
POSITIVE_DEFINITE = Condition(r"$\boldsymbol{\Lambda}$ is positive definite", definite(Lambda), None, singular)
ALONG = satisfying(
    r"$\lambda$ is the eigenvalue of the unit eigenvector $\boldsymbol{e}$ of $\boldsymbol{\Lambda}$, $a$ that of $\mathbb{E}"
    r"(\hat{\boldsymbol{\Lambda}}^2)$, $T = \operatorname{tr}(\boldsymbol{\Lambda})$",
    EIGEN,
    along_one_eigenvector,
    across,
)
EIGENVECTOR = satisfying(
    r"$\lambda$ is the eigenvalue of the unit eigenvector $\boldsymbol{e}$ of $\boldsymbol{\Lambda}$, "
    r"$T = \operatorname{tr}(\boldsymbol{\Lambda})$",
    EIGEN,
    along_one_eigenvector,
    across,
)
PROJECTOR = satisfying(
    r"$\boldsymbol{P}$ projects onto the span of the learned eigenvectors, $d \in S$; $\chi_d = 1$ for them, else 0",
    PROJECTS,
    learned_directions,
    turned,
)
ANY_P = Condition(
    r"For any matrix $\boldsymbol{P}$; at (21) it projects onto the span of the learned eigenvectors, $d \in S$", None, second_moment
)
DIRECTION = satisfying(
    r"$\boldsymbol{P}$ projects onto the span of the learned eigenvectors, $d \in S$; $\boldsymbol{e}$ is a unit eigenvector of "
    r"$\boldsymbol{\Lambda}$, and $\lambda$, $a$, $\chi$ are its eigenvalues under $\boldsymbol{\Lambda}$, $\boldsymbol{M} = "
    r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)$, $\boldsymbol{P}$: $\chi = 1$ for $d \in S$, else 0",
    {**EIGEN, **PROJECTS, P * e: learned * e},
    one_direction,
    turned,
)
