r"""The fixed points of separate attention under any quadratic loss: singular directions of one whitened matrix (V2).

With :math:`\tilde A = M^{-1/2}AQ^{-1/2} = \sum_d s_d u_d r_d^\top` and :math:`\tilde B = M^{1/2}BQ^{1/2}` the fixed functions of
:math:`\mathcal L = c - 2\operatorname{tr}(A^\top B) + \operatorname{tr}(B^\top MBQ)` are :math:`\tilde B = \sum_{d\in S}s_du_dr_d^\top`.
Nothing need commute. For the paper's task :math:`s_d^2 = \lambda_d^3/a_d`.
"""

from functools import cache

from mpmath import eigsy, eye, mpf
from sympy import Derivative, Determinant, Expr, Limit, Matrix, Symbol, Trace, diag, factor, hessian, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import explicit, gradient, substitute
from ...derivations import Condition, Gradient, Line, Lines, Point, erratum, given, note, register, states
from ...derivations.draws import definite, made_definite, satisfying
from ...notation import B, D, G, Lambda, M, matrix, symmetric_matrix, vector
from ..task.regression import population_error
from .completeness import B_ii, B_ij, B_ji, B_jj, map_at_rest
from .fixed_points import b, moment_is
from .index_theorem import K_a, Q_a, V

A_any = matrix("A", D)  # E(y_q beta x_q')
Q_any = symmetric_matrix("Q", D)  # E(x_q x_q')
c_any = Symbol("c", real=True)
M_root, Q_root = (symmetric_matrix(f"{name}_h", D, latex=rf"{{\boldsymbol{{{name}}}^{{1/2}}}}") for name in "MQ")
A_w = matrix("A_w", D, latex=r"\tilde{\boldsymbol{A}}")
B_w = matrix("B_w", D, latex=r"\tilde{\boldsymbol{B}}")
s_i, s_j = symbols("s_i s_j", positive=True)
u_i, u_j, r_i, r_j = (vector(name, D) for name in ("u_i", "u_j", "r_i", "r_j"))  # singular vectors of A_w, left and right
alpha, beta_ = symbols("alpha beta", real=True)
epsilon = Symbol("epsilon", positive=True)

WHITENED = {M: M_root**2, Q_any: Q_root**2, A_any: M_root * A_w * Q_root, B: M_root.I * B_w * Q_root.I}


def _singular(point: Point) -> None:
    """A_w with distinct singular values; two of its pairs of singular vectors."""
    size = point.size(D)
    if size < 2:
        raise ValueError("a pair needs two singular directions")
    left, right = (eigsy(one + one.T)[1] for one in (point[A_w], point[B_w]))
    values = [mpf(point.rng.uniform(0.2, 1)) + d for d in range(size)]
    point[A_w] = sum((values[d] * left[:, d] * right[:, d].T for d in range(size)), 0 * point[A_w])
    for d, letters in zip(point.rng.sample(range(size), 2), ((s_i, u_i, r_i), (s_j, u_j, r_j)), strict=True):
        for letter, value in zip(letters, (values[d], left[:, d], right[:, d]), strict=True):
            point[letter] = value


def _equal(point: Point) -> None:
    """All singular values are equal, and the map is at rest across the directions."""
    _singular(point)
    left, right = (eigsy(one + one.T)[1] for one in (point[A_w], point[B_w]))
    point[s_j], point[A_w] = point[s_i], point[s_i] * left * right.T
    point[u_i], point[r_i], point[u_j], point[r_j] = left[:, 0], right[:, 0], left[:, 1], right[:, 1]
    point[B_w] = point[s_i] / 2 * (point[u_i] + point[u_j]) * (point[r_i] + point[r_j]).T


def _diagonal(point: Point) -> None:
    image = point[B_w] * point[r_i]
    point[B_w] = point[B_w] - (image - point[u_i] * (point[u_i].T * image)[0, 0]) * point[r_i].T


def _at_rest(point: Point) -> None:
    one = eye(point.size(D))
    point[B_w] = map_at_rest(point, point[A_w], one, one)


POSITIVE = Condition(
    r"$\boldsymbol{M}$ and $\boldsymbol{Q}$ are positive definite, with the roots $\boldsymbol{M}^{1/2}$ and $\boldsymbol{Q}^{1/2}$",
    definite(M_root, Q_root),
    made_definite(M_root, Q_root),
    lambda point: point.__setitem__(M_root, 0 * point[M_root]),
)
UNEQUAL = Condition(r"$s_i \ne s_j$", lambda point: abs(point[s_i] - point[s_j]) > 1e-10, outside=_equal)
SINGULAR = satisfying(
    r"$\boldsymbol{u}_i$, $\boldsymbol{r}_i$ and $\boldsymbol{u}_j$, $\boldsymbol{r}_j$ are left and right singular vectors of "
    r"$\tilde{\boldsymbol{A}}$ for the singular values $s_i$ and $s_j$",
    {A_w * r_i: s_i * u_i, A_w * r_j: s_j * u_j, A_w.T * u_i: s_i * r_i, A_w.T * u_j: s_j * r_j},
    _singular,
)
DIAGONAL = satisfying(
    r"$\tilde{\boldsymbol{B}} \boldsymbol{r}_i = B_{ii} \boldsymbol{u}_i$, as at every fixed point",
    {B_w * r_i: u_i * u_i.T * B_w * r_i},
    _diagonal,
)


@cache
def any_loss() -> TracePolynomial:
    """c - 2 tr(A' B) + tr(B' M B Q)."""
    return TracePolynomial(c_any) - 2 * Trace(A_any.T * B) + Trace(B.T * M * B * Q_any)


@cache
def any_force() -> TracePolynomial:
    """G = A - M B Q."""
    return -gradient(any_loss(), B) / 2


@cache
def rest() -> tuple[TracePolynomial, TracePolynomial]:
    """B' G and G B', which vanish at every fixed point (T1a), in whitened letters, freed of their outer roots."""
    G = substitute(any_force(), WHITENED)
    map_ = TracePolynomial(WHITENED[B])
    return TracePolynomial(Q_root) * map_.T * G * Q_root.I, TracePolynomial(M_root.I) * G * map_.T * M_root


@register(
    "V2-whitened",
    "Whitening turns every population loss into a distance, and the conditions at fixed points into those of a linear network",
)
@states("loss", lambda: c_any - Trace(A_w.T * A_w) + Trace((B_w - A_w).T * (B_w - A_w)))
@states("left", lambda: B_w.T * (A_w - B_w))
@states("right", lambda: (A_w - B_w) * B_w.T)
@given(POSITIVE)
def whitening() -> Lines:
    """Put the whitened letters into the loss and into B' G and G B'."""
    left, right = rest()
    papers = substitute(any_loss(), {c_any: Trace(Lambda), A_any: Lambda**2, Q_any: Lambda})
    yield Line(population_error(B), "=", papers,
               r"The paper's loss: $\boldsymbol{A} = \boldsymbol{\Lambda}^2$, $\boldsymbol{Q} = "
               r"\boldsymbol{\Lambda}$, $c = \operatorname{tr}(\boldsymbol{\Lambda})$", conditions=(moment_is(),))  # fmt: skip
    slots = K_a * V * Q_a.T
    of_slots, force_of_slots = (substitute(one, {B: slots}) for one in (any_loss(), any_force()))
    yield Line(-Q_a * Gradient(of_slots, Q_a).T / 2, "=", slots.T * force_of_slots,
               r"$\boldsymbol{B}^{\top} \boldsymbol{G}$ is zero if all queries stand still, as in (T1a)")  # fmt: skip
    yield Line(-Gradient(of_slots, K_a) * K_a.T / 2, "=", force_of_slots * slots.T,
               r"$\boldsymbol{G} \boldsymbol{B}^{\top}$ if all keys do")  # fmt: skip
    for letter, value in WHITENED.items():
        yield Line(letter, ":=", value, "In whitened letters")
    yield Line(any_loss(), "=", substitute(any_loss(), WHITENED), "any such loss is a distance", part="loss")
    yield Line(G, ":=", -Gradient(any_loss(), B) / 2, "The force is minus half its gradient")
    yield Line(Q_root * B.T * G * Q_root.I, "=", left, r"$\boldsymbol{B}^{\top} \boldsymbol{G}$ in whitened letters", part="left")
    yield Line(M_root.I * G * B.T * M_root, "=", right, r"$\boldsymbol{G} \boldsymbol{B}^{\top}$ in whitened letters", part="right")


def entry_equations() -> tuple[Expr, Expr, Expr]:
    """In the singular bases of A_w: the entries (i, j) of the antisymmetric parts of (left) and (right), and the diagonal of (left)."""
    left, right = rest()
    values = {A_w: diag(s_i, s_j), B_w: Matrix([[B_ii, B_ij], [B_ji, B_jj]])}
    pair = tuple(explicit(one - one.T, values, D=2)[0, 1] for one in (left, right))
    alone = explicit(left, values, D=2)[0, 0].subs({B_ij: 0, B_ji: 0})
    return *pair, alone


@register("V2-fixed", "The fixed functions of separate attention under any task: subsets of the whitened singular directions")
@states("first", lambda: s_j * B_ji - s_i * B_ij)
@states("second", lambda: s_i * B_ji - s_j * B_ij)
@states("entries", lambda: (s_i**2 - s_j**2) * B_ij)
@states("diagonal", lambda: B_ii * (s_i - B_ii))
@states("loss", lambda: c_any - B_ii * (2 * s_i - B_ii))
@given(SINGULAR, UNEQUAL)
@erratum(
    r"The paper has $2^{D}$ for $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$ and Gaussian tokens "
    "of one covariance; none of this is needed"
)
def fixed_functions() -> Lines:
    """B_w' (A_w - B_w) = 0 and (A_w - B_w) B_w' = 0, less their symmetric parts; two equations for two entries."""
    (first, second, alone), (left, right) = entry_equations(), rest()
    in_first = TracePolynomial(r_i.T) * (left - left.T) * r_j
    in_second = TracePolynomial(u_i.T) * (right - right.T) * u_j
    determinant = first.coeff(B_ji) * second - second.coeff(B_ji) * first
    share = explicit(substitute(any_loss(), WHITENED), {A_w: diag(s_i, s_j), B_w: diag(B_ii, 0)}, D=2)
    both_on = {B_w: s_i * u_i * r_i.T + s_j * u_j * r_j.T}
    alone_on = substitute(substitute(any_loss(), WHITENED), {B_w: B_ii * u_i * r_i.T})
    yield Line(B_ij, ":=", u_i.T * B_w * r_j, "The entries of the whitened map in the singular bases")
    yield Line(B_ji, ":=", u_j.T * B_w * r_i, "off the diagonal")
    yield Line(B_ii, ":=", u_i.T * B_w * r_i, "and on it")
    yield Line(in_first, "=", first, "Entry ($i, j$) of the antisymmetric part of the first matrix (V2-whitened)", part="first")
    yield Line(in_second, "=", second, "Entry ($i, j$) of the antisymmetric part of the second", part="second")
    yield Line(first.coeff(B_ji) * in_second - second.coeff(B_ji) * in_first, "=", determinant.expand().coeff(B_ij) * B_ij,
               "Eliminate $B_{ji}$", part="entries")  # fmt: skip
    yield Line(TracePolynomial(r_i.T) * left * r_i, "=", factor(alone), "On the diagonal", part="diagonal", conditions=(DIAGONAL,))
    yield Line((Line(left, "=", 0), Line(right, "=", 0)), "=>", (Line(B_ij, "=", 0), Line(B_ji, "=", 0), Line(factor(alone), "=", 0)),
               "So the fixed functions are diagonal, with two values of each entry", meets=(_at_rest,))  # fmt: skip
    yield Line(substitute(left, both_on), "=", 0, "A sum of singular directions satisfies both conditions")
    yield Line(substitute(right, both_on), "=", 0, "The second too")
    yield Line(substitute(substitute(any_loss(), WHITENED), both_on), "=", c_any - s_i**2 - s_j**2, "Each takes its share from the loss")
    yield Line(alone_on, "=", factor(share - c_any) + c_any, "The loss with one direction on", part="loss")


@register("V2-oblique", "When nothing commutes: only the largest drop is a stable rest of a single head, and no direction need grow alone")
@states("loss", lambda: c_any - 2 * b * (s_i + s_j * alpha * beta_) + b**2 * (1 + alpha**2) * (1 + beta_**2))
@states("second", lambda: 4 * s_i**2 * (s_i**2 - s_j**2))
@states("keys", lambda: TracePolynomial(M_root**2) * M_root.I * A_w * r_i)
@states("queries", lambda: TracePolynomial(Q_root**2) * Q_root.I * A_w.T * u_i)
@given(POSITIVE, SINGULAR)
@note(
    r"Argued, not derived: a waiting head grows along the leading singular vectors of $\boldsymbol{A}$, and where these have components "
    "along modes with larger drops, it turns to the largest of those in a time that does not depend on the initial scale"
)
def oblique() -> Lines:
    """The loss in the plane of two modes, and what A makes of them."""
    map_ = Matrix([[b, b * beta_], [b * alpha, b * alpha * beta_]])
    loss = explicit(substitute(any_loss(), WHITENED), {A_w: diag(s_i, s_j), B_w: map_}, D=2).expand()
    corner = hessian(loss, (alpha, beta_)).subs({alpha: 0, beta_: 0, b: s_i})
    small = (loss.subs({alpha: epsilon * alpha, beta_: epsilon * beta_}) / epsilon**2).expand()
    derivatives = Matrix(2, 2, lambda i, j: Limit(Derivative(small, (alpha, beta_)[i], (alpha, beta_)[j]), epsilon, 0))
    A = substitute(A_any, WHITENED)
    determinant = corner.det().expand()
    for letter, value in WHITENED.items():
        yield Line(letter, ":=", value, "In whitened letters")
    yield Line(A_any * Q_root.I * r_i, "=", A * Q_root.I * r_i, r"What $\boldsymbol{A}$ makes of a query", part="keys")
    yield Line(A_any * Q_root.I * r_i, "=", s_i * M * M_root.I * u_i,
               r"By the singular vectors: along the key itself only where that is an eigenvector of $\boldsymbol{M}$")  # fmt: skip
    yield Line(A_any.T * M_root.I * u_i, "=", A.T * M_root.I * u_i, "What it makes of a key", part="queries")
    yield Line(A_any.T * M_root.I * u_i, "=", s_i * Q_any * Q_root.I * r_i, r"and along the query where that is one of $\boldsymbol{Q}$")
    yield Line(B_w, ":=", b * (u_i + alpha * u_j) * (r_i + beta_ * r_j).T, "A head in the plane of two modes")
    yield Line(any_loss(), "=", loss, "The loss in this plane", part="loss")
    yield Line(b, ":=", s_i, "The rest")
    yield Line(derivatives, "=", corner, "Its second derivatives there")
    yield Line(Determinant(corner), "=", determinant, "Their determinant", part="second")
    yield Line(Line(s_j, ">", s_i), "<=>", Line(determinant, "<", 0), "The rest is a saddle exactly if another mode has the larger drop")
