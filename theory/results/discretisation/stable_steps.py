r"""How steeply the loss curves at each fixed point, so that a step is stable there (V8-stable).

The curvatures are the eigenvalues of the Hessian of L/2. Descent on L is stable along one of them for eta kappa < 1, heavy ball for
eta kappa < 1 + mu (V8-modified). At a saddle the negative ones are the ways out; the largest still bounds the step.
"""

from functools import cache
from typing import Any

from sympy import Matrix, Rational, cancel, diff, expand, factor, hessian, simplify, sqrt, symbols

from ...calculus.entrywise import explicit
from ...calculus.equality import require_zero
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, Lambda, M
from ..task.regression import closed_loss
from .finite_steps import kappa

__all__ = ["b_d", "b_j", "lambda_d", "lambda_j"]

lambda_d, lambda_j, b_d, b_j = symbols("lambda_d lambda_j b_d b_j", positive=True)
_r_d, _r_j = symbols("r_d r_j", positive=True)  # the cube roots of b_d, b_j: a learned head has v = k = q = r
_size = sqrt(b_d**2 + b_j**2)  # |B| at the global minimum
STABLE = (
    r"Descent is stable for $\eta < 1/\kappa$ for the largest of them, heavy ball for $\eta <$ (1 $+$ mu)/kappa "
    "(V8-modified)"
)


def _half_loss(map_: Any) -> Any:
    """L/2 of a map of two eigendirections, d and j, where the eigenvalues of M are lambda/b."""
    values = {Lambda: Matrix.diag(lambda_d, lambda_j), M: Matrix.diag(lambda_d / _r_d**3, lambda_j / _r_j**3), B: map_}
    return expand(explicit(closed_loss().result, values, D=2) / 2)


@cache
def _separate() -> tuple[Any, Any, Any]:
    """The weights of a head for d and of one for j, (v, k, q) each, the map that they make, and L/2."""
    names = symbols("v1 k11 k12 q11 q12 v2 k21 k22 q21 q22")
    heads = [(names[i], Matrix(names[i + 1 : i + 3]), Matrix(names[i + 3 : i + 5])) for i in (0, 5)]
    map_: Any = sum((value * k * q.T for value, k, q in heads), Matrix.zeros(2, 2))
    return names, map_, _half_loss(map_)


@cache
def _learned(*, second: bool) -> dict:
    """The fixed point at which head d has learned d, and head j has learned j or is still zero."""
    other = (_r_j, 0, _r_j, 0, _r_j) if second else (0, 0, 0, 0, 0)
    return dict(zip(_separate()[0], (_r_d, _r_d, 0, _r_d, 0, *other), strict=True))


@cache
def _hessian(*, second: bool) -> Any:
    names, _, half = _separate()
    point = _learned(second=second)
    require_zero(*(cancel(diff(half, name).subs(point)) for name in names))
    return hessian(half, names).subs(point)


def _along_entry(entry: int) -> Any:
    """The eigenvalue of the Hessian, with both learned, whose eigenvector moves one entry of B and no other."""
    names, map_, _ = _separate()
    direction = Matrix([diff(map_[entry], name) for name in names]).subs(_learned(second=True))
    moved = _hessian(second=True) * direction
    value = cancel((direction.T * moved)[0] / (direction.T * direction)[0])
    require_zero(*(cancel(part) for part in moved - value * direction))
    return _named(expand(value))


@cache
def _towards_unlearned() -> Any:
    """The block of the Hessian, at the saddle, on the components along j of the key and query of head d; no other weight is coupled."""
    matrix, block = _hessian(second=False), (2, 4)
    rest = [i for i in range(matrix.rows) if i not in block]
    require_zero(*matrix.extract(list(block), rest))
    return matrix.extract(list(block), list(block)).applyfunc(factor)


def _named(formula: Any) -> Any:
    """With b for the cube of its root."""
    return formula.subs({_r_d: b_d ** Rational(1, 3), _r_j: b_j ** Rational(1, 3)})


def _largest_root(block: Any) -> Any:
    """Of the two eigenvalues of a symmetric 2 x 2 matrix."""
    (x, g), (_, y) = block.tolist()
    root = (x + y) / 2 + sqrt((x - y) ** 2 / 4 + g**2)
    require_zero(simplify(expand((root - x) * (root - y) - g**2)))
    return root


@register(
    "V8-stable",
    "The curvatures of separate attention at each of its fixed points",
    kind="exact",
    section="beyond the paper",
    left={"head": r"\kappa_{dd}", "pair": r"\kappa_{dj}", "unlearned": r"\kappa_{dj}"},
    typed=lambda: {
        "head": 3 * lambda_d**2 * b_d ** Rational(1, 3),
        "pair": lambda_d * lambda_j / b_d * (b_d ** Rational(4, 3) + b_j ** Rational(4, 3)),
        "unlearned": lambda_j
        * b_d ** Rational(1, 3)
        * (lambda_d * (1 + b_d / b_j) / 2 + sqrt(lambda_d**2 * (1 - b_d / b_j) ** 2 / 4 + lambda_j**2)),
    },
    conditions=(
        (
            r"$b_d=\lambda_d/a_d$, the component of the map that $d$ has where it is learned; rank one, each learned "
            r"direction in one head of minimal norm, $v = \boldsymbol{k} = \boldsymbol{q}$, the other heads zero"
        ),
        (
            "Head: $d$ learned; pair: $d$ and $j$ learned; unlearned: $d$ learned and $j$ not, the larger of two; "
            "the other is negative at a saddle"
        ),
        "All other eigenvalues of the Hessian of $L/2$ are zero, at the origin every one",
        STABLE,
    ),
)
def separate_curvatures() -> Derivation:
    """Two heads and two eigendirections stand for all: the Hessian couples no more at a time."""
    block = _towards_unlearned()
    return Derivation.by(
        Step(
            (
                r"The Hessian of $L/2$ in ($v, \boldsymbol{k}, \boldsymbol{q}$) of head $d$ and of head $j$, both "
                "learned"
            ),
            _hessian(second=True),
        ),
        Step("Its eigenvalue along the gradient of entry ($d, d$) of the map", _along_entry(0), part="head"),
        Step("Along the gradient of entry ($d, j$)", _along_entry(1), part="pair"),
        Step("Where $j$ is not learned, its block on the components along $j$ of the key and the query of head $d$", _named(block)),
        Step("The larger eigenvalue", _named(_largest_root(block)), part="unlearned"),
    )


@cache
def _merged(*, learned: bool) -> tuple[Any, Any]:
    """Weights (v, U) of one head at the global minimum or at zero, and the Hessian of L/2 there."""
    names = symbols("v u11 u12 u21 u22")
    half = _half_loss(names[0] * Matrix(2, 2, names[1:]))
    size = sqrt(_r_d**6 + _r_j**6)  # s = |B|, balanced
    at_minimum = (sqrt(size), _r_d**3 / sqrt(size), 0, 0, _r_j**3 / sqrt(size))
    point = dict(zip(names, at_minimum if learned else (0,) * 5, strict=True))
    require_zero(*(simplify(diff(half, name).subs(point)) for name in names))
    return names, hessian(half, names).subs(point).applyfunc(simplify)


def _characteristic(matrix: Any) -> Any:
    return expand(simplify((kappa * Matrix.eye(matrix.rows) - matrix).det()))


@register(
    "V8-stable-merged",
    "The curvatures of merged attention at its two fixed points",
    kind="exact",
    section="beyond the paper",
    left={"zero": r"\kappa_{\max}(\boldsymbol{0})", "entry": r"\kappa_{dj}", "diagonal": r"0"},
    typed=lambda: {
        "zero": sqrt(lambda_d**4 + lambda_j**4),
        "entry": _size * lambda_d * lambda_j / b_d,
        "diagonal": kappa**2
        - kappa * (_size * (lambda_d**2 / b_d + lambda_j**2 / b_j) + (lambda_d**2 * b_d + lambda_j**2 * b_j) / _size)
        + 2 * lambda_d**2 * lambda_j**2 * _size**2 / (b_d * b_j),
    },
    conditions=(
        (
            r"Two eigendirections $d$ and $j$; in $D$ of them the zero point has $\gamma=|\boldsymbol{\Lambda}^2|$, "
            r"with $\pm\gamma$ the only eigenvalues that are not zero"
        ),
        r"Balanced weights, $\sum_iv_i^2=|\boldsymbol{B}_*|$: rotating the heads puts all weights into one",
        (
            "Entry: an entry ($d, j$) off the diagonal of the map; diagonal: the two along diagonal maps, in $D$ "
            r"dimensions the eigenvalues of $s(\boldsymbol{I}+\boldsymbol{n}\boldsymbol{n}^\top)\boldsymbol{K}$ of "
            r"(V7-tail), at most $2s\kappa_{\max}$"
        ),
        STABLE,
    ),
)
def merged_curvatures() -> Derivation:
    """The Hessian of one head in five weights; on diagonal maps, against the matrix of (V7-tail)."""
    _, at_zero = _merged(learned=False)
    _, at_minimum = _merged(learned=True)
    diagonal, entry = [0, 1, 4], at_minimum[2, 2]
    require_zero(*at_minimum.extract(diagonal, [2, 3]), at_minimum[2, 3])
    polynomial = _named(cancel(_characteristic(at_minimum.extract(diagonal, diagonal)) / kappa))
    largest = max((value for value in at_zero.eigenvals() if not value.is_zero), key=lambda value: value.subs({lambda_d: 1, lambda_j: 1}))
    return Derivation.by(
        Step(r"The Hessian of $L/2$ at zero, in ($v, \boldsymbol{U}$)", at_zero),
        Step("Its largest eigenvalue", largest, part="zero"),
        Step("The Hessian at the global minimum", _named(at_minimum)),
        Step("Its eigenvalue along an entry off the diagonal", _named(entry), part="entry"),
        Step(r"The characteristic polynomial on the rest, over $\kappa$", polynomial, part="diagonal"),
    )
