r"""The population loss under laws other than the paper's: label noise, task and query covariance, tokens of any law.

.. math::
    \mathcal L(B) = c - 2\operatorname{tr}(A^\top B) + \operatorname{tr}(B^\top M B Q), \quad
    A = \mathbb E(\beta y_q x_q^\top),\; M = \mathbb E(\beta\beta^\top),\; Q = \mathbb E(x_q x_q^\top),\; c = \mathbb E(y_q^2)

The query is independent of the context, whatever else the laws are: so the quadratic part stays two-sided, and A, M, Q, c say everything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from random import Random
from typing import Any, NamedTuple

from mpmath import mpf
from sympy import Expr, Identity, IndexedBase, S, Symbol, Trace, ZeroMatrix, cancel, factorial, oo, sympify

from ...algebra.polynomial import TracePolynomial
from ...calculus import along, collect, moment, rewrite, substitute
from ...derivations import Condition, E, Line, Lines, Point, as_sympy, given, register, states
from ...derivations.draws import along_each, commuting, eigenbasis
from ...derivations.points import ball_at
from ...expectation import PAPER_LAWS, Fixed, Gaussian, SampleCovariance, expect
from ...notation import (
    B,
    D,
    Lambda,
    Lambda_hat,
    Lambda_q,
    M,
    MatrixLetter,
    N,
    P,
    T,
    beta,
    e,
    lambda_,
    noise_q,
    sigma,
    symmetric_matrix,
    vector,
    w,
    x_q,
    y_q,
    zeta,
)

WHITE = Identity(D)
Sigma_w = symmetric_matrix("Sigma_w", D, latex=r"\boldsymbol{\Sigma}_w")  # covariance of the task vector
fourth = symmetric_matrix("F", D, latex=r"\boldsymbol{F}")  # E(x x' Sigma_w x x') of one token

# Along a common eigenvector of Lambda and the other covariances
omega, lambda_q = (Symbol(name, positive=True) for name in ("omega", "lambda_q"))
P_w = Symbol("P", positive=True)  # tr(Sigma_w Lambda), the variance of a label
ALONG = {Sigma_w: omega, Lambda_q: lambda_q}
COMPONENTS = {value: IndexedBase(value.name, positive=True) for value in ALONG.values()}

# A random length: two lengths with their probabilities and gains, by which attention multiplies the average over the context
n, m = (Symbol(name, integer=True, positive=True) for name in "nm")
p_n, g_n, g_m = (Symbol(name, positive=True) for name in ("p_n", "g_n", "g_m"))
g_1, g_2, g_3 = (Symbol(name, positive=True) for name in ("g_1", "g_2", "g_3"))
GAINS = (
    Line(g_1, ":=", p_n * g_n + (1 - p_n) * g_m, r"The mean gain, $\mathbb{E}(g_n)$"),
    Line(g_2, ":=", p_n * g_n**2 + (1 - p_n) * g_m**2, r"Its mean square, $\mathbb{E}(g_n^2)$"),
    Line(g_3, ":=", p_n * g_n**2 / n + (1 - p_n) * g_m**2 / m, r"The same over the length, $\mathbb{E}(g_n^2/n)$"),
)


class PopulationMoments(NamedTuple):
    """A, M, Q and c of the loss above."""

    A: TracePolynomial
    M: TracePolynomial
    Q: TracePolynomial
    c: TracePolynomial

    def loss(self, second_moment: Any = None) -> TracePolynomial:
        """The loss as a function of the effective map, with a letter for M if one is given."""
        A, M, Q, c = self
        B_ = TracePolynomial(B)
        return c - 2 * (A.T * B_).trace() + (B_.T * (M if second_moment is None else second_moment) * B_ * Q).trace()


def population_moments(laws=(), *, given=()) -> PopulationMoments:
    """The moments under ``laws`` (see :func:`~iclflow.theory.expectation.moments.expect`; what they do not name follows the paper's laws).

    Raises ValueError where the loss is not of the form above, as it is not if the query depends on the context.
    """
    moments = PopulationMoments(*(expect(part, laws, given=given) for part in (beta * y_q * x_q.T, beta * beta.T, x_q * x_q.T, y_q**2)))
    known = (*given, Lambda_hat)
    conditional = PopulationMoments(*(expect(part, laws, given=known) for part in (beta * y_q * x_q.T, beta * beta.T, x_q * x_q.T, y_q**2)))
    loss = expect((y_q - beta.T * B * x_q) ** 2, laws, given=known)
    if loss != conditional.loss():
        raise ValueError(f"population_moments: given the context, the loss {loss} is not c - 2<A, B> + <B, M B Q>")
    return moments


def averaged(moments: PopulationMoments) -> PopulationMoments:
    """The moments of a fixed length N, averaged over lengths and their gains: in g_1, g_2 and g_3 in place of N."""
    A, M, Q, c = moments
    orders = collect(M, N)
    if not set(orders) <= {-1, 0} or any(set(collect(one, N)) != {0} for one in (A, Q, c)):
        raise ArithmeticError(f"averaged: the second moment must be of orders 0 and -1 in N, got {sorted(orders)}")
    return PopulationMoments(A * g_1, orders[0] * g_2 + orders[-1] * g_3, Q, c)


@dataclass(frozen=True)
class Task:
    """A task in symbols, the paper's by default: an argument of ``derive``.

    ``noise``: the variance of the labels' noise, on the query too. ``task_covariance``, ``query_covariance``: the letters Sigma_w and
    Lambda_q, or functions of Lambda; with ``commuting`` the letters have the eigenvectors of Lambda. ``token_law``: the map
    A -> E(x x' A x x') of one token, for tokens that are not Gaussian. ``random_length``: the length and the gain g_n that attention gives
    to n tokens are random, with the moments g_1 = E(g_n), g_2 = E(g_n^2), g_3 = E(g_n^2/n).

    >>> Task(noise=sigma**2).moments.M
    sigma^2/N Lambda + (1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda
    """

    noise: Any = 0
    task_covariance: Any = WHITE
    query_covariance: Any = Lambda
    token_law: Callable | None = None
    random_length: bool = False
    commuting: bool = False

    def __post_init__(self):
        noise = sympify(self.noise)
        if not isinstance(noise, Expr) or isinstance(noise, MatrixLetter) or noise.is_negative or noise.is_real is False or noise.has(oo):
            raise ValueError(f"Task: noise must be a variance, a number or an expression that is not negative, got {self.noise}")
        object.__setattr__(self, "noise", noise)
        for name, letter in (("task_covariance", Sigma_w), ("query_covariance", Lambda_q)):
            given = getattr(self, name)
            value = TracePolynomial(given)
            letters = {one for one in value.free_symbols if hasattr(one, "shape")}
            if value.shape != (D, D) or value != value.T or not letters <= {Lambda, letter}:
                raise ValueError(f"Task: {name} must be a symmetric D x D matrix, {letter} or a function of Lambda, got {given}")
            object.__setattr__(self, name, value)
        if self.token_law is not None and not callable(self.token_law):
            raise TypeError(f"Task: token_law must be a function A -> E(x x' A x x'), got {self.token_law!r}")
        for name in ("random_length", "commuting"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"Task: {name} must be True or False, got {getattr(self, name)!r}")

    def __str__(self) -> str:
        varied = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != getattr(PAPER, one.name)}
        written = [f"{name}={getattr(value, '__name__', value)}" for name, value in varied.items()]
        return f"Task({', '.join(written)})"

    def laws(self, length: Any = N, gain: Any = 1) -> tuple:
        """The laws that differ from the paper's, for contexts of this length that attention multiplies by this gain."""
        zeta_, noise_ = (zeta, noise_q) if self.noise else (ZeroMatrix(D, 1), 0)
        laws = (
            Fixed(y_q, TracePolynomial(w.T * x_q) + noise_),
            Fixed(beta, gain * (TracePolynomial(Lambda_hat * w) + zeta_)),
            Gaussian(w, covariance=self.task_covariance),
            Gaussian(x_q, covariance=self.query_covariance),
            *(
                (Gaussian(zeta, covariance=self.noise / length * Lambda_hat), Gaussian(noise_q, covariance=self.noise))
                if self.noise
                else ()
            ),
            SampleCovariance(Lambda_hat, Lambda, length, self.token_law),
        )
        return tuple(law for law in laws if law not in PAPER_LAWS)

    @property
    def cases(self) -> tuple:
        """(probability, length, gain); a sum over two lengths shows what is linear in their law."""
        return ((p_n, n, g_n), (1 - p_n, m, g_m)) if self.random_length else ((1, N, 1),)

    def E(self, body: Any, *, given: tuple = (), in_context: bool = False) -> Any:
        """The expectation of a formula, not carried out, given some letters, and the length where it is random.

        ``in_context``: only that over the context; the average over task vector, query and noise is carried out.
        """
        terms = []
        for p, length, gain in self.cases:
            laws = self.laws(length, gain)
            inside = expect(body, laws, given=Lambda_hat) if in_context else body
            terms.append(p * E(inside, laws, given=(*given, length) if self.random_length else given))
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    @property
    def moments(self) -> PopulationMoments:
        return _moments(self)

    @property
    def learned(self) -> TracePolynomial:
        """E(beta w'), which times Q is A: the second moment times the map at the global minimum."""
        return (g_1 if self.random_length else 1) * TracePolynomial(Lambda) * self.task_covariance

    @property
    def fixed_map(self) -> Any:
        """The effective map at a fixed point, M^-1 A Q^-1 P: M^-1 Lambda P for the paper's task."""
        return M.I * self.learned.to_sympy() * P

    def gains(self) -> tuple[Line, ...]:
        """The letters for the moments of the gain, if it is random."""
        return GAINS if self.random_length else ()

    def square(self) -> Any:
        """The second moment of beta, not carried out: that of Lambda_hat for the paper's task."""
        return E(Lambda_hat**2) if self == PAPER else self.E(beta * beta.T)

    def definitions(self) -> tuple[Line, ...]:
        """The letter M, and those for the moments of the gain."""
        reason = f"The second moment, {self.second_moment()}"
        return (*self.gains(), Line(M, ":=", self.square(), reason, self.uses("31")))

    def uses(self, *numbers: str) -> tuple[str, ...]:
        """The entries that a line uses, which hold for the paper's task only."""
        return numbers if self == PAPER else ()

    def commutes(self) -> tuple[Line, ...]:
        """What lets the directions be eigenvectors of Lambda."""
        lines = (Line(M * Lambda, "=", Lambda * M, r"$\boldsymbol{M}$ commutes with $\boldsymbol{\Lambda}$"),)
        Q = as_sympy(self.query_covariance)
        if Lambda == Q:
            return lines
        return (*lines, Line(Q * Lambda, "=", Lambda * Q, "So does the covariance of the query"))

    def second_moment(self) -> str:
        """What the letter M is."""
        paper = r"$\mathbb{E}(\hat{\boldsymbol{\Lambda}}^{2})$, equation (31)"
        return paper if self == PAPER else r"$\mathbb{E}(\boldsymbol{\beta}\boldsymbol{\beta}^\top)$"

    # Along an eigenvector of Lambda

    @property
    def length(self) -> Any:
        """What becomes large, or small, for long contexts."""
        return (g_3, 0) if self.random_length else N

    def long_context(self, formula: Expr, orders: int = 1) -> Expr:
        """The first orders of a formula in 1/N, or in g_3 if the length is random."""
        inverse = Symbol("y", positive=True)
        small, back = ({g_3: inverse}, g_3) if self.random_length else ({N: 1 / inverse}, 1 / N)
        whole = cancel(formula.subs(small))
        terms = (cancel(whole.diff(inverse, k).subs(inverse, 0)) * back**k / factorial(k) for k in range(orders))
        return sum(terms, start=S.Zero).expand()

    def along(self, formula: Any, values: Mapping | None = None) -> Expr:
        """The value of a matrix formula along a common eigenvector, in lambda, T, omega, P, lambda_q and the other values given."""
        polynomial = TracePolynomial(formula)
        names = {TracePolynomial(Trace(Lambda)): T, TracePolynomial(Trace(Sigma_w * Lambda)): P_w}
        traces = {TracePolynomial.from_terms({((), (one,), None): 1}, None) for _, closed, _ in polynomial.groups() for one in closed}
        others = {one: Symbol(f"{one}_e") for one in polynomial.free_symbols if hasattr(one, "shape")}
        return along(
            polynomial,
            {**others, Lambda: lambda_, **ALONG, **(values or {})},
            traces={one: names.get(one, one.to_sympy()) for one in traces},
        )

    @property
    def eigenvalue(self) -> Expr:
        """a, that of M, in these letters."""
        return self.along(self.moments.M)

    def draw(self, point: Point) -> None:
        """The covariances, the gains, M and its eigenvalues a_d at a point: the same whenever Lambda is."""
        (values, vectors), rng = eigenbasis(point), Random(str(point[Lambda]))
        for letter, value in ALONG.items():
            if self.commuting:
                sizes = [mpf(3) ** mpf(rng.uniform(-1, 1)) for _ in values]
                point[letter] = commuting(vectors, sizes)
                point.family(COMPONENTS[value], sizes)
            else:
                point[letter] = point.drawn(letter) ** 2
        point[p_n] = mpf(rng.uniform(0.05, 0.95))
        for line in GAINS:
            point[line.left] = ball_at(line.right, point)
        point[P_w] = ball_at(Trace(Sigma_w * Lambda), point)
        point[M] = ball_at(self.moments.M, point)
        point.family(moment, along_each(vectors, M, point))

    def condition(self, papers: Condition, draw: Callable) -> Condition:
        """A condition of the paper's task for this one: ``draw`` makes points that meet it, given what sets M."""
        spoil = papers.outside
        if self == PAPER:
            return papers

        def drawn(point: Point) -> None:
            draw(point, self.draw)
            if e in point:
                for letter, value in ALONG.items():
                    (point[value],) = along_each([ball_at(e, point)], letter, point)

        text = papers.text.replace(r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)", r"\mathbb{E}(\boldsymbol{\beta}\boldsymbol{\beta}^\top)")
        return Condition(text, papers.test, drawn, spoil and (lambda point: (drawn(point), spoil(point))))


@cache
def _moments(task: Task) -> PopulationMoments:
    moments = population_moments(task.laws())
    return averaged(moments) if task.random_length else moments


PAPER = Task()
GENERAL = Task(noise=sigma**2, task_covariance=Sigma_w, query_covariance=Lambda_q)


def tokens(task: Task = PAPER) -> str:
    """What the moments assume of the tokens in the context."""
    return f"The tokens are {'Gaussian and ' if task.token_law is None else ''}independent"


@cache
def any_tokens() -> PopulationMoments:
    """The general moments for tokens of any law with covariance Lambda: E(x x' Sigma_w x x') of one token is the letter ``fourth``.

    The other moments hold Lambda_hat once, and pairs of different tokens are independent: there are N(N - 1) of them, and N of equal ones.
    """
    given = population_moments(GENERAL.laws(), given=(Lambda_hat,))
    one, other = vector("x_1", D), vector("x_2", D)
    tokens = [Gaussian(one, covariance=Lambda), Gaussian(other, covariance=Lambda)]
    count = TracePolynomial(N)
    pairs = count * (count - 1) * expect(one * one.T * Sigma_w * other * other.T, tokens) + count * TracePolynomial(fourth)
    M = rewrite(given.M, {Lambda_hat * Sigma_w * Lambda_hat: pairs / count**2})
    return PopulationMoments(*(substitute(part, {Lambda_hat: Lambda}) for part in (given.A, M, given.Q, given.c)))


@register("V0", "The population loss under general laws")
@states("A", lambda: Lambda * Sigma_w * Lambda_q)
@states("M", lambda: (1 + 1 / N) * Lambda * Sigma_w * Lambda + (Trace(Sigma_w * Lambda) + sigma**2) / N * Lambda)
@states("Q", lambda: Lambda_q)
@states("c", lambda: Trace(Sigma_w * Lambda_q) + sigma**2)
@given(
    tokens,
    "The query is independent of the context",
    r"Query and task vector have the covariances $\boldsymbol{\Lambda}_{q}$, $\boldsymbol{\Sigma}_w$",
    r"Label noise of variance $\sigma^{2}$, on the query as well",
)
def general_loss(task: Task = GENERAL) -> Lines:
    """The four moments by the engine, which checks that the loss given the context has this form."""
    A, M, Q, c = moments = task.moments
    formulas = {
        "A": (beta * y_q * x_q.T, A, r"The correlation of the target with $\boldsymbol{\beta}$ and the query, $\boldsymbol{A}$"),
        "M": (beta * beta.T, M, r"The second moment of $\boldsymbol{\beta}$, $\boldsymbol{M}$"),
        "Q": (x_q * x_q.T, Q, r"The second moment of the query, $\boldsymbol{Q}$"),
        "c": (y_q**2, c, "The mean square of the target, $c$"),
    }
    yield from task.gains()
    reason = r"The loss $c-2\operatorname{tr}(\boldsymbol{A}^\top\boldsymbol{B})+\operatorname{tr}(\boldsymbol{B}^\top\boldsymbol{MBQ})$"
    yield Line(task.E((y_q - beta.T * B * x_q) ** 2), "=", moments.loss(), reason)
    for part, (body, value, reason) in formulas.items():
        yield Line(task.E(body), "=", value, reason, part=part)
